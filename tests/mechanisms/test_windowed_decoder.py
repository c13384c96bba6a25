"""A model with a window in some layers: both witnesses by hand, right variants, and wiring that goes wrong."""

import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.adapters.controls import windowed_decoder as controls
from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.subjects.targets import subject

POSITIONAL = ("tokens", "embedding", *controls.WEIGHTS, "final_norm", "windowed")


def by_position(**values):
    """The reference, which takes arrays by position."""
    return reference.windowed_decoder(*[values.pop(name) for name in POSITIONAL], **values)


WITNESSES = {
    "definition": lambda **values: np.asarray(Frame(library()["windowed_decoder"], values).outputs()["logits"]),
    "reference": by_position,
}
RNG = np.random.default_rng(0)
TOKENS = np.array([[3, 0, 2, 4, 1], [1, 1, 4, 0, 2]])
SHOWN = np.array([[True] * 5, [False, False, True, True, True]])
E, V = RNG.normal(size=(5, 4)), RNG.normal(size=(1, 4, 4))
AVERAGES = {
    "tokens": TOKENS,
    "embedding": E,
    "attention_norm": np.ones((1, 4)),
    "wq": np.zeros((1, 4, 4)),
    "wk": np.zeros((1, 4, 4)),
    "wv": V,
    "wo": np.eye(4)[None],
    "mlp_norm": np.ones((1, 4)),
    "w_gate": np.zeros((1, 4, 1)),
    "w_up": np.zeros((1, 4, 1)),
    "w_down": np.zeros((1, 1, 4)),
    "final_norm": np.ones(4),
    "heads": 2,
    "eps": 1e-6,
}


def normed(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize("windowed", [True, False])
@pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
def test_without_scores_a_layer_averages_what_its_window_shows(witness, windowed):
    found = witness(**AVERAGES, present=SHOWN, window=2, windowed=np.array([windowed]))
    for item, t in zip(*np.nonzero(SHOWN), strict=True):
        first = max(t - 1, 0) if windowed else 0
        seen = [s for s in range(first, t + 1) if SHOWN[item, s]]
        h = E[TOKENS[item, t]] + np.mean([normed(E[TOKENS[item, s]]) @ V[0] for s in seen], 0)
        np.testing.assert_allclose(found[item, t], normed(h) @ E.T, rtol=1e-12)


@pytest.mark.parametrize("witness", WITNESSES.values(), ids=WITNESSES)
def test_a_sink_takes_its_share_from_every_head_of_its_own(witness):
    sinks = np.log([[1.0, 3.0]])
    found = witness(**{**AVERAGES, "tokens": TOKENS[:, :1]}, sinks=sinks, window=1, windowed=np.array([True]))
    h = E[TOKENS[:, 0]] + normed(E[TOKENS[:, 0]]) @ V[0] * np.repeat([1 / 2, 1 / 4], 2)
    np.testing.assert_allclose(found[:, 0], normed(h) @ E.T, rtol=1e-12)


# Faults, as a function of the suite's own model


def failures(function, laws=None):
    one = subject(Adapter("function", "windowed_decoder", function, "torch", conventions={"pairing": "halves"}))
    cells = run(
        Request(one, library()["windowed_decoder"], "float32", PROFILES["quick"], laws=laws, first=laws is not None)
    ).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def model(windows=lambda at, there: there, masks=lambda seen, past: seen, sinks_of=lambda at, there, sinks: sinks):
    """The model of the controls, of which one part is exchanged."""

    def decoder(
        tokens, embedding, *weights, present=None, sinks=None, heads, kv_heads=None, window=None, eps=1e-5, base=1e4
    ):
        *stacked, final_norm, windowed = weights
        groups = kv_heads or heads
        controls.checked(stacked[1], stacked[2], heads, groups)
        distance = torch.arange(tokens.shape[1])[:, None] - torch.arange(tokens.shape[1])
        past = (distance >= 0)[None, None]
        shown = past if present is None else past & present[:, None, None]
        x = embedding[controls.looked_up(tokens, embedding)]
        for at, layer in enumerate(zip(*stacked, strict=True)):
            there = bool(windowed[at]) and window is not None
            near = distance < (window if window is not None and windows(at, bool(windowed[at])) else len(distance))
            own = None if sinks is None else sinks_of(at, there, sinks[at])
            seen = masks(shown & near, past & near) if there else shown & near
            w = dict(zip(controls.WEIGHTS, layer, strict=True))
            turn = lambda y: controls.turned(y, base, neighbours=False)  # noqa: E731
            x = controls.block(x, w, seen, own, heads, groups, eps, turn)
        return controls.normed(x, final_norm, eps) @ embedding.mT

    return decoder


FAULTS = {
    "the window of the configuration in all layers": {"windows": lambda at, there: True},
    "the window in every other layer, whatever is asked for": {"windows": lambda at, there: at % 2 == 0},
    "what fills up is seen through a window": {"masks": lambda seen, past: past},
    "no sinks beside a window": {"sinks_of": lambda at, there, sinks: None if there else sinks},
}


def test_the_model_is_right_as_long_as_nothing_is_exchanged():
    assert set() == failures(model())


@pytest.mark.parametrize("fault", FAULTS)
def test_wiring_that_goes_wrong_is_refuted(fault):
    assert "definition" in failures(model(**FAULTS[fault]), {"definition"})


@pytest.mark.parametrize("wrong", [{"wq": np.zeros((1, 4, 5))}, {"tokens": TOKENS + 5}])
def test_the_reference_refuses_what_does_not_fit(wrong):
    with pytest.raises(ValueError, match=r"heads|token"):
        by_position(**{**AVERAGES, **wrong}, windowed=np.array([True]))
