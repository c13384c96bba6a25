"""What a function says of itself by its signature and declaration, and what it is passed because of it."""

import numpy as np
import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.cases.samples import Case, Sample
from attnspec.judging.bench import Bench
from attnspec.judging.settling import Declined
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import library
from attnspec.subjects.subject import AdapterSubject

X = [[1.0, 2.0, 2.0]]


def trial_of(function, **declared):
    m = library()["rms_norm"]
    subject = AdapterSubject(Adapter("function", "rms_norm", function, "torch", **declared), m)
    case = Case("rms_norm", "written", 0, literals={"x": X, "weight": [1.0, 1.0, 1.0]}, fixed={"eps": 0.00001})
    return Trial(Bench(subject, m, "float32", "cpu", m.words), Sample(m, case, "float32"))


def without(x, weight):
    return x


def same_default(x, weight, *, eps=0.00001):
    return x


def another_default(x, weight, *, eps=0.1):
    return x


def no_default(x, weight, *, eps):
    return x


@pytest.mark.parametrize(
    ("function", "passed"),
    [(without, {}), (same_default, {}), (another_default, {"eps": 0.00001}), (no_default, {"eps": 0.00001})],
)
def test_an_option_at_its_default_is_passed_where_the_function_has_another(function, passed):
    trial = trial_of(function)
    assert passed == trial.call(trial.base).options


def test_required_inputs_are_passed_by_name_where_the_function_takes_them_so():
    def by_name(x, *, weight):
        return x + weight

    trial = trial_of(by_name)
    assert [[2.0, 3.0, 3.0]] == trial.reply(trial.base).outputs["out"].tolist()


def test_a_fixed_option_is_not_taken_to_be_at_the_default_of_the_operator():
    trial = trial_of(without, fixed={"eps": 0.0})
    with pytest.raises(Declined, match=r"takes eps = 0.0 only"):
        trial.call(trial.base)


@pytest.mark.parametrize(("layers", "answer"), [(2, None), (3, "takes no layers = 3")])
def test_limits_on_options_hold_for_the_calls_of_laws(layers, answer):
    m, sizes = library()["model_flops"], ("layers", "heads", "dim", "hidden", "vocab", "length")

    def flops(*, layers, heads, dim, hidden, vocab, length):
        return 0

    one = AdapterSubject(Adapter("flops", "model_flops", flops, "torch", limits={"layers": (1, 2)}), m)
    fixed = {**dict.fromkeys(sizes, 1), "kv_heads": None, "head_dim": None, "gated": True}
    trial = Trial(
        Bench(one, m, "float32", "cpu", m.words), Sample(m, Case(m.name, "written", 0, fixed=fixed), "float32")
    )
    settled = trial.settle({"layers": layers})
    if answer is None:
        assert layers == trial.call(settled).options["layers"]
    else:
        with pytest.raises(Declined, match=answer):
            trial.call(settled)


def test_whole_numbers_for_an_input_of_fractions_become_fractions():
    seen = []
    trial = trial_of(lambda x, weight: seen.append(x.dtype) or x.square())
    settled = trial.settle({"x": np.array([[2, -3, 4]])})
    assert "f" == trial.call(settled).inputs["x"].dtype.kind
    assert [[4.0, 9.0, 16.0]] == trial.reply(settled).outputs["out"].tolist()
    assert [torch.float32] == seen


def test_single_numbers_of_numpy_share_no_memory():
    def flops(*, layers, heads, dim, hidden, vocab, length):
        return np.int64(length)

    m = library()["model_flops"]
    one = AdapterSubject(Adapter("flops", "model_flops", flops, "numpy"), m)
    fixed = dict.fromkeys(("layers", "heads", "dim", "hidden", "vocab", "length"), 1)
    sample = Sample(
        m, Case(m.name, "written", 0, fixed={**fixed, "kv_heads": None, "head_dim": None, "gated": True}), "float32"
    )
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), sample)
    assert [(), ()] == [trial.reply(trial.settle({"length": n})).breaches for n in (1, 2)]
