"""What earlier audits found is taken from them for as long as nothing has changed on which it depends."""

from collections import Counter
from dataclasses import replace

import pytest
from click.testing import CliRunner

from attnspec.auditing import audit, earlier
from attnspec.auditing.audit import audited
from attnspec.auditing.correct import Bounds, Tried
from attnspec.auditing.earlier import Earlier, installed, needed, stated, surroundings
from attnspec.auditing.mechanism import audited_mechanism
from attnspec.auditing.mutation import Refutation
from attnspec.auditing.parts import Part
from attnspec.cli import main
from attnspec.mechanisms.evidence import Evidence
from attnspec.mechanisms.library import STORE, Library
from attnspec.mechanisms.loader import files_of, library
from attnspec.mechanisms.schema import spec_folder
from attnspec.mechanisms.specfiles import SpecFile

BELOW = ["alibi", "alibi_bias", "alibi_slopes", "attention", "softmax"]
"""All that the audit of `alibi` reads."""


@pytest.fixture
def shipped(tmp_path):
    """A library of copies of the shipped specifications, with their evidence, which a test may change."""
    (tmp_path / "evidence").mkdir()
    for file in [*files_of(spec_folder()), *(spec_folder() / "evidence").glob("*.json")]:
        (tmp_path / file.relative_to(spec_folder())).write_bytes(file.read_bytes())
    return tmp_path


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """The mechanisms that were audited, with nothing kept of before; no functions are."""
    found = []
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(audit, "controls", lambda known, wanted: {})
    monkeypatch.setattr(audit, "faults_of", lambda known, wanted: {})

    def counted(mechanism):
        found.append(mechanism.name)
        return Part(mechanism.name, {"other": [Refutation("share", "plain", 1, 0.1, float("inf"))]}, ("share",))

    monkeypatch.setattr(audit, "audited_mechanism", counted)
    return found


def read(folder):
    return Library({path.stem: SpecFile(path) for path in files_of(folder)}, store=STORE)


def digests(folder):
    known = read(folder)
    return {name: stated(known, [name]) for name in ("alibi", "attention", "softmax", "rms_norm")}


# What a result depends on


def test_the_audit_of_a_mechanism_reads_what_is_said_to_be_needed_and_nothing_else(monkeypatch):
    known, read = library(), set()
    assert BELOW == [m.name for m in needed(known, ["alibi"])]
    mechanism, get = known["alibi"], Library.__getitem__
    monkeypatch.setattr(Library, "__getitem__", lambda self, name: (read.add(name), get(self, name))[1])
    assert [] == audited_mechanism(mechanism).faults
    assert {"alibi_bias", "alibi_slopes", "attention"} == read
    assert read < {*BELOW}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("alibi", ["alibi"]),
        ("attention", ["alibi", "attention"]),
        ("alibi_slopes", ["alibi"]),
        ("rms_norm", ["rms_norm"]),
        ("softmax", ["alibi", "attention", "softmax"]),
        ("wkv4", []),
    ],
)
@pytest.mark.parametrize("what", ["specification", "evidence"])
def test_a_specification_and_its_evidence_count_for_what_needs_them(shipped, name, changed, what):
    before = digests(shipped)
    path = shipped / (f"{name}.yaml" if what == "specification" else f"evidence/{name}.json")
    path.write_text(path.read_text() + "\n# another line\n")
    after = digests(shipped)
    assert changed == [each for each in before if before[each] != after[each]]


def test_a_further_operator_counts_for_all(shipped):
    before = digests(shipped)
    text = (shipped / "softmax.yaml").read_text()
    (shipped / "further.yaml").write_text(text.replace("mechanism: softmax", "mechanism: further"))
    assert set(before.values()).isdisjoint(digests(shipped).values())


@pytest.mark.parametrize("package", ["attnspec", "adapters", "reference"])
def test_the_code_of_each_package_counts_for_all(monkeypatch, tmp_path, package):
    found = [surroundings()]
    (tmp_path / "deeper").mkdir()
    monkeypatch.setattr(earlier, package, type("", (), {"__file__": str(tmp_path / "__init__.py")}))
    for file in ("__init__.py", "deeper/part.py", "deeper/part.py", "notes.txt"):
        with (tmp_path / file).open("a") as opened:
            opened.write("x = 1\n")
        found.append(surroundings())
    assert (5, 4) == (len(found), len({*found}))
    assert found[3] == found[4]


def test_data_versions_and_settings_count_for_all(monkeypatch, tmp_path):
    monkeypatch.setattr(earlier, "spec", type("", (), {"__file__": str(tmp_path / "__init__.py")}))
    found = [surroundings()]
    (tmp_path / "serving").mkdir()
    for file in ("serving/a.yaml", "schema.json"):
        (tmp_path / file).write_text("")
        found.append(surroundings())
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    found.append(surroundings())
    (tmp_path / "torch-99.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    found.append(surroundings())
    monkeypatch.setattr(earlier, "machine", lambda: "another numpy")
    found.append(surroundings())
    (tmp_path / "a.yaml").write_text("a mechanism counts for itself")
    assert (6, found[-1]) == (len({*found}), surroundings())
    assert {"numpy", "torch"} <= {name.partition("-")[0] for name in installed()}


# What is kept


PART = Part(
    "softmax",
    {"base_two": [Refutation("definition", "plain", 1, 0.25, float("inf"))], "other": []},
    ("definition", "share"),
    notes=["a note"],
    evidence=Evidence("digest", {"plain": 1.5}, {"base_two": "4"}),
)


def tried():
    bounds = Bounds()
    bounds.telling["softmax.share", "float32"] = 3
    bounds.telling["softmax.share", "bfloat16"] = 2
    bounds.vacuous["softmax.share", "bfloat16"] = 7
    return Tried(Counter(one=3), {"one": [], "other": []}, bounds)


def plain(found):
    if isinstance(found, Tried):
        return found.cases, found.accused, [*found.bounds.telling.items()], [*found.bounds.vacuous.items()]
    return found


@pytest.mark.parametrize(
    ("kind", "found"), [("mechanism", PART), ("correct", tried()), ("wrong", [PART, replace(PART, name="other")])]
)
def test_what_is_read_is_what_was_kept(monkeypatch, tmp_path, kind, found):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path))
    first, second = Earlier(library()), Earlier(library())
    first.put(kind, "softmax", ("softmax",), found)
    assert None is Earlier(library()).get(kind, "softmax", ("softmax",))
    first.keep()
    assert plain(found) == plain(second.get(kind, "softmax", ("softmax",)))
    assert None is second.get(kind, "softmax", ("another",))
    assert None is second.get(kind, "rms_norm", ("softmax",))


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("mechanism", replace(PART, faults=["a fault"])),
        ("correct", Tried(Counter(), {"one": ["accused"]}, Bounds())),
        ("wrong", [PART, replace(PART, faults=["a fault"])]),
    ],
)
def test_what_has_a_fault_is_not_kept(monkeypatch, tmp_path, kind, found):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path))
    one = Earlier(library())
    one.put(kind, "softmax", (), found)
    one.keep()
    assert None is one.get(kind, "softmax", ())


def test_what_a_file_of_the_user_computes_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path))
    one = Earlier(read(spec_folder()))
    one.library.references["softmax"] = lambda x: x
    one.put("mechanism", "softmax", (), PART)
    one.keep()
    assert None is one.get("mechanism", "softmax", ())


def test_nothing_is_kept_of_an_audit_during_which_something_changed(monkeypatch, tmp_path, shipped):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "kept"))
    one = Earlier(read(shipped))
    for name in ("softmax", "rms_norm"):
        one.put("mechanism", name, (), PART)
    path = shipped / "softmax.yaml"
    text = path.read_text()
    path.write_text(text + "# while it runs\n")
    one.keep()
    path.write_text(text)
    assert (None, PART) == tuple(Earlier(read(shipped)).get("mechanism", name, ()) for name in ("softmax", "rms_norm"))


def test_nothing_is_kept_of_an_audit_during_which_code_has_changed(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path))
    one = Earlier(library())
    one.put("mechanism", "softmax", (), PART)
    with monkeypatch.context() as changed:
        changed.setattr(earlier, "surroundings", lambda: "other code")
        one.keep()
    assert None is Earlier(library()).get("mechanism", "softmax", ())


def test_an_entry_that_makes_no_sense_is_audited_again(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path))
    monkeypatch.setitem(earlier._WRITERS, "mechanism", lambda part: [part.name])
    one = Earlier(library())
    one.put("mechanism", "softmax", (), PART)
    one.keep()
    assert (None, Counter()) == (one.get("mechanism", "softmax", ()), one.taken)


# The audit


@pytest.mark.parametrize("named", [["alibi", "rms_norm"]])
def test_a_second_audit_tries_again_what_has_changed(monkeypatch, shipped, counted, named):
    def again():
        counted.clear()
        known = read(shipped)
        monkeypatch.setattr("attnspec.mechanisms.loader.library", lambda: known)
        parts = [*audited(named, earlier=(own := Earlier(known)))]
        assert named == [part.name for part in parts]
        return [*counted], own.told()

    some = "; unchanged since an earlier audit: {} of 2 mechanisms"
    assert (["alibi", "rms_norm"], "") == again()
    assert ([], some.format(2)) == again()
    path = shipped / "alibi_slopes.yaml"
    path.write_text(path.read_text().replace("title: ", "title: The "))
    assert (["alibi"], some.format(1)) == again()
    assert ([], some.format(2)) == again()


def test_the_command_says_what_it_takes_from_earlier_audits_and_can_do_without(counted):
    told = []
    for more in (["--fresh"], [], ["--fresh"]):
        asked = ["audit", "--mechanism", "softmax", "-n", "1", *more]
        told.append((CliRunner().invoke(main, asked).stdout.splitlines()[-1], len(counted)))
    assert [
        ("audit: no faults in 0 s", 1),
        ("audit: no faults in 0 s; unchanged since an earlier audit: 1 of 1 mechanisms", 1),
        ("audit: no faults in 0 s", 2),
    ] == told


def test_functions_are_counted_by_the_groups_in_which_they_are_tried():
    one = Earlier(library())
    one.asked, one.taken = Counter(mechanism=5, correct=3, wrong=2), Counter(mechanism=4, wrong=1)
    says = "4 of 5 mechanisms, 1 of 5 groups of correct variants and faults"
    assert f"; unchanged since an earlier audit: {says}" == one.told()
