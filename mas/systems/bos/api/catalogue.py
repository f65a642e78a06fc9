"""Catalogue of an API's endpoints, from its documentation file, and requests to them.

The plan of a language model is data: its path is matched to a documented endpoint, and parameters that this one does
not have are dropped. Nothing is sent that the documentation does not have.
"""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, quote, unquote

import httpx
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from mas.runtime.text import is_web_address
from mas.systems.bos.contracts import AgentFailureError, get_text
from mas.systems.bos.settings import BASE_URL_ENV, ApiSettings, Method

Auth = Literal["bearer", "none"]
BASE_URL = "api_base_url"  # key of the request's context
MAX_INDEX_LINES = 300  # of the endpoints that a prompt does not describe in full
_PATH_PARAM = re.compile(r":(\w+)")
# A plan never sets these, even if they are documented.
_FORBIDDEN_HEADERS = ("authorization", "proxy-authorization", "cookie", "host", "connection", "transfer-encoding")
_PLACEHOLDER = re.compile(r":[A-Za-z_]\w*|\$?\{+[\w .-]+\}+|<[\w .-]+>")  # :order_id, {order_id}, ${TOKEN}, <your id>


class _Documented(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Parameter(_Documented):
    """Parameter of an endpoint."""

    name: str = Field(min_length=1)
    type: str = "string"
    required: bool = False
    description: str = ""
    enum: tuple[str | int | float | bool, ...] = ()


class Endpoint(_Documented):
    """One method of one path."""

    method: Annotated[Method, BeforeValidator(lambda value: str(value).strip().upper())]
    path: str  # begins with "/"; parameters are written `:name`
    summary: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    path_params: tuple[Parameter, ...] = ()
    query_params: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    body: dict[str, object] | None = None  # JSON schema of the request's body; None: it has none
    auth: Auth | None = None  # None: as the catalogue says

    @field_validator("path")
    @classmethod
    def _normalise_path(cls, value: str) -> str:
        path = re.sub(r"\{(\w+)\}", r":\1", value.strip())
        if not path.startswith("/") or path.startswith("//") or ".." in path:
            raise ValueError(f"{value!r} is no path below the base URL; expected for example /orders/:order_id")
        return path

    @property
    def title(self) -> str:
        return f"{self.method} {self.path}: {self.summary or self.description}".rstrip(": ")

    def match(self, path: str) -> dict[str, str] | None:
        """Return the values of the parameters in a path, which may be missing; None: another path."""
        pattern = _PATH_PARAM.sub("([^/]+)", re.escape(self.path.rstrip("/")))
        matched = re.fullmatch(pattern, path.rstrip("/"))
        if matched is None:
            return None
        values = zip(_PATH_PARAM.findall(self.path), matched.groups(), strict=True)
        return {name: unquote(value) for name, value in values if value != f":{name}"}


class Snippet(_Documented):
    """Part of the documentation that belongs to no single endpoint."""

    title: str
    text: str


class Catalogue(_Documented):
    """Endpoints and snippets, in the order of the documentation."""

    base_url: str | None = None
    auth: Auth = "bearer"
    endpoints: tuple[Endpoint, ...] = Field(min_length=1)
    snippets: tuple[Snippet, ...] = ()

    def find(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]] | None:
        """Return a path's endpoint and its parameters' values; endpoints with fewest come first."""
        for endpoint in sorted(self.endpoints, key=lambda each: each.path.count(":")):
            if endpoint.method == method and (values := endpoint.match(path)) is not None:
                return endpoint, values
        return None

    def needs_token(self, endpoint: Endpoint) -> bool:
        return (endpoint.auth or self.auth) == "bearer"


def load_catalogue(path: Path) -> Catalogue:
    """Read a documentation file, YAML or JSON; AgentFailureError: the file is missing or malformed."""
    import yaml

    try:
        return Catalogue.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
    message = f"the API's documentation {path.name} cannot be used: {reason}"
    raise AgentFailureError("ConfigurationError", message, {"file": str(path)})


def format_endpoint(endpoint: Endpoint) -> str:
    """Return, for a prompt, method, path and summary, and below them the rest as JSON."""
    rest = endpoint.model_dump(exclude_defaults=True, exclude={"method", "path", "summary", "auth"})
    lines = [f"  {name}: {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in rest.items()]
    return "\n".join([endpoint.title, *lines])


def select_documentation(catalogue: Catalogue, question: str, k: int) -> str:
    """Return, for a prompt, the k endpoints and the k snippets that share most words with the question.

    A question may share none with the endpoint that answers it ("Will it rain?"), so the others follow by their titles.
    """
    titles = {format_endpoint(endpoint): endpoint.title for endpoint in catalogue.endpoints}
    endpoints = _choose(titles, question, k)
    snippets = _choose((f"{snippet.title}: {snippet.text}" for snippet in catalogue.snippets), question, k)
    others = [title for text, title in titles.items() if text not in endpoints][:MAX_INDEX_LINES]
    return "\n\n".join([*endpoints, *(["\n".join(["Other endpoints:", *others])] if others else []), *snippets])


def _choose(texts: Iterable[str], question: str, k: int) -> list[str]:
    """Return the k texts with most words of the question, at least one; ties keep their order."""
    words = _tokenise(question)
    scores = {text: len(words & _tokenise(text)) for text in texts}
    return sorted(filter(scores.get, scores), key=lambda text: -scores[text])[:k]


def _tokenise(text: str) -> set[str]:
    """Return the words in lower case, without a plural's "s"."""
    words = re.findall(r"[^\W_]+", text.lower())
    return {word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words}


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


def find_base_url(context: Mapping[str, object], settings: ApiSettings, catalogue: Catalogue) -> tuple[str, bool]:
    """Return the address of requests, and whether the installation's credentials may be sent there.

    It is that of the request's context, whose host must be allowed, else of environment, settings or documentation.
    """
    # An API that was started counts before the environment's, which may be another one.
    own = (None if settings.command else os.environ.get(BASE_URL_ENV)) or settings.base_url or catalogue.base_url
    url = get_text(context, BASE_URL) or own
    if url is None:
        raise AgentFailureError(
            "ConfigurationError",
            f"the API has no base URL; set system.api.base_url, {BASE_URL_ENV}, or base_url in its documentation",
        )
    if wrong := [each for each in (own, url) if each is not None and not is_web_address(each)]:
        raise AgentFailureError("ConfigurationError", f"the API's base URL {wrong[0]!r} is no address")
    root = httpx.URL(url).copy_with(path="/")
    is_own = own is not None and root == httpx.URL(own).copy_with(path="/")
    host = root.netloc.decode()
    if not is_own and not {host, root.host} & {each.lower() for each in settings.hosts}:
        raise AgentFailureError(
            "ConfigurationError",
            f"the context's {BASE_URL} is at {host}; to allow it, set +system.api.hosts=[{host}]",
        )
    return url.rstrip("/"), is_own


def build_request(
    plan: ApiCallPlan, catalogue: Catalogue, base_url: str, methods: Iterable[str]
) -> tuple[Endpoint, httpx.Request]:
    """Return a plan's endpoint and request; method, path and values must be documented."""
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
    wanted = _pick(given, [parameter.name for parameter in endpoint.query_params])
    allowed = [header.name for header in endpoint.headers if header.name.lower() not in _FORBIDDEN_HEADERS]
    headers = _pick(plan.headers, allowed)
    schema, body = endpoint.body or {"properties": {}}, plan.json_body or {}
    properties, is_open = schema.get("properties"), schema.get("additionalProperties")
    body = _pick(body, properties if isinstance(properties, Mapping) and not is_open else body)
    for name, value in {**wanted, **headers, **body}.items():
        if _is_placeholder(value):
            raise AgentFailureError("PlanningDeclined", f"the request needs a value for {name}")
    url = base_url + _render_path(endpoint, in_path | plan.path_params)
    content = None if plan.json_body is None or endpoint.body is None else body
    sent = tuple((name, _to_text(each)) for name, value in wanted.items() for each in _list(value))
    return endpoint, httpx.Request(method, url, params=sent or None, headers=headers, json=content)


def _pick(given: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}


def _render_path(endpoint: Endpoint, values: Mapping[str, object]) -> str:
    def fill(parameter: re.Match[str]) -> str:
        value = values.get(parameter[1])
        if value in (None, "", ".", "..") or _is_placeholder(value):
            raise AgentFailureError("PathResolutionError", f"the path {endpoint.path} needs a value for {parameter[1]}")
        return quote(_to_text(value), safe="")

    return _PATH_PARAM.sub(fill, endpoint.path)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _to_text(value: object) -> str:
    """Return a value as APIs read it in an address: `true`, not `True`; objects and lists as JSON."""
    is_json = isinstance(value, bool | dict | list)
    return json.dumps(value, ensure_ascii=False) if is_json else "" if value is None else str(value)


def _is_placeholder(value: object) -> bool:
    """Return whether the model has left a value as documentation and templates write it."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value.strip()) is not None
