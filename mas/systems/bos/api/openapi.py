"""Import of an OpenAPI 3 document into the form of `api_docs_context.yaml`.

    convert_openapi({"openapi": "3.1.0", "paths": {"/orders/{id}": {"get": {…}}}})

References inside the document (`#/components/…`) are resolved, those to other files or addresses are not followed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_MAX_DEPTH = 20  # of a schema: what is nested deeper than a prompt needs is left out
_PLACES = {"path": "path_params", "query": "query_params", "header": "headers"}


def convert_openapi(document: Mapping[str, Any]) -> dict[str, object]:
    """Return base URL, authorisation, endpoints and snippets of the document.

    Raises:
        ValueError: it is no OpenAPI 3 document, or a reference cannot be resolved.
    """
    if not str(document.get("openapi", "")).startswith("3."):
        raise ValueError(f"openapi is {document.get('openapi')!r}; expected version 3")
    info = _resolve(document, document.get("info"))
    server = _resolve(document, next(iter(_to_list(document.get("servers"))), None))
    url, text = _to_text(server.get("url")), _to_text(info.get("description")).strip()
    return {
        "base_url": url if url.startswith(("http://", "https://")) else None,
        "auth": "bearer" if document.get("security") else "none",
        "endpoints": list(_convert_paths(document)),
        "snippets": [{"title": str(info.get("title", "API")), "text": text}] if text else [],
    }


def _convert_paths(document: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    for path, item in _resolve(document, document.get("paths")).items():
        shared = _resolve(document, item)
        for method in _METHODS:
            if method in shared:
                yield _convert_operation(document, str(path), method, shared)


def _convert_operation(
    document: Mapping[str, Any], path: str, method: str, shared: Mapping[str, Any]
) -> dict[str, object]:
    operation = _resolve(document, shared[method])
    content = _resolve(document, _resolve(document, operation.get("requestBody")).get("content"))
    endpoint: dict[str, object] = {
        "method": method,
        "path": path,
        "summary": _to_text(operation.get("summary")),
        "description": _to_text(operation.get("description")),
        "tags": [_to_text(each) for each in _to_list(operation.get("tags"))],
        "body": _resolve_all(document, _resolve(document, content.get("application/json")).get("schema")),
    }
    if "security" in operation:
        endpoint["auth"] = "bearer" if operation["security"] else "none"
    given = [*_to_list(shared.get("parameters")), *_to_list(operation.get("parameters"))]
    parameters = [_resolve(document, each) for each in given]
    for place, key in _PLACES.items():  # an operation's parameter replaces the path's of the same name
        found = {_to_text(each.get("name")): each for each in parameters if each.get("in") == place}
        endpoint[key] = [_convert_parameter(document, each) for each in found.values()]
    return endpoint


def _convert_parameter(document: Mapping[str, Any], parameter: Mapping[str, Any]) -> dict[str, object]:
    schema = _resolve(document, parameter.get("schema"))
    return {
        "name": _to_text(parameter.get("name")),
        "type": str(schema.get("type", "string")),
        "required": parameter.get("required") is True,
        "description": _to_text(parameter.get("description")),
        "enum": _to_list(schema.get("enum")),
    }


def _to_text(value: object) -> str:
    return "" if value is None else str(value)


def _to_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _resolve(document: Mapping[str, Any], part: object) -> Mapping[str, Any]:
    """Return a part of the document, or what its reference leads to; one of another form is empty."""
    if not isinstance(part, Mapping):
        return {}
    seen: list[str] = []
    while "$ref" in part:
        reference = str(part["$ref"])
        if not reference.startswith("#/"):
            raise ValueError(f"the reference {reference!r} leads out of the document; bundle it into one file")
        if reference in seen:
            raise ValueError("its references lead in a circle")
        seen.append(reference)
        part = document
        for key in reference[2:].split("/"):
            part = part.get(key.replace("~1", "/").replace("~0", "~"))
            if not isinstance(part, Mapping):
                raise ValueError(f"the reference {reference!r} leads nowhere")
    return part


def _resolve_all(document: Mapping[str, Any], value: object, depth: int = 0) -> object:
    """Return a schema without references."""
    if depth > _MAX_DEPTH:
        return {}
    if isinstance(value, Mapping):
        return {str(key): _resolve_all(document, each, depth + 1) for key, each in _resolve(document, value).items()}
    return [_resolve_all(document, each, depth + 1) for each in value] if isinstance(value, list) else value
