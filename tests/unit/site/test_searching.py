"""What is found by typing a few letters."""

from attnspec.mechanisms.loader import library
from attnspec.site.implementations import implementation
from attnspec.site.mechanisms import mechanism_page
from attnspec.site.searching import LONGEST, index


def test_everything_that_has_a_place_is_in_the_index():
    found = index([mechanism_page(library()["softmax"], {})], [implementation("torch_softmax", {})])
    by_name = {name: (kind, at) for kind, name, _, at in found}
    assert ("mechanism", "mechanisms/softmax.html") == by_name["softmax"]
    assert ("mistake", "mechanisms/softmax.html#mistake-base_two") == by_name["softmax.base_two"]
    assert ("convention", "mechanisms/softmax.html#convention-empty_row") == by_name["softmax: empty_row"]
    assert ("implementation", "implementations/torch_softmax.html") == by_name["torch_softmax"]
    assert ("finding", "findings.html#torch-causal-scale") == by_name["torch-causal-scale"]


def test_what_is_said_is_short():
    found = index([mechanism_page(library()["attention"], {})], [])
    assert max(len(says) for _, _, says, _ in found) <= LONGEST
