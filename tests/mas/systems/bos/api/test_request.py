"""Requests: only what is documented, below the base URL, is sent."""

import json
from typing import Any

import httpx
import pytest

from mas.systems.bos.api.catalogue import ApiCallPlan, Catalogue, build_request, find_base_url
from mas.systems.bos.contracts import AgentFailureError
from mas.systems.bos.settings import ApiSettings
from tests.servers.orders_api import DOCUMENTATION

CATALOGUE = Catalogue.model_validate(DOCUMENTATION | {"base_url": "https://docs.example"})
BASE = "https://api.example/v1"


def build(path: str, methods: tuple[str, ...] = ("GET",), **plan: Any) -> httpx.Request:
    return build_request(ApiCallPlan(make_request=True, path=path, **plan), CATALOGUE, BASE, methods)[1]


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
    request = build("/orders", ("get", "POST"), method="post", json_body={"total": 3, "admin": True})
    assert (request.method, json.loads(request.content)) == ("POST", {"total": 3})


def test_what_the_endpoint_does_not_document_is_dropped() -> None:
    """D26"""
    request = build("/orders?status=open&x=1", query_params={"limit": 5, "debug": True}, headers={"X-Y": "1"})
    assert dict(request.url.params) == {"status": "open", "limit": "5"}
    assert "X-Y" not in request.headers
    assert build("/orders", json_body={"total": 1}).content == b""


def test_values_in_an_address_are_json_and_not_python() -> None:
    assert build("/orders/:order_id", path_params={"order_id": True}).url.path.endswith("/orders/true")
    values = {"status": ["open", {"is": None}], "limit": False}
    request = build("/orders", query_params=values)
    assert request.url.params.multi_items() == [("status", "open"), ("status", '{"is": null}'), ("limit", "false")]


def test_a_plan_never_sets_the_authorisation() -> None:
    """D10"""
    names = ["Authorization", "Cookie", "Host", "X-Page"]
    endpoint = {"method": "GET", "path": "/x", "headers": [{"name": name} for name in names]}
    catalogue = Catalogue.model_validate({"endpoints": [endpoint]})
    plan = ApiCallPlan(path="/x", headers=dict.fromkeys(names, "a b"))
    _, request = build_request(plan, catalogue, BASE, ["GET"])
    assert request.headers.items() - {("host", "api.example")} == {("x-page", "a b")}


def test_base_url_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """D08"""
    monkeypatch.delenv("BOS_API_BASE_URL", raising=False)
    settings = ApiSettings(base_url="https://own.example/", hosts=["tenant.example"])
    assert find_base_url({}, ApiSettings(), CATALOGUE) == ("https://docs.example", True)
    assert find_base_url({}, settings, CATALOGUE) == ("https://own.example", True)
    monkeypatch.setenv("BOS_API_BASE_URL", "https://env.example/v1")
    assert find_base_url({}, settings, CATALOGUE) == ("https://env.example/v1", True)
    given = {"api_base_url": "https://tenant.example/v3/"}
    assert find_base_url(given, settings, CATALOGUE) == ("https://tenant.example/v3", False)
    same = {"api_base_url": "https://env.example:443/v2"}
    assert find_base_url(same, settings, CATALOGUE) == ("https://env.example:443/v2", True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://169.254.169.254/latest", r"set \+system\.api\.hosts=\[169\.254\.169\.254\]"),
        ("https://tenant.example:8443", r"set \+system\.api\.hosts=\[tenant\.example:8443\]"),
        ("file:///etc/passwd", "is no address"),
        ("https://user:pw@tenant.example", "is no address"),
        ("tenant.example", "is no address"),
    ],
)
def test_a_request_names_only_hosts_that_are_allowed(given: str, expected: str) -> None:
    settings = ApiSettings(base_url="https://own.example", hosts=["tenant.example:443"])
    with pytest.raises(AgentFailureError, match=expected) as raised:
        find_base_url({"api_base_url": given}, settings, CATALOGUE)
    assert raised.value.kind == "ConfigurationError"


def test_no_base_url_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOS_API_BASE_URL", raising=False)
    bare = Catalogue.model_validate(DOCUMENTATION)
    with pytest.raises(AgentFailureError, match="has no base URL"):
        find_base_url({}, ApiSettings(), bare)
    monkeypatch.setenv("BOS_API_BASE_URL", "ftp://x")
    with pytest.raises(AgentFailureError, match="is no address"):
        find_base_url({}, ApiSettings(), bare)
