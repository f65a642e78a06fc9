"""Objects of the running Python program, named in a configuration like an importable target.

    with name_object(classifier, "Classifier") as target:     # "in-memory:Classifier-3f2a91c0"
        find_object(target)                                   # classifier

The name has a digest of the object's source, so that two runs with different code have different configurations.
"""

import hashlib
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from threading import Lock

from mas.runtime.errors import UserError

PREFIX = "in-memory:"  # not the name of a module
_DIGEST_CHARS = 8
_OBJECTS: dict[str, object] = {}
_LOCK = Lock()


@contextmanager
def name_object(value: object, name: str) -> Iterator[str]:
    """Yield a target that names the object inside the block; in `name`, what is no letter, digit or `_` is replaced."""
    stem = f"{PREFIX}{re.sub(r'[^A-Za-z0-9_]+', '_', name)}{_digest_source(value)}"
    with _LOCK:
        target = next(each for n in count(1) if (each := stem if n == 1 else f"{stem}_{n}") not in _OBJECTS)
        _OBJECTS[target] = value
    try:
        yield target
    finally:
        del _OBJECTS[target]


def is_in_memory(target: object) -> bool:
    return isinstance(target, str) and target.startswith(PREFIX)


def find_object(target: str) -> object:
    """Return the object of a target; UserError: this process has no such object."""
    try:
        return _OBJECTS[target]
    except KeyError as error:
        raise UserError(
            f"{target} is an object of a Python program that is over, and cannot be loaded again; put it into a module "
            "and give package.module:name."
        ) from error


def list_in_memory(config: Mapping[str, object]) -> list[str]:
    """Return the parts of a run's configuration that only memory held, such as `system`."""
    parts = [(name, part) for name, part in config.items() if isinstance(part, Mapping)]
    return [name for name, part in parts if any(is_in_memory(value) for value in part.values())]


def _digest_source(value: object) -> str:
    """Return the beginning of a digest of the code; empty for data, and for code without a source."""
    code = value if inspect.isroutine(value) or inspect.isclass(value) else type(value)
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):
        return ""
    return f"-{hashlib.sha256(source.encode('utf-8', 'replace')).hexdigest()[:_DIGEST_CHARS]}"
