"""The lines of a results file, as their types state them."""

import typing

from attnspec.diagnosis import shapes
from attnspec.reporting.form import keys_of
from attnspec.reporting.records import KINDS, Stands, Verdict


def test_a_key_without_a_sentence_is_a_kind_alone():
    assert {"kind"} == {key for record in KINDS.values() for key, (_, says) in keys_of(record).items() if not says}


def test_what_is_read_is_what_is_stated():
    assert {*typing.get_args(Verdict)} == {*shapes.VERDICTS}
    assert {*typing.get_args(Stands)} == {*shapes.STANDINGS}
    assert {*KINDS} == {*shapes.LINES}
