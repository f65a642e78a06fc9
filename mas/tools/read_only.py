"""Tools that only look: the same call with the same files and settings need not be made twice.

`SampleContext.tool_log` has what they returned, before it was marked and cut for a prompt: to this sample alone (a
search
for prompts), or to any question of this run or of others (`cache.tools`). A failure is not kept, nor is a makeshift
that the tool itself calls so.

    @read_only
    def calculator(expression: str) -> str: …

    kept = await kept_observation(current_question(), dspy.Tool(calculator), {"expression": "2+2"})
    kept.find()      # None: the tool has to be asked
    with kept.asking():
        returned = calculator("2+2")     # inside, a tool may call not_to_be_kept()
    kept.keep(returned)              # what to go on with
"""

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from mas.runtime.sample_context import KeptResult, SampleContext, ToolResults
from mas.tools.attachments import attached_digests, attached_files
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import get_settings


@cache
def code_digest(module_name: str) -> str:
    """SHA-256 of the Python files of the package that a module is in, else of its own; as they are at the first call.

    What they import from elsewhere, such as a library, is not in it.
    """
    module = sys.modules.get(module_name)
    package = sys.modules.get(getattr(module, "__package__", None) or "")
    folders = [Path(folder) for folder in getattr(package, "__path__", ())]
    files = sorted((file.relative_to(folder).as_posix(), file) for folder in folders for file in folder.rglob("*.py"))
    if not files and (own := getattr(module, "__file__", None)):
        files = [("", Path(own))]
    digest = hashlib.sha256()
    for name, file in files:
        if file.is_file():  # an editor's lock is a link to nowhere
            digest.update(f"{name}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


_MARK, _COUNT = "is_read_only", "counted_by"
_Tool = TypeVar("_Tool", bound=Callable[..., Any])
_NOT_SHAPING = frozenset(  # settings that change when, how often and how much of it is shown, not what is found
    (
        *("fail_fast", "max_output_chars", "browser", "sandbox"),  # what browser and code return is never kept
        *("attempts", "max_retry_after_seconds", "contact"),
        *("search_requests_per_minute", "wikipedia_requests_per_minute", "youtube_requests_per_minute"),
        *("pages_per_minute_and_host", "max_searches_per_question"),
    )
)


def read_only(tool: _Tool) -> _Tool:
    """Mark a tool that changes nothing, and that depends on nothing but its arguments and the question's own files."""
    setattr(tool, _MARK, True)
    code_digest(tool.__module__)  # now, while the code that will answer is what stands in the file
    return tool


def is_read_only(tool: Callable[..., Any]) -> bool:
    """Also behind decorators that keep to `functools.wraps`."""
    return getattr(tool, _MARK, False) is True


def counted(count: Callable[[], None]) -> Callable[[_Tool], _Tool]:
    """Mark a tool that counts its calls, for a limit of its own.

    `count`: what it does itself when it is asked; done for a kept answer as well, or a resumed question would be
    allowed what it was refused before, and go another way.
    """

    def marked(tool: _Tool) -> _Tool:
        setattr(tool, _COUNT, count)
        return tool

    return marked


def not_to_be_kept() -> None:
    """Said by a tool while it is called: what this call returns is no more than what could be had now."""
    if (asked := _asked.get()) is not None:
        asked.drop()


class KeptObservation:
    """What one call returned before; without a log nothing is found or kept."""

    def __init__(self, log: ToolResults | None = None, key: str = "", count: Callable[[], None] | None = None) -> None:
        self._log, self._key, self._count = log, key, count

    def find(self) -> KeptResult | None:
        """
        Raises:
            ToolError: the tool would have refused the question one more call.
        """
        found = None if self._log is None else self._log.find(self._key)
        if found is not None and self._count is not None:
            self._count()
        return found

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around the call, also where the tool runs in a thread or task of its own, started with this context."""
        token = _asked.set(self)
        try:
            yield
        finally:
            _asked.reset(token)

    def drop(self) -> None:
        self._log = None

    def keep(self, returned: str, events: Sequence[Mapping[str, Any]] = ()) -> str:
        """What to go on with, as a resumed run will: of calls made side by side, all have what the first was told."""
        if self._log is None:
            return returned
        self._log.keep(self._key, KeptResult(returned, tuple(events)))
        kept = self._log.find(self._key)
        return returned if kept is None else kept.returned


async def kept_observation(context: SampleContext | None, tool: Any, arguments: Mapping[str, Any]) -> KeptObservation:
    """`tool`: a `dspy.Tool`; None: there is none of that name. Nothing is kept of one that is not marked."""
    if context is None or context.tool_log is None or tool is None or not is_read_only(tool.func):
        return KeptObservation()
    # A file is read once for its digest, and may be large: not on the event loop.
    files = await asyncio.to_thread(attached_digests) if attached_files() else []
    function = [getattr(tool.func, name, "") for name in ("__module__", "__qualname__")]
    called = ("tool", *function, *_code(tool.func), tool.name, sorted(arguments.items()))
    everything = repr((*called, files, _shaping(get_settings(ToolSettings))))  # whatever a model makes up has one
    digest = hashlib.sha256(everything.encode()).hexdigest()
    return KeptObservation(context.tool_log, digest, getattr(tool.func, _COUNT, None))


def _code(function: Any) -> Iterator[str]:
    """Digests: of a decorator, and of what is behind it."""
    while function is not None:
        named = getattr(function, "__module__", "")  # of a decorator: what it is wrapped around
        yield code_digest(getattr(function, "__globals__", {}).get("__name__", named))
        function = getattr(function, "__wrapped__", None)


def _shaping(settings: ToolSettings) -> str:
    """What a result depends on; whether there is a key decides who answers a search."""
    return f"{json.dumps(settings, default=_shaping_fields, sort_keys=True)} {bool(settings.web.search_api_key)}"


def _shaping_fields(part: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if name not in _NOT_SHAPING}


_asked: ContextVar[KeptObservation | None] = ContextVar("asked", default=None)
