"""What a case of the sizes of production costs, beside a full float64 reference and flash-attention's way of testing.

    python benchmarks/large.py --length 2048 --heads 8 --kv-heads 2 --plantings 20

All are measured in one run, on one thread (NumPy with `OPENBLAS_NUM_THREADS=1`), in CPU seconds: the definition in
float64 by torch, a second run of it in bfloat16 as flash-attention's tests have beside that, and the judgement of a
large case. Then one row of one head is wrong, in another place each time, and it is counted how often that is found.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import torch

from attnspec.adapters import Adapter
from attnspec.cases.large import large_sample
from attnspec.judging import large
from attnspec.judging.bench import Bench
from attnspec.judging.large import Judged, Large
from attnspec.language.expressions import Expression
from attnspec.language.scopes import Scope
from attnspec.language.syntax import assignments
from attnspec.mechanisms.loader import NONE
from attnspec.numerics.grades import BF16
from attnspec.numerics.streams import pick
from attnspec.subjects.targets import subject

ATTENTION = NONE.library()["attention"]
WORDS = {"causal_alignment": "bottom_right", "empty_row": "zeros", "grouping": "block"}


def sdpa(q: Any, k: Any, v: Any, *, causal: bool = False) -> Any:
    """Attention of torch, of which the last query sees the last key."""
    queries, keys = q.shape[2], k.shape[2]
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries) if causal and queries != keys else None
    square = causal and mask is None
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=square, enable_gqa=True)


def composed(q: Any, k: Any, v: Any) -> Any:
    """Causal attention head by head, in the dtype of its inputs."""
    out, group = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype), q.shape[1] // k.shape[1]
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
    for head in range(q.shape[1]):
        s = q[:, head] @ k[:, head // group].transpose(-1, -2) * q.shape[3] ** -0.5
        out[:, head] = s.masked_fill(hidden, -torch.inf).softmax(-1) @ v[:, head // group]
    return out


def judged(function: Callable[..., Any], text: str, seconds: float) -> Judged:
    one = subject(Adapter("kernel", "attention", function, "torch", dtypes=("bfloat16",), conventions=WORDS))
    scope = Scope(frozenset({*ATTENTION.sizes, *ATTENTION.inputs, *ATTENTION.options}), draws=True)
    assigned = {name: Expression(own, scope, place) for name, (own, place) in assignments(text).items()}
    sample = large_sample(ATTENTION, "benchmark", assigned, one.claims, "bfloat16", 0)
    assert not isinstance(sample, str), sample
    bench = Bench(one, ATTENTION, "bfloat16", "cpu", {**ATTENTION.words, **WORDS})
    with one.session():
        return Large(bench, sample, memory=4 << 30, seconds=seconds).judged([BF16])


def timed(what: str, run: Callable[[], Any]) -> Any:
    started = time.process_time()
    result = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{what:<36}{time.process_time() - started:9.2f} s CPU   at most {peak:.1f} GB so far", flush=True)
    return result


def screening(run: Callable[[], Judged]) -> tuple[Judged, float]:
    """A verdict, and the CPU seconds in which all rows were compared."""
    spent, compared = list[float](), large.screened

    def timed_rows(*arguments: Any) -> Any:
        started = time.process_time()
        found = compared(*arguments)
        spent.append(time.process_time() - started)
        return found

    large.screened = timed_rows
    try:
        return run(), sum(spent)
    finally:
        large.screened = compared


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("length", 2048), ("heads", 8), ("kv-heads", 2), ("head-dim", 128), ("plantings", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--no-second", action="store_true", help="Leave out the second run in bfloat16.")
    parser.add_argument("--seconds", type=float, default=600.0, help="After these, rows are left out.")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    n, d = asked.length, asked.head_dim
    text = f"batch = 1, kv_heads = {asked.kv_heads}, heads = {asked.heads}, q_len = {n}, k_len = {n}, head_dim = {d}"
    text += f", value_dim = {d}, causal = true"
    found, rows = timed("judgement of a large case", lambda: screening(lambda: judged(sdpa, text, asked.seconds)))
    print(f"{'of which all rows were compared in':<36}{rows:9.2f} s CPU")
    print(f"    {found.seen} of {found.rows} rows compared, {found.judged} judged, {found.excess:.2f} x bound")
    q, k, v = (torch.randn(1, heads, n, d) for heads in (asked.heads, asked.kv_heads, asked.kv_heads))
    with torch.no_grad():
        timed("of which the kernel itself", lambda: sdpa(*(x.bfloat16() for x in (q, k, v)), causal=True))
        timed("full reference in float64", lambda: composed(q.double(), k.double(), v.double()))
        if not asked.no_second:
            timed("and a second run in bfloat16", lambda: composed(*(x.bfloat16() for x in (q, k, v))))
    caught = 0
    for turn in range(asked.plantings):
        head, row = pick(asked.heads, "head", turn), pick(n, "row", turn)

        def planted(q: Any, k: Any, v: Any, *, causal: bool = False, head: int = head, row: int = row) -> Any:
            out = sdpa(q, k, v, causal=causal)
            out[0, head, row] = out[0, head, row - 1]
            return out

        caught += judged(planted, text, asked.seconds).refuted
    print(f"{caught} of {asked.plantings} rows that are those before them were found")


if __name__ == "__main__":
    main()
