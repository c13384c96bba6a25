"""How functions read parameters is data, and what is wrong with it is told with its place."""

import pytest

from attnspec.mechanisms.loader import library
from attnspec.mechanisms.parameters import faults, readings


def test_the_shipped_files_have_no_fault():
    assert [] == [*faults(library())]


def test_readings_are_in_the_order_of_the_file():
    first, *others = readings("attention")
    assert "is true where a query may see a key" in first.says
    assert any(("key_padding_mask" in names) for one in others for names in one.parameters)
    assert () == readings("softmax")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("operator: attention\nreadings: []", "readings"),
        ("operator: atention\nreadings: [{says: x, named: [y]}]", "operator: the file is called 'attention'"),
        ("operator: attention\nreadings: [{says: x}]", "a reading has parameters, or says"),
        ("operator: attention\nreadings: [{says: x, parameters: {m: maks}}]", "parameters.m: unknown name 'maks'"),
        ("operator: attention\nreadings: [{says: x, parameters: {m: '{out: lse}'}}]", "what is read is computed"),
        ("operator: attention\nreadings: [{says: x, named: [y], fixed: {casual: 'true'}}]", "no option 'casual'"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path, text, says):
    (tmp_path / "attention.yaml").write_text(text)
    found = [str(fault) for fault in faults(library(), tmp_path)]
    assert len(found) == 1
    assert says in found[0]
