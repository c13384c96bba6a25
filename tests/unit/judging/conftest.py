"""A small mechanism, and trials of it."""

from types import SimpleNamespace

import numpy as np
import pytest

from attnspec.cases.samples import Case, Sample
from attnspec.execution.calling import Reply
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.mechanisms.loader import load
from attnspec.subjects.claims import Claims

SPEC = """
mechanism: offset
title: Offset
version: 1
sources: ["none"]
summary: A row with an offset, and its largest entry.
sizes:
  n: choice(2, 3)
inputs:
  x: normal(n)
  plus: maybe(normal(n), 0)
options:
  times: choice(1, 2)
  flip: choice(false, true)
conventions:
  rest:
    kept: The sum is returned as it is.
    halved: The sum is halved.
dtypes:
  top: float32
definition:
  moved: times * x + plus
  y: (moved if rest == kept else moved / 2) * (-1 if flip else 1)
  top: max(y)
outputs: [y, top]
normal_form:
  y: y - top
laws:
  further:
    says: More is more.
    given: c = normal(n), d = choice(1, 2)
    holds: y(plus = plus + c) == y + (c if rest == kept else c / 2)
  itself:
    says: Its own result moves it.
    given: z = y * 2
    holds: y(plus = z) == y
"""
CLAIMS = Claims(frozenset({"plus", "times", "flip"}), ("float32", "bfloat16"))


@pytest.fixture(scope="session")
def offset(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "offset.yaml"
    path.write_text(SPEC)
    return load([path])["offset"]


@pytest.fixture
def trial_of(offset):
    """Makes the trial of a subject that is right, or that returns `y` whatever it is asked."""

    def trial_of(*, y=None, claims=CLAIMS, dtype="float32", rest="kept", fixed=()):
        calls = []

        def call(asked):
            calls.append(asked)
            moved = asked.options.get("times", 1) * asked.inputs["x"] + asked.inputs.get("plus", 0)
            outputs = {"y": moved if y is None else y, "top": np.max(moved)}
            return Reply({name: np.asarray(x, float) for name, x in outputs.items()})

        subject = SimpleNamespace(call=call, claims=claims, calls=calls)
        plain = {"n": 3, "times": 1, "flip": False, "plus": 0, **dict(fixed)}
        sample = Sample(offset, Case("offset", "case", 1, plain, literals={"x": [0.5, 1.5, -1.0]}), dtype)
        return Trial(Bench(subject, offset, dtype, "cpu", {"rest": rest}), sample)

    return trial_of
