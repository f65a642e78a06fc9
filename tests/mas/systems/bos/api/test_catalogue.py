"""Catalogue: read from YAML; a malformed file is a configuration error that names the place."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from mas.systems.bos.api.catalogue import Catalogue, Endpoint, load_catalogue, select_documentation
from mas.systems.bos.contracts import AgentFailureError
from tests.servers.orders_api import DOCUMENTATION


def write(folder: Path, content: object) -> Path:
    path = folder / "api_docs_context.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_endpoints_and_snippets_are_read_from_yaml(tmp_path: Path) -> None:
    """D01"""
    catalogue = load_catalogue(write(tmp_path, DOCUMENTATION))
    assert [each.path for each in catalogue.endpoints][:2] == ["/orders", "/orders/:order_id"]
    assert catalogue.snippets[0].title == "Paging"
    assert catalogue.endpoints[0].query_params[0].enum == ("open", "paid")
    assert [catalogue.needs_token(each) for each in catalogue.endpoints[:4]] == [False, False, False, True]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d["endpoints"].clear(), "endpoints: Tuple should have at least 1 item"),
        (lambda d: d["endpoints"][0].update(pth="/x"), r"endpoints\.0\.pth: Extra inputs"),
        (lambda d: d["endpoints"][1].update(method="FETCH"), r"endpoints\.1\.method: Input should be 'GET'"),
        (lambda d: d["endpoints"][1].update(path="orders"), "is no path below the base URL"),
        (lambda d: d["endpoints"][1].update(path="//evil.example/x"), "is no path below the base URL"),
        (lambda d: d.update(auth="basic"), "auth: Input should be 'bearer' or 'none'"),
    ],
)
def test_a_malformed_file_is_a_configuration_error(tmp_path: Path, change: Any, expected: str) -> None:
    """D01"""
    content = copy.deepcopy(DOCUMENTATION)
    change(content)
    with pytest.raises(AgentFailureError, match=expected) as raised:
        load_catalogue(write(tmp_path, content))
    assert raised.value.kind == "ConfigurationError"


def test_d02_d03_the_prompt_begins_with_what_shares_most_words_and_ties_keep_their_order() -> None:
    catalogue = Catalogue.model_validate(DOCUMENTATION)
    newest = select_documentation(catalogue, "Which order is the newest?", 1)
    assert newest.startswith("GET /orders/newest: The newest order\n\nOther endpoints:\n") and "Paging" not in newest
    assert "Paging: Lists are cut" in select_documentation(catalogue, "How are lists cut?", 1)
    ties = select_documentation(catalogue, "Orders?", 2).partition("\n\nOther")[0]
    assert [part.splitlines()[0] for part in ties.split("\n\n")] == [
        "GET /orders: List of orders",
        "GET /orders/:order_id: One order",
    ]


def test_a_path_is_found_as_written_and_with_its_values() -> None:
    catalogue = Catalogue.model_validate(DOCUMENTATION)
    find = catalogue.find
    assert find("GET", "/orders/17") == (catalogue.endpoints[1], {"order_id": "17"})
    assert find("GET", "/orders/:order_id") == (catalogue.endpoints[1], {})
    assert find("GET", "/orders/a%2Fb") == (catalogue.endpoints[1], {"order_id": "a/b"})
    assert find("GET", "/orders/newest") == (catalogue.endpoints[2], {})  # before the path with a parameter
    assert find("DELETE", "/orders/17") is None
    assert find("GET", "/orders/17/x") is None


@pytest.mark.parametrize("documented", ["/orders/:order_id/", "/orders/:order_id"])
def test_a_slash_at_the_end_makes_no_other_path(documented: str) -> None:
    endpoint = Endpoint(method="GET", path=documented)
    for path in ("/orders/17/", "/orders/17"):
        assert endpoint.match(path) == {"order_id": "17"}
    assert Endpoint(method="GET", path="/").match("/") == {}
