"""Which parameter of a class may hold which weight of an operator: candidates, from names and shapes.

Each candidate is the text of a declaration. Whether one holds is for its calls to say.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import UsageError
from ..execution.survey import Role, Survey, Weight

HEADS, KV_HEADS, HEAD_DIM, DIM, HIDDEN = 6, 2, 10, 60, 88
"""Sizes at which a class is built: no two are the same, so that a shape says what its axes are."""
MOST = 48
"""Candidates that are tried."""
EPSILONS = (1e-5, 1e-6, 1e-8)

PARTS = {
    "qkv": "in_proj c_attn qkv wqkv qkv_proj query_key_value to_qkv attn_qkv w_qkv proj_qkv qkv_linear b_qkv w_pack",
    "kv": "kv kv_proj wkv to_kv w_kv key_value b_kv",
    "gate_up": "gate_up_proj gate_up w12 w_gate_up wi",
    "q": "q_proj wq query to_q q q_linear query_proj linear_q w_q q_lin w_query proj_q fc_q bq b_q qproj query_linear",
    "k": "k_proj wk key to_k k k_linear key_proj linear_k w_k k_lin w_key proj_k fc_k bk b_k kproj key_linear keys",
    "v": "v_proj wv value to_v v v_linear value_proj linear_v w_v v_lin w_value proj_v fc_v bv b_v vproj value_linear "
    "values",
    "o": "o_proj out_proj wo c_proj dense out to_out proj output fc_out o out_lin w_o w_out fc_o linear_out "
    "output_proj bo b_o proj_out oproj o_linear output_linear",
    "gate": "gate_proj w1 gate wg w_gate fc_gate wi_0 linear_gate gate_linear",
    "up": "up_proj w3 up wu w_up fc_up wi_1 linear_up up_linear",
    "down": "down_proj w2 down wd w_down fc_down linear_down down_linear",
    "attention_norm": "attention_norm input_layernorm ln_1 ln1 norm1 attn_norm norm_1 pre_attention_norm ln_attn",
    "mlp_norm": "mlp_norm post_attention_layernorm ln_2 ln2 norm2 ffn_norm norm_2 pre_mlp_norm ln_mlp",
    "norm": "norm ln layer_norm layernorm rms_norm",
}
SECTIONS = {"qkv": ("q", "k", "v"), "kv": ("k", "v"), "gate_up": ("gate", "up")}
MASKS = ("mask", "attn_mask", "attention_mask", "key_padding_mask")
CAUSAL = ("causal", "is_causal")
CONTEXTS = ("context", "encoder_hidden_states", "key_value_states", "memory", "kv", "cond")
LAST = ("weight", "bias", "kernel", "scale")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a class of one operator may be built from, and what it is to hold."""

    sizes: Mapping[str, tuple[str, int | float]]
    """By role, as it is written in sizes of a case, and its value at which the class is built."""
    weights: Mapping[str, tuple[str, tuple[str, ...]]]
    """By weight, the part that it is and its axes."""
    epsilon: bool = False


ATTENTION = {"heads": ("heads", HEADS), "kv_heads": ("kv_heads or heads", KV_HEADS), "width": ("dim", DIM)}
FEED_FORWARD = {"w_gate": ("gate", ("dim", "hidden")), "w_up": ("up", ("dim", "hidden"))} | {
    "w_down": ("down", ("hidden", "dim"))
}
KINDS = {
    "multi_head": Kind(
        {**ATTENTION, "head_dim": ("dim // heads", HEAD_DIM), "length": ("q_len", 64)},
        {
            "wq": ("q", ("dim", "width")),
            "wk": ("k", ("dim", "kv_width")),
            "wv": ("v", ("dim", "kv_width")),
            "wo": ("o", ("width", "dim")),
            "bq": ("q", ("width",)),
            "bk": ("k", ("kv_width",)),
            "bv": ("v", ("kv_width",)),
            "bo": ("o", ("dim",)),
        },
    ),
    "swiglu": Kind({"hidden": ("hidden", HIDDEN), "width": ("dim", DIM)}, FEED_FORWARD),
    "rms_norm": Kind({"width": ("n", DIM), "eps": ("eps", 1e-5)}, {"weight": ("norm", ("n",))}, epsilon=True),
    "layer_norm": Kind(
        {"width": ("n", DIM), "eps": ("eps", 1e-5)},
        {"weight": ("norm", ("n",)), "bias": ("norm", ("n",))},
        epsilon=True,
    ),
    "transformer_block": Kind(
        {
            "hidden": ("hidden", HIDDEN),
            **ATTENTION,
            "head_dim": ("dim // heads", HEAD_DIM),
            "length": ("length", 64),
            "eps": ("eps", 1e-5),
            "base": ("base", 10000.0),
        },
        {
            "attention_norm": ("attention_norm", ("dim",)),
            "wq": ("q", ("dim", "dim")),
            "wk": ("k", ("dim", "kv_dim")),
            "wv": ("v", ("dim", "kv_dim")),
            "wo": ("o", ("dim", "dim")),
            "mlp_norm": ("mlp_norm", ("dim",)),
            **FEED_FORWARD,
        },
        epsilon=True,
    ),
}
"""The operators for which a mapping is proposed."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A declaration of a class, part by part as it is written."""

    factory: str
    operator: str
    weights: Mapping[str, str]
    inputs: str = ""
    call: str = ""
    same: bool = False
    keywords: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""
    framework: str = "torch"

    def text(self, name: str, remarks: Sequence[str] = ()) -> str:
        """The declaration under a name, with remarks before it."""
        lines = [*(f"# {remark}" for remark in remarks), f"{name} = attnspec.module(", f"    {self.factory},"]
        lines += [f'    "{self.operator}",', f'    name="{name}",', "    weights={"]
        lines += [f'        "{weight}": "{text}",' for weight, text in self.weights.items()] + ["    },"]
        lines += [f"    inputs={self.inputs},"] * bool(self.inputs) + [f"    call={self.call},"] * bool(self.call)
        lines += ['    same={"context": "x"},'] * self.same
        for part in ("options", "keywords", "fixed"):
            said: Mapping[str, str] = getattr(self, part)
            words = ", ".join(f'"{key}": {x}' for key, x in said.items())
            lines += [f"    {part}={{{words}}},"] * bool(said)
        lines += [f"    returns={self.returns},"] * bool(self.returns)
        lines += [f'    framework="{self.framework}",', '    dtypes=("float32",),  # and the others that it takes', ")"]
        return "\n".join(lines)


def roles(operator: str) -> tuple[Role, ...]:
    """What the constructor's parameters may mean; a `UsageError` for an operator for which nothing is proposed."""
    if operator not in KINDS:
        raise UsageError(
            f"no mapping is proposed for {operator} (but for {', '.join(KINDS)}); "
            "attnspec.module(...) takes one that you write, as docs/modules.md shows"
        )
    return tuple((role, text, x) for role, (text, x) in KINDS[operator].sizes.items())


def candidates(operator: str, survey: Survey) -> list[Candidate]:
    """What the class may be, the likeliest first; a `UsageError` says which parameter is of no known part."""
    kind = KINDS[operator]
    mappings = _mappings(operator, kind, survey)
    called = _called(operator, survey)
    fixed: list[dict[str, str]] = [{}]
    if operator == "multi_head":
        fixed = [{"causal": "True"}, {}] if called.same else [{}, {"causal": "True"}]
    if kind.epsilon and "eps" not in survey.uses:
        fixed = [{**one, "eps": repr(eps)} for one in fixed for eps in EPSILONS]
    if operator == "transformer_block" and "base" not in survey.uses:
        fixed = [{**one, "base": "10000.0"} for one in fixed]
    head = replace(called, factory=_factory(kind, survey), operator=operator, framework=survey.framework)
    made = [replace(head, weights=weights, fixed=one) for weights in mappings for one in fixed]
    return made[:MOST]


def extensions(candidate: Candidate, survey: Survey) -> Iterator[tuple[str, Candidate]]:
    """What else the call of a class may take: the name of its parameter, and the candidate with it."""
    if candidate.operator != "multi_head" or candidate.call:
        return
    for name, required in survey.takes:
        if name in CAUSAL and not candidate.fixed:
            yield name, replace(candidate, options={**candidate.options, "causal": f'"{name}"'})
        if name in MASKS:
            keywords = {key: x for key, x in candidate.keywords.items() if key != name}
            masked = replace(candidate, keywords=keywords, options={**candidate.options, "mask": f'"{name}"'})
            yield from [] if required else [(name, masked)]


def _factory(kind: Kind, survey: Survey) -> str:
    names = []
    for role in survey.uses:
        name = {"kv_heads": "kv_heads=None"}.get(role, kind.sizes[role][0])
        names += ["dim", "heads"] if role == "head_dim" else ["heads", name] if role == "kv_heads" else [name]
    unique = sorted(dict.fromkeys(names), key=lambda name: "=" in name)
    return f"lambda *, {', '.join(unique)}: {survey.built}" if unique else f"lambda: {survey.built}"


def _called(operator: str, survey: Survey) -> Candidate:
    """How the call is made, by the names of its parameters."""
    empty = Candidate("", operator, {})
    wanted = [name for name, required in survey.takes if required and name not in (*MASKS, *CAUSAL)]
    keywords = {name: "None" for name, required in survey.takes if required and name in MASKS}
    keywords |= {name: "False" for name, required in survey.takes if required and name in CAUSAL}
    single = operator != "multi_head"
    if not wanted or len(wanted) > (1 if single else 3):
        raise UsageError(
            f"the call takes {', '.join(wanted) or 'nothing'}, of which {operator} has "
            f"{'x' if single else 'x, context'} alone; "
            "write attnspec.module(..., call=lambda module, x: module(...)), as docs/modules.md shows"
        )
    if single:
        return replace(empty, keywords=keywords)
    further = [name for name, required in survey.takes if not required and name in CONTEXTS]
    if len(wanted) == 1 and further:
        return replace(empty, inputs=f'{{"x": 0, "context": "{further[0]}"}}', keywords=keywords)
    if len(wanted) == 1:
        return replace(empty, same=True, keywords=keywords)
    if len(wanted) == 2:
        return replace(empty, inputs='("x", "context")', keywords=keywords)
    said = "".join(f", {name}={x}" for name, x in keywords.items())
    return replace(empty, call=f"lambda module, x, context: module(x, context, context{said})")


# Weights


def _mappings(operator: str, kind: Kind, survey: Survey) -> list[dict[str, str]]:
    sizes = {"dim": DIM, "n": DIM, "width": DIM, "hidden": HIDDEN}
    grouped = "kv_heads" in survey.uses
    sizes["kv_width"] = sizes["kv_dim"] = KV_HEADS * HEAD_DIM if grouped else DIM
    parts = {(part, len(axes)): name for name, (part, axes) in kind.weights.items()}
    choices: list[list[dict[str, str]]] = []
    held: dict[str, Weight] = {}
    for one in _named(kind, survey.weights):
        part, weight = one
        options = list(_held(weight, part, parts, kind, sizes, grouped))
        if not options:
            raise UsageError(
                f"{weight.path} {list(weight.shape)} is taken for {part}, and does not have its shape; "
                "write attnspec.module(..., weights={...}), as docs/modules.md shows"
            )
        for name in options[0]:
            if name in held:
                raise UsageError(f"{weight.path} and {held[name].path} are both taken for {name}")
            held[name] = weight
        choices.append(options)
    missing = [name for name, (_, axes) in kind.weights.items() if name not in held and _wanted(name, axes, operator)]
    if missing:
        known = ", ".join(f"{w.path} {list(w.shape)}" for w in survey.weights)
        raise UsageError(f"no parameter is known to hold {', '.join(missing)} of {operator} (there are: {known})")
    return [
        {name: text for name in kind.weights for chosen in each for own, text in chosen.items() if own == name}
        for each in itertools.islice(_alike(choices), MOST)
    ]


def _wanted(name: str, axes: tuple[str, ...], operator: str) -> bool:
    """Whether a weight is never left out, as a bias of attention may be."""
    return operator != "multi_head" or len(axes) == 2


def _alike(choices: list[list[dict[str, str]]]) -> Iterator[tuple[dict[str, str], ...]]:
    """One of each; parameters with as many choices make the same one, as a fused matrix and its bias do."""
    counts = list(dict.fromkeys(len(one) for one in choices))
    for places in itertools.product(*(range(count) for count in counts)):
        chosen = dict(zip(counts, places, strict=True))
        yield tuple(one[chosen[len(one)]] for one in choices)


def _named(kind: Kind, weights: Sequence[Weight]) -> list[tuple[str, Weight]]:
    """The part that each parameter is; those whose names say nothing come in the order of what is left."""
    parts = list(dict.fromkeys(part for part, _ in kind.weights.values()))
    if parts == ["norm"]:
        return [("norm", weight) for weight in weights]
    wanted = parts + [whole for whole, sections in SECTIONS.items() if set(sections) <= set(parts)]
    found, unnamed = [], []
    for weight in weights:
        part = _part(weight.path, wanted)
        found.append((part, weight)) if part else unnamed.append(weight)
    said = {own for part, _ in found for own in SECTIONS.get(part, (part,))}
    left = iter([part for part in parts if part not in said])
    holders = dict.fromkeys(weight.path.rpartition(".")[0] or weight.path for weight in unnamed)
    guessed = {holder: next(left, "") for holder in holders}
    for weight in unnamed:
        part = guessed[weight.path.rpartition(".")[0] or weight.path]
        if not part:
            raise UsageError(
                f"nothing is known of the parameter {weight.path} {list(weight.shape)}; "
                f"write attnspec.module(..., weights={{...}}, leave=({weight.path!r},)), as docs/modules.md shows"
            )
        found.append((part, weight))
    return found


def guessed_by_order(operator: str, survey: Survey) -> bool:
    """Whether some parameter's name says nothing, so that its place was guessed from the order."""
    parts = list(dict.fromkeys(part for part, _ in KINDS[operator].weights.values()))
    return parts != ["norm"] and any(not _part(weight.path, [*parts, *SECTIONS]) for weight in survey.weights)


def _part(path: str, wanted: Sequence[str]) -> str:
    """The part that a path names, its last segment first."""
    for segment in reversed(path.lower().split(".")):
        bare = segment
        for last in LAST:
            bare = bare.removesuffix(f"_{last}")
        for part in wanted:
            if bare in PARTS[part].split():
                return part
    return ""


def _held(
    weight: Weight,
    part: str,
    parts: Mapping[tuple[str, int], str],
    kind: Kind,
    sizes: Mapping[str, int],
    grouped: bool,
) -> Iterator[dict[str, str]]:
    """The texts of the weights that a parameter may hold, each way in which its shape allows that."""
    if part == "norm":
        last = "bias" if weight.path.rpartition(".")[2] in ("bias", "beta", "b", "shift") else "weight"
        if last in kind.weights and weight.shape == (DIM,):
            yield {last: weight.path}
        return
    rank = min(len(weight.shape), 2)
    own = [parts[one, rank] for one in SECTIONS.get(part, (part,)) if (one, rank) in parts]
    if len(own) != len(SECTIONS.get(part, (part,))):
        return
    if len(own) > 1:
        yield from _fused(weight, own, kind, sizes, grouped)
        return
    name = own[0]
    if part in ("attention_norm", "mlp_norm") and weight.path.rpartition(".")[2] in ("bias", "beta"):
        raise UsageError(
            f"{weight.path} is a bias, and the norms of transformer_block have none (they are those of rms_norm); "
            "a block with LayerNorm is checked by its parts"
        )
    expected = tuple(sizes[axis] for axis in kind.weights[name][1])
    plain, turned = [{name: weight.path}], [{name: f"{weight.path}.T"}]
    if len(weight.shape) == 3:
        yield from _by_head(weight, name)
    elif rank == 1:
        yield from plain if weight.shape == expected else []
    else:
        fits = plain * (weight.shape == expected), turned * (weight.shape == expected[::-1])
        yield from (fits[1] or fits[0]) if _turned(weight) else [*fits[0], *fits[1]]


def _turned(weight: Weight) -> bool:
    """Whether a matrix is held as torch's Linear has it, output channels first."""
    return "Linear" in weight.holder or weight.holder == "MultiheadAttention"


def _by_head(weight: Weight, name: str) -> Iterator[dict[str, str]]:
    """A weight with an axis of heads."""
    axes = {DIM: "dim", HEADS: "heads", KV_HEADS: "heads", HEAD_DIM: "d"}
    if sorted(axes.get(n, "") for n in weight.shape) == ["d", "dim", "heads"]:
        joined = "dim (heads d)" if name != "wo" else "(heads d) dim"
        yield {name: f"{weight.path} | {' '.join(axes[n] for n in weight.shape)} -> {joined}"}


def _fused(
    weight: Weight, own: list[str], kind: Kind, sizes: Mapping[str, int], grouped: bool
) -> Iterator[dict[str, str]]:
    """Several weights in one parameter: side by side, or head by head."""
    out = kind.weights[own[0]][1][-1]
    widths = [sizes[kind.weights[name][1][-1]] for name in own]
    joined, vector = sum(widths), len(weight.shape) == 1
    if vector and weight.shape != (joined,):
        return
    turned = not vector and weight.shape == (joined, DIM)
    if not vector and not turned and weight.shape != (DIM, joined):
        return
    last, first = (".T", "") if turned else ("", "" if vector else ":, ")
    count = len(own)
    if len(set(widths)) > 1:
        kv = kind.weights[own[1]][1][-1]
        edges = [f":{out}", f"{out}:{out} + {kv}", f"{out} + {kv}:"]
        yield {name: f"{weight.path}[{first}{edge}]{last}" for name, edge in zip(own, edges, strict=True)}
        return
    yield {name: f"{weight.path}[{first}{at}/{count}]{last}" for at, name in enumerate(own)}
    if out == "hidden":
        yield {name: f"{weight.path}[{first}{count - 1 - at}/{count}]{last}" for at, name in enumerate(own)}
        return
    if grouped and out != "width":
        return
    for inner in (f"heads {count} d", f"heads d {count}"):
        left = f"({inner})" if vector else f"({inner}) dim" if turned else f"dim ({inner})"
        right = f"{count} (heads d)" if vector else f"{count} dim (heads d)"
        yield {name: f"{weight.path} | {left} -> {right} [{at}]" for at, name in enumerate(own)}
