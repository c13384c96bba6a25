"""What does not go together in the file of a known interface is told with its place."""

import pytest

from attnspec.mechanisms.loader import library
from attnspec.mechanisms.signature_faults import faults

GIVEN = """signature: mine
source: https://example.org
operator: attention
layout: bshd
parameters:
  q: q
  k: k
  v: v
  sm: scale
returns: [out]
"""


def test_the_shipped_interfaces_have_no_faults():
    assert [] == [str(fault) for fault in faults(library())]


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("signature: mine", "signature: other", "the file is called 'mine', and not 'other'"),
        ("operator: attention", "operator: attendance", "unknown operator 'attendance'; did you mean 'attention'?"),
        ("layout: bshd", "layout: bsdh", "attention has no layout 'bsdh'"),
        ("v: v", "v: q", "none is passed 'v'"),
        ("sm: scale", "sm: scales", "parameters.sm: unknown name 'scales'"),
        ("returns: [out]", "returns: [output]", "attention has no output 'output'"),
        ("returns: [out]", "returns: [out]\narrays: {out: b z}", "arrays.out: 'out' has no axis 'z'"),
        ("returns: [out]", "returns: [out]\nmore: 1", "unknown key 'more'"),
        (
            "returns: [out]",
            "returns: [out]\nfixed: {casual: 'true'}",
            "fixed: attention has no option 'casual'; did you",
        ),
        ("returns: [out]", "returns: [out]\nfixed: {causal: q_len}", "fixed.causal: unknown name 'q_len'"),
        ("returns: [out]", "returns: [lse]", "returns: attention has the output 'out' first"),
        (
            "returns: [out]",
            "returns: [own]\noutputs: {out: exp(own)}",
            "outputs.out: outputs are assembled without exp(...)",
        ),
        (
            "returns: [out]",
            "returns: [out]\nfollows: {grouping: blocks}",
            "follows: attention has no convention grouping = blocks; did you mean 'grouping = block'?",
        ),
        ("sm: scale", "sm: {out: result}", "'result' is no output of a layout"),
    ],
)
def test_what_does_not_go_together_is_told_with_its_place(right, wrong, says, tmp_path):
    (tmp_path / "mine.yaml").write_text(GIVEN.replace(right, wrong))
    found = [str(fault) for fault in faults(library(), tmp_path)]
    assert any(says in fault and "mine.yaml" in fault for fault in found), found
