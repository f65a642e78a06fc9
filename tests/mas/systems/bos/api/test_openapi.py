"""Import of OpenAPI documents: what is taken over, what replaces what, and what is refused."""

from typing import Any

import pytest

from mas.systems.bos.api.openapi import convert_openapi


def document(paths: Any = None, **parts: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "paths": paths or {}, **parts}


def only(paths: Any, **parts: Any) -> dict[str, Any]:
    [endpoint] = convert_openapi(document(paths, **parts))["endpoints"]  # type: ignore[misc, attr-defined]
    return endpoint


@pytest.mark.parametrize("version", [None, "", "2.0", "30", 3])
def test_another_version_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match=r"^openapi is .*; expected version 3$"):
        convert_openapi({"openapi": version} if version is not None else {})


def test_an_empty_document_has_no_endpoints_and_no_authorisation() -> None:
    empty = {"base_url": None, "auth": "none", "endpoints": [], "snippets": []}
    assert convert_openapi({"openapi": "3.0.3"}) == empty
    assert convert_openapi(document({"/a": {"summary": "no method", "trace": {}}})) == empty


@pytest.mark.parametrize(
    ("url", "taken"),
    [("https://shop.example/v1", True), ("http://shop.example", True), ("/v1", False), ("{server}/v1", False)],
)
def test_the_first_server_is_the_address_if_it_is_one(url: str, taken: bool) -> None:
    found = convert_openapi(document(servers=[{"url": url}, {"url": "https://other.example"}]))
    assert found["base_url"] == (url if taken else None)


def test_the_description_is_a_text_with_the_title() -> None:
    info = {"title": "Shop", "description": " Orders. \n"}
    assert convert_openapi(document(info=info))["snippets"] == [{"title": "Shop", "text": "Orders."}]
    assert convert_openapi(document(info={"description": "x"}))["snippets"] == [{"title": "API", "text": "x"}]
    assert convert_openapi(document(info={"title": "Shop"}))["snippets"] == []


def test_authorisation_is_that_of_the_document_unless_the_operation_has_its_own() -> None:
    secured = document({"/a": {"get": {}, "put": {"security": []}, "post": {"security": [{"key": []}]}}}, security=[{}])
    found = convert_openapi(secured)
    assert found["auth"] == "bearer"
    assert [(each["method"], each.get("auth")) for each in found["endpoints"]] == [  # type: ignore[attr-defined]
        ("get", None),
        ("post", "bearer"),
        ("put", "none"),
    ]


def test_an_operation_is_described() -> None:
    assert only({"/orders": {"get": {"summary": "List", "description": "All of them", "tags": ["orders", 1]}}}) == {
        "method": "get",
        "path": "/orders",
        "summary": "List",
        "description": "All of them",
        "tags": ["orders", "1"],
        "body": None,
        "path_params": [],
        "query_params": [],
        "headers": [],
    }


def test_parameters_are_sorted_by_place_and_the_operation_s_replace_those_of_the_path() -> None:
    shared = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
        {"name": "sort", "in": "query", "description": "of the path"},
        {"name": "token", "in": "cookie"},
    ]
    choices = ["up", "down"]
    own = [
        {"name": "sort", "in": "query", "description": "of the operation", "schema": {"enum": choices}},
        {"name": "X-Trace", "in": "header", "required": "yes"},
    ]
    found = only({"/orders/{id}": {"parameters": shared, "get": {"parameters": own}}})
    assert found["path_params"] == [
        {"name": "id", "type": "integer", "required": True, "description": "", "enum": []},
    ]
    assert found["query_params"] == [
        {
            "name": "sort",
            "type": "string",
            "required": False,
            "description": "of the operation",
            "enum": ["up", "down"],
        },
    ]
    assert found["headers"] == [
        {"name": "X-Trace", "type": "string", "required": False, "description": "", "enum": []},
    ]


def test_references_inside_the_document_are_resolved() -> None:
    schemas = {
        "a/b~c": {"type": "object", "properties": {"item": {"$ref": "#/components/schemas/Item"}}},
        "Item": {"type": "array", "items": {"type": "integer"}, "examples": [1, {"$ref": "#/components/schemas/None"}]},
        "None": {"type": "null"},
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/a~1b~0c"}}}}
    components = {
        "schemas": schemas,
        "parameters": {"Id": {"name": "id", "in": "path", "schema": {"$ref": "#/components/schemas/None"}}},
        "requestBodies": {"Body": body},
        "paths": {"Shared": {"put": {"$ref": "#/components/operations/Put"}}},
        "operations": {
            "Put": {
                "requestBody": {"$ref": "#/components/requestBodies/Body"},
                "parameters": [{"$ref": "#/components/parameters/Id"}],
            }
        },
    }
    found = only({"/x": {"$ref": "#/components/paths/Shared"}}, components=components)
    assert [(each["name"], each["type"]) for each in found["path_params"]] == [("id", "null")]
    item = {"type": "array", "items": {"type": "integer"}, "examples": [1, {"type": "null"}]}
    assert found["body"] == {"type": "object", "properties": {"item": item}}


@pytest.mark.parametrize("content", [{"text/plain": {"schema": {}}}, {}, {"application/json": {}}])
def test_another_kind_of_body_is_none(content: Any) -> None:
    assert only({"/x": {"post": {"requestBody": {"content": content}}}})["body"] is None


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("other.yaml#/a", "leads out of the document; bundle it into one file"),
        ("https://elsewhere.example/a", "leads out of the document"),
        ("#/components/nothing", "leads nowhere"),
        ("#/openapi/3", "leads nowhere"),
        ("#/components/a", "in a circle"),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_refused(reference: str, words: str) -> None:
    components = {"a": {"$ref": "#/components/b"}, "b": {"$ref": "#/components/a"}}
    with pytest.raises(ValueError, match=words):
        only({"/x": {"$ref": reference}}, components=components)


def test_a_chain_of_references_may_be_long_and_a_schema_that_holds_itself_ends() -> None:
    chain = {f"n{number}": {"$ref": f"#/components/n{number + 1}"} for number in range(20)} | {"n20": {"get": {}}}
    assert only({"/x": {"$ref": "#/components/n1"}}, components=chain)["method"] == "get", "20 references"
    with pytest.raises(ValueError, match="circle"):
        only({"/x": {"$ref": "#/components/n0"}}, components=chain)
    tree = {"type": "object", "properties": {"child": {"$ref": "#/components/tree"}}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/tree"}}}}
    depth, part = 0, only({"/x": {"post": {"requestBody": body}}}, components={"tree": tree})["body"]
    while part.get("properties"):
        depth, part = depth + 1, part["properties"]["child"]
    assert depth == 10


def nest(depth: int, leaf: object, in_lists: bool) -> object:
    for _ in range(depth):
        leaf = [leaf] if in_lists else {"items": leaf}
    return leaf


@pytest.mark.parametrize("in_lists", [False, True])
def test_a_schema_is_kept_to_a_depth_of_twenty_and_empty_below(in_lists: bool) -> None:
    def convert(depth: int) -> object:
        schema = {"examples": nest(depth, "leaf", in_lists)}
        body = {"content": {"application/json": {"schema": schema}}}
        return only({"/x": {"post": {"requestBody": body}}})["body"]

    assert convert(19) == {"examples": nest(19, "leaf", in_lists)}
    assert convert(20) == {"examples": nest(20, {}, in_lists)}
    assert convert(22) == {"examples": nest(20, {}, in_lists)}


def test_the_methods_of_a_path_are_taken_in_their_usual_order() -> None:
    methods = ["options", "delete", "patch", "put", "post", "head", "get", "connect"]
    found = convert_openapi(document({"/a": {method: {} for method in methods}, "/b": {"get": {}}, "/c": None}))
    assert [(each["path"], each["method"]) for each in found["endpoints"]] == [  # type: ignore[attr-defined]
        *(("/a", method) for method in ("get", "head", "post", "put", "patch", "delete", "options")),
        ("/b", "get"),
    ]


def test_parts_of_another_type_count_as_missing() -> None:
    operation = {"tags": "orders", "parameters": {"name": "a"}, "requestBody": "text"}
    found = convert_openapi(document({"/a": {"get": operation}}, info="Shop", servers={"url": "https://a.example"}))
    endpoint = {"method": "get", "path": "/a", "summary": "", "description": "", "tags": [], "body": None}
    lists: dict[str, Any] = {"path_params": [], "query_params": [], "headers": []}
    assert found == {"base_url": None, "auth": "none", "endpoints": [{**endpoint, **lists}], "snippets": []}


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("a.yaml", "the reference 'a.yaml' leads out of the document; bundle it into one file"),
        ("#/components/x", "the reference '#/components/x' leads nowhere"),
        ("#/components/loop", "its references lead in a circle"),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_named(reference: str, message: str) -> None:
    components = {"loop": {"$ref": "#/components/loop"}}
    with pytest.raises(ValueError, match="reference") as raised:
        only({"/x": {"get": {"parameters": [{"$ref": reference}]}}}, components=components)
    assert str(raised.value) == message
