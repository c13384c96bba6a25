"""The bits of rows in different company."""

from __future__ import annotations

import pytest

from attnspec.adapters import Adapter
from attnspec.adapters.controls.quantized import FORMATS
from attnspec.adapters.faults.company import BY_ROWS, BY_STEPS
from attnspec.cases.large import large_again, large_sample
from attnspec.cases.profiles import PROFILES
from attnspec.judging.bench import Bench
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.invariance import batches, chunks
from attnspec.judging.serving import served_again
from attnspec.judging.settling import Declined
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.serving import Company, _assigned, _scope
from attnspec.subjects.registered import fault
from attnspec.subjects.targets import subject

ATTENTION = NONE.library()["attention"]
BATCH = "batch = 8, kv_heads = 1, heads = 2, q_len = 1, k_len = 40, head_dim = 64, value_dim = 64"
CHUNK = "batch = 1, kv_heads = 1, heads = 2, q_len = 70, k_len = 80, head_dim = 64, value_dim = 64"
LAWS = frozenset({"contract.batch_invariant", "contract.chunk_invariant"})


def asked(function, look, text, axis):
    company = Company(axis, _assigned(text, _scope(ATTENTION)), {})
    one = subject(Adapter("kernel", "attention", function, "torch"))
    sample = large_sample(ATTENTION, "case", company.assigned, one.claims, "float32", 0)
    return look(Bench(one, ATTENTION, "float32", "cpu", dict(ATTENTION.words)), sample, company)


def in_batches(wrong=lambda q, out: None):
    def kernel(q, k, v):
        out = BY_ROWS.right()(q, k, v)
        wrong(q, out)
        return out

    return asked(kernel, batches, BATCH, "batch")


def in_chunks(wrong=lambda q, out: None):
    def kernel(q, k, v):
        out = BY_ROWS.right()(q, k, v)
        wrong(q, out)
        return out

    return asked(kernel, chunks, CHUNK, "q_len")


def test_what_is_computed_row_by_row_has_the_same_bits_everywhere():
    assert (True, "the same bits in batches of 1 to 8, at any place") == (in_batches().same, in_batches().says)
    assert (True, "the same bits in chunks of 1 to 70 rows") == (in_chunks().same, in_chunks().says)


def test_the_batch_from_which_bits_are_others_is_told():
    def wrong(q, out):
        out *= 1 + 2**-20 * (len(q) > 3)

    found = in_batches(wrong)
    assert not found.same
    assert found.says.startswith("the same bits in batches of up to 2; others in one of 4")


def test_another_place_is_told():
    def wrong(q, out):
        out[5:6] *= 1 + 2**-20

    assert "other bits at another place" == in_batches(wrong).says


def test_other_rows_are_told():
    known = {}

    def wrong(q, out):
        second = known.setdefault("second", q[1].clone()) if len(q) > 1 else None
        out[0] *= 1 + 2**-20 * (len(q) == 4 and not q[1].equal(second))

    assert "other bits beside other rows" == in_batches(wrong).says


def test_the_chunks_that_have_other_bits_are_told():
    def wrong(q, out):
        out *= 1 + 2**-20 * (q.shape[2] < 30)

    assert "the same bits in chunks of 70 and 35 rows; others in those of 23, 17, 2 and 1" == in_chunks(wrong).says


def test_a_call_that_fails_leaves_it_open():
    with pytest.raises(Declined, match="five"):
        asked(lambda q, k, v: 1 / 0 if len(q) == 4 else five(), batches, BATCH, "batch")


def five():
    raise ValueError("five")


def cells(function, **claims):
    one = subject(Adapter("kernel", "attention", function, "torch", **claims))
    return run(Request(one, ATTENTION, "float32", PROFILES["serving"], laws=LAWS))


def test_what_is_claimed_is_a_contract_and_what_is_not_is_told():
    result = cells(BY_ROWS.right(), batch_invariant=True)
    assert [("contract.batch_invariant", "pass"), ("contract.chunk_invariant", "not_declared")] == [
        (cell.law, cell.verdict) for cell in result.cells
    ]
    assert ("attention in float32: the same bits in chunks of 1 to 256 rows",) == result.observed


def test_a_broken_claim_is_found_again():
    adapter = fault("fault:keys_split_in_large_batches")
    one = subject(adapter)
    request = Request(one, ATTENTION, "float32", PROFILES["serving"], laws=LAWS)
    (cell,) = [cell for cell in run(request).cells if cell.bad]
    assert ("contract.batch_invariant", "must") == (cell.law, cell.level)
    assert cell.says.startswith("the same bits in batches of up to 8; others in one of 16")
    bench = Bench(one, ATTENTION, "float32", "cpu", dict(ATTENTION.words))
    again = large_again(ATTENTION, cell.failure.sample.case, one.claims, "float32")
    assert (cell.verdict, cell.says) == (
        served_again(request, bench, cell.law, again).verdict,
        served_again(request, bench, cell.law, again).says,
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "list_split_in_small_batches",
            "the same bits in batches of up to 1; others in one of 2",
        ),
        ("list_split_for_single_queries", "the same bits in chunks of 32, 16, 10 and 8 rows; others in those of 1"),
    ],
)
def test_attention_to_given_keys_depends_on_other_rows(name, says):
    one, m = subject(fault(f"fault:{name}")), NONE.library()["gathered_attention"]
    (cell,) = [cell for cell in run(Request(one, m, "float32", PROFILES["serving"], laws=LAWS)).cells if cell.bad]
    assert says == cell.says[: len(says)]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "steps_behind_96_codes_in_other_tiles",
            "the same bits where 128 rows are fed in parts of 128, 64, 42, 32 and 4; others in those of 1",
        ),
        ("codes_split_in_large_batches", "the same bits in batches of up to 4; others in one of 8"),
    ],
)
def test_a_cache_of_codes_depends_on_how_it_is_fed_and_on_other_items(name, says):
    one, m = subject(fault(f"fault:{name}")), NONE.library()["quantized_cache"]
    request = Request(one, m, "float32", PROFILES["serving"], laws=LAWS)
    (cell,) = [cell for cell in run(request).cells if cell.bad]
    assert says == cell.says[: len(says)]
    again = large_again(m, cell.failure.sample.case, one.claims, "float32")
    bench = Bench(one, m, "float32", "cpu", {**m.words, "grouping": "block"})
    assert cell.says == served_again(request, bench, cell.law, again).says


def test_what_is_fed_row_by_row_to_a_cache_of_codes_keeps_its_claims():
    claims = {"limits": FORMATS, "conventions": {"grouping": "block"}, "batch_invariant": True, "chunk_invariant": True}
    one = subject(Adapter("kernel", "cached_attention", BY_STEPS.right(), "torch", **claims))
    m = NONE.library()["quantized_cache"]
    assert {"pass"} == {cell.verdict for cell in run(Request(one, m, "float32", PROFILES["serving"], laws=LAWS)).cells}
