"""What the name of a function says besides how it computes."""

HOW = {"chunk", "chunked", "fused", "recurrent", "parallel", "naive", "ref", "reference", "native", "eager"}
BY = {"triton", "torch", "pytorch", "liger", "cuda", "hip", "cpu", "gpu"}
KINDS = {"fwd", "forward", "fn", "func", "function", "kernel", "impl", "op", "interface"}


def stem(name: str) -> str:
    """The name of a function without words for how it computes, for what made it, and for what it is."""
    words = name.rpartition(".")[2].lower().strip("_").split("_")
    return "_".join(word for word in words if word not in HOW | BY | KINDS) or name
