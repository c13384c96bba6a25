"""A class that is planned and then run is a function of all that it is told."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import attnspec
from attnspec.execution.planned import Planned, is_planned

KERNELS = Path(__file__).parents[2] / "packages" / "planned.py"


class Wrapper:
    def __init__(self, workspace, *, backend="auto"):
        self.made = workspace

    def plan(self, indptr, window_left=-1, q_data_type="float16"):
        self.planned = indptr, window_left, q_data_type

    def run(self, q, paged_kv_cache, *args, window_left=None):
        return self.made, self.planned, paged_kv_cache, window_left


def test_a_class_with_a_plan_and_a_run_is_called_by_the_names_of_all_three():
    assert (True, False, False) == (is_planned(Wrapper), is_planned(Wrapper(0)), is_planned(dict))
    function = Planned(Wrapper)
    named = [*inspect.signature(function).parameters]
    assert ["workspace", "backend", "indptr", "window_left", "q", "paged_kv_cache_0", "paged_kv_cache_1"] == named
    q = np.zeros(1, np.float32)
    found = function(workspace=1, indptr=2, window_left=3, q=q, paged_kv_cache_0=4, paged_kv_cache_1=5)
    assert (1, (2, 3, q.dtype), (4, 5), 3) == found


@pytest.mark.parametrize(
    ("name", "operator", "right", "wrong"),
    [
        ("BatchDecodeWithPagedKVCacheWrapper", "paged_attention", "(counts - 1) * page_size", "counts * page_size"),
        ("BatchPrefillWithPagedKVCacheWrapper", "paged_attention", "- (k.shape[2] - q.shape[2])", ""),
        ("BatchPrefillWithRaggedKVCacheWrapper", "packed_attention", "k[None, c:d]", "k[None, a:b]"),
    ],
)
def test_a_wrapper_is_taken_for_that_of_flashinfer_and_its_fault_is_found(name, operator, right, wrong, tmp_path):
    pytest.importorskip("torch")
    asked = {"laws": [f"{operator}.definition"], "profile": "smoke", "dtypes": ["float32"], "explain_time": 0}
    report = attnspec.check(f"{KERNELS}:{name}", **asked)
    assert str(report).startswith(f"{name} is treated as batch_"), report
    assert {name: "conformant"} == report.verdicts, report
    text = KERNELS.read_text()
    assert right in text
    faulty = tmp_path / "faulty.py"
    faulty.write_text(text.replace(right, wrong, 1))
    assert {name: "violated"} == attnspec.check(f"{faulty}:{name}", **asked).verdicts


def test_a_wrapper_that_ignores_its_mask_is_refuted(tmp_path):
    pytest.importorskip("torch")
    asked = {"laws": ["masked_pages.definition"], "profile": "smoke", "dtypes": ["float32"], "explain_time": 0}
    name = "BatchPrefillWithPagedKVCacheWrapper"
    assert {name: "conformant"} == attnspec.check(f"{KERNELS}:{name}", **asked).verdicts
    faulty, text, right = tmp_path / "faulty.py", KERNELS.read_text(), "if mask is None else ~mask"
    assert right in text
    faulty.write_text(text.replace(right, ""))
    assert {name: "violated"} == attnspec.check(f"{faulty}:{name}", **asked).verdicts
