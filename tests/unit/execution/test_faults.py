"""Exceptions as faults: what they say, and where they were raised."""

import traceback

import pytest

from attnspec.execution import faults
from attnspec.execution.faults import TRACED, lacks_something, raised


def caught(function, *arguments):
    """The exception that a call raises."""
    try:
        function(*arguments)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def deep(levels, says):
    if levels:
        return deep(levels - 1, says)
    raise ValueError(says)


def chained(says):
    try:
        deep(0, "first")
    except ValueError as error:
        raise KeyError(says) from error


def grouped(says):
    raise ExceptionGroup("several", [ValueError(says), TypeError(says)])


def noted(says):
    error = ValueError(says)
    error.add_note("a note")
    raise error


def misspelt(says):
    return compile(f"{says} +", "f", "eval")


@pytest.mark.parametrize("levels", [0, 5, 6, 7, 40])
@pytest.mark.parametrize("says", ["one", "other", "", "two\nlines"])
def test_a_place_that_raises_again_is_told_with_what_it_says_now(levels, says):
    error = caught(deep, levels, says)
    expected = "".join(traceback.format_exception(error)[-8:]).splitlines()[-TRACED:]
    assert expected == raised(error).trace.splitlines()


@pytest.mark.parametrize("raises", [chained, grouped, noted, misspelt])
def test_what_an_exception_says_beside_its_place_is_told(raises):
    for says in ("one", "other"):
        error = caught(raises, says)
        assert traceback.format_exception(error) == faults._formatted(error)


def test_an_exception_that_was_never_raised_has_no_place():
    assert "ValueError: never" == raised(ValueError("never")).trace


def test_few_places_are_kept():
    for number in range(3 * faults.PLACES):
        raised(caught(exec, compile("raise ValueError", f"file {number}", "exec")))
    assert len(faults._FORMATTED) <= faults.PLACES


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("at 163:21:\n    scores = tl.dot(q, k)\n             ^\nK is at least 16", "at 163:21: K is at least 16"),
        ("one line:", "one line:"),
        ("a sentence\nand another", "a sentence"),
        (f"at 1:1:\n{'x' * 5000}\n the end ", "at 1:1: the end"),
        ("", "(no message)"),
    ],
)
def test_a_first_line_that_announces_others_is_told_with_the_last_of_them(text, says):
    assert f"ValueError: {says}" == raised(ValueError(text)).says


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (AssertionError("Torch not compiled with CUDA enabled"), True),
        (RuntimeError("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"), True),
        (RuntimeError("Cannot access accelerator device when none is available."), True),
        (
            ValueError("Default process group has not been initialized, please make sure to call init_process_group."),
            True,
        ),
        (ValueError("Torch not compiled with CUDA enabled"), False),
        (RuntimeError("shape '[1, 2]' is invalid for input of size 3"), False),
        (ModuleNotFoundError("No module named 'kernels'"), True),
        (AttributeError("'_OpNamespace' '_C' object has no attribute 'rms_norm'"), True),
        (AttributeError("'Tensor' object has no attribute 'swapdims_'"), False),
        (NotImplementedError("Could not run 'aten::_fused' with arguments from the 'CPU' backend. This could"), True),
        (NotImplementedError("no dropout"), False),
        (ImportError("flash_attn is not installed"), True),
        (ImportError("cannot import name 'reference'"), False),
        (RuntimeError("AITER MXFP8 MHA v4 is not available, please update AITER."), True),
        (RuntimeError("the scale is not finite"), False),
    ],
)
def test_what_is_said_where_there_is_no_device_group_module_or_operator_is_known(error, lacks):
    assert lacks is lacks_something(error)
