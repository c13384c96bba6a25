"""Arrays of the frameworks that copy from and to NumPy: every dtype bit for bit, and what each can and cannot do."""

import ml_dtypes
import numpy as np
import pytest

from attnspec.adapters import Adapter
from attnspec.errors import TargetError, UsageError
from attnspec.execution.calling import Call
from attnspec.frameworks.framework import NotDifferentiableError, index_of, kind_of, numpy_dtype, parts_of
from attnspec.frameworks.known import FRAMEWORKS, framework_named, is_installed
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import LAYOUTS
from attnspec.subjects.subject import AdapterSubject
from attnspec.subjects.targets import subject

NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(not is_installed(name), reason=f"{name} is not installed"))
    for name in FRAMEWORKS
    if name != "cupy"  # which has no CPU
]
COPIED = [name for name in NAMES if name.values[0] not in ("torch", "numpy")]
DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
SHAPES = ((), (5,), (2, 3, 4), (2, 0, 3))


@pytest.fixture(params=NAMES)
def framework(request):
    return framework_named(request.param)


@pytest.fixture(params=COPIED)
def copied(request):
    return framework_named(request.param)


def every_number(dtype):
    """Of a dtype of up to 16 bits every number, of a wider one some of each binade."""
    kind = numpy_dtype(dtype)
    if kind.itemsize <= 2:
        found = np.arange(256**kind.itemsize).astype(f"uint{8 * kind.itemsize}").view(kind)
        with np.errstate(invalid="ignore"):  # some of the numbers that are none signal it
            return np.append(found[found == found], np.array(np.nan, kind))
    info = np.finfo(kind)
    powers = np.ldexp(np.array([1.0, -1.25]), np.arange(info.minexp - info.nmant, info.maxexp)[:, None]).astype(kind)
    return np.concatenate([powers.ravel(), np.array([0.0, -0.0, np.inf, -np.inf, np.nan], kind)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_number_of_a_dtype_survives_a_round_trip(framework, dtype):
    x = every_number(dtype).astype(np.float64)
    if framework.name == "mlx" and "float8" in dtype:
        with pytest.raises(UsageError, match=f"MLX has no {dtype}"):
            framework.make(x, dtype, "cpu", "contiguous", 0)
        return
    made = framework.make(x, dtype, "cpu", "contiguous", 0)
    y = framework.read(made)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(np.signbit(x[x == 0]), np.signbit(y[x == 0]))
    assert (dtype, np.float64) == (framework.dtype(made), y.dtype)


@pytest.mark.parametrize("kind", [bool, np.int64])
def test_truths_and_whole_numbers_keep_their_kind(framework, kind):
    x = np.array([[0, 1, 0], [1, 1, 0]], kind)
    made = framework.make(x, "bfloat16", "cpu", "contiguous", 0)
    assert framework.dtype(made).startswith(np.dtype(kind).name[:3])
    np.testing.assert_array_equal(x, framework.read(made))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_nothing_where_there_is_none(copied, shape, layout):
    x = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
    made = copied.make(x, "float32", "cpu", layout, 0)
    assert shape == tuple(made.shape)
    np.testing.assert_array_equal(x, copied.read(made), strict=True)


def test_an_array_is_one_of_its_own_framework_and_on_its_device(framework):
    made = framework.make(np.ones(3), "float32", "cpu", "contiguous", 0)
    assert (True, "", True) == (framework.is_array(made), framework.strange(made), framework.is_on(made, "cpu"))
    assert not framework.is_array([1.0])
    assert framework.device(made).startswith("cpu")
    assert any(name.startswith("cpu") for name in framework.devices())


def test_the_source_is_copied(framework):
    source = np.ones(4)
    made = framework.make(source, "float64", "cpu", "contiguous", 0)
    source[:] = 2.0
    framework.read(made)[:] = 3.0
    np.testing.assert_array_equal(np.ones(4), framework.read(made))


@pytest.mark.parametrize("name", [name for name in NAMES if name.values[0] not in ("jax", "tensorflow")])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_array_that_was_changed_is_not_the_same(name, dtype):
    framework = framework_named(name)
    x, y = (framework.make(np.array([1.0, np.nan]), dtype, "cpu", "contiguous", 0) for _ in range(2))
    assert framework.same(x, y)
    x[0] = 9.0
    assert not framework.same(x, y)


def calling(name, function):
    return AdapterSubject(Adapter("function", "softmax", function, name), library()["softmax"])


@pytest.mark.skipif(not is_installed("jax"), reason="JAX is not installed")
def test_an_input_of_jax_is_changed_only_where_it_was_donated():
    import jax

    call = Call({"x": np.zeros((2, 4))}, {}, "float32")
    assert () == calling("jax", jax.nn.softmax).call(call).breaches
    assert () == calling("jax", lambda x: x).call(call).breaches  # shared memory that nobody can write to

    def donating(x):
        p = jax.nn.softmax(x)
        x.delete()
        return p

    assert ["inputs_unchanged"] == [breach.contract for breach in calling("jax", donating).call(call).breaches]


@pytest.mark.skipif(not is_installed("jax"), reason="JAX is not installed")
def test_jax_has_double_precision_for_calls_in_float64_alone():
    import jax.numpy as jnp

    seen = []

    def kernel(x):
        seen.append((str(x.dtype), str(jnp.arange(3.0).dtype)))
        return x

    one = calling("jax", kernel)
    for dtype in ("float32", "float64"):
        assert one.call(Call({"x": np.zeros((2, 4))}, {}, dtype)).breaches == ()
    assert [("float32", "float32"), ("float64", "float64")] == seen


@pytest.mark.skipif(not is_installed("jax"), reason="JAX is not installed")
def test_what_jax_has_compiled_is_let_go_of_after_a_session():
    import jax

    times = jax.jit(lambda x: 2 * x)
    framework = framework_named("jax")
    with framework.session():
        times(framework.make(np.ones(3), "float32", "cpu", "contiguous", 0))
        assert 1 == times._cache_size()
    assert 0 == times._cache_size()


@pytest.mark.skipif(not is_installed("mlx"), reason="MLX is not installed")
def test_a_loop_that_jax_cannot_reverse_has_no_gradient():
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones(2)

    def grown(x):
        return [jax.lax.while_loop(lambda y: y[0] < 4, lambda y: 2 * y, x)]

    with pytest.raises(NotDifferentiableError, match="Reverse-mode differentiation does not work"):
        framework_named("jax").pulled_back(grown, [x], [x])


def test_what_mlx_has_put_off_fails_in_the_call():
    import mlx.core as mx

    framework, made = framework_named("mlx"), []
    framework.finish({"p": (mx.ones(3) + 1, None), "more": [2.0]}, "cpu")
    framework.finish(made, "cpu")
    with pytest.raises(UsageError, match=r"MLX has no device 'tpu' \(it has cpu"):
        framework.make(np.ones(3), "float32", "tpu", "contiguous", 0)


@pytest.mark.skipif(not is_installed("jax"), reason="JAX is not installed")
def test_jax_has_devices_by_kind_and_by_name():
    framework = framework_named("jax")
    for name in ("cpu", *framework.devices()):
        assert framework.is_on(framework.make(np.ones(3), "float32", name, "contiguous", 0), name)
    with pytest.raises(UsageError, match="JAX has no device 'tpu'"):
        framework.make(np.ones(3), "float32", "tpu", "contiguous", 0)


def test_a_framework_that_is_not_installed_comes_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("attnspec.frameworks.known.importlib.util.find_spec", lambda name: None)
    with pytest.raises(TargetError, match="the framework 'cupy' is not installed: pip install cupy"):
        subject(Adapter("kernel", "softmax", lambda x: x, "cupy"))


@pytest.mark.parametrize(
    ("device", "kind", "index"), [("cpu", "cpu", None), ("cuda:3", "cuda", 3), ("TPU", "tpu", None)]
)
def test_a_device_has_a_kind_and_perhaps_a_number(device, kind, index):
    assert (kind, index) == (kind_of(device), index_of(device))


def test_the_parts_of_a_result_come_one_after_the_other():
    assert [1, 2, 3, 4] == list(parts_of({"a": (1, [2]), "b": [3, 4]}))
    assert [5] == list(parts_of(5))


def test_the_dtypes_of_numpy_are_those_of_ml_dtypes_where_it_has_none():
    assert (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)) == (numpy_dtype("float16"), numpy_dtype("bfloat16"))
    with pytest.raises(UsageError, match="ml_dtypes has no float8_e9"):
        numpy_dtype("float8_e9")


def test_what_jax_compiles_is_kept_unless_somebody_has_said_where(tmp_path, monkeypatch):
    jax = pytest.importorskip("jax")
    make, config, name = type(framework_named("jax")), jax.config, "jax_compilation_cache_dir"
    kept = {name: x for name, x in config.values.items() if "cache" in name}
    try:
        for chosen, folder in ((str(tmp_path), str(tmp_path / "jax")), ("off", None)):
            monkeypatch.setenv("ATTNSPEC_CACHE", chosen)
            config.update(name, None)
            make()
            assert folder == config.values[name]
            # a bound would have the whole folder read, under a lock, for each program that is added
            assert -1 == config.values["jax_compilation_cache_max_size"]
        config.update(name, "own")
        make()
        assert "own" == config.values[name]
    finally:
        for setting, x in kept.items():
            config.update(setting, x)
