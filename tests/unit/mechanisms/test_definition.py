"""One evaluation of a definition: exact or with errors, changed or not, and no further than an output needs."""

from dataclasses import replace

import numpy as np
import pytest

from attnspec.cases.plans import Plan
from attnspec.cases.profiles import Profile
from attnspec.cases.samples import Sample
from attnspec.errors import SpecError
from attnspec.mechanisms.definition import Frame, reached, refused, sizes_of
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.references import by_reference, reference_outputs
from attnspec.mechanisms.schema import spec_folder
from attnspec.numerics.formats import FLOAT16
from attnspec.numerics.grades import BF16, FP32, FP64
from attnspec.numerics.numbers import Number
from attnspec.subjects.claims import Claims

ATTENTION = library()["attention"]


def arrays(**shape):
    """Inputs of attention, all different, of the given sizes."""
    sizes = {"batch": 1, "heads": 2, "kv_heads": 2, "q_len": 3, "k_len": 3, "head_dim": 2, "value_dim": 2, **shape}
    parts = {
        "q": ("heads", "q_len", "head_dim"),
        "k": ("kv_heads", "k_len", "head_dim"),
        "v": ("kv_heads", "k_len", "value_dim"),
    }
    shapes = {name: (sizes["batch"], *(sizes[axis] for axis in axes)) for name, axes in parts.items()}
    return {
        name: np.sin(np.arange(np.prod(shape)) * (1.0 + i)).reshape(shape)
        for i, (name, shape) in enumerate(shapes.items())
    }


def samples(mechanism, count=6) -> list[Sample]:
    claims = Claims(frozenset({*mechanism.optional, *mechanism.options}), ("float32",))
    drawn = Plan(mechanism, claims, Profile("few", covering=count, draws=0, admitted=2), 0, "float32")
    small = [sample for sample in drawn.scenarios if sample.entries < 2000]
    return [*small[:: max(len(small) // count, 1)], *drawn.pairs]


def words_of(mechanism):
    """The first words, and every other word by itself."""
    yield {}
    for convention, words in mechanism.conventions.items():
        yield from ({convention: word} for word in list(words)[1:])


@pytest.mark.parametrize("name", library())
def test_numbers_with_errors_have_the_values_of_floats(name):
    mechanism = library()[name]
    for sample in samples(mechanism, 3):
        asked: set[str] = set()
        for words in words_of(mechanism):
            if not words.keys() <= asked:  # nothing has asked for the convention, so that all is as before
                continue
            values = {**sample.values, **words}
            frame = Frame(mechanism, values)
            graded = [Frame(mechanism, values, grade=grade, dtype="float32") for grade in (FP64, FP32, BF16)]
            exact, outputs = frame.outputs(), [own.outputs() for own in graded]
            if not words:
                asked.update(*(one.turned_on for one in (frame, *graded)))
            for output, found in ((output, own[output]) for own in outputs for output in exact):
                if output not in mechanism.random:
                    assert_near(found, exact[output])


def assert_near(found, expected):
    """A number with errors has the value of a float, or one of two that rounding may exchange."""
    value = found.value if isinstance(found, Number) else found
    radius = np.broadcast_to(found.radius if isinstance(found, Number) else 0.0, np.shape(value))
    known = np.isfinite(radius)
    assert np.shape(expected) == np.shape(value)
    near, exact = np.asarray(value, float)[known], np.asarray(expected, float)[known]
    with np.errstate(invalid="ignore"):
        chosen = np.abs(near - exact) <= radius[known]
    np.testing.assert_allclose(near[~chosen], exact[~chosen], rtol=1e-9, atol=1e-12)


def test_a_grade_gives_errors_and_no_grade_gives_none():
    assert isinstance(Frame(ATTENTION, arrays()).outputs("out")["out"], np.ndarray)
    coarse, fine = (Frame(ATTENTION, arrays(), grade=g).outputs("out")["out"] for g in (BF16, FP64))
    assert np.all(coarse.radius > fine.radius)
    assert np.all(fine.radius > 0)


@pytest.mark.parametrize(
    ("values", "output", "expected"),
    [
        ({}, "out", {"grouping"}),
        ({"causal": True}, "out", {"grouping", "causal_alignment", "empty_row", "empty_bias_row"}),
        ({"window_left": 1}, "out", {"grouping", "causal_alignment", "empty_row", "empty_bias_row"}),
        ({}, "lse", {"grouping", "lse_base", "empty_row"}),
        ({"mask": np.ones((3, 3), bool)}, "out", {"grouping", "empty_row", "empty_bias_row"}),
    ],
)
def test_the_conventions_that_were_asked_for_are_turned_on(values, output, expected):
    frame = Frame(ATTENTION, {**arrays(), **values})
    assert set() == frame.turned_on
    frame.outputs(output)
    assert expected == frame.turned_on


def test_a_convention_turned_on_in_another_operator_counts():
    frame = Frame(library()["alibi_bias"], {"heads": 3, "q_len": 1, "k_len": 2})
    frame.outputs()
    assert {"slopes"} == frame.turned_on


def test_only_the_lines_that_an_output_needs_are_evaluated():
    frame = Frame(ATTENTION, arrays())
    frame.outputs("lse")
    assert {"scores", "total", "keys"} <= set(frame.memo)
    assert set() == set(frame.memo) & {"terms", "attended", "out", "weights", "sunk"}


def test_a_line_is_evaluated_once():
    frame = Frame(ATTENTION, arrays())
    assert frame["scores"] is frame["scores"]


def test_all_outputs_come_in_their_order():
    assert ["out", "lse", "weights"] == list(Frame(ATTENTION, arrays()).outputs())
    assert ["weights", "out"] == list(Frame(ATTENTION, arrays()).outputs("weights", "out"))


def test_what_is_left_out_is_at_its_default():
    frame = Frame(ATTENTION, arrays())
    assert (True, 0, None, False, "block") == tuple(frame[n] for n in ("mask", "bias", "scale", "causal", "grouping"))
    np.testing.assert_array_equal(Frame(ATTENTION, {**arrays(), "scale": 2**-0.5})["out"], frame["out"])


def test_sizes_follow_the_shapes_of_the_inputs():
    values = arrays(batch=2, q_len=4, k_len=5, value_dim=3)
    expected = {"batch": 2, "heads": 2, "q_len": 4, "head_dim": 2, "kv_heads": 2, "k_len": 5, "value_dim": 3}
    assert expected == sizes_of(ATTENTION, values)
    assert 5 == Frame(ATTENTION, {**values, "k_len": 99})["k_len"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"v": (1, 2, 4, 2)}, "k_len is 3 in k, but 4 in v"),
        ({"q": (1, 2, 3, 5)}, "head_dim is 5 in q, but 2 in k"),
        ({"k": (2, 2, 3, 2)}, "batch is 1 in q, but 2 in k"),
        ({"v": (1, 1, 3, 2)}, "kv_heads is 2 in k, but 1 in v"),
    ],
)
def test_shapes_that_contradict_one_another_are_refused(change, message):
    values = {**arrays(), **{name: np.zeros(shape) for name, shape in change.items()}}
    with pytest.raises(SpecError) as caught:
        Frame(ATTENTION, values)
    assert message == str(caught.value)
    assert message == refused(ATTENTION, values)


def test_a_call_outside_the_domain_is_refused():
    uneven = arrays(heads=3, kv_heads=2)
    with pytest.raises(SpecError) as caught:
        Frame(ATTENTION, uneven).check_domain()
    assert "outside the domain, grouped: kv_heads > 0 and heads % kv_heads == 0" == str(caught.value)
    assert str(caught.value) == refused(ATTENTION, uneven)
    assert None is Frame(ATTENTION, arrays()).check_domain()
    assert None is refused(ATTENTION, arrays())


def test_the_domain_is_that_of_the_operator():
    assert None is refused(library()["grouped_query"], arrays())
    assert "outside the domain, some: heads > 0" == refused(library()["alibi_slopes"], {"heads": 0})


@pytest.mark.parametrize("name", [n for n, m in library().items() if m.rejects])
def test_the_definition_refuses_what_implementations_refuse(name):
    mechanism = library()[name]
    drawn = samples(mechanism, 30)
    for reject in mechanism.rejects.values():
        frames = (Frame(mechanism, sample.values) for sample in drawn)
        frame = next(frame for frame in frames if np.all(reject.when(frame)))
        call = {n: expression(frame) for n, expression in reject.call.items()}
        assert None is refused(mechanism, frame.values)
        assert None is not refused(mechanism, {**frame.values, **call}), reject.name


def test_a_changed_line_is_seen_by_the_lines_after_it():
    mistake = ATTENTION.mistakes["no_scale"]
    changed = Frame(ATTENTION, arrays(), changes=mistake.change)
    assert 1 == changed["factor"]
    np.testing.assert_allclose(changed["out"], Frame(ATTENTION, {**arrays(), "scale": 1.0})["out"], rtol=1e-12)


def test_a_change_sees_what_it_replaces():
    changed = Frame(ATTENTION, arrays(), changes=ATTENTION.mistakes["scaled_twice"].change)
    plain = Frame(ATTENTION, arrays())
    np.testing.assert_allclose(changed["scaled"], plain["scaled"] * plain["factor"], rtol=1e-15)


def test_an_input_may_be_changed():
    values = arrays(head_dim=9)
    changed = Frame(ATTENTION, values, changes=ATTENTION.mistakes["channel_tail"].change)
    q = values["q"].copy()
    q[..., 8:] = 0
    np.testing.assert_array_equal(q, changed["q"])
    np.testing.assert_array_equal(Frame(ATTENTION, {**values, "q": q})["out"], changed["out"])


def test_a_line_of_an_operator_that_is_called_may_be_changed():
    decoder, block = library()["decoder"], library()["transformer_block"]
    values = next(one.values for one in samples(decoder, 30) if one.values["heads"] > 1 and one.values["length"] > 2)
    of_blocks = {f"transformer_block.{line}": x for line, x in block.mistakes["no_scale"].change.items()}
    of_attention = {f"attention.{line}": x for line, x in ATTENTION.mistakes["no_scale"].change.items()}
    plain, first, second = (Frame(decoder, values, changes=each) for each in ({}, of_blocks, of_attention))
    np.testing.assert_allclose(first["logits"], second["logits"], rtol=1e-12)
    assert not np.allclose(plain["logits"], first["logits"])
    assert {"first", "second", "blocks", "last", "logits"} == reached(decoder, of_attention)


def test_lines_overflow_as_in_a_kernel():
    values = {**arrays(head_dim=1, value_dim=1), "q": np.full((1, 2, 3, 1), 300.0), "k": np.full((1, 2, 3, 1), -300.0)}
    assert -90000 == Frame(ATTENTION, values)["scaled"].min()
    assert -np.inf == Frame(ATTENTION, values, overflow=FLOAT16)["scaled"].max()
    np.testing.assert_array_equal(values["q"], Frame(ATTENTION, values, overflow=FLOAT16)["q"])


def test_a_convention_reaches_the_operators_that_a_definition_calls():
    mechanism, values = library()["alibi_bias"], {"heads": 3, "q_len": 1, "k_len": 2}
    for word in mechanism.conventions["slopes"]:
        slopes = Frame(library()["alibi_slopes"], {"heads": 3, "slopes": word})["slopes"]
        found = Frame(mechanism, {**values, "slopes": word})["bias"]
        np.testing.assert_allclose(found[:, 0, 0], -slopes, rtol=1e-15)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda frame: frame["nothing_such"], "'nothing_such' has no value here"),
        (lambda frame: frame.output("out", None), "out is what a subject returns, which a definition cannot use"),
        (lambda frame: frame.source(0), "a definition cannot draw"),
    ],
)
def test_what_a_definition_does_not_have_is_refused(ask, message):
    with pytest.raises(SpecError) as caught:
        ask(Frame(ATTENTION, arrays()))
    assert message == str(caught.value)


def test_a_definition_may_be_the_reference():
    mechanism = replace(library()["softmax"], by_reference=True, definition={})
    x = np.array([[0.0, np.log(3)]])
    np.testing.assert_allclose(Frame(mechanism, {"x": x}).outputs()["p"], [[0.25, 0.75]], rtol=1e-15)


@pytest.mark.parametrize(
    ("answer", "radius"),
    [
        ({}, 0.0),
        ({"rounding": 4.0}, 4 * 2.0**-24),
        ({"rounding": 4.0, "margin": 1.0}, 4 * 2.0**-24),
        ({"rounding": 4.0, "margin": 2.0**-22}, np.inf),
    ],
)
def test_the_reference_says_what_rounding_leaves_open(monkeypatch, answer, radius):
    mechanism = replace(library()["softmax"], by_reference=True, definition={})
    monkeypatch.setattr("attnspec.reference.softmax", lambda x, **further: {"p": x, **answer})
    x = np.array([[0.25, 0.75]])
    graded = by_reference(mechanism, {"x": x}, ("p",), FP32)["p"]
    np.testing.assert_array_equal(x, graded.value)
    np.testing.assert_array_equal(radius, np.max(graded.radius))
    np.testing.assert_array_equal(x, by_reference(mechanism, {"x": x}, ("p",), None)["p"])


def test_a_reference_that_cannot_be_called_is_told_where_the_file_asks_for_it():
    mechanism = library()["beam_search"]
    written = (spec_folder() / "beam_search.yaml").read_text("utf-8").splitlines()
    line = written.index("definition: reference") + 1
    with pytest.raises(SpecError) as caught:
        by_reference(mechanism, {"log_probs": np.zeros(2), "length": None, "width": 1}, ("tokens",), None)
    assert str(caught.value).startswith(f"{mechanism.path}:{line}:13: the reference of 'beam_search' ")


def test_the_reference_takes_options_and_words_and_arrays_that_are_there():
    values = {**arrays(), "causal": True, "lse_base": "two", "mask": np.eye(3, dtype=bool)}
    found = reference_outputs(ATTENTION, values)
    assert {"out", "lse", "weights"} == set(found)
    np.testing.assert_array_equal(values["v"], found["out"])
    np.testing.assert_array_equal(np.broadcast_to(np.eye(3), (1, 2, 3, 3)), found["weights"])


def test_a_condition_that_a_mechanism_replaces_is_its_own():
    lens = {
        "q_lens": np.array([1, 1]),
        "k_lens": np.array([1, 2]),
        "q_slots": np.array([2, 1]),
        "k_slots": np.array([1, 2]),
    }
    call = {"q": np.ones((3, 1, 2)), "k": np.ones((3, 1, 2)), "v": np.ones((3, 1, 2)), **lens}
    assert None is refused(library()["padded_pack"], call)
    longer = {**call, "k_lens": np.array([2, 2])}
    assert str(refused(library()["padded_pack"], longer)).startswith("outside the domain, all_keys: ")
    assert str(refused(library()["packed_attention"], call)).startswith("outside the domain, all_queries: ")
