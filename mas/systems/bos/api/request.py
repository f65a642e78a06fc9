"""From the plan of a language model to one checked request: nothing is sent that the documentation does not have.

A plan is data: its path is matched to a documented endpoint, and parameters that this one does not have are dropped.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import BaseModel, Field, field_validator

from mas.runtime.text import is_web_address
from mas.systems.bos.api.catalogue import Catalogue, Endpoint
from mas.systems.bos.context import get_text
from mas.systems.bos.contracts import AgentFailureError
from mas.systems.bos.settings import BASE_URL_ENV, ApiSettings

BASE_URL = "api_base_url"  # key of the request's context
# A plan never sets these, even if they are documented.
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
    """Return the request's base URL, if its host is allowed, else that of environment, settings or documentation."""
    # An API that was started counts before the environment's, which may be another one.
    own = (None if settings.command else environment.get(BASE_URL_ENV)) or settings.base_url or catalogue.base_url
    given = get_text(context, BASE_URL)
    for name, url in (("API's base URL", own), (f"context's {BASE_URL}", given)):
        if url is not None and not is_web_address(url):
            raise AgentFailureError("ConfigurationError", f"the {name} {url!r} is no address")
    if given is not None:
        is_own = own is not None and _origin(given) == _origin(own)
        parts, allowed = urlsplit(given), [host.lower() for host in settings.hosts]
        if not is_own and parts.netloc.lower() not in allowed and parts.hostname not in allowed:
            raise AgentFailureError(
                "ConfigurationError",
                f"the context's {BASE_URL} is at {parts.netloc}; to allow it, set +system.api.hosts=[{parts.netloc}]",
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
    """Return the request of a plan, whose method, path and values must be those of the documentation."""
    method = plan.method.strip().upper()
    if method not in {allowed.upper() for allowed in methods}:
        raise AgentFailureError("PlanningDeclined", f"{method} requests are not allowed here")
    path, _, query = plan.path.strip().partition("?")
    matched = catalogue.find(method, path)
    if matched is None:
        raise AgentFailureError("PathResolutionError", f"{method} {path[:200]} is not in the API's documentation")
    endpoint, in_path = matched
    given = {**dict(parse_qsl(query)), **plan.query_params}
    given = {name: value for name, value in given.items() if value is not None}
    wanted, dropped_query = _split(given, [parameter.name for parameter in endpoint.query_params])
    allowed = [header.name for header in endpoint.headers if header.name.lower() not in _FORBIDDEN_HEADERS]
    headers, dropped_headers = _split(plan.headers, allowed)
    schema, body = endpoint.body or {"properties": {}}, plan.json_body or {}
    properties, is_open = schema.get("properties"), schema.get("additionalProperties")
    body, dropped_body = _split(body, properties if isinstance(properties, Mapping) and not is_open else body)
    for name, value in {**wanted, **headers, **body}.items():
        if _is_placeholder(name, value):
            raise AgentFailureError("PlanningDeclined", f"the request needs a value for {name}")
    return ApiRequest(
        endpoint,
        method,
        base_url + _render_path(endpoint, in_path | plan.path_params),
        [(name, _to_text(each)) for name, value in wanted.items() for each in _list(value)],
        {name: _to_text(value) for name, value in headers.items()},
        body if plan.json_body is not None and endpoint.body is not None else None,
        [*dropped_query, *dropped_headers, *dropped_body],
    )


def _split(given: Mapping[str, object], names: Collection[str]) -> tuple[dict[str, object], list[str]]:
    """Return the values that have one of these names, and the other names."""
    kept = {name: value for name, value in given.items() if name in names}
    return kept, [name for name in given if name not in names]


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


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _to_text(value: object) -> str:
    if value is None:
        return ""
    is_json = isinstance(value, bool | dict | list)
    return " ".join((json.dumps(value, ensure_ascii=False) if is_json else str(value)).splitlines())
