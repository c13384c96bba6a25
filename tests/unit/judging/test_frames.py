"""What the definition says of a case, and what is kept of it."""

import numpy as np

from attnspec.cases.samples import Case, Sample
from attnspec.judging import frames
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.worded import Worded
from attnspec.subjects.stand_ins import DefinitionSubject

ROW = np.array([0.5, 1.5, -1.0])


def test_of_the_shapes_of_outputs_no_more_are_remembered_than_there_is_room_for(trial_of, monkeypatch):
    monkeypatch.setattr(frames, "SHAPES", 2)
    one = trial_of()
    known = one.mechanism.kept(frames.Shapes)
    known.clear()
    for length in (3, 4, 5, 3):
        assert (length,) == one.frames.shape("y", one.settle({"x": np.ones(length), "plus": np.ones(length)}))
        assert 0 < len(known) <= 2


def test_shapes_are_told_apart_by_which_of_two_options_is_none():
    m = library()["quantize_blocks"]
    bench = Bench(DefinitionSubject(m, "definition", dtypes=("float32",)), m, "float32", "cpu", m.words)
    shapes = []
    for height, width in ((None, 1), (1, None)):
        given = {"rows": 3, "n": 5, "block_rows": height, "block_columns": width}
        trial = Trial(bench, Sample(m, Case(m.name, "blocks", 0, given), "float32"))
        shapes.append(trial.frames.shape("scale", trial.base))
    assert [(1, 5), (3, 1)] == shapes


def test_the_definition_is_computed_once_for_all_subjects(trial_of):
    first = trial_of()
    first.frames.exact("y", first.base)
    second = Trial(first.bench, first.sample)
    assert first.frames.exact("y", first.base) is second.frames.exact("y", second.base)
    assert first.frames.on_case() is second.frames.on_case()


def test_every_word_has_a_definition_of_its_own(offset, trial_of):
    kept = trial_of()
    halved = Trial(Bench(kept.bench.subject, offset, "float32", "cpu", {"rest": "halved"}), kept.sample)
    np.testing.assert_array_equal(ROW, kept.frames.exact("y", kept.base))
    np.testing.assert_array_equal(ROW / 2, halved.frames.exact("y", halved.base))


def test_the_outputs_under_other_words_are_of_one_evaluation(monkeypatch):
    m, begun = library()["attention"], []
    under = Worded.under
    monkeypatch.setattr(Worded, "under", lambda *one: begun.append(one) or under(*one))
    bench = Bench(DefinitionSubject(m, "definition", dtypes=("float32",)), m, "float32", "cpu", m.words)
    sample = Sample(m, Case(m.name, "more queries", 0, {"q_len": 3, "k_len": 2, "causal": True}), "float32")
    for words in ({"causal_alignment": "top_left", "lse_base": "two"}, {"lse_base": "two"}, {}):
        found = Trial(bench, sample).frames.version({**m.words, **words})
        own = Frame(m, {**sample.values, **m.words, **words}, dtype="float32").outputs()
        for name, x in own.items():
            np.testing.assert_array_equal(x, found[name])
    assert 3 == len(begun)


def test_an_output_is_compared_in_its_normal_form(trial_of):
    trial = trial_of()
    np.testing.assert_array_equal([-1.0, 0.0, -2.5], trial.frames.normal("y", ROW))
    assert 1.5 == trial.frames.normal("top", 1.5)


def test_the_definition_is_asked_once_whether_it_refuses_a_call(trial_of, monkeypatch):
    one = trial_of()
    wrong = one.settle({"plus": np.zeros((3, 2))})
    says = one.frames.refused(wrong)
    monkeypatch.setattr(frames, "refused", None)
    assert says == Trial(one.bench, one.sample).frames.refused(wrong)
    assert "do not fit" in says
