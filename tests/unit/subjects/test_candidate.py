"""The declaration of a class is written part by part."""

from attnspec.subjects.candidate import DTYPES, Candidate


def test_parts_that_are_not_there_are_not_written():
    text = Candidate("lambda *, n: Norm(n)", "rms_norm", {"weight": "weight"}).text("norm")
    assert text.splitlines() == [
        "norm = attnspec.module(",
        "    lambda *, n: Norm(n),",
        '    "rms_norm",',
        '    name="norm",',
        "    weights={",
        '        "weight": "weight",',
        "    },",
        '    framework="torch",',
        f"    {DTYPES}",
        ")",
    ]


def test_all_parts_are_written_under_remarks():
    whole = Candidate(
        "lambda *, dim: Model(dim)",
        "multi_head",
        {"wq": ("a", "b")},
        inputs='("x", "context")',
        same=True,
        keywords={"training": "False"},
        options={"mask": '"attn_mask"'},
        fixed={"causal": "True"},
        requires=("width == dim", "heads > 1"),
        returns="0",
    )
    text = whole.text("model", ["uncertain: it is"])
    assert text.startswith("# uncertain: it is\nmodel = attnspec.module(")
    for part in (
        '"wq": ("a", "b")',
        'inputs=("x", "context")',
        'same={"context": "x"}',
        'options={"mask": "attn_mask"}',
        'keywords={"training": False}',
        'fixed={"causal": True}',
        'requires=("width == dim", "heads > 1")',
        "returns=0",
    ):
        assert f"    {part},\n" in text.replace("        ", "    ")
    assert 'requires="heads > 1",' in Candidate("", "", {}, requires=("heads > 1",)).text("model")
