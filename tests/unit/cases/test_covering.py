"""The covering array: every two settings together, in few rows, always the same."""

import itertools
import math

import hypothesis
import numpy as np
from hypothesis import strategies

from attnspec.cases.applicability import pins
from attnspec.cases.covering import CROSSED_LAYOUTS, Factor, _halved, covered, covering, crossed, factors
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import DRAWN_LAYOUTS
from attnspec.subjects.claims import Claims

ATTENTION = library()["attention"]
EVERYTHING = Claims(frozenset({*ATTENTION.optional, *ATTENTION.options}), ("float32",))
FIXED = Claims(frozenset({"mask"}), ("float32",), fixed={"causal": True, "scale": 0.3})


def pairs_of(rows):
    return {pair for row in rows for pair in itertools.combinations(sorted(row.items()), 2)}


def test_what_is_drawn_the_regime_and_the_layout_are_factors():
    found = {factor.key: factor.levels for factor in factors(ATTENTION, FIXED)}
    assert (0, 1) == found["mask.0"]
    assert tuple(range(8)) == found["k_len.0"]
    assert ("", *ATTENTION.regimes) == found["regime"]
    assert DRAWN_LAYOUTS == found["layout"]
    assert set() == {key.partition(".")[0] for key in found} & set(pins(ATTENTION, FIXED))


def test_a_long_draw_has_its_ends_and_its_first_inner_value_as_levels():
    claims = Claims(frozenset({"heads"}), ("float32",))
    assert [Factor("heads.0", (0, -1, 1)), Factor("regime", ("",))] == factors(library()["alibi_slopes"], claims)


@hypothesis.given(strategies.lists(strategies.integers(1, 5), min_size=1, max_size=6))
def test_the_covering_set_holds_every_pair_of_levels_and_no_row_in_vain(counts):
    given = [Factor(f"f{i}", tuple(f"{i}:{level}" for level in range(count))) for i, count in enumerate(counts)]
    rows = list(covering(given))
    wanted = {((f.key, a), (g.key, b)) for f, g in itertools.combinations(given, 2) for a in f.levels for b in g.levels}
    assert wanted == pairs_of(rows)
    assert all({f.key for f in given} == set(row) for row in rows)
    for count in range(1, len(rows) + 1):
        assert pairs_of(rows[:count]) > pairs_of(rows[: count - 1])
    assert len(rows) <= len(wanted)


def test_the_covering_set_of_attention_is_small_and_always_the_same():
    given = factors(ATTENTION, EVERYTHING)
    rows = list(covering(given))
    most = sorted(len(f.levels) for f in given)[-2:]
    assert math.prod(most) <= len(rows) <= 2.5 * math.prod(most)
    assert rows == list(covering(given))


def test_a_sample_of_the_covering_set_has_the_settings_of_its_row():
    claims = EVERYTHING
    rows = list(covering(factors(ATTENTION, claims)))
    for sample in itertools.islice(covered(ATTENTION, claims, 0, "float32"), 40):
        row = rows[int(sample.case.label.removeprefix("pair ")) - 1]
        assert (row["regime"], row["layout"]) == (sample.case.regime, sample.layout)
        assert (False, True)[row["causal.0"]] is sample.values["causal"]
        assert (None, 2.0, 20.0)[row["softcap.0"]] == sample.values["softcap"]
        assert row["bias.0"] == isinstance(sample.values["bias"], np.ndarray)
        assert (1, 2, 5, 16, 17, 33)[row["q_len.0"]] == sample.values["q_len"]


def test_crossed_sizes_have_every_two_options_together_each_at_its_default_and_at_one_other_choice():
    samples = list(crossed(ATTENTION, EVERYTHING, 0, "float32"))
    names = ("causal", "softcap", "scale", "window_left", "window_right", "mask", "bias", "sink")
    plain = {**ATTENTION.defaults}
    rows = [
        {**{n: np.ndim(s.values[n]) == 0 and s.values[n] == plain[n] for n in names}, "layout": s.layout}
        for s in samples
    ]
    assert 2 * 2 * math.comb(len(names) + 1, 2) == len(pairs_of(rows))
    assert all(70 <= min(s.values["q_len"], s.values["k_len"]) for s in samples)
    assert {*CROSSED_LAYOUTS} == {s.layout for s in samples}
    assert {f"larger {number + 1}" for number in range(len(samples))} == {s.case.label for s in samples}


def test_crossed_sizes_leave_what_is_not_claimed_at_its_default():
    samples = list(crossed(ATTENTION, FIXED, 0, "float32"))
    assert {(True, 0.3, None)} == {(s.values["causal"], s.values["scale"], s.values["softcap"]) for s in samples}
    assert 2 == len({np.ndim(s.values["mask"]) > 0 for s in samples})


def test_of_crossed_sizes_most_rows_are_within_the_domain():
    for m in library().values():
        claims = Claims(frozenset({*m.optional, *m.options}), ("float32",), conventions=m.words)
        count = sum(1 for _ in covering_of(m, claims))
        assert count // 3 < 1 + len(list(crossed(m, claims, 0, "float32"))), m.name


def covering_of(m, claims):
    for setting in m.crossed.values():
        yield from covering(_halved(m, claims, setting))
