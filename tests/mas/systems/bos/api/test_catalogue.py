"""Catalogue: read from YAML or OpenAPI 3; a malformed file is a configuration error that names the place."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from mas.systems.bos.api.catalogue import Catalogue, format_endpoint, load_catalogue, select_documentation
from mas.systems.bos.contracts import AgentFailureError
from tests.servers.orders_api import DOCUMENTATION

OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "description": "Amounts are in euros."},
    "servers": [{"url": "https://api.example.org/v2"}],
    "security": [{"bearer": []}],
    "paths": {
        "/orders/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {
                "summary": "One order",
                "tags": ["orders"],
                "parameters": [{"name": "fields", "in": "query", "schema": {"type": "string", "enum": ["all", "id"]}}],
                "security": [],
            },
            "put": {
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}
            },
        }
    },
    "components": {
        "parameters": {"Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "schemas": {
            "Order": {"properties": {"total": {"$ref": "#/components/schemas/Money"}}},
            "Money": {"type": "number"},
        },
    },
}


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
        (lambda d: d["endpoints"][1].update(method="FETCH"), r"endpoints\.1\.method: .*no HTTP method"),
        (lambda d: d["endpoints"][1].update(path="orders"), "is no path below the base URL"),
        (lambda d: d["endpoints"][1].update(path="//evil.example/x"), "is no path below the base URL"),
        (lambda d: d["endpoints"].append(d["endpoints"][1] | {"path": "/orders/{nr}"}), "documented twice"),
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


def test_a_missing_or_huge_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(AgentFailureError, match="No such file"):
        load_catalogue(tmp_path / "none.yaml")
    with pytest.raises(AgentFailureError, match="larger than 5 MB"):
        load_catalogue(write(tmp_path, "#" * 5_000_001))


def test_an_openapi_document_becomes_the_same_catalogue(tmp_path: Path) -> None:
    catalogue = load_catalogue(write(tmp_path, OPENAPI))
    one, change = catalogue.endpoints
    assert catalogue.base_url == "https://api.example.org/v2"
    assert (one.method, one.path, one.tags) == ("GET", "/orders/:id", ("orders",))
    assert [each.name for each in one.path_params] == ["id"]
    assert one.query_params[0].enum == ("all", "id")
    assert (catalogue.needs_token(one), catalogue.needs_token(change)) == (False, True)
    assert change.body == {"properties": {"total": {"type": "number"}}}
    assert catalogue.snippets[0].text == "Amounts are in euros."
    assert "  path id (integer, required)" in format_endpoint(one).splitlines()


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ([{"$ref": "other.yaml#/x"}], "leads out of the document"),
        ([{"$ref": "#/components/parameters/None"}], "leads nowhere"),
        ([{"$ref": "#/components/parameters/Circle"}], "in a circle"),
    ],
)
def test_a_reference_is_resolved_within_the_document_only(parameters: object, expected: str, tmp_path: Path) -> None:
    content = copy.deepcopy(OPENAPI)
    content["components"]["parameters"]["Circle"] = {"$ref": "#/components/parameters/Circle"}
    content["paths"]["/orders/{id}"]["parameters"] = parameters
    with pytest.raises(AgentFailureError, match=expected):
        load_catalogue(write(tmp_path, content))


@pytest.mark.parametrize("value", [None, 7])
def test_a_part_of_an_openapi_document_that_has_another_form_is_left_out(tmp_path: Path, value: object) -> None:
    """One line of hundreds does not refuse the file."""
    content = copy.deepcopy(OPENAPI) | {"info": value, "servers": {"url": "https://api.example.org"}}
    path = content["paths"]["/orders/{id}"]
    path["get"] |= dict.fromkeys(("summary", "description", "tags", "parameters", "requestBody"), value)
    path["put"]["requestBody"] = {"content": value}
    path["delete"] = {"parameters": [{"in": "query", "name": 1, "description": value, "schema": value}]}
    content["paths"]["/empty"] = value
    catalogue = load_catalogue(write(tmp_path, content))
    one, change, drop = catalogue.endpoints
    text = "" if value is None else "7"
    assert (one.summary, one.description, one.tags, one.query_params) == (text, text, (), ())
    assert (change.body, catalogue.base_url, catalogue.snippets) == (None, None, ())
    assert (drop.query_params[0].name, drop.query_params[0].description) == ("1", text)


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


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [("/a/{x}/{x}", False), ("/a/:x/b/:x", False), ("/a/:1x", False), ("/a/{x}/{x1}", True), ("/a/:_1/:größe", True)],
)
def test_each_parameter_of_a_path_has_a_name_of_its_own(path: str, is_allowed: bool, tmp_path: Path) -> None:
    file = write(tmp_path, {"endpoints": [{"method": "GET", "path": path}]})
    if is_allowed:
        found = load_catalogue(file).find("GET", "/a/1/2")
        assert found is not None and list(found[1].values()) == ["1", "2"]
        return
    with pytest.raises(AgentFailureError) as raised:
        load_catalogue(file)
    assert str(raised.value) == (
        "the API's documentation api_docs_context.yaml cannot be used: endpoints.0.path: Value error, "
        f"{path!r} needs a name of its own for each parameter; expected for example :order_id"
    )
