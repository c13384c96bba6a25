"""FlashInfer's traces as workloads."""

from __future__ import annotations

import json

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.traces import is_trace, traced

KNOWN = NONE.library()
HEADS = {"num_qo_heads": 8, "num_kv_heads": 2, "head_dim": 64}


def traces(tmp_path, kind, name, axes, inputs, *workloads, dtype="bfloat16"):
    """A folder of one definition, whose constant axes are `axes`, and its workloads."""
    own = {n: {"shape": ["x"], "dtype": dtype} for n in inputs}
    variable = {n: {"type": "var"} for one, _ in workloads for n in one}
    axes = {**variable, **{n: {"type": "const", "value": x} for n, x in axes.items()}}
    definition = {"name": name, "op_type": kind, "axes": axes, "inputs": own}
    path = tmp_path / "workloads" / kind / f"{name}.jsonl"
    path.parent.mkdir(parents=True)
    (tmp_path / "definitions" / kind).mkdir(parents=True)
    (tmp_path / "definitions" / kind / f"{name}.json").write_text(json.dumps(definition))
    lines = [{"definition": name, "workload": {"uuid": "u", "axes": a, "inputs": i}} for a, i in workloads]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def scalar(x):
    return {"type": "scalar", "value": x}


def test_lines_of_a_norm_are_calls_of_it(tmp_path):
    more = ({"batch_size": 7}, {}), ({"batch_size": 7}, {}), ({"batch_size": 9}, {"eps": scalar(1e-6)})
    traces(tmp_path, "rmsnorm", "rmsnorm_h128", {"hidden_size": 128}, ("hidden_states", "weight"), *more)
    found = traced(tmp_path, KNOWN)
    told = [(use.operator, dict(use.sizes), dict(use.options), use.count) for use in found.uses]
    assert [
        ("rms_norm", {"rows": 7, "n": 128}, {}, 2),
        ("rms_norm", {"rows": 9, "n": 128}, {"eps": 1e-6}, 1),
    ] == told


@pytest.mark.parametrize(
    ("kind", "inputs", "axes", "operator", "sizes"),
    [
        (
            "gqa_ragged",
            ("q", "qo_indptr", "kv_indptr"),
            {"total_q": 9, "total_kv": 20, "len_indptr": 4},
            "packed_attention",
            {"items": 3, "q_tokens": 9, "k_tokens": 20},
        ),
        (
            "gqa_paged",
            ("q", "kv_indptr", "kv_indices"),
            {"batch_size": 4, "num_pages": 90, "page_size": 16, "num_kv_indices": 41},
            "paged_attention",
            {"pages": 90, "max_pages": 11, "q_len": 1},
        ),
        (
            "mla_paged",
            ("q_nope", "ckv_cache", "kpe_cache"),
            {
                "batch_size": 2,
                "num_pages": 90,
                "page_size": 1,
                "num_kv_indices": 7,
                "head_dim_ckv": 512,
                "head_dim_kpe": 64,
            },
            "latent_pages",
            {"width": 576, "max_pages": 4},
        ),
    ],
)
def test_attention_has_its_sizes(tmp_path, kind, inputs, axes, operator, sizes):
    path = traces(tmp_path, kind, f"{kind}_causal", HEADS, inputs, (axes, {"sm_scale": scalar(0.1)}))
    (use,) = traced(path, KNOWN).uses
    assert (operator, sizes) == (use.operator, {name: use.sizes[name] for name in sizes})
    assert 0.1 == use.options["scale"]


@pytest.mark.parametrize(
    ("kind", "inputs", "axes", "says"),
    [
        ("gemm", ("a", "b"), {"m": 3}, "gemm is no operator with these inputs"),
        (
            "gqa_paged",
            ("q", "qo_indptr", "kv_indptr", "kv_indices"),
            {"total_q": 4},
            "gqa_paged is no operator with these inputs",
        ),
    ],
)
def test_what_is_no_operator_is_left(tmp_path, kind, inputs, axes, says):
    (one,) = traced(traces(tmp_path, kind, "it", {}, inputs, (axes, {})), KNOWN).left
    assert says == one.says


def test_arrays_of_eight_bits_are_left(tmp_path):
    path = traces(
        tmp_path,
        "rmsnorm",
        "it",
        {"hidden_size": 8},
        ("hidden_states",),
        ({"batch_size": 1}, {}),
        dtype="float8_e4m3fn",
    )
    assert ["arrays of float8_e4m3fn are not tried"] == [one.says for one in traced(path, KNOWN).left]


def test_a_line_of_no_definition_is_told_with_its_place(tmp_path):
    path = traces(tmp_path, "rmsnorm", "it", {"hidden_size": 8}, ("hidden_states",), ({"batch_size": 1}, {}))
    path.write_text(path.read_text().replace('"it"', '"that"'))
    with pytest.raises(UsageError, match=rf"{path}:1: no definition is called 'that'"):
        traced(path, KNOWN)


def test_a_folder_and_a_file_in_it_are_traces_and_others_are_not(tmp_path):
    path = traces(tmp_path, "rmsnorm", "it", {"hidden_size": 8}, ("hidden_states",))
    other = tmp_path / "w.jsonl"
    assert [True, True, False] == [is_trace(path), is_trace(tmp_path), is_trace(other)]
