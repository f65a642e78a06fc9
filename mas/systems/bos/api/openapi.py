"""Import of an OpenAPI 3 document into the form of `api_docs_context.yaml`.

    convert_openapi({"openapi": "3.1.0", "paths": {"/orders/{id}": {"get": {…}}}})

References inside the document (`#/components/…`) are resolved, those to other files or addresses are not followed.
"""

from collections.abc import Iterator, Mapping

_METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_MAX_REFERENCES = 20  # one after another
_PLACES = {"path": "path_params", "query": "query_params", "header": "headers"}


def convert_openapi(document: Mapping[str, object]) -> dict[str, object]:
    """Return base URL, authorisation, endpoints and snippets of the document.

    Raises:
        ValueError: it is no OpenAPI 3 document, or a reference cannot be resolved.
    """
    if not str(document.get("openapi", "")).startswith("3."):
        raise ValueError(f"openapi is {document.get('openapi')!r}; expected version 3")
    info, server = _as_mapping(document.get("info")), _as_mapping(next(iter(_as_list(document.get("servers"))), None))
    url = str(server.get("url", ""))
    title, text = str(info.get("title", "API")), str(info.get("description", "")).strip()
    return {
        "base_url": url if url.startswith(("http://", "https://")) else None,
        "auth": "bearer" if document.get("security") else "none",
        "endpoints": list(_convert_paths(document)),
        "snippets": [{"title": title, "text": text}] if text else [],
    }


def _convert_paths(document: Mapping[str, object]) -> Iterator[dict[str, object]]:
    for path, item in _as_mapping(document.get("paths")).items():
        shared = _resolve(document, item)
        for method in _METHODS:
            if method in shared:
                yield _convert_operation(document, str(path), method, shared)


def _convert_operation(
    document: Mapping[str, object], path: str, method: str, shared: Mapping[str, object]
) -> dict[str, object]:
    operation = _resolve(document, shared[method])
    endpoint: dict[str, object] = {
        "method": method,
        "path": path,
        "summary": str(operation.get("summary", "")),
        "description": str(operation.get("description", "")),
        "tags": [str(tag) for tag in _as_list(operation.get("tags"))],
        "body": _find_body(document, operation),
    }
    if "security" in operation:
        endpoint["auth"] = "bearer" if operation["security"] else "none"
    given = [*_as_list(shared.get("parameters")), *_as_list(operation.get("parameters"))]
    parameters = [_resolve(document, each) for each in given]
    for place, key in _PLACES.items():  # an operation's parameter replaces the path's of the same name
        found = {str(each.get("name")): each for each in parameters if each.get("in") == place}
        endpoint[key] = [_convert_parameter(document, name, each) for name, each in found.items()]
    return endpoint


def _convert_parameter(document: Mapping[str, object], name: str, parameter: Mapping[str, object]) -> dict[str, object]:
    schema = _resolve(document, parameter.get("schema"))
    return {
        "name": name,
        "type": str(schema.get("type", "string")),
        "required": parameter.get("required") is True,
        "description": str(parameter.get("description", "")),
        "enum": _as_list(schema.get("enum")),
    }


def _find_body(document: Mapping[str, object], operation: Mapping[str, object]) -> object:
    content = _as_mapping(_resolve(document, operation.get("requestBody")).get("content"))
    media = _as_mapping(content.get("application/json"))
    return _resolve_all(document, media.get("schema")) if media else None


def _resolve(document: Mapping[str, object], value: object) -> Mapping[str, object]:
    """Return a part of the document, or what its reference leads to."""
    for _ in range(_MAX_REFERENCES + 1):
        part = _as_mapping(value)
        if "$ref" not in part:
            return part
        value = _follow(document, str(part["$ref"]))
    raise ValueError("its references lead in a circle")


def _follow(document: Mapping[str, object], reference: str) -> object:
    if not reference.startswith("#/"):
        raise ValueError(f"the reference {reference!r} leads out of the document; bundle it into one file")
    part: object = document
    for key in reference[2:].split("/"):
        key = key.replace("~1", "/").replace("~0", "~")
        if not isinstance(part, Mapping) or key not in part:
            raise ValueError(f"the reference {reference!r} leads nowhere")
        part = part[key]
    return part


def _resolve_all(document: Mapping[str, object], value: object, depth: int = 0) -> object:
    """Return a schema without references; what is nested deeper than a prompt needs is left out."""
    if depth > _MAX_REFERENCES:
        return {}
    if isinstance(value, Mapping):
        part = _resolve(document, value)
        return {str(key): _resolve_all(document, each, depth + 1) for key, each in part.items()}
    return [_resolve_all(document, each, depth + 1) for each in value] if isinstance(value, list) else value


def _as_mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
