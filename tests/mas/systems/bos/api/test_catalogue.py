"""Catalogue: read from YAML or OpenAPI 3; a malformed file is a configuration error that names the place."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from mas.systems.bos.api.catalogue import Catalogue, build_catalogue, format_endpoint, load_catalogue
from mas.systems.bos.contracts.result import AgentFailureError
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


@pytest.mark.parametrize("text", ["endpoints: [", "- a list", "", "x: !!python/object/apply:os.getcwd []"])
def test_a_file_that_is_no_mapping_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(AgentFailureError, match=r"api_docs_context\.yaml cannot be used"):
        load_catalogue(write(tmp_path, text))


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
def test_a_reference_is_resolved_within_the_document_only(parameters: object, expected: str) -> None:
    content = copy.deepcopy(OPENAPI)
    content["components"]["parameters"]["Circle"] = {"$ref": "#/components/parameters/Circle"}
    content["paths"]["/orders/{id}"]["parameters"] = parameters
    with pytest.raises(AgentFailureError, match=expected):
        build_catalogue(content, Path("x.yaml"))


def test_only_openapi_3_is_read() -> None:
    with pytest.raises(AgentFailureError, match="expected version 3"):
        build_catalogue({"openapi": "2.0"}, Path("x.yaml"))


def test_a_schema_that_holds_itself_is_cut() -> None:
    content = copy.deepcopy(OPENAPI)
    content["components"]["schemas"]["Money"] = {"properties": {"more": {"$ref": "#/components/schemas/Money"}}}
    assert build_catalogue(content, Path("x.yaml")).endpoints[1].body is not None


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
    ("template", "path", "values"),
    [
        ("/orders", "/orders", {}),
        ("/orders", "/orders/", {}),
        ("/orders/", "/orders/", {}),
        ("/", "/", {}),
        ("/orders", "/orders/1", None),
        ("/orders/{id}", "/orders/a%20b", {"id": "a b"}),
        ("/orders/:id", "/orders/:id", {}),
        ("/orders/:id", "/orders/:other", {"id": ":other"}),
        ("/orders/:id", "/orders/1/items", None),
        ("/a.b/:x/:y", "/a.b/1/2/", {"x": "1", "y": "2"}),
        ("/a.b/:x/:y", "/acb/1/2", None),
    ],
)
def test_a_path_has_the_values_of_its_parameters(template: str, path: str, values: dict[str, str] | None) -> None:
    catalogue = Catalogue.model_validate({"endpoints": [{"method": " get ", "path": template}]})
    endpoint = catalogue.endpoints[0]
    assert endpoint.match(path) == values
    assert catalogue.find("GET", path) == (None if values is None else (endpoint, values))
    assert catalogue.find("POST", path) is None


def test_a_path_without_parameters_comes_before_one_with_them() -> None:
    paths = ("/orders/:id", "/orders/newest")
    catalogue = Catalogue.model_validate({"endpoints": [{"method": "GET", "path": path} for path in paths]})
    assert catalogue.find("GET", "/orders/newest") == (catalogue.endpoints[1], {})
    assert catalogue.find("GET", "/orders/7") == (catalogue.endpoints[0], {"id": "7"})


@pytest.mark.parametrize(
    ("catalogue", "endpoint", "expected"),
    [(None, None, True), ("none", None, False), ("none", "bearer", True), ("bearer", "none", False)],
)
def test_an_endpoint_needs_a_token_if_it_or_else_the_catalogue_says_so(
    catalogue: str | None, endpoint: str | None, expected: bool
) -> None:
    auth = {} if catalogue is None else {"auth": catalogue}
    made = Catalogue.model_validate({"endpoints": [{"method": "GET", "path": "/a", "auth": endpoint}], **auth})
    assert made.needs_token(made.endpoints[0]) is expected


@pytest.mark.parametrize("path", ["orders", "//orders", "/a/../b", ""])
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path below the base URL; expected for example /orders/:order_id"):
        Catalogue.model_validate({"endpoints": [{"method": "GET", "path": path}]})
