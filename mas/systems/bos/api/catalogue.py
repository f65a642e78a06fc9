"""Catalogue of an API's endpoints, from its documentation file (`api_docs_context.yaml`).

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
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from mas.runtime.text import name_type
from mas.systems.bos.contracts import AgentFailureError
from mas.systems.bos.settings import Method

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
