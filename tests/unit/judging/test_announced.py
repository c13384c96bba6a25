"""What a report begins with is what an engineer may declare."""

from attnspec.adapters import Adapter
from attnspec.judging.announced import interface_told, layout_told, taken_told
from attnspec.judging.layouts import lay_out
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.signatures import signature_named
from attnspec.subjects.targets import subject

ATTENTION = library()["attention"]


def by_lengths_first(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return ((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v).transpose(1, 2)


def test_a_layout_that_was_identified_is_to_be_declared():
    one = subject(Adapter("mine", "attention", by_lengths_first, "torch"))
    assert "" == layout_told(one)
    lay_out(one, ATTENTION, "float32", "cpu")
    told = 'mine reads [batch, length, heads, dim]: declare layout = "bshd"'
    assert (told, told) == (layout_told(one), taken_told(one))


def test_a_declared_layout_is_not_told():
    assert "" == taken_told(subject(Adapter("mine", "attention", by_lengths_first, "torch", layout="bshd")))


def test_an_interface_of_a_line_is_told_by_what_stands_for_what():
    line, told = "attention(softmax_scale=scale)", "attention: `softmax_scale` for `scale`"
    one = subject(Adapter("mine", "attention", lambda q, k, v, softmax_scale=None: q, "torch", like=line))
    assert told == interface_told(one.form.taken.signature)
    assert taken_told(one).startswith(f"mine is treated as {told}")


def test_a_known_interface_is_told_with_the_place_of_its_file():
    known = signature_named("flash_attn_func")
    assert f"flash_attn_func ({known.path})" == interface_told(known)


def test_a_dtype_is_told_as_one_and_a_constant_as_nothing():
    line, told = "attention(out_dtype={dtype: out}, training=false)", "attention: `out_dtype` for the dtype of out"
    assert told == interface_told(signature_named(line))
