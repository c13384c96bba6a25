"""FlashInfer's traces as workloads: definitions of operators, and JSON lines with the sizes of calls.

The schema is that of FlashInfer-Bench (https://bench.flashinfer.ai/docs): a definition has constant and variable axes,
and a workload has values of the variable ones, and of inputs that are single numbers. A folder has `definitions` and
`workloads`, by the type of operator; a file of workloads lies in such a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..data import records
from ..data.files import read_text
from ..data.records import anything, by_name, keys, name
from ..errors import UsageError
from ..numerics.formats import FORMATS
from .library import Library
from .workloads import MOST, Left, Use, Workload, gathered

DEFINITIONS, WORKLOADS = "definitions", "workloads"

_DEFINITION = keys(
    {"name": name, "op_type": name, "axes": by_name(by_name(anything)), "inputs": by_name(by_name(anything))}
)
_WORKLOAD = keys({"axes": by_name(anything), "inputs": by_name(by_name(anything))})
_LINE = keys({"definition": name, "workload": _WORKLOAD})

Axes = Mapping[str, int]
Made = tuple[str, dict[str, int], dict[str, Any], dict[str, int]]
"""An operator, its sizes, its options, and the largest entries of lengths."""


def is_trace(path: Path) -> bool:
    """Whether a path is a folder of traces, or a file of workloads in one."""
    return (path / WORKLOADS).is_dir() or (path.suffix == ".jsonl" and _root(path) is not None)


def traced(path: Path, library: Library) -> Workload:
    """A workload of traces; `UsageError` with file and line for what is not of the schema."""
    root = path if (path / WORKLOADS).is_dir() else _root(path)
    files = sorted((path / WORKLOADS).rglob("*.jsonl")) if (path / WORKLOADS).is_dir() else [path]
    assert root is not None
    known = {own["name"]: own for own in map(_definition, sorted((root / DEFINITIONS).rglob("*.json")))}
    return gathered(one for file in files for one in _of_file(file, known, library))


def _root(path: Path) -> Path | None:
    """The folder of traces that a file of workloads lies in."""
    return next((up.parent for up in path.parents if up.name == WORKLOADS and (up.parent / DEFINITIONS).is_dir()), None)


def _definition(path: Path) -> Mapping[str, Any]:
    return records.record(read_text(path, MOST), _DEFINITION, path)


def _of_file(path: Path, known: Mapping[str, Mapping[str, Any]], library: Library) -> Iterator[Use | Left]:
    for at, line in enumerate(read_text(path, MOST).splitlines(), 1):
        if not line.strip():
            continue
        data = records.record(line, _LINE, path, at)
        if data["definition"] not in known:
            raise UsageError(f"{path}:{at}: no definition is called {data['definition']!r}")
        try:
            yield _use(known[data["definition"]], data["workload"], library)
        except KeyError as error:
            raise UsageError(f"{path}:{at}: the axis {error} has no length") from None


def _use(definition: Mapping[str, Any], workload: Mapping[str, Any], library: Library) -> Use | Left:
    kind, inputs = definition["op_type"], definition["inputs"]
    constant = {n: axis["value"] for n, axis in definition["axes"].items() if axis.get("type") == "const"}
    axes: Axes = {**constant, **workload["axes"]}
    single = {n: x["value"] for n, x in workload["inputs"].items() if x.get("type") == "scalar"}
    makes = [make for types, needed, make in OPERATORS if kind in types and needed <= {*inputs, *axes}]
    dtype = next((str(x.get("dtype")) for x in inputs.values() if x.get("shape")), "")
    if not makes or dtype not in FORMATS:
        says = f"arrays of {dtype} are not tried" if makes else f"{kind} is no operator with these inputs"
        return Left(definition["name"], says)
    operator, sizes, options, most = makes[0](axes, single)
    causal = "causal" in definition["name"] or any("causal" in tag for tag in definition.get("tags", ()))
    if causal and "causal" in library[operator].options:
        options["causal"] = True
    given = {n: x for n, x in options.items() if x != library[operator].defaults.get(n)}
    return Use(operator, dtype, sizes, given, most=most, interface=definition["name"], device="cuda")


def _norm(axes: Axes, single: Mapping[str, Any]) -> Made:
    eps = {"eps": single["eps"]} if "eps" in single else {}
    return "rms_norm", {"rows": axes["batch_size"], "n": axes["hidden_size"]}, eps, {}


def _residual_norm(axes: Axes, single: Mapping[str, Any]) -> Made:
    return "residual_rms_norm", *_norm(axes, single)[1:]


def _heads(axes: Axes) -> dict[str, int]:
    width = axes["head_dim"]
    heads = {"heads": axes["num_qo_heads"], "kv_heads": axes["num_kv_heads"]}
    return {**heads, "head_dim": width, "value_dim": axes.get("head_dim_vo", width)}


def _ragged(axes: Axes, single: Mapping[str, Any]) -> Made:
    tokens = {"q_tokens": axes["total_q"], "k_tokens": axes["total_kv"]}
    return "packed_attention", {"items": axes["len_indptr"] - 1, **tokens, **_heads(axes)}, _scale(single), {}


def _paged(axes: Axes, single: Mapping[str, Any]) -> Made:
    batch = axes["batch_size"]
    pages = {"pages": axes["num_pages"], "page_size": axes["page_size"], "max_pages": _each(axes, batch)}
    return "paged_attention", {"batch": batch, "q_len": 1, **pages, **_heads(axes)}, _scale(single), {}


def _latent(axes: Axes, single: Mapping[str, Any]) -> Made:
    batch, width = axes["batch_size"], axes["head_dim_ckv"]
    pages = {"pages": axes["num_pages"], "page_size": axes["page_size"], "max_pages": _each(axes, batch)}
    sizes = {"batch": batch, "q_len": 1, "heads": axes["num_qo_heads"], "width": width + axes["head_dim_kpe"], **pages}
    return "latent_pages", sizes, {**_scale(single), "value_dim": width}, {}


def _each(axes: Axes, batch: int) -> int:
    """Pages of one item, of which only the sum is known."""
    return max(min(-(-axes["num_kv_indices"] // max(batch, 1)), axes["num_pages"]), 1)


def _scale(single: Mapping[str, Any]) -> dict[str, Any]:
    return {"scale": single["sm_scale"]} if "sm_scale" in single else {}


OPERATORS: tuple[tuple[tuple[str, ...], set[str], Callable[[Axes, Mapping[str, Any]], Made]], ...] = (
    (("rmsnorm", "fused_add_rmsnorm"), {"hidden_states", "residual"}, _residual_norm),
    (("rmsnorm",), {"hidden_states"}, _norm),
    (("gqa_ragged", "gqa_ragged_prefill"), {"qo_indptr", "kv_indptr"}, _ragged),
    (("gqa_paged", "gqa_paged_decode"), {"batch_size", "kv_indptr", "kv_indices"}, _paged),
    (("mla_paged", "mla_paged_decode"), {"batch_size", "ckv_cache", "kpe_cache"}, _latent),
)
"""Types of operators, inputs and axes that they have, and the operator here that they are; the first that fits counts.

A paged prefill has queries of several items in one axis, which is no operator here: it has no `batch_size`.
"""
