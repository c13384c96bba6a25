"""The types of the index have a sentence for every key."""

from attnspec.reporting.form import keys_of
from attnspec.vectors import records


def test_every_key_has_a_sentence():
    kinds = (records.Index, records.Provenance, records.Stated, records.Mistake, records.Vector)
    kinds += (records.Input, records.Output, records.Relation, records.Call, records.Result, records.Side, records.Term)
    assert [] == [name for kind in kinds for name, (_, says) in keys_of(kind).items() if not says.endswith(".")]
