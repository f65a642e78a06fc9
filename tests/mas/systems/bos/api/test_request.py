"""Requests: only what is documented, below the base URL, is sent."""

from typing import Any

import pytest

from mas.systems.bos.api.catalogue import Catalogue
from mas.systems.bos.api.request import ApiCallPlan, ApiRequest, build_request, find_base_url
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.contracts.result import AgentFailureError
from tests.servers.orders_api import DOCUMENTATION

CATALOGUE = Catalogue.model_validate(DOCUMENTATION | {"base_url": "https://docs.example"})
BASE = "https://api.example/v1"


def build(path: str, methods: tuple[str, ...] = ("GET",), **plan: Any) -> ApiRequest:
    return build_request(ApiCallPlan(make_request=True, path=path, **plan), CATALOGUE, BASE, methods)


def refused(path: str, **plan: Any) -> AgentFailureError:
    with pytest.raises(AgentFailureError) as raised:
        build(path, **plan)
    return raised.value


def test_path_parameters_are_quoted() -> None:
    """D09"""
    assert build("/orders/:order_id", path_params={"order_id": "a/b ?#é"}).url == f"{BASE}/orders/a%2Fb%20%3F%23%C3%A9"
    assert build("/orders/17").url == f"{BASE}/orders/17"


@pytest.mark.parametrize("values", [{}, {"order_id": None}, {"order_id": ""}, {"order_id": ".."}, {"other": 1}])
def test_a_missing_path_parameter_is_refused(values: dict[str, object]) -> None:
    """D09"""
    failure = refused("/orders/:order_id", path_params=values)
    assert (failure.kind, str(failure)) == (
        "PathResolutionError",
        "the path /orders/:order_id needs a value for order_id",
    )


@pytest.mark.parametrize(
    "path",
    [
        *("https://evil.example/orders", "//evil.example/orders", "/../orders", "/orders/../account", "orders", ""),
        *("/orders#x", "/orders\\..\\account", "/unknown", "/@evil.example/", "/orders/%2e%2e"),
    ],
)
def test_a_path_out_of_the_documentation_is_refused(path: str) -> None:
    """D25"""
    assert refused(path).kind == "PathResolutionError"


def test_methods_are_allowed_by_the_settings() -> None:
    """D25"""
    assert str(refused("/orders", method="POST")) == "POST requests are not allowed here"
    assert build("/orders", ("get", "POST"), method="post", json_body={"total": 3, "admin": True}).json_body == {
        "total": 3
    }


def test_what_the_endpoint_does_not_document_is_dropped() -> None:
    """D26"""
    request = build("/orders?status=open&x=1", query_params={"limit": 5, "debug": True}, headers={"X-Y": "1"})
    assert request.query == [("status", "open"), ("limit", "5")]
    assert request.headers == {}
    assert request.dropped == ["x", "debug", "X-Y"]
    assert build("/orders", json_body={"total": 1}).json_body is None


def test_values_become_text() -> None:
    request = build("/orders", query_params={"status": [True, None, {"a": 1}], "limit": None})
    assert request.query == [("status", "true"), ("status", ""), ("status", '{"a": 1}')]


def test_a_plan_never_sets_the_authorisation() -> None:
    """D10"""
    names = ["Authorization", "Cookie", "Host", "X-Page"]
    endpoint = {"method": "GET", "path": "/x", "headers": [{"name": name} for name in names]}
    catalogue = Catalogue.model_validate({"endpoints": [endpoint]})
    plan = ApiCallPlan(path="/x", headers=dict.fromkeys(names, "a\r\nb"))
    request = build_request(plan, catalogue, BASE, ["GET"])
    assert request.headers == {"X-Page": "a b"}


def test_base_url_order() -> None:
    """D08"""
    settings, environment = ApiSettings(base_url="https://own.example/", hosts=["tenant.example"]), {}
    assert find_base_url({}, ApiSettings(), CATALOGUE, {}) == ("https://docs.example", True)
    assert find_base_url({}, settings, CATALOGUE, environment) == ("https://own.example", True)
    environment = {"BOS_API_BASE_URL": "https://env.example/v1"}
    assert find_base_url({}, settings, CATALOGUE, environment) == ("https://env.example/v1", True)
    given = {"api_base_url": "https://tenant.example/v3/"}
    assert find_base_url(given, settings, CATALOGUE, environment) == ("https://tenant.example/v3", False)
    same = {"api_base_url": "https://env.example:443/v2"}
    assert find_base_url(same, settings, CATALOGUE, environment) == ("https://env.example:443/v2", True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://169.254.169.254/latest", "add this host to system.api.hosts"),
        ("https://tenant.example:8443", "add this host"),
        ("file:///etc/passwd", "is no address"),
        ("https://user:pw@tenant.example", "is no address"),
        ("tenant.example", "is no address"),
    ],
)
def test_a_request_names_only_hosts_that_are_allowed(given: str, expected: str) -> None:
    settings = ApiSettings(base_url="https://own.example", hosts=["tenant.example:443"])
    with pytest.raises(AgentFailureError, match=expected) as raised:
        find_base_url({"api_base_url": given}, settings, CATALOGUE, {})
    assert raised.value.kind == "ConfigurationError"


def test_no_base_url_is_a_configuration_error() -> None:
    bare = Catalogue.model_validate(DOCUMENTATION)
    with pytest.raises(AgentFailureError, match="has no base URL"):
        find_base_url({}, ApiSettings(), bare, {})
    with pytest.raises(AgentFailureError, match="is no address"):
        find_base_url({}, ApiSettings(), bare, {"BOS_API_BASE_URL": "ftp://x"})


def test_a_plan_without_fields_makes_no_request_and_nothing_stands_for_empty_parameters() -> None:
    empty = {"method": "GET", "path": "", "path_params": {}, "query_params": {}, "json_body": None, "headers": {}}
    expected = {"make_request": False, **empty, "reason": "", "failure_reason": None}
    assert ApiCallPlan().model_dump() == expected
    nothing = dict.fromkeys(("path_params", "query_params", "headers"))
    assert ApiCallPlan.model_validate(nothing).model_dump() == expected


def test_a_request_is_whole() -> None:
    endpoint = {
        "method": "PATCH",
        "path": "/a/:x/b/:y",
        "query_params": [{"name": "q"}, {"name": "r"}],
        "headers": [{"name": "X-A"}, {"name": "X-None"}, {"name": "Cookie"}],
        "body": {"properties": {"n": {}}},
    }
    catalogue = Catalogue.model_validate({"endpoints": [endpoint]})
    plan = ApiCallPlan(
        method=" patch ",
        path=" /a/1/b/:y?q=old&r=c%20d&s=1 ",
        path_params={"x": 2, "y": False},
        query_params={"q": ["é", 1.5, ["ü"]], "z": None},
        headers={"X-A": "one\ntwo", "cookie": "c", "Cookie": "c", "X-B": "b"},
        json_body={"n": None, "m": 1},
    )
    assert build_request(plan, catalogue, BASE, ["get", "patch"]) == ApiRequest(
        endpoint=catalogue.endpoints[0],
        method="PATCH",
        url=f"{BASE}/a/2/b/false",  # the plan's value replaces that of its path
        query=[("q", "é"), ("q", "1.5"), ("q", '["ü"]'), ("r", "c d")],
        headers={"X-A": "one two"},
        json_body={"n": None},
        dropped=["s", "z", "cookie", "X-B", "Cookie", "m"],
    )


@pytest.mark.parametrize(
    "name", ["Authorization", "Proxy-Authorization", "COOKIE", "host", "Connection", "transfer-encoding"]
)
def test_a_header_of_the_connection_is_dropped_even_if_it_is_documented(name: str) -> None:
    catalogue = Catalogue.model_validate({"endpoints": [{"method": "GET", "path": "/x", "headers": [{"name": name}]}]})
    request = build_request(ApiCallPlan(path="/x", headers={name: "v"}), catalogue, BASE, ["GET"])
    assert (request.headers, request.dropped) == ({}, [name])


@pytest.mark.parametrize("path", ["orders", "//orders", "/a/../orders", "/..", "/a\\b", "/orders#x", ""])
def test_a_path_that_leads_out_of_the_api_is_refused_as_such(path: str) -> None:
    catalogue = Catalogue.model_validate(
        {"endpoints": [{"method": "GET", "path": "/:a"}, {"method": "GET", "path": "/:a/:b"}]}
    )
    with pytest.raises(AgentFailureError) as raised:
        build_request(ApiCallPlan(path=path), catalogue, BASE, ["GET"])
    expected = f"the path {path!r} leads out of the API; expected one of its documentation"
    assert (raised.value.kind, str(raised.value)) == ("PathResolutionError", expected)


def test_a_refused_path_is_named_by_its_first_200_characters() -> None:
    assert str(refused("/" + "a" * 200)) == f"GET /{'a' * 199} is not in the API's documentation"
    expected = f"the path {'a' * 200!r} leads out of the API; expected one of its documentation"
    assert str(refused("a" * 201)) == expected
    assert refused("/orders", method="PUT").kind == "PlanningDeclined"


@pytest.mark.parametrize("value", ["", ".", "..", ":x", None])
def test_a_path_parameter_needs_a_value_that_stays_in_its_place(value: object) -> None:
    catalogue = Catalogue.model_validate({"endpoints": [{"method": "GET", "path": "/a/:x"}]})
    with pytest.raises(AgentFailureError, match=r"^the path /a/:x needs a value for x$"):
        build_request(ApiCallPlan(path="/a/:x", path_params={"x": value}), catalogue, BASE, ["GET"])


@pytest.mark.parametrize(
    ("schema", "body", "kept", "dropped"),
    [
        (None, {"a": 1}, None, ["a"]),
        ({"properties": {"a": {}}}, None, None, []),
        ({"properties": {"a": {}}}, {"a": 1, "b": 2}, {"a": 1}, ["b"]),
        ({"properties": {"a": {}}, "additionalProperties": True}, {"a": 1, "b": 2}, {"a": 1, "b": 2}, []),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 2}, {}, ["b"]),
        ({"type": "object"}, {"b": 2}, {"b": 2}, []),
    ],
)
def test_a_body_has_the_properties_of_its_schema(schema: Any, body: Any, kept: Any, dropped: list[str]) -> None:
    catalogue = Catalogue.model_validate({"endpoints": [{"method": "POST", "path": "/x", "body": schema}]})
    request = build_request(ApiCallPlan(method="POST", path="/x", json_body=body), catalogue, BASE, ["POST"])
    assert (request.json_body, request.dropped) == (kept, dropped)


@pytest.mark.parametrize(
    ("own", "given", "is_own"),
    [
        ("https://own.example/v1", "https://own.example:443/v2", True),
        ("http://own.example:80", "http://OWN.example", True),
        ("https://own.example", "http://own.example", False),
        ("https://own.example", "https://own.example:80", False),
        ("http://own.example", "http://own.example:443", False),
        ("https://own.example", "https://other.example", False),
        (None, "https://own.example", False),
    ],
)
def test_credentials_belong_to_one_scheme_host_and_port(own: str | None, given: str, is_own: bool) -> None:
    bare = Catalogue.model_validate(DOCUMENTATION)
    settings = ApiSettings(base_url=own, hosts=["Own.example", "other.example"])
    assert find_base_url({"api_base_url": given}, settings, bare, {}) == (given, is_own)


@pytest.mark.parametrize(
    ("hosts", "is_allowed"),
    [(["tenant.example:8443"], True), (["TENANT.example"], True), (["tenant.example:8444"], False), ([], False)],
)
def test_a_host_is_allowed_at_every_port_or_at_one(hosts: list[str], is_allowed: bool) -> None:
    context, settings = {"api_base_url": "https://Tenant.example:8443/a//"}, ApiSettings(hosts=hosts)
    if is_allowed:
        assert find_base_url(context, settings, CATALOGUE, {}) == ("https://Tenant.example:8443/a", False)
        return
    with pytest.raises(AgentFailureError) as raised:
        find_base_url(context, settings, CATALOGUE, {})
    assert (raised.value.kind, str(raised.value)) == (
        "ConfigurationError",
        "the context's api_base_url is at Tenant.example:8443; to allow it, add this host to system.api.hosts",
    )


@pytest.mark.parametrize(
    ("base_url", "context", "message"),
    [
        ("ftp://x", {}, "the API's base URL 'ftp://x' is no address"),
        ("ftp://x", {"api_base_url": "https://a.example"}, "the API's base URL 'ftp://x' is no address"),
        (None, {"api_base_url": "a"}, "the context's api_base_url 'a' is no address"),
        (
            None,
            {"api_base_url": " "},
            "the API has no base URL; set system.api.base_url, BOS_API_BASE_URL, or base_url in its documentation",
        ),
    ],
)
def test_a_base_url_that_is_missing_or_no_address_is_named(
    base_url: str | None, context: dict[str, object], message: str
) -> None:
    with pytest.raises(AgentFailureError) as raised:
        find_base_url(context, ApiSettings(base_url=base_url), Catalogue.model_validate(DOCUMENTATION), {})
    assert (raised.value.kind, str(raised.value)) == ("ConfigurationError", message)


@pytest.mark.parametrize("path", ["/a/:x/:x_y", "/a/:x_y/:x"])
def test_a_parameter_whose_name_begins_like_another_has_its_own_value(path: str) -> None:
    catalogue = Catalogue.model_validate({"endpoints": [{"method": "GET", "path": path}]})
    plan = ApiCallPlan(path=path, path_params={"x": ":x_y", "x_y": 2})
    expected = path.replace(":x_y", "2").replace(":x", "%3Ax_y")
    assert build_request(plan, catalogue, BASE, ["GET"]).url == BASE + expected
