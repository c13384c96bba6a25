"""What the page of an implementation shows."""

import pytest

from attnspec.reporting.baseline import Group, State, Verdict
from attnspec.site.history import Run
from attnspec.site.implementations import implementation, names

RUN = Run("smoke", "", State("0.1.0", "smoke", 0, {}))


def group(dtype, word="zeros", grade="fp32", subject="torch_sdpa"):
    laws = {"definition": Verdict("fail", finding="torch-causal-scale"), "a": Verdict("pass", 0.5)}
    return {(subject, "causal_mask", dtype, "cpu"): (RUN, Group("0", grade, {"empty_row": word}, laws))}


def test_what_comes_along_has_its_capabilities_and_findings():
    found = implementation("torch_sdpa", {})
    assert ("attention", "torch", "not_tested") == (found.operator, found.framework, found.verdict)
    told = {one.name: one.text for one in found.capabilities}
    assert ("float32, bfloat16, float16, float64", True) == (told["dtypes"], "top_left" in told["conventions declared"])
    assert "torch-causal-scale" in [one.finding.id for one in found.known]


def test_what_was_run_has_its_counts_conventions_and_precision():
    found = implementation("torch_sdpa", {**group("float32"), **group("bfloat16", "nans", "bf16")})
    assert ("known", "2/4") == (found.verdict, found.counts)
    assert (("empty_row", "zeros in float32; nans in bfloat16"),) == found.conventions
    assert (("float32", "fp32"), ("bfloat16", "bf16")) == found.grades


def test_a_kernel_from_elsewhere_has_a_page_as_well():
    own = group("float32", subject="mine")
    assert ("", "", (), 1) == tuple(
        (found := implementation("mine", own)) and (found.operator, found.install, found.capabilities, len(found.rows))
    )
    assert {"mine", "torch_sdpa"} <= set(names(own))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flash_attention", "runs on cuda alone"),
        ("liger_softmax", "takes Triton's interpreter, which is slow"),
        ("timm_attention", "needs timm"),
        ("torch_sdpa", ""),
    ],
)
def test_what_was_not_tested_says_what_speaks_against_it(name, expected):
    assert expected == implementation(name, {}).absence


def test_what_was_tested_needs_no_excuse():
    own = group("float32", subject="flash_attention")
    assert "" == implementation("flash_attention", own).absence


@pytest.mark.parametrize(
    ("name", "expected"), [("timm_attention", "pip install 'attnspec[timm]'"), ("aiter_attention", "")]
)
def test_a_package_is_installed_by_its_extra_wherever_the_site_is_built(name, expected):
    assert expected == implementation(name, {}).install
