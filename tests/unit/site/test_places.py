"""Where everything stands on a site."""

import pytest

from attnspec.mechanisms.loader import library
from attnspec.site.places import of_law, of_mechanism, of_subject, prose, slug, threads


@pytest.mark.parametrize("name", ["softmax", "torch_sdpa", "a.b-c"])
def test_a_plain_name_is_its_own_address(name):
    assert name == slug(name)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "a b", "x" * 200, "é", "a..b", ".hidden"])
def test_another_name_becomes_plain_and_stays_apart_from_others(name):
    assert slug(name) == slug(slug(name))
    assert slug(name) != slug(name + "!")
    assert not set("/\\ ") & set(slug(name))
    assert ".." not in slug(name)


def test_pages_have_addresses_by_name():
    assert ("mechanisms/softmax.html", "implementations/torch_sdpa.html") == (
        of_mechanism("softmax"),
        of_subject("torch_sdpa"),
    )


def test_what_a_cell_names_is_found_on_the_page_of_its_mechanism():
    softmax = library()["softmax"]
    law = next(iter(softmax.laws))
    assert f"mechanisms/softmax.html#law-{law}" == of_law(softmax, law)
    assert "mechanisms/softmax.html#definition" == of_law(softmax, "definition")
    assert "mechanisms/softmax.html#convention-empty_row" == of_law(softmax, "convention.empty_row")
    assert "" == of_law(softmax, "contract.shape")


def test_threads_and_addresses_are_linked():
    text = "see owner/repo#12, https://arxiv.org/abs/1706.03762. And numpy 2.0"
    assert (
        ("see ", ""),
        ("owner/repo#12", "https://github.com/owner/repo/issues/12"),
        (", ", ""),
        ("https://arxiv.org/abs/1706.03762", "https://arxiv.org/abs/1706.03762"),
        (". And numpy 2.0", ""),
    ) == threads(text)


def test_what_is_code_and_what_is_linked_is_told_from_what_is_not():
    assert (
        ("link", "The documentation", "https://example.org"),
        ("text", " says ", ""),
        ("code", "x[0]", ""),
        ("text", ", in [0, 1]", ""),
    ) == prose("[The documentation] says `x[0]`, in [0, 1]", "https://example.org")
    assert (("text", "in [0, 1]", ""),) == prose("in [0, 1]")
