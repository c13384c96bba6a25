"""A failure in full, as its type states it."""

from attnspec.reporting.form import keys_of
from attnspec.reporting.records import KINDS
from attnspec.reporting.witnesses import Trouble, Witness


def test_a_cell_holds_its_failure_in_full_and_what_went_wrong_in_explaining_it():
    stated = {name: kind for name, (kind, _) in keys_of(KINDS["cell"]).items()}
    assert (Witness, list[Trouble]) == (stated["witness"], stated["unexplained"])


def test_a_key_may_be_named_by_a_word_of_python():
    assert "from" in keys_of(Witness)
    assert "from_" not in keys_of(Witness)
