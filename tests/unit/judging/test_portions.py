"""Parts of a large case: which axes are cut, and what is evaluated together."""

from __future__ import annotations

import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.cases.large import large_sample
from attnspec.judging.bench import Bench
from attnspec.judging.portions import FURTHER, STRETCH, Portions
from attnspec.mechanisms.loader import NONE
from attnspec.mechanisms.serving import _assigned, _scope
from attnspec.numerics.drawn import Drawn
from attnspec.subjects.targets import subject

PAGED = "batch = 2, q_len = 1, kv_heads = 2, heads = 4, page_size = 32, max_pages = 3, k_lens = [70, 96]"
PAGED += ", head_dim = 32, value_dim = 32"
LONG = "batch = 1, kv_heads = 2, heads = 4, q_len = 1, k_len = 8192, head_dim = 16, value_dim = 16"
PLAIN = "batch = 2, kv_heads = 2, heads = 4, q_len = 70, k_len = 96, head_dim = 16, value_dim = 16"


def portions(operator, text, **words):
    mechanism = NONE.library()[operator]
    one = subject(Adapter("kernel", operator, lambda *inputs: None, "numpy", conventions=words))
    sample = large_sample(mechanism, "case", _assigned(text, _scope(mechanism)), one.claims, "float32", 0)
    found = Portions(Bench(one, mechanism, "float32", "cpu", {**mechanism.words, **words}), sample)
    found.orient()
    return found


def test_an_axis_that_a_word_asks_for_as_a_whole_is_taken_so():
    found = portions("paged_attention", PAGED, masked_nonfinite="propagates", unused_entries="numbers")
    assert ["heads"] == found.axes
    assert {"heads", "q_len"} == found.restriction.axes


def test_heads_that_share_keys_are_one_item():
    found = [item.positions for item in portions("attention", PLAIN).items()]
    assert [([0, 1], [0, 1]), ([0, 1], [2, 3])] == [(each["batch"].tolist(), each["heads"].tolist()) for each in found]


def test_heads_that_take_turns_are_together_as_they_do():
    items = portions("attention", PLAIN, grouping="tiled").items()
    assert [0, 2] == next(items).positions["heads"].tolist()


def test_rows_are_what_the_whole_definition_gives_there():
    found = portions("attention", PLAIN)
    item = [*found.items()][1]
    some = found.outputs(found.frame(item, np.array([3, 69]), None), ["out"])["out"]
    whole = found.outputs(found.frame(item, np.arange(70), None), ["out"])["out"]
    assert (2, 2, 2, 16) == some.shape
    assert np.allclose(whole[:, :, [3, 69]], some, rtol=1e-12)


def test_the_largest_entry_of_each_row_is_found():
    x = np.zeros((1, 2, 3, 4))
    x[0, 1, 2, 3] = 7
    assert [0, 0, 7] == portions("attention", PLAIN).by_row(x, "out", 3).tolist()


MANY = "batch = 60, kv_heads = 1, heads = 2, q_len = 1, k_len = 3, head_dim = 16, value_dim = 16"


def test_positions_that_cost_little_are_one_item():
    (item,) = portions("attention", MANY).items()
    assert (60, 2) == (len(item.positions["batch"]), len(item.positions["heads"]))


def test_an_item_is_narrowed_to_where_it_differs_most():
    found = portions("attention", MANY)
    (item,) = found.items()
    gaps = np.zeros((60, 2, 1))
    gaps[37, 1] = 2
    narrow = found.narrowed(item, gaps).positions
    assert ([37], [0, 1]) == (narrow["batch"].tolist(), narrow["heads"].tolist())


def test_inputs_of_the_same_places_are_made_once(monkeypatch):
    made, part = [], Drawn.part
    monkeypatch.setattr(Drawn, "part", lambda x, *more: made.append(x.shape) or part(x, *more))
    found = portions("attention", MANY.replace("k_len = 3", "k_len = 70"))
    made.clear()
    (item,) = found.items()
    for _ in range(3):
        found.outputs(found.frame(item, np.array([0]), None), ["out"])
    assert [(60, 1, 70, 16)] * 2 == [shape for shape in made if shape[2] == 70]


def test_more_rows_are_taken_where_those_before_them_looked_at_few_places():
    sizes = "batch = 1, kv_heads = 1, heads = 4, q_len = 9000, k_len = 8192, head_dim = 64, value_dim = 64"
    own = portions("attention", sizes)
    item = next(own.items())
    step = own.step(item)
    assert STRETCH // (4 * 8192) == step == own.step(item, 8192)
    assert FURTHER * step == own.step(item, 1)
    further = own.step(item, 2048)
    assert 3 * step < further < 4 * step
    assert 4 * further * (2048 + further) <= STRETCH


@pytest.mark.parametrize(("room", "made"), [(0, 6), (1 << 22, 4)])
def test_parts_of_inputs_are_made_once_where_there_is_room(monkeypatch, room, made):
    found, count, part = portions("attention", LONG), [], Drawn.part
    monkeypatch.setattr(Drawn, "part", lambda self, *where: count.append(self.size) or part(self, *where))
    found._made.clear()
    found.room = room
    first, second = found.items()
    frames = [found.frame(item, np.array([0]), None) for item in (first, second, first)]
    keys = [size for size in count if size == 2 * 8192 * 16]
    assert (made, True) == (len(keys), np.array_equal(frames[0].values["k"], frames[2].values["k"]))
