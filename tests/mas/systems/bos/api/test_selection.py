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


def test_words_are_looked_for_in_every_text_of_an_endpoint() -> None:
    texts: list[dict[str, object]] = [
        {"path": "/alpha"},
        {"summary": "Bravo"},
        {"description": "of charlie"},
        {"tags": ["x", "delta"]},
        {"path": "/{echo}", "path_params": [{"name": "golf"}]},
        {"query_params": [{"name": "hotel"}]},
    ]
    many = [{"method": "GET", "path": f"/{number}", **each} for number, each in enumerate(texts)]
    catalogue = Catalogue.model_validate({"endpoints": many})
    words = ("alpha", "bravo", "charlie", "delta", "golf", "hotel")
    for endpoint, word in zip(catalogue.endpoints, words, strict=True):
        assert select(catalogue, f"Is there a {word}?", k=2).endpoints == [endpoint]


def test_the_best_of_many_come_first_with_an_index_of_up_to_300_others_if_there_are_fewer_than_k() -> None:
    many = [{"method": "GET", "path": f"/n{number}"} for number in range(400)]
    many[7]["summary"], many[9]["summary"] = "blue", "large blue"
    snippets = [{"title": title, "text": text} for title, text in (("Blue", "x"), ("y", "z"), ("Large", "blue"))]
    catalogue = Catalogue.model_validate({"endpoints": many, "snippets": snippets})
    best = [catalogue.endpoints[9], catalogue.endpoints[7]]
    found = select(catalogue, "large blue", k=2)
    assert (found.endpoints, found.index) == (best, [])
    assert found.snippets == [catalogue.snippets[2], catalogue.snippets[0]]
    more = select(catalogue, "large blue", k=3)
    assert more.endpoints == best
    assert more.index == [each for each in catalogue.endpoints if each not in best][:300]
    assert select(catalogue, "large blue", k=1).snippets == [catalogue.snippets[2]]


def test_a_selection_is_written_for_a_prompt() -> None:
    endpoints = [{"method": "GET", "path": f"/{name}", "summary": about} for name, about in (("a", "A"), ("b", ""))]
    snippets = [{"title": "Paging", "text": "Of a list."}, {"title": "Other", "text": "thing"}]
    catalogue = Catalogue.model_validate(
        {"endpoints": [*endpoints, {"method": "PUT", "path": "/c", "summary": "C"}], "snippets": snippets}
    )
    assert format_selection(select(catalogue, "a paging", k=1)) == (
        "GET /a: A\n\nOther endpoints:\nGET /b\nPUT /c: C\n\nPaging: Of a list."
    )
    alone = Catalogue.model_validate({"endpoints": endpoints[:1]})
    assert format_selection(select(alone, "a", k=1)) == "GET /a: A"
