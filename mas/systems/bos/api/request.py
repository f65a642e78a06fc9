"""From the plan of a language model to one checked request: nothing is sent that the documentation does not have.

    base = find_base_url(context, settings, catalogue)
    request = build_request(plan, catalogue, base.url, settings.methods)
    request.url, request.dropped

A plan is data: its path is matched to a documented endpoint, and parameters that this one does not have are dropped.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import BaseModel, Field, field_validator

from mas.runtime.text import is_web_address
from mas.systems.bos.api.catalogue import Catalogue, Endpoint, Parameter
from mas.systems.bos.context import get_text
from mas.systems.bos.contracts import AgentFailureError
from mas.systems.bos.settings import BASE_URL_ENV, ApiSettings

BASE_URL = "api_base_url"  # key of the request's context
# A plan never sets these, whatever the documentation says.
_FORBIDDEN_HEADERS = ("authorization", "proxy-authorization", "cookie", "host", "connection", "transfer-encoding")
_PLACEHOLDER = re.compile(r"\$?\{+[\w .-]+\}+|<[\w .-]+>")  # {order_id}, ${TOKEN}, <your id>


class ApiCallPlan(BaseModel):
    """Plan of one request, as a language model writes it."""

    make_request: bool = False
    method: str = "GET"
    path: str = ""
    path_params: dict[str, object] = Field(default_factory=dict)
    query_params: dict[str, object] = Field(default_factory=dict)
    json_body: dict[str, object] | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    reason: str = ""
    failure_reason: str | None = None

    @field_validator("path_params", "query_params", "headers", mode="before")
    @classmethod
    def _fill(cls, value: object) -> object:
        return {} if value is None else value


@dataclass(frozen=True)
class ApiRequest:
    """Request that was checked."""

    endpoint: Endpoint
    method: str
    url: str  # without the query
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    json_body: Mapping[str, object] | None
    dropped: Sequence[str]  # parameters of the plan that the endpoint does not have


class BaseUrl(NamedTuple):
    """Address below which requests are made."""

    url: str
    is_own: bool  # the installation's: its credentials may be sent there


def find_base_url(
    context: Mapping[str, object],
    settings: ApiSettings,
    catalogue: Catalogue,
    environment: Mapping[str, str] = os.environ,
) -> BaseUrl:
    """Return the request's base URL, else that of the environment, else that of settings or documentation.

    Raises:
        AgentFailureError: there is none, it is malformed, or the request's own is at a host that is not allowed.
    """
    of_environment = None if settings.command else environment.get(BASE_URL_ENV)  # which may be another API's
    own = of_environment or settings.base_url or catalogue.base_url
    if own is not None and not is_web_address(own):
        raise AgentFailureError("ConfigurationError", f"the API's base URL {own!r} is no address")
    if given := get_text(context, BASE_URL):
        if not is_web_address(given):
            raise AgentFailureError("ConfigurationError", f"the context's {BASE_URL} {given!r} is no address")
        is_own = own is not None and _origin(given) == _origin(own)
        parts, allowed = urlsplit(given), [each.lower() for each in settings.hosts]
        if not is_own and parts.netloc.lower() not in allowed and parts.hostname not in allowed:
            raise AgentFailureError(
                "ConfigurationError",
                f"the context's {BASE_URL} is at {parts.netloc}; to allow it, add this host to system.api.hosts",
            )
        return BaseUrl(given.rstrip("/"), is_own)
    if own is None:
        raise AgentFailureError(
            "ConfigurationError",
            f"the API has no base URL; set system.api.base_url, {BASE_URL_ENV}, or base_url in its documentation",
        )
    return BaseUrl(own.rstrip("/"), True)


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def build_request(plan: ApiCallPlan, catalogue: Catalogue, base_url: str, methods: Iterable[str]) -> ApiRequest:
    """Return the request of a plan.

    Raises:
        AgentFailureError: its method is not allowed, its path is not documented, or a value was not filled in.
    """
    method = plan.method.strip().upper()
    if method not in {each.upper() for each in methods}:
        raise AgentFailureError("PlanningDeclined", f"{method} requests are not allowed here")
    path, _, query = plan.path.strip().partition("?")
    found = catalogue.find(method, path)
    if found is None:
        raise AgentFailureError("PathResolutionError", f"{method} {path[:200]} is not in the API's documentation")
    endpoint, in_path = found
    given: dict[str, object] = {**dict(parse_qsl(query)), **plan.query_params}
    wanted, dropped_query = _split(given, endpoint.query_params)
    headers, dropped_headers = _split(plan.headers, endpoint.headers)
    refused = [name for name in headers if name.lower() in _FORBIDDEN_HEADERS]
    body, dropped_body = _read_body(plan.json_body, endpoint)
    for name, value in {**wanted, **headers, **(body or {})}.items():
        if _is_placeholder(name, value):
            raise AgentFailureError("PlanningDeclined", f"the request needs a value for {name}")
    return ApiRequest(
        endpoint,
        method,
        base_url + _render_path(endpoint, in_path | plan.path_params),
        [pair for name, value in wanted.items() for pair in _list_values(name, value)],
        {name: _to_text(value) for name, value in headers.items() if name not in refused},
        body,
        [*dropped_query, *dropped_headers, *refused, *dropped_body],
    )


def _split(given: Mapping[str, object], documented: Sequence[Parameter]) -> tuple[dict[str, object], list[str]]:
    """Return the documented parameters among those given, and the names of the others."""
    names = {each.name for each in documented}
    kept = {name: value for name, value in given.items() if name in names and value is not None}
    return kept, [name for name in given if name not in names]


def _read_body(body: Mapping[str, object] | None, endpoint: Endpoint) -> tuple[dict[str, object] | None, list[str]]:
    if body is None or endpoint.body is None:
        return None, list(body or ())
    properties = endpoint.body.get("properties")
    if not isinstance(properties, Mapping) or endpoint.body.get("additionalProperties"):
        return dict(body), []
    kept = {key: value for key, value in body.items() if key in properties}
    return kept, [key for key in body if key not in properties]


def _render_path(endpoint: Endpoint, values: Mapping[str, object]) -> str:
    path = endpoint.path
    for name in endpoint.path_names:
        text = _to_text(values.get(name))
        if text in ("", ".", "..") or _is_placeholder(name, text):
            raise AgentFailureError("PathResolutionError", f"the path {endpoint.path} needs a value for {name}")
        path = path.replace(f":{name}", quote(text, safe=""), 1)
    return path


def _is_placeholder(name: str, value: object) -> bool:
    """Return whether the model has left a value as documentation and templates write it."""
    text = str(value).strip() if isinstance(value, str) else ""
    return text == f":{name}" or _PLACEHOLDER.fullmatch(text) is not None


def _list_values(name: str, value: object) -> list[tuple[str, str]]:
    return [(name, _to_text(each)) for each in value] if isinstance(value, list) else [(name, _to_text(value))]


def _to_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
