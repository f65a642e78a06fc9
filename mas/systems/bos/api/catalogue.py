"""Catalogue of an API's endpoints, from its documentation file (`api_docs_context.yaml`), and requests to them.

base_url: https://api.example.org
auth: bearer                        # none: no endpoint needs a token
endpoints:
  - method: GET
    path: /orders/:order_id         # {order_id} is understood, too
    summary: One order
    query_params: [{name: fields, type: string}]
    auth: none                      # of this endpoint
snippets:
  - {title: Paging, text: "Lists are cut to `limit` entries."}

catalogue = load_catalogue(Path("api_docs_context.yaml"))
catalogue.find("GET", "/orders/17")           # (Endpoint(…), {"order_id": "17"})

The plan of a language model is data: its path is matched to a documented endpoint, and parameters that this one does
not have are dropped. Nothing is sent that the documentation does not have.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from mas.runtime.text import is_web_address, name_type
from mas.systems.bos.contracts import AgentFailureError, get_text
from mas.systems.bos.settings import BASE_URL_ENV, ApiSettings, Method

Auth = Literal["bearer", "none"]
FEW_ENDPOINTS = 30
MAX_INDEX_LINES = 300
_PATH_PARAM = re.compile(r":(\w+)")


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
        names = _PATH_PARAM.findall(path)
        if len(set(names)) != len(names) or not all(name.isidentifier() for name in names):
            raise ValueError(f"{value!r} needs a name of its own for each parameter; expected for example :order_id")
        return path

    @property
    def path_names(self) -> list[str]:
        return _PATH_PARAM.findall(self.path)

    def match(self, path: str) -> dict[str, str] | None:
        """Return the values of the parameters in a path, which may still have `:name` in their place; None: another."""
        pattern = "".join(
            f"(?P<{part[1:]}>[^/]+)" if part.startswith(":") else re.escape(part)
            for part in re.split(r"(:\w+)", self.path.rstrip("/"))
        )
        matched = re.fullmatch(pattern, path.rstrip("/"))
        if matched is None:
            return None
        return {name: unquote(value) for name, value in matched.groupdict().items() if value != f":{name}"}


class Snippet(_Documented):
    """Part of the documentation that belongs to no single endpoint."""

    title: str
    text: str


_Part = TypeVar("_Part", Endpoint, Snippet)


class Catalogue(_Documented):
    """Endpoints and snippets, in the order of the documentation."""

    base_url: str | None = None
    auth: Auth = "bearer"
    endpoints: tuple[Endpoint, ...] = Field(min_length=1)
    snippets: tuple[Snippet, ...] = ()

    def find(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]] | None:
        """Return the endpoint of a path with the values of its parameters; paths without parameters come first."""
        by_parameters = sorted(self.endpoints, key=lambda each: len(each.path_names))
        for endpoint in by_parameters:
            if endpoint.method == method and (values := endpoint.match(path)) is not None:
                return endpoint, values
        return None

    def needs_token(self, endpoint: Endpoint) -> bool:
        return (endpoint.auth or self.auth) == "bearer"


def load_catalogue(path: Path) -> Catalogue:
    """Read a documentation file, YAML or JSON; AgentFailureError: the file is missing or malformed."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
        if not isinstance(content, Mapping):
            raise ValueError(f"it holds {name_type(content)}, expected the keys base_url and endpoints")
        return Catalogue.model_validate(dict(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
    except (OSError, ValueError, AttributeError, TypeError, yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
    message = f"the API's documentation {path.name} cannot be used: {reason}"
    raise AgentFailureError("ConfigurationError", message, {"file": str(path)})


def format_endpoint(endpoint: Endpoint) -> str:
    lines = [_title(endpoint)]
    if endpoint.summary and endpoint.description:
        lines.append(f"  {endpoint.description}")
    places = {"path": endpoint.path_params, "query": endpoint.query_params, "header": endpoint.headers}
    for place, parameters in places.items():
        for parameter in parameters:
            need = "required" if parameter.required else "optional"
            choices = f"; one of {', '.join(map(str, parameter.enum))}" if parameter.enum else ""
            about = f": {parameter.description}" if parameter.description else ""
            lines.append(f"  {place} {parameter.name} ({parameter.type}, {need}{choices}){about}")
    if endpoint.body is not None:
        lines.append(f"  JSON body: {json.dumps(endpoint.body, ensure_ascii=False, default=str)}")
    return "\n".join(lines)


def _title(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}: {endpoint.summary or endpoint.description}".rstrip(": ")


def select_documentation(catalogue: Catalogue, question: str, k: int) -> str:
    """Return, for a prompt, the k endpoints and the k snippets that share most words with the question.

    A question may share none with the endpoint that answers it ("Will it rain?"), so a small catalogue, or a poor
    match, comes with an index of all endpoints. Ties keep the order of the documentation.
    """
    words = _tokenise(question)
    endpoints = _rank(catalogue.endpoints, words, _list_words)[:k]
    snippets = _rank(catalogue.snippets, words, lambda snippet: f"{snippet.title} {snippet.text}")[:k]
    parts = [format_endpoint(endpoint) for endpoint in endpoints]
    others = [_title(endpoint) for endpoint in catalogue.endpoints if endpoint not in endpoints]
    if others and (len(catalogue.endpoints) <= FEW_ENDPOINTS or len(endpoints) < k):
        parts.append("\n".join(["Other endpoints:", *others[:MAX_INDEX_LINES]]))
    return "\n\n".join([*parts, *(f"{snippet.title}: {snippet.text}" for snippet in snippets)])


def _rank(parts: Sequence[_Part], words: set[str], describe: Callable[[_Part], str]) -> list[_Part]:
    scored = [(len(words & _tokenise(describe(part))), part) for part in parts]
    return [part for score, part in sorted(scored, key=lambda pair: -pair[0]) if score]  # stable


def _list_words(endpoint: Endpoint) -> str:
    names = [parameter.name for parameter in (*endpoint.path_params, *endpoint.query_params)]
    return " ".join([endpoint.path, endpoint.summary, endpoint.description, *endpoint.tags, *names])


def _tokenise(text: str) -> set[str]:
    """Return the words in lower case, without a plural's "s"."""
    words = re.findall(r"[^\W_]+", text.lower())
    return {word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words}


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
