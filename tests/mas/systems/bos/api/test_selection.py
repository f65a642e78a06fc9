"""Selection: the endpoints that share most words with the question, ties in the order of the documentation."""

from mas.systems.bos.api.catalogue import Catalogue
from mas.systems.bos.api.selection import FEW_ENDPOINTS, format_selection, select
from tests.servers.orders_api import DOCUMENTATION

CATALOGUE = Catalogue.model_validate(DOCUMENTATION)


def test_the_best_matches_come_first_and_ties_keep_their_order() -> None:
    """D02 D03"""
    found = select(CATALOGUE, "What is the newest order?", k=3)
    assert [each.path for each in found.endpoints] == ["/orders/newest", "/orders", "/orders/:order_id"]
    assert [each.title for each in select(CATALOGUE, "How does paging work?", k=3).snippets] == ["Paging"]


def test_k_limits_what_is_described_in_full() -> None:
    """D02"""
    found = select(CATALOGUE, "orders", k=1)
    assert [each.path for each in found.endpoints] == ["/orders"]
    text = format_selection(found)
    assert "query status (string, optional; one of open, paid)" in text
    assert "GET /account: The client's account" in text.split("Other endpoints:")[1]


def test_a_large_catalogue_has_an_index_only_where_few_endpoints_match() -> None:
    many = [{"method": "GET", "path": f"/things/{n}", "summary": "thing"} for n in range(FEW_ENDPOINTS + 1)]
    catalogue = Catalogue.model_validate({"endpoints": many})
    assert not select(catalogue, "every thing", k=8).index
    assert len(select(catalogue, "Will it rain?", k=8).index) == FEW_ENDPOINTS + 1


def test_a_catalogue_of_thirty_endpoints_has_an_index_of_all_others() -> None:
    few = [{"method": "GET", "path": f"/things/{n}", "summary": "thing"} for n in range(FEW_ENDPOINTS)]
    found = select(Catalogue.model_validate({"endpoints": few}), "every thing", k=8)
    assert [each.path for each in found.endpoints] == [f"/things/{n}" for n in range(8)]
    assert [each.path for each in found.index] == [f"/things/{n}" for n in range(8, FEW_ENDPOINTS)]


def test_words_are_compared_without_a_plurals_ending_if_they_are_long_enough() -> None:
    parts = [{"method": "GET", "path": path} for path in ("/rooms", "/bus", "/gas")]
    catalogue = Catalogue.model_validate({"endpoints": parts})
    for question, path in (("a room", "/rooms"), ("the bus", "/bus"), ("GAS", "/gas")):
        assert [each.path for each in select(catalogue, question, k=3).endpoints] == [path]
    assert select(catalogue, "bu ga", k=3).endpoints == []
