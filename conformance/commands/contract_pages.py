"""What to do about a broken contract."""

from __future__ import annotations

from collections.abc import Iterator

from ..judging.contracts import CONTRACTS, ONCE
from ..reporting.typesetting import prose

CONTRACT_ADVICE = {
    "shape": "Return the shape that `attnspec list operators` shows; the adapter transposes if its library differs.",
    "dtype": "Cast the result to the dtype of the first input; a logsumexp stays in float32.",
    "device": "Leave the result on the device of the inputs.",
    "fresh_output": "Return new memory: a result that shares it changes when its owner is written to.",
    "inputs_unchanged": "Copy before computing in place; the caller may use its arrays again.",
    "state": "Restore what the call must change (`with np.errstate(...)`, `with torch.no_grad()`), and pass dtypes "
    "and devices instead of changing defaults. Drawing from a global generator is a `should`, and allowed if outputs "
    "are random. Changes that an import within a call makes to warnings, environment and handlers do not count.",
    "bounds": "Mask the loads and stores of a tile by the lengths of its arrays.",
    "written": "Write every entry of an output that is allocated empty, including rows without keys and tails.",
    "repeatable": "Look for a race, for dropout, or for state of an earlier call. It is a `should` unless the adapter "
    "declares deterministic=True.",
    "batch_invariant": "Choose tiles, splits and the order of sums by the sizes of one item, not by the number of "
    "items. --profile serving tests adapters that declare batch_invariant=True; for others the report says what "
    "was observed.",
    "chunk_invariant": "Choose tiles, splits and the order of sums independently of the queries in the call. "
    "--profile serving tests adapters that declare chunk_invariant=True; for others the report says what was observed.",
    "threads": "Give every call its own memory, or use a lock. --profile serving tests adapters that declare "
    "thread_safe=True; for others the report says what was observed.",
    "parameters": "Give the parameter the operator's name, remove it from the adapter's function, or "
    "declare under `fixed` that it only has its default.",
    "layout": "Declare layout=... with the name in the first line of the report, or pass --layout NAME; it is "
    "required under --profile ci and nightly, which judge nothing else until it is declared.",
    "backward": "Compute every gradient from what the forward pass saved, and leave that, the cotangents and `grad` of "
    "the inputs as they are: autograd adds to `grad`. What is kept by shape, such as a compiled variant, must not say "
    "whether gradients are needed. A backward pass that raises on second use is not blamed.",
    "independence": "Some calls are repeated, in another order, in a process without attnspec; a result there that is "
    "beyond every bound fails it. Look for code that depends on loaded modules or on earlier calls. It is "
    "tested for files and registered adapters, in isolation and on the CPU; it does not protect against malice.",
    "precision": "Declare grade=... if the larger errors are intended; otherwise look for an intermediate stored "
    "in low precision.",
}


def contract_page(name: str) -> Iterator[str]:
    yield f"contract.{name}"
    yield from prose({**CONTRACTS, **ONCE}[name], "    ")
    yield from prose(CONTRACT_ADVICE[name], "    ")
