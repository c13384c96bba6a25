"""Mechanisms are read when they are asked for, and once for all processes until something changes that makes them."""

import gc
from pathlib import Path

import numpy as np
import pytest

from attnspec.data.store import Store
from attnspec.errors import SpecErrors
from attnspec.mechanisms import library as module
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.library import Library, uncollected
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.specfiles import SpecFile

PLAIN = "mechanism: {name}\ntitle: A mechanism\nversion: 1\nsources: [Someone 2020]\nsummary: What it is.\n"
DOUBLE = PLAIN.format(name="double") + "sizes: {n: 3}\ninputs: {x: normal(n)}\ndefinition: {y: 2 * x}\noutputs: [y]\n"
FURTHER = PLAIN.format(name="further") + "operator: double\nscenarios: {one: n = 1}\n"
FOUR = PLAIN.format(name="four") + "inputs: {x: normal(2)}\ndefinition: {z: double(double(x))}\noutputs: [z]\n"
TEXTS = {"double": DOUBLE, "further": FURTHER, "four": FOUR}


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/mechanisms"


@pytest.fixture
def built(monkeypatch):
    """The mechanisms that were made of their texts."""
    names, build = [], module.built

    def reading(document, *rest):
        names.append(str(document["mechanism"]))
        return build(document, *rest)

    monkeypatch.setattr(module, "built", reading)
    return names


def fresh(folder=".", **texts):
    """As another process would find the files."""
    Path(folder).mkdir(exist_ok=True)
    for name, text in texts.items():
        Path(folder, f"{name}.yaml").write_text(text)
    return Library(
        {path.stem: SpecFile(path) for path in Path(folder).glob("*.yaml")}, store=Store("mechanisms", 1 << 20)
    )


def test_what_is_asked_for_is_read_with_what_it_builds_on_and_nothing_else(built):
    found = fresh(**TEXTS, broken=DOUBLE.replace("2 * x", "2 *"))
    assert (["broken", "double", "four", "further"], []) == (list(found), built)
    assert "double" == found["further"].operator
    assert ["double", "further"] == built


def test_another_process_reads_nothing_again(built):
    list(fresh(**TEXTS).values())
    made = [*built]
    found = fresh()
    assert ([2.0, 4.0], made) == (Frame(found["double"], {"x": np.array([1.0, 2.0])}).outputs()["y"].tolist(), built)
    assert [4.0, 8.0] == Frame(found["four"], {"x": np.array([1.0, 2.0])}).outputs()["z"].tolist()
    assert found["further"].definition["y"] is found["double"].definition["y"]


@pytest.mark.parametrize(
    ("changed", "text", "again"),
    [
        ("four", FOUR.replace("double(double(x))", "double(x)"), ["four"]),
        ("further", FURTHER.replace("n = 1", "n = 2"), ["further"]),
        ("double", DOUBLE.replace("2 * x", "x + x"), ["double", "four", "further"]),
    ],
)
def test_what_has_changed_is_read_again_with_what_needs_it(built, changed, text, again):
    list(fresh(**TEXTS).values())
    built.clear()
    found = fresh(**{changed: text})
    list(found.values())
    assert again == built
    assert TEXTS["double"] == DOUBLE


def test_a_new_operator_has_everything_read_again(built):
    list(fresh(**TEXTS).values())
    built.clear()
    list(fresh(new=DOUBLE.replace("double", "new")).values())
    assert ["double", "four", "further", "new"] == built


def test_another_version_of_what_reads_has_everything_read_again(built, monkeypatch):
    list(fresh(**TEXTS).values())
    built.clear()
    monkeypatch.setattr(module, "machinery", lambda: "another")
    list(fresh().values())
    assert ["double", "four", "further"] == built


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x90", b"\x92\x90\xc4\x00", b"\x93\x01\x02\x03"])
def test_what_was_kept_and_means_nothing_is_dropped(built, kept, raw):
    first = fresh(**TEXTS)
    list(first.values())
    built.clear()
    for name in TEXTS:
        first.store.put(first._key(name), raw)
    assert {"n": 1} == {n: int(x.text) for n, x in fresh()["further"].scenarios["one"].assigned.items()}
    assert ["double", "further"] == built


def test_nothing_is_kept_of_a_file_with_faults(kept):
    for _ in range(2):
        with pytest.raises(SpecErrors, match=r"double\.yaml:8:21: definition\.y: unknown name 'z'"):
            fresh(double=DOUBLE.replace("2 * x", "2 * z"))["double"]
    assert not kept.exists() or not [*kept.iterdir()]


def test_places_are_in_the_file_as_it_is_called_now():
    fresh("one", **TEXTS)["double"]
    assert ["two/double.yaml"] * 2 == [
        (m := fresh("two", **TEXTS)["double"]).path,
        m.definition["y"].place.file,
    ]


def test_what_goes_wrong_in_a_restored_expression_is_put_at_its_place():
    fresh(double=DOUBLE)["double"]
    with pytest.raises(Exception, match=r"double\.yaml:8:17: ") as caught:
        Frame(fresh()["double"], {"x": None}).outputs()
    assert "    2 * x\n" in str(caught.value)


def test_every_shipped_mechanism_is_restored_as_it_was_made():
    files = library().files
    made, restored = (Library(files, store=Store("mechanisms", 64 << 20)) for _ in range(2))
    for name in ("attention", "causal_mask", "einsum", "beam_search", "rotary"):
        one, other = made[name], restored[name]
        assert (one.defaults, one.shapes, one.sources, one.own) == (
            other.defaults,
            other.shapes,
            other.sources,
            other.own,
        )
        for part in ("laws", "mistakes", "scenarios", "rejects", "definition"):
            assert list(getattr(one, part)) == list(getattr(other, part))
        for law in one.laws:
            a, b = one.laws[law].holds, other.laws[law].holds
            assert (a.text, a.place, a.reads) == (b.text, b.place, b.reads)


def test_a_library_beside_another_knows_the_mechanisms_of_both():
    first = fresh("first", double=DOUBLE)
    both = Library({"further": SpecFile(*_written("second", further=FURTHER))}, first)
    assert ["double", "further"] == list(both) == [m.name for m in both["double"].kin]
    assert (["double"], both["double"]) == ([m.name for m in first["double"].kin], both["further"].stating)


def _written(folder, **texts):
    fresh(folder, **texts)
    return [Path(folder, f"{name}.yaml") for name in texts]


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        (FURTHER, "double"),
        (DOUBLE, "double"),
        ("{" + ", ".join(FURTHER.replace("scenarios: {one: n = 1}", "x: y").splitlines()) + "}", "double"),
        ("# a remark\n\n" + FURTHER, "double"),
        (FURTHER.replace("operator: double", 'operator: "double"'), "double"),
        (FURTHER.replace("operator: double", "operator: double  # a remark"), "double"),
        (FURTHER.replace("operator: double", "operator:\n  double"), "double"),
    ],
)
def test_the_operator_is_known_from_the_text(text, operator):
    (path,) = _written(".", further=text) if text != DOUBLE else _written(".", double=text)
    assert operator == SpecFile(path).operator


def test_what_lists_say_of_shipped_files_is_what_their_documents_say():
    for name, file in library().files.items():
        m, by_lines = library()[name], SpecFile(file.path)
        counts = {part: by_lines.count(part) for part in ("laws", "mistakes", "scenarios")}
        assert (m.operator, m.title) == (by_lines.operator, by_lines.title)
        assert {part: len(getattr(m, part)) for part in counts} == counts
        assert "document" not in vars(by_lines)


@pytest.mark.parametrize(
    ("text", "title", "scenarios"),
    [
        (FURTHER, "A mechanism", 1),
        (FURTHER.replace("title: A mechanism", "title: 'A title: quoted'"), "A title: quoted", 1),
        (FURTHER.replace("title: A mechanism", "title: one\n  and another  # a remark"), "one and another", 1),
        (
            FURTHER.replace("title: A mechanism", "title: plain").replace(
                "{one: n = 1}", "\n  # a remark\n\n  one: n = 1"
            ),
            "plain",
            1,
        ),
        (FURTHER.replace("{one: n = 1}", "\n  one: n = 1\n  'two': n = 2\n"), "A mechanism", 2),
        (FURTHER.replace("{one: n = 1}", "\n    one: n = 1\n    two: n = 2\n"), "A mechanism", 2),
    ],
)
def test_a_title_and_counts_are_known_from_texts_in_any_style(text, title, scenarios):
    file = SpecFile(*_written(".", further=text))
    assert (title, scenarios, 0) == (file.title, file.count("scenarios"), file.count("laws"))


def test_the_mechanisms_of_an_operator_are_found_by_it():
    known = library()
    assert {m.name: m.operator for m in known.values()} == {
        m.name: operator for operator in known.stating for m in known.of(operator)
    }
    assert [] == known.of("causal_mask")


def test_mechanisms_whose_texts_have_a_word_are_read_and_no_others():
    found = fresh(**TEXTS)
    assert ["four"] == [m.name for m in found.naming("double(double")]
    assert {"four"} == set(found._read)


def test_an_operator_comes_before_what_builds_on_it():
    further = FURTHER.replace("double", "three").replace("further", "five")
    found = fresh(four=FOUR, five=further, three=DOUBLE.replace("double", "three"))
    assert ["three", "five", "four"] == list(found)


def test_a_library_owns_what_is_kept_about_its_mechanisms():
    one, other = fresh(double=DOUBLE), fresh(double=DOUBLE)

    class Notes(dict):
        """What is kept in a test."""

    one.kept(Notes)["a"] = 1
    assert {"a": 1} == one.kept(Notes) == one["double"].kept(Notes)
    assert {} == other.kept(Notes)


@pytest.mark.parametrize(("lasting", "searched"), [(True, False), (False, True)])
def test_what_lasts_is_not_searched_for_garbage_once_it_is_made(lasting, searched):
    begun = []
    gc.collect()
    gc.callbacks.append(lambda phase, info: begun.append(info["generation"]) if phase == "start" else None)
    with uncollected(lasting=lasting):
        made = [[] for _ in range(gc.get_threshold()[0] + 1)]
    made += [[] for _ in range(100)]
    gc.callbacks.pop()
    gc.freeze()  # as it was
    assert (searched, True) == (bool(begun), gc.isenabled())


def test_what_somebody_has_frozen_stays_so_and_is_counted_once_for_all_libraries(monkeypatch):
    counted = []
    monkeypatch.setattr(module, "_others_froze", False)
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(1) or 5)
    monkeypatch.setattr(gc, "unfreeze", lambda: pytest.fail("it is thawed"))
    for one in (fresh("here", double=DOUBLE, triple=DOUBLE.replace("double", "triple")), fresh("there", double=DOUBLE)):
        assert [*one] == [one[name].name for name in one]
    assert [1] == counted
