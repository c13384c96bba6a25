"""The pages of mechanisms, of their laws, and of who is run against them."""

import re

import pytest

from attnspec.commands.pages import explained


@pytest.mark.parametrize(
    ("law", "innocent"),
    [
        ("causal_mask.no_future", "    conventions={'causal_alignment': 'bottom_right' or 'top_left'}"),
        ("softmax.ratio", "    conventions={'empty_row': 'zeros' or 'nans' or 'mean_value'}"),
    ],
)
def test_a_page_of_a_law_names_its_innocent_reasons_and_its_place(law, innocent):
    page = list(explained(law))
    assert innocent in page
    assert re.fullmatch(rf".*spec/{law.partition('.')[0]}\.yaml:\d+:\d+", page[-1])


def test_an_adapter_is_a_subject_of_the_mechanisms_whose_options_it_takes():
    named = {name: " ".join(explained(name)) for name in ("attention", "causal_mask", "attention_dropout")}
    assert {"attention", "causal_mask"} == {name for name, page in named.items() if "torch_sdpa_math" in page}


def test_where_no_adapter_claims_a_mechanism_its_page_says_so(monkeypatch):
    monkeypatch.setattr("attnspec.commands.mechanism_pages.subjects", lambda m: [])
    assert "    No adapter claims it; the float64 reference is the second witness." in list(explained("softmax"))
