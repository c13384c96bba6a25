"""What agrees with a subject by chance, or on a part of its calls, is told as no more than that."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attnspec.adapters import Adapter
from attnspec.diagnosis import fitting
from attnspec.diagnosis.likeness import Likeness, Nearest
from attnspec.diagnosis.naming import diagnose
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.subjects.stand_ins import DefinitionSubject
from attnspec.subjects.targets import mistake, subject

from .test_naming import SCENARIOS, adapted, attention_of, failing, found_of, likeness_of

pytestmark = pytest.mark.usefixtures("steady")


def in_two_ways(q, v):
    """A factor that no mistake has on every case."""
    return 1.0 if q.shape[2] == 5 else (q.shape[1] * q.shape[3]) ** -0.5


@pytest.mark.parametrize(
    "function",
    [
        attention_of(over=1.37),
        attention_of(factor=lambda q, v: 0.7 * q.shape[-1] ** -0.5),
        attention_of(factor=in_two_ways),
        lambda q, k, v: torch.full((*q.shape[:3], v.shape[3]), torch.nan),
        lambda q, k, v: v,
        lambda q, k, v: 1 / 0,
    ],
)
def test_an_unknown_fault_has_no_name(function):
    assert likeness_of(adapted(function), "attention") is None


def test_another_fault_is_no_name_for_a_lack_of_precision(monkeypatch):
    def imprecise(q, k, v, *, causal=False, scale=None):
        """Less precise with many keys; and, in no case of the mechanism, torch's NaN under a scale of zero."""
        square = causal and q.shape[-2] == k.shape[-2]
        seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
        more = {"attn_mask": seen if causal and not square else None, "is_causal": square, "scale": scale}
        out = scaled_dot_product_attention(q, k, v, enable_gqa=True, **more)
        return out * 1.01 if k.shape[-2] > 2048 else out

    one = subject(Adapter("imprecise", "attention", imprecise, "torch", dtypes=("bfloat16",)))
    laws = frozenset({"definition", "contract.precision"})
    result = run(Request(one, library()["attention"], "bfloat16", SCENARIOS, laws=laws))
    bench, failure = result.bench, next(cell.failure for cell in result.cells if cell.bad)
    monkeypatch.setattr(fitting, "_with_other_tiles", lambda *_: None)  # whose names are those of functions
    likeness = diagnose(bench, failure, 0)
    assert not isinstance(likeness, Likeness) or "hidden_before_scale" not in likeness.causes[0].name


def test_a_mistake_on_the_failing_case_alone_has_no_name():
    def softmax(x):
        p = torch.softmax(x, -1)
        return torch.softmax(x * np.log(2), -1) if x.shape == (3, 7) else p

    bench, failure = failing(adapted(softmax, "softmax"), "softmax")
    assert "plain" == failure.sample.case.label
    assert not isinstance(diagnose(bench, failure, 0), Likeness)


def base_two_but_for_one_row(x):
    p = torch.softmax(x * np.log(2), -1)
    return torch.softmax(x * 3, -1) if x.shape[0] == 1 and x.shape[-1] > 1 else p


def test_what_is_wrong_in_another_way_elsewhere_is_named_where_it_fits():
    likeness = likeness_of(adapted(base_two_but_for_one_row, "softmax"), "softmax")
    assert "softmax.base_two where rows >= 2" == likeness.name
    assert likeness.causes[0].says.endswith("Elsewhere it is wrong in another way.")


def zeros_for_all_but_the_largest(logits, *, k):
    kept = torch.zeros_like(logits).scatter(-1, logits.topk(min(k, logits.shape[-1]), -1).indices, 1.0)
    return torch.nan_to_num(logits, neginf=-7.0) * kept


def test_what_is_not_finite_may_be_wrong_in_a_way_of_its_own():
    likeness = likeness_of(adapted(zeros_for_all_but_the_largest, "top_k_filter"), "top_k_filter")
    assert "top_k_filter.zeros where all entries are finite" == likeness.name


def test_what_is_named_has_no_result_either_where_a_subject_raises_an_error():
    m = library()["moe_routing"]
    fewer = {"groups": Expression("groups - 1", m.definition["open"].scope)}
    bench, failure = failing(DefinitionSubject(m, "raising", fewer), "moe_routing")
    assert "raised" == failure.outcome.fault.kind
    assert not isinstance(diagnose(bench, failure, 0), Likeness)


def base_two_by_size(x):
    p = torch.softmax(x * np.log(2), -1)
    return torch.softmax(x * 3, -1) if sum(x.shape) % 5 == 0 and x.shape[-1] > 1 else p


def test_where_nothing_fits_what_comes_nearest_is_told_as_that():
    found = found_of(adapted(base_two_by_size, "softmax"), "softmax")
    assert isinstance(found, Nearest)
    assert "softmax.base_two" == found.name
    assert 2 <= found.agreed < found.cases


def test_what_agrees_on_hardly_any_case_is_not_told():
    assert found_of(adapted(lambda x: x + 17, "softmax"), "softmax") is None


def queue_of_the_choice_before(logits, *, k, capacity=None):
    """A router that counts the choices just before as ahead of a choice, and not all earlier ones."""
    e = np.exp(logits - logits.max(-1, keepdims=True))
    scores = (e / e.sum(-1, keepdims=True)).astype(float)
    order, weights, before = np.argsort(-scores, -1)[:, :k], np.zeros(scores.shape), 0
    for n in range(k):
        mask = np.arange(scores.shape[-1]) == order[:, n : n + 1]
        ahead = np.cumsum(mask, 0) - mask + before
        weights += np.where(mask & (capacity is None or ahead < capacity), scores, 0)
        before = mask.sum(0)
    return weights.astype(np.float32)


def test_a_mistake_that_leaves_open_whatever_is_wrong_is_no_name():
    words = {"drop_order": "by_choice"}
    one = subject(Adapter("kernel", "moe_routing", queue_of_the_choice_before, "numpy", conventions=words))
    assert likeness_of(one, "expert_capacity") is None


def test_another_word_is_no_name_where_the_convention_makes_no_difference():
    found = found_of(mistake("expert_capacity.not_renormalised"), "expert_capacity")
    assert "expert_capacity.not_renormalised" == found.name
