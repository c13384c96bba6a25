"""Findings are read with their places, name what exists, and are made into their page."""

from dataclasses import replace
from pathlib import Path

import pytest

from attnspec.errors import SpecError, SpecErrors
from attnspec.mechanisms.loader import library
from attnspec.reporting import findings as module
from attnspec.reporting.findings import FILE, findings, marks, named, page, unmeant
from attnspec.subjects.registered import shipped

ENTRY = """version: 1
findings:
  - id: softmax-halved
    title: it is halved
    package: torch
    tested: 2.0.0
    versions: ">=2.0"
    state: open
    link: https://example.org/softmax
    documented: |-
      [The documentation] says "softmax".
    happens: |-
      It is halved.
    code: print(1)
    prints: "1"
    seen:
      - subjects: [torch_softmax]
        laws: [softmax.definition]
        dtypes: [float32]
        when: n == 1
"""


def read(tmp_path, text=ENTRY):
    (tmp_path / "findings.yaml").write_text(text)
    findings.cache_clear()
    return findings(tmp_path / "findings.yaml")


def test_what_the_findings_name_exists():
    assert [] == [str(fault) for fault in unmeant(findings(), library())]
    adapters = {adapter.name: adapter.operator for adapter in shipped()}
    for seen in (seen for finding in findings() for seen in finding.seen):
        assert set() == {*seen.subjects} - {*adapters}
        operators = {library()[law.partition(".")[0]].operator for law in seen.laws}
        assert operators == {adapters[subject] for subject in seen.subjects}


def test_the_page_is_that_of_the_file():
    assert (Path(__file__).parents[3] / "docs" / "findings.md").read_text("utf-8") == "\n".join(page()) + "\n"


def test_a_section_has_the_link_the_state_and_the_command(tmp_path):
    lines = "\n".join(page(read(tmp_path)))
    assert "## torch 2.0.0: it is halved\n\n`softmax-halved`, open\n\n" in lines
    assert '[The documentation](https://example.org/softmax) says "softmax".\nIt is halved.\n' in lines
    assert "```text\n1\n```\n\n`attnspec check torch_softmax --law softmax.definition`\n" in lines


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("state: open", "state: closed", "8:12: findings.0.state: .closed. is not one of"),
        (
            "softmax-halved",
            "Softmax",
            r"3:9: findings.0.id: 'Softmax' is not a name \(small letters, digits and hyphens",
        ),
        ("    tested: 2.0.0\n", "", "findings.0: the key 'tested' is missing"),
        ('">=2.0"', "newer", r"7:15: 'newer' are no versions such as >=2.13.0,<2.15"),
        ("state: open", "state: mended", "8:12: 'mended' is the version of a finding of that state"),
        ("    prints:", "    mended: 3.0\n    prints:", "'mended' is the version of a finding of that state"),
        ('    prints: "1"\n', "", "3:9: a finding with a title is shown by a program: the key prints is missing"),
    ],
)
def test_what_is_wrong_with_the_form_is_told_with_its_place(tmp_path, old, new, says):
    with pytest.raises(SpecErrors, match=says):
        read(tmp_path, ENTRY.replace(old, new))


def test_two_findings_of_one_name_are_refused(tmp_path):
    again = ENTRY.partition("findings:\n")[2]
    with pytest.raises(SpecErrors, match="two findings are called 'softmax-halved'"):
        read(tmp_path, ENTRY + again)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("softmax.definition", "softmax.definitoin", "18:16: unknown law 'softmax.definitoin'; did you mean"),
        ("softmax.definition", "sofmax.definition", "18:16: unknown mechanism 'sofmax'; did you mean"),
        ("n == 1", "m == 1", "20:15: "),
    ],
)
def test_what_a_finding_names_that_is_not_there_is_told_with_its_place(tmp_path, old, new, says):
    with pytest.raises(SpecError, match=says):
        raise next(unmeant(read(tmp_path, ENTRY.replace(old, new)), library()))


@pytest.mark.parametrize(
    ("installed", "subject", "dtype", "count"),
    [
        ("2.13.0+cpu", "torch_softmax", "float32", 1),
        ("1.9.0", "torch_softmax", "float32", 0),
        ("", "torch_softmax", "float32", 0),
        ("2.13.0", "mine", "float32", 0),
        ("2.13.0", "torch_softmax", "bfloat16", 0),
    ],
)
def test_a_finding_is_known_of_its_subjects_versions_and_dtypes(
    tmp_path, monkeypatch, installed, subject, dtype, count
):
    monkeypatch.setattr(module, "_installed", lambda package: installed)
    assert count == len(marks(subject, library()["softmax"], dtype, read(tmp_path)))


@pytest.mark.parametrize(("device", "count"), [("cuda", 1), ("cuda:1", 1), ("cpu", 0)])
def test_a_finding_of_a_device_is_known_there_alone(tmp_path, monkeypatch, device, count):
    monkeypatch.setattr(module, "_installed", lambda package: "2.13.0")
    (found,) = read(tmp_path)
    found = replace(found, seen=tuple(replace(seen, device="cuda") for seen in found.seen))
    assert count == len(marks("torch_softmax", library()["softmax"], "float32", [found], device))
    assert found.seen[0].command.startswith("attnspec check torch_softmax --device cuda --law ")


def test_a_finding_is_found_by_its_name():
    findings.cache_clear()
    assert ("torch-causal-scale", None) == (named("torch-causal-scale").id, named("nothing"))
    assert FILE.is_file()


def test_failures_of_laws_are_told_from_others_by_a_condition_or_by_what_they_say():
    vague = [
        (finding.id, seen.laws) for finding in findings() for seen in finding.seen if not (seen.when or seen.shows)
    ]
    assert [] == [name for name, laws in vague if not all(".contract." in law for law in laws)]
