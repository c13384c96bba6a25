"""Arrays of each framework: whatever their memory layout and dtype, they hold what was asked for and are read back."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnspec.errors import UsageError
from attnspec.frameworks.known import framework_named
from attnspec.mechanisms.mechanism import LAYOUTS
from attnspec.numerics.formats import BFLOAT16, FORMATS, rounded

NAMES = ("numpy", "torch")
SHAPES = ((), (1,), (5,), (3, 4), (1, 7), (2, 3, 4), (2, 3, 4, 5), (1, 1, 1, 1), (2, 0, 3), (0,))
SPECIAL = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 2.0**-149, 3e38])


@pytest.fixture(params=NAMES)
def framework(request):
    return framework_named(request.param)


def entries(shape):
    return rounded(np.sin(np.arange(1.0, 1 + np.prod(shape, dtype=int))).reshape(shape), BFLOAT16)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_neither_entries_nor_shape_nor_dtype(framework, layout, shape):
    for index in range(3):
        made = framework.make(entries(shape), "float32", "cpu", layout, index)
        assert (shape, "float32", "cpu") == (tuple(made.shape), framework.dtype(made), framework.device(made))
        np.testing.assert_array_equal(entries(shape), framework.read(made))


def strides(x):
    return tuple(n // x.itemsize for n in x.strides) if isinstance(x, np.ndarray) else x.stride()


@pytest.mark.parametrize(
    ("layout", "shape", "expected"),
    [
        ("contiguous", (2, 3, 4, 5), (60, 20, 5, 1)),
        ("strided", (2, 3, 4, 5), (120, 40, 10, 2)),
        ("strided", (5,), (2,)),
        ("transposed", (2, 3, 4, 5), (60, 5, 15, 1)),
        ("transposed", (3, 4), (1, 3)),
        ("transposed", (5,), (1,)),
        ("offset", (2, 3), (3, 1)),
    ],
)
def test_a_layout_is_what_it_is_called(framework, layout, shape, expected):
    assert expected == strides(framework.make(entries(shape), "float32", "cpu", layout, 0))


def test_an_offset_array_does_not_begin_where_its_memory_does(framework):
    made = framework.make(entries((2, 3)), "float64", "cpu", "offset", 0)
    start = made.data_ptr() if framework.name == "torch" else made.ctypes.data
    room = made.untyped_storage().data_ptr() if framework.name == "torch" else made.base.ctypes.data
    assert 3 * 8 == start - room


def test_a_mixed_layout_goes_through_the_others_input_by_input(framework):
    made = [framework.make(entries((2, 3, 4)), "float32", "cpu", "mixed", index) for index in range(4)]
    assert [(12, 4, 1), (4, 8, 1), (24, 8, 2), (4, 8, 1)] == [strides(x) for x in made]


def test_a_lone_layout_transposes_the_third_input(framework):
    made = [framework.make(entries((2, 3, 4)), "float32", "cpu", "lone", index) for index in range(4)]
    assert [(12, 4, 1), (12, 4, 1), (4, 8, 1), (12, 4, 1)] == [strides(x) for x in made]


def test_an_expanded_layout_keeps_equal_slices_once(framework):
    alike = np.broadcast_to(entries((1, 3, 4)), (2, 3, 4))
    made = framework.make(alike, "float32", "cpu", "expanded", 0)
    assert (0, 4, 1) == strides(made)
    np.testing.assert_array_equal(alike, framework.read(made))


def test_an_expanded_layout_keeps_one_of_equal_entries(framework):
    made = framework.make(np.ones((2, 3, 4)), "float32", "cpu", "expanded", 0)
    assert (0, 0, 0) == strides(made)
    np.testing.assert_array_equal(np.ones((2, 3, 4)), framework.read(made))


def test_an_expanded_layout_leaves_unequal_slices_apart(framework):
    assert (12, 4, 1) == strides(framework.make(entries((2, 3, 4)), "float32", "cpu", "expanded", 0))


@pytest.mark.parametrize("dtype", FORMATS)
def test_special_numbers_survive_a_round_trip(framework, dtype):
    x = rounded(SPECIAL, FORMATS[dtype])
    y = framework.read(framework.make(x, dtype, "cpu", "contiguous", 0))
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(np.signbit(x[:2]), np.signbit(y[:2]))
    assert np.float64 == y.dtype


@given(st.floats(width=64), st.sampled_from(NAMES), st.sampled_from(tuple(FORMATS)), st.sampled_from(LAYOUTS))
def test_a_rounded_number_is_itself_in_every_framework(x, name, dtype, layout):
    near = rounded(np.full((2, 3), x), FORMATS[dtype])
    framework = framework_named(name)
    np.testing.assert_array_equal(near, framework.read(framework.make(near, dtype, "cpu", layout, 0)))


@pytest.mark.parametrize("kind", [bool, np.int64])
def test_truths_and_whole_numbers_keep_their_kind(framework, kind):
    x = np.array([[0, 1, 0], [1, 1, 0]], kind)
    made = framework.make(x, "bfloat16", "cpu", "strided", 0)
    assert np.dtype(kind).name == framework.dtype(made)
    np.testing.assert_array_equal(x, framework.read(made), strict=True)


def test_what_is_made_and_what_is_read_is_a_copy(framework):
    source = entries((3, 4))
    for layout in LAYOUTS:
        made = framework.make(source, "float64", "cpu", layout, 0)
        framework.read(made)[:] = 7.0
        np.testing.assert_array_equal(source, framework.read(made))
        made[0, 0] = 9.0
        np.testing.assert_array_equal(entries((3, 4)), source)


def test_truths_that_are_read_are_a_copy(framework):
    made = framework.make(np.array([True, False]), "float32", "cpu", "contiguous", 0)
    framework.read(made)[:] = True
    np.testing.assert_array_equal([True, False], framework.read(made))


@pytest.mark.parametrize("source", [np.broadcast_to(np.ones(3), (2, 3)), np.arange(6.0)[::-1], np.arange(6.0)[::2]])
def test_every_array_of_numpy_can_be_made(framework, source):
    np.testing.assert_array_equal(source, framework.read(framework.make(source, "float32", "cpu", "contiguous", 0)))


def test_entries_are_the_same_bit_for_bit_or_not_at_all(framework):
    x = framework.make(SPECIAL, "float32", "cpu", "contiguous", 0)
    y = framework.make(SPECIAL, "float32", "cpu", "strided", 0)
    assert framework.same(x, y)
    y[2] = 1 + 2**-23
    assert not framework.same(x, y)
    assert not framework.same(x, x[:-1])


def test_arrays_of_bfloat16_are_compared_too(framework):
    x, y = (framework.make(entries((3, 4)), "bfloat16", "cpu", "contiguous", 0) for _ in range(2))
    assert framework.same(x, y)
    y[0, 0] = 9
    assert not framework.same(x, y)


def test_views_share_memory_and_copies_do_not(framework):
    x = framework.make(entries((4, 5)), "float32", "cpu", "contiguous", 0)
    (start, end), (low, high) = framework.memory(x), framework.memory(x[1:, ::2])
    assert start < high
    assert low < end
    assert 80 == end - start
    copied = framework.memory(framework.make(framework.read(x), "float32", "cpu", "contiguous", 0))
    assert copied[1] <= start or end <= copied[0]


def test_no_entries_share_no_memory(framework):
    start, end = framework.memory(framework.make(np.zeros((0, 3)), "float32", "cpu", "contiguous", 0))
    assert start == end


@pytest.mark.parametrize("name", NAMES)
def test_an_array_is_one_of_its_own_framework(name):
    x = {"numpy": np.ones(2), "torch": torch.ones(2)}
    assert [name == other for other in NAMES] == [framework_named(name).is_array(x[other]) for other in NAMES]
    assert not framework_named(name).is_array([1.0])


# Stretches of calls


def fresh(framework):
    module = {"numpy": np, "torch": torch}[framework.name]
    return module.empty((3,), dtype=module.float32), module.empty_like(module.ones(3))


def test_poisoned_memory_is_nan_until_it_is_written(framework):
    with framework.poisoned():
        assert [True, True] == [bool(np.isnan(framework.read(x)).all()) for x in fresh(framework)]
        if framework.name == "numpy":
            assert np.int64 == np.empty(3, np.int64).dtype


def test_poison_does_not_depend_on_how_torch_is_set(monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)
    with framework_named("torch").poisoned():
        assert torch.empty(3).isnan().all()
    assert torch.utils.deterministic.fill_uninitialized_memory is False


def test_poison_ends_with_its_stretch_even_if_that_fails():
    empty, mode = np.empty, torch.get_deterministic_debug_mode()
    for name in NAMES:
        with pytest.raises(ZeroDivisionError), framework_named(name).poisoned():
            raise ZeroDivisionError
    assert (empty, mode) == (np.empty, torch.get_deterministic_debug_mode())


def test_a_session_of_torch_is_of_one_thread_without_gradients():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with framework_named("torch").session():
            assert (1, False) == (torch.get_num_threads(), torch.is_grad_enabled())
        assert (2, True) == (torch.get_num_threads(), torch.is_grad_enabled())
    finally:
        torch.set_num_threads(threads)


def test_an_unknown_framework_has_a_proposal():
    with pytest.raises(
        UsageError, match=r"unknown framework 'troch'; did you mean 'torch'\? \(known: torch, numpy, jax, mlx, "
    ):
        framework_named("troch")


class Renamed(torch.Tensor):
    """A kind of tensor that does nothing of its own."""


class Doubled(torch.Tensor):
    """A kind of tensor whose entries are not those of its memory."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


class Quantity(np.ndarray):
    """An array with a unit."""


def of_kind(kind):
    return np.ones(3).view(kind) if issubclass(kind, np.ndarray) else torch.ones(3).as_subclass(kind)


@pytest.mark.parametrize(
    ("x", "strange"),
    [
        (np.ones(3), ""),
        (np.float32(1), ""),
        (np.ones((1, 1)).view(np.matrix), ""),
        (np.ma.masked_array([1.0, 2.0]), ""),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "1 of its 2 entries are masked"),
        (np.ma.masked_array(np.ones((2, 3)), True), "6 of its 6 entries are masked"),
        (np.ma.masked, "1 of its 1 entries are masked"),
        (of_kind(Quantity), f"{__name__}.Quantity is a subclass or another array type; return a plain numpy.ndarray"),
        (torch.ones(3), ""),
        (torch.nn.Parameter(torch.ones(3)), ""),
        (of_kind(Renamed), ""),
        (of_kind(Doubled), f"{__name__}.Doubled is a subclass of a tensor; return a plain torch.Tensor"),
    ],
)
def test_arrays_whose_entries_may_be_others_are_told(x, strange):
    framework = framework_named("torch" if isinstance(x, torch.Tensor) else "numpy")
    assert (True, strange) == (framework.is_array(x), framework.strange(x))
