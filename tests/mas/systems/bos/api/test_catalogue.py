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


def test_every_field_has_its_default() -> None:
    made = Catalogue.model_validate({"endpoints": [{"method": "GET", "path": "/a", "query_params": [{"name": "q"}]}]})
    parameter = {"name": "q", "type": "string", "required": False, "description": "", "enum": ()}
    endpoint: dict[str, Any] = {
        "method": "GET",
        "path": "/a",
        "summary": "",
        "description": "",
        "tags": (),
        "path_params": (),
        "query_params": (parameter,),
        "headers": (),
        "body": None,
        "auth": None,
    }
    expected = {"base_url": None, "auth": "bearer", "endpoints": (endpoint,), "snippets": ()}
    assert made.model_dump() == expected
    with pytest.raises(ValueError, match="frozen"):
        made.auth = "none"
    with pytest.raises(ValueError, match="frozen"):
        made.endpoints[0].path = "/b"


@pytest.mark.parametrize("method", ["get", "HEAD", " Post ", "put", "PATCH", "delete", "options"])
def test_a_method_is_read_in_any_case(method: str) -> None:
    [endpoint] = Catalogue.model_validate({"endpoints": [{"method": method, "path": " /a/{x}/{y_1} "}]}).endpoints
    assert (endpoint.method, endpoint.path, endpoint.path_names) == (method.strip().upper(), "/a/:x/:y_1", ["x", "y_1"])


@pytest.mark.parametrize(
    ("first", "second", "is_twice"),
    [
        (("GET", "/a/:x"), ("GET", "/a/{y}"), True),
        (("GET", "/a/:x"), ("PUT", "/a/:x"), False),
        (("GET", "/a/:x"), ("GET", "/a/:x/b"), False),
        (("GET", "/a/x"), ("GET", "/a/:x"), False),
    ],
)
def test_a_method_of_a_path_is_documented_once_whatever_its_parameters_are_called(
    first: tuple[str, str], second: tuple[str, str], is_twice: bool
) -> None:
    content = {"endpoints": [{"method": method, "path": path} for method, path in (first, second)]}
    if is_twice:
        with pytest.raises(AgentFailureError) as raised:
            build_catalogue(content, Path("folder/x.yaml"))
        message = "the API's documentation x.yaml cannot be used: the file: Value error, GET /a/:y is documented twice"
        assert (raised.value.kind, str(raised.value)) == ("ConfigurationError", message)
        assert raised.value.details == {"file": "folder/x.yaml"}
    else:
        assert len(build_catalogue(content, Path("x.yaml")).endpoints) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"- a", "it holds a list, expected the keys base_url and endpoints"),
        (b"endpoints: [{method: GET, path: a}]", "endpoints.0.path: Value error, 'a' is no path below the base URL; "),
        (b"endpoints: []", "endpoints: Tuple should have at least 1 item after validation, not 0"),
        (b"openapi: 3.1.0", "endpoints: Tuple should have at least 1 item after validation, not 0"),
        (b"openapi: 2.0", "openapi is 2.0; expected version 3"),
        (b"a: \xff", "'utf-8' codec can't decode byte 0xff in position 3: invalid start byte"),
        (b"a: [\n", "while parsing a flow node expected the node content, but found '<stream end>' in "),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason_on_one_line(
    tmp_path: Path, text: bytes, reason: str
) -> None:
    path = tmp_path / "docs.yaml"
    path.write_bytes(text)
    with pytest.raises(AgentFailureError) as raised:
        load_catalogue(path)
    assert str(raised.value).startswith(f"the API's documentation docs.yaml cannot be used: {reason}")
    assert "\n" not in str(raised.value)
    assert (raised.value.kind, raised.value.details) == ("ConfigurationError", {"file": str(path)})


@pytest.mark.parametrize(("size", "reason"), [(5_000_000, "'utf-8' codec"), (5_000_001, "it is larger than 5 MB")])
def test_a_file_is_read_up_to_five_megabytes(tmp_path: Path, size: int, reason: str) -> None:
    path = tmp_path / "docs.yaml"
    path.write_bytes(b"\xff" * size)
    with pytest.raises(AgentFailureError) as raised:
        load_catalogue(path)
    assert str(raised.value).startswith(f"the API's documentation docs.yaml cannot be used: {reason}")


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, ["PUT /a/:x"]),
        ({"summary": "One"}, ["PUT /a/:x: One"]),
        ({"description": "Long"}, ["PUT /a/:x: Long"]),
        ({"summary": "One", "description": "Long"}, ["PUT /a/:x: One", "  Long"]),
        ({"body": {}}, ["PUT /a/:x", "  JSON body: {}"]),
        (
            {
                "body": {"title": "Größe"},
                "headers": [{"name": "X-A", "required": True, "description": "why"}],
                "query_params": [{"name": "q", "enum": ["a", 1, True]}],
                "path_params": [{"name": "x", "type": "integer", "required": True, "enum": [1], "description": "id"}],
            },
            [
                "PUT /a/:x",
                "  path x (integer, required; one of 1): id",
                "  query q (string, optional; one of a, 1, True)",
                "  header X-A (string, required): why",
                '  JSON body: {"title": "Größe"}',
            ],
        ),
    ],
)
def test_an_endpoint_is_written_for_a_prompt(fields: dict[str, object], lines: list[str]) -> None:
    [endpoint] = Catalogue.model_validate({"endpoints": [{"method": "PUT", "path": "/a/:x", **fields}]}).endpoints
    assert format_endpoint(endpoint) == "\n".join(lines)


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [("/a/{x}/{x}", False), ("/a/:x/b/:x", False), ("/a/:1x", False), ("/a/{x}/{x1}", True), ("/a/:_1/:größe", True)],
)
def test_each_parameter_of_a_path_has_a_name_of_its_own(path: str, is_allowed: bool) -> None:
    content = {"endpoints": [{"method": "GET", "path": path}]}
    if is_allowed:
        found = build_catalogue(content, Path("x.yaml")).find("GET", "/a/1/2")
        assert found is not None and list(found[1].values()) == ["1", "2"]
        return
    with pytest.raises(AgentFailureError) as raised:
        build_catalogue(content, Path("x.yaml"))
    assert str(raised.value) == (
        "the API's documentation x.yaml cannot be used: endpoints.0.path: Value error, "
        f"{path!r} needs a name of its own for each parameter; expected for example :order_id"
    )
