"""Filters of logits and drawing: the definitions against exact sums, faulty samplers found, right ones left alone."""

import mpmath
import numpy as np
import pytest
import torch

from attnspec import reference
from attnspec.adapters import Adapter
from attnspec.cases.plans import plan
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.judge import Kind, judged
from attnspec.judging.trial import Trial
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library
from attnspec.numerics.grades import FP32
from attnspec.subjects.targets import subject

INFINITY = float("inf")
LOGITS = np.array([[0.3, 2.0, -1.0, 1.5, 0.2], [4.0, -0.5, 0.5, 0.0, 3.9]])


def subject_of(function, operator, **declared):
    return subject(Adapter("function", operator, function, "torch", **declared))


def bad(one, laws=None, only=()):
    """The laws at the level `must` that a subject breaks."""
    m = library()[one.operator]
    cells = run(Request(one, m, "float32", PROFILES["quick"], laws=laws, only=only)).cells
    return {cell.law for cell in cells if cell.bad and cell.level == "must"}


def refuted(one, law):
    """Whether some scenario refutes a law of a subject, be it right there or not."""
    m = library()[one.operator]
    bench = Bench(one, m, "float32", "cpu", {**m.words, **one.claims.conventions})
    samples = plan(m, one.claims, PROFILES["quick"], 0, "float32").scenarios
    return any(judged(Trial(bench, s, fair=False), m.laws[law], [FP32]).kind is Kind.REFUTED for s in samples)


def defined(operator, x, **options):
    return Frame(library()[operator], {"logits": x, **options}).outputs()["out"]


def referred(operator, x, **options):
    return getattr(reference, operator)(x, **options)


# What the definitions say


@pytest.mark.parametrize("witness", [defined, referred])
@pytest.mark.parametrize("p", [0.1, 0.45, 0.6, 0.87, 0.99])
def test_top_p_keeps_the_fewest_entries_that_have_the_chance_p(p, witness):
    for x, kept in zip(LOGITS, witness("top_p_filter", LOGITS, p=p) > -INFINITY, strict=True):
        terms = sorted((mpmath.exp(t) for t in x), reverse=True)
        fewest = next(m for m in range(1, 6) if mpmath.fsum(terms[:m]) >= p * mpmath.fsum(terms))
        assert sorted(np.argsort(-x)[:fewest]) == np.flatnonzero(kept).tolist()


@pytest.mark.parametrize("witness", [defined, referred])
@pytest.mark.parametrize("p", [0.05, 0.3, 0.6, 0.95, 1.0])
def test_min_p_keeps_what_has_the_share_p_of_the_largest_chance(p, witness):
    for x, kept in zip(LOGITS, witness("min_p_filter", LOGITS, p=p) > -INFINITY, strict=True):
        terms = [mpmath.exp(t) for t in x]
        assert [term >= p * max(terms) for term in terms] == kept.tolist()


@pytest.mark.parametrize("p", [0.05, 0.3, 0.6])
def test_a_share_that_is_p_up_to_rounding_decides_nothing(p):
    logits = np.array([[1000.0, 1000.0 + np.log(p), 990.0]])
    frame = Frame(library()["min_p_filter"], {"logits": logits, "p": p}, grade=FP32, dtype="float32")
    radius = frame.outputs()["out"].radius
    assert [True, False, True] == np.isfinite(np.broadcast_to(radius, logits.shape))[0].tolist()


@pytest.mark.parametrize("witness", [defined, referred])
@pytest.mark.parametrize(("word", "kept"), [("first", [0, 2]), ("last", [2, 5]), ("every", [0, 1, 2, 5])])
def test_top_k_breaks_ties_by_its_convention(word, kept, witness):
    x = np.array([1.0, 1.0, 3.0, 0.0, -INFINITY, 1.0])
    assert kept == np.flatnonzero(witness("top_k_filter", x, k=2, ties=word) > -INFINITY).tolist()


@pytest.mark.parametrize("witness", [defined, referred])
def test_top_k_may_leave_open_which_of_equal_entries_stay(witness):
    out = witness("top_k_filter", np.array([1.0, 1.0, 3.0, 0.0]), k=2, ties="open")
    np.testing.assert_array_equal([np.nan, np.nan, 3.0, -INFINITY], out)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("word", ["at_least", "exceeds"])
def test_a_sum_that_is_p_up_to_rounding_decides_nothing(word, count):
    one = subject_of(
        lambda logits, *, p: torch.where(torch.arange(4) < count, logits, -INFINITY),
        "top_p_filter",
        conventions={"top_p_boundary": word, "ties": "first"},
    )
    scenarios = plan(library()["top_p_filter"], one.claims, PROFILES["quick"], 0, "float32").scenarios
    halves = [s for s in scenarios if s.case.label == "on_the_boundary"]
    assert set() == bad(one, {"definition"}, halves)


# Faulty ones


def top_k_without_the_last(logits, *, k):
    return torch.where(logits > torch.topk(logits, k).values[..., -1:], logits, -INFINITY)


def top_k_with_one_more(logits, *, k):
    ranked = logits.sort(-1, descending=True).values
    return torch.where(logits >= ranked[..., min(k, logits.shape[-1] - 1), None], logits, -INFINITY)


def top_k_of_everything(logits, *, k):
    return torch.where(logits >= torch.topk(logits.flatten(), k).values[-1], logits, -INFINITY)


def top_k_in_half_precision(logits, *, k):
    kept = torch.topk(logits.half(), k)
    return torch.full_like(logits, -INFINITY).scatter(-1, kept.indices, kept.values.float())


def top_k_zeroed(logits, *, k):
    kept = torch.topk(logits, k)
    return torch.zeros_like(logits).scatter(-1, kept.indices, kept.values)


def top_p_without_the_crossing(logits, *, p):
    ranked, order = torch.sort(logits, descending=True)
    ranked[torch.softmax(ranked, -1).cumsum(-1) > p] = -INFINITY
    return torch.full_like(logits, -INFINITY).scatter(-1, order, ranked)


def top_p_not_put_back(logits, *, p):
    ranked = torch.sort(logits, descending=True).values
    chances = torch.softmax(ranked, -1)
    return torch.where(chances.cumsum(-1) - chances < p, logits, -INFINITY)


def top_p_unsorted(logits, *, p):
    chances = torch.softmax(logits, -1)
    return torch.where(chances.cumsum(-1) - chances < p, logits, -INFINITY)


def top_p_by_the_first_row(logits, *, p):
    flat = logits.reshape(-1, logits.shape[-1])
    ranked = flat[:1].sort(-1, descending=True).values
    chances = torch.softmax(ranked, -1)
    least = ranked[chances.cumsum(-1) - chances < p].min()
    return torch.where(logits >= least, logits, -INFINITY)


def top_p_keeps_two(logits, *, p):
    ranked, order = torch.sort(logits, descending=True)
    chances = torch.softmax(ranked, -1)
    gone = chances.cumsum(-1) - chances >= p
    gone[..., :2] = False
    return logits.masked_fill(torch.zeros_like(gone).scatter(-1, order, gone), -INFINITY)


FILTERS = [
    (top_k_without_the_last, "best_stays"),
    (top_k_with_one_more, "one_is_the_best"),
    (top_k_of_everything, "one_row"),
    (top_k_in_half_precision, "unchanged"),
    (top_k_zeroed, "unchanged"),
    (top_p_without_the_crossing, "enough"),
    (top_p_not_put_back, "likeliest_stay"),
    (top_p_unsorted, "no_more_than_enough"),
    (top_p_by_the_first_row, "one_row"),
    (top_p_keeps_two, "only_the_best"),
]


@pytest.mark.parametrize(("function", "law"), FILTERS)
def test_a_faulty_filter_breaks_the_law_that_is_about_its_fault(function, law):
    operator = "_".join([*function.__name__.split("_")[:2], "filter"])
    one = subject_of(function, operator, conventions={"ties": "first"})
    assert (True, {"definition"}) == (refuted(one, law), bad(one, {"definition"}))


def drawn(logits, seed, count, temperature=1.0, k=None, p=None, generator=None):
    """Right, so that what is changed about it is wrong."""
    x = logits / temperature
    x = x if k is None else torch.where(x >= torch.topk(x, k).values[..., -1:], x, -INFINITY)
    ranked, order = torch.sort(x, dim=-1, descending=True, stable=True)
    chances = torch.softmax(ranked, -1)
    chances = chances if p is None else torch.where(chances.cumsum(-1) - chances < p, chances, 0.0)
    generator = generator or torch.Generator().manual_seed(seed)
    return order.gather(-1, torch.multinomial(chances, count, replacement=True, generator=generator))


def right(logits, *, seed, count, temperature=1.0, k=None, p=None):
    return drawn(logits, seed, count, temperature, k, p)


def never_filters(logits, *, seed, count, temperature=1.0, k=None, p=None):
    return drawn(logits, seed, count, temperature, k)


def hotter(logits, *, seed, count, temperature=1.0, k=None, p=None):
    return drawn(logits, seed, count, 1 / temperature, k, p)


def unseeded(logits, *, seed, count, temperature=1.0, k=None, p=None):
    return drawn(logits, seed, count, temperature, k, p, generator=torch.default_generator)


def falsy_seed(logits, *, seed, count, temperature=1.0, k=None, p=None):
    generator = torch.Generator().manual_seed(seed) if seed else torch.default_generator
    return drawn(logits, seed, count, temperature, k, p, generator)


def one_seed(logits, *, seed, count, temperature=1.0, k=None, p=None):
    return drawn(logits, 0, count, temperature, k, p)


def row_by_row(logits, *, seed, count, temperature=1.0, k=None, p=None):
    return torch.cat([drawn(row[None], seed, count, temperature, k, p) for row in logits])


def one_draw(logits, *, seed, count, temperature=1.0, k=None, p=None):
    return drawn(logits, seed, 1, temperature, k, p).repeat(1, count)


def raises(logits, *, seed, count, temperature=1.0, k=None, p=None):
    raise RuntimeError("probability tensor contains nan")


SAMPLERS = [
    (never_filters, "within_p"),
    (hotter, "frequencies"),
    (unseeded, "contract.repeatable"),
    (falsy_seed, "contract.repeatable"),
    (one_seed, "other_seed"),
    (row_by_row, "rows_apart"),
    (one_draw, "draws_apart"),
    (raises, "definition"),
]


@pytest.mark.parametrize(("function", "law"), SAMPLERS)
def test_a_faulty_sampler_breaks_the_law_that_is_about_its_fault(function, law):
    assert law in bad(subject_of(function, "sample"), {"definition", law})


def test_a_right_sampler_breaks_nothing():
    assert set() == bad(subject_of(right, "sample"))


# Rows of different requests


@pytest.mark.parametrize(
    "witness", [lambda **call: Frame(library()["filter_rows"], call).outputs()["out"], reference.filter_rows]
)
def test_each_row_is_filtered_by_its_own_numbers(witness):
    call = {"temperature": np.array([2.0, 0.5]), "k": np.array([5, 2]), "p": np.array([0.7, 1.0])}
    out = witness(logits=LOGITS, **call)
    first = reference.top_p_filter(LOGITS[:1] / 2.0, p=0.7)
    second = reference.top_k_filter(LOGITS[1:] / 0.5, k=2)
    np.testing.assert_array_equal(out, np.concatenate([first, second]))


@pytest.mark.parametrize(
    ("of_row", "found"), [(lambda k: k[:, None], False), (lambda k: k.max(), True)], ids=["own", "largest"]
)
def test_a_number_for_all_rows_is_found(of_row, found):
    def filter_rows(logits, *, k=None):
        if k is None:
            return logits.clone()
        ranks = logits.argsort(dim=-1, descending=True, stable=True).argsort(-1)
        return logits.masked_fill(ranks >= of_row(k), -INFINITY)

    assert found == ("definition" in bad(subject_of(filter_rows, "filter_rows"), laws=("definition",)))


@pytest.mark.parametrize(
    ("seed_of", "found"),
    [(lambda seeds, row: seeds[row], False), (lambda seeds, row: seeds[-1], True)],
    ids=["own", "last"],
)
def test_the_seed_of_another_row_is_found(seed_of, found):
    def sample_rows(logits, seeds, *, count):
        chances = torch.softmax(logits, -1)
        makers = [torch.Generator().manual_seed(int(seed_of(seeds, row))) for row in range(len(logits))]
        rows = zip(chances, makers, strict=True)
        return torch.stack([torch.multinomial(row, count, replacement=True, generator=maker) for row, maker in rows])

    assert found == ("own_seed" in bad(subject_of(sample_rows, "sample_rows"), laws=("own_seed", "frequencies")))
