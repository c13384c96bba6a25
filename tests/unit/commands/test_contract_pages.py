"""What a broken contract advises to do."""

from attnspec.commands.contract_pages import CONTRACT_ADVICE, contract_page
from attnspec.judging.contracts import CONTRACTS, ONCE


def test_every_contract_has_its_advice():
    assert {*CONTRACTS, *ONCE} == set(CONTRACT_ADVICE)


def test_the_page_of_a_contract_says_what_it_demands_and_what_to_do():
    demanded = "".join(CONTRACTS["written"].split())
    page = "".join("".join(contract_page("written")).split())
    assert f"contract.written{demanded}{''.join(CONTRACT_ADVICE['written'].split())}" == page
