"""What candidates give on a call, with bounds of their own."""

import numpy as np
import torch

from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.cases.samples import Sample
from attnspec.diagnosis.candidates import Candidate, Changed, stock
from attnspec.diagnosis.observations import Observation, Stance
from attnspec.execution.calling import Reply
from attnspec.judging.bench import Bench
from attnspec.judging.trial import Trial
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject

from .test_naming import adapted, likeness_of


def test_a_mistake_of_a_mechanism_is_not_made_in_calls_of_others_that_lack_what_it_is_about():
    m = library()["sunk_pages"]
    one = DefinitionSubject(m, "definition")
    plain = next(s for s in plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios if s.case.label == "plain")
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), Sample(m, plain.case, "float32"))
    call = Observation(trial, trial.base, one.claims.grade("float32"))
    known = {c.name: c for c in stock(trial.bench)}
    names = "quantized_pages.key_scale_twice", "paged_attention.ignored_scale", "sunk_pages.ignored"
    stances = [call.stance(known[name]) for name in names]
    assert [Stance.SILENT, Stance.SILENT, Stance.DIFFERS] == stances


def turned_backwards(x, positions, *, base=10000.0):
    """Its angles are in single precision, as in most implementations."""
    frequency = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float32) / x.shape[-1])
    angle = positions.float()[:, None] * frequency
    left, right = x.chunk(2, -1)
    cos, sin = torch.cos(angle), -torch.sin(angle)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


def test_a_candidate_is_judged_by_a_bound_of_its_own():
    """Angles far along differ by more than any share of the result that one could choose."""
    likeness = likeness_of(adapted(turned_backwards, "rotary"), "rotary")
    assert "rotary.backwards" == likeness.name
    assert likeness.agreed > 40


class ZerosForNothing(DefinitionSubject):
    """Zeros where nothing is specified."""

    def call(self, call):
        reply = super().call(call)
        return Reply({name: np.nan_to_num(x) for name, x in reply.outputs.items()}, fault=reply.fault)


def test_what_a_candidate_leaves_unspecified_may_be_anything():
    m = library()["cached_attention"]
    one = ZerosForNothing(m, "zeros", m.mistakes["top_left"].change)
    assert "cached_attention.top_left" == likeness_of(one, "cached_attention").name


def test_an_edit_that_gives_nothing_at_all_gives_no_version():
    m = library()["softmax"]
    one = DefinitionSubject(m, "definition")
    plain = plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios[0]
    trial = Trial(Bench(one, m, "float32", "cpu", m.words), plain)
    call = Observation(trial, trial.base, one.claims.grade("float32"))
    line = next(iter(m.outputs))
    nothing = Expression("none", m.definition[line].scope)
    edit = Candidate("nothing", "", {line: nothing}, changed=(Changed(line, m.definition[line].text, "none"),))
    assert call.version(edit) is None
    assert call.stance(edit) is Stance.DIFFERS
