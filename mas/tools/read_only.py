"""Cache of read-only tools: the same call with the same files and settings is made once.

`SampleContext.tool_log` holds the results, before they are labelled and cut for a prompt: for this sample alone (a
search for prompts), or for any question of this run or of others (`cache.tools`). Failures and results that their tool
calls temporary are not kept.

    @mark_read_only
    def calculator(expression: str) -> ToolResult: …

    call = await open_cached_call(current_context(), dspy.Tool(calculator), {"expression": "2+2"})
    call.find()                              # None: the tool has to be called
    call.keep(calculator("2+2"), events)     # the result to go on with
"""

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mas.runtime.sample_context import KeptResult, SampleContext, ToolResults
from mas.tools.attachments import digest_attachments, list_attachments
from mas.tools.results import ToolResult
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import get_settings

if TYPE_CHECKING:
    import dspy

_MARK, _COUNT = "is_read_only", "counted_by"
_Tool = TypeVar("_Tool", bound=Callable[..., Any])
_WITHOUT_EFFECT = frozenset(  # settings of when, how often and how much of it is shown, not of what is found
    (
        *("fail_fast", "max_output_chars", "browser", "sandbox"),  # results of browser and code are never kept
        *("contact", "max_searches_per_question"),
    )
)


def mark_read_only(tool: _Tool) -> _Tool:
    """Mark a tool that changes nothing and depends on nothing but its arguments and the question's own files."""
    setattr(tool, _MARK, True)
    digest_code(tool.__module__)  # now, while the file still holds the code that was imported
    return tool


def is_read_only(tool: object) -> bool:
    """Return True if a function is marked, also behind decorators that use `functools.wraps`."""
    return getattr(tool, _MARK, False) is True


def count_calls(count: Callable[[], None]) -> Callable[[_Tool], _Tool]:
    """Mark a tool that counts its calls, for a limit of its own.

    Args:
        count: what the tool itself does at each call. It is done for a cached result as well: otherwise a resumed
            question would be allowed calls that it was refused before, and would take another way.
    """

    def mark(tool: _Tool) -> _Tool:
        setattr(tool, _COUNT, count)
        return tool

    return mark


@cache
def digest_code(module_name: str) -> str:
    """Return the SHA-256 of the Python files of a module's package, or of its own file, as of the first call.

    Code that they import from elsewhere, such as a library, is not in it.
    """
    module = sys.modules.get(module_name)
    package = sys.modules.get(getattr(module, "__package__", None) or "")
    folders = [Path(folder) for folder in getattr(package, "__path__", ())]
    files = sorted((file.relative_to(folder).as_posix(), file) for folder in folders for file in folder.rglob("*.py"))
    if not files and (own := getattr(module, "__file__", None)):
        files = [("", Path(own))]
    digest = hashlib.sha256()
    for name, file in files:
        if file.is_file():  # an editor's lock is a dangling link
            digest.update(f"{name}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


class CachedCall:
    """Cache entry of one call; without a log nothing is found or kept."""

    def __init__(self, log: ToolResults | None = None, key: str = "", count: Callable[[], None] | None = None) -> None:
        self._log, self._key, self._count = log, key, count

    def find(self) -> KeptResult | None:
        """Return the result of an earlier call.

        Raises:
            ToolError: the tool would have refused the question one more call.
        """
        found = None if self._log is None else self._log.find(self._key)
        if found is not None and self._count is not None:
            self._count()
        return found

    def keep(self, result: ToolResult, events: Sequence[Mapping[str, Any]] = ()) -> ToolResult:
        """Store a result and return the one to go on with: of parallel calls all get that of the first, as a resumed
        run will.
        """
        if self._log is None or result.is_temporary:
            return result
        self._log.keep(self._key, KeptResult(str(result), tuple(events), facts=result.describe()))
        kept = self._log.find(self._key)
        return result if kept is None else ToolResult.restore(kept.returned, kept.facts)


async def open_cached_call(
    context: SampleContext | None, tool: "dspy.Tool | None", arguments: Mapping[str, object]
) -> CachedCall:
    """Return the cache entry of a call; an empty one for no tool and for a tool that is not read-only."""
    if context is None or context.tool_log is None or tool is None or not is_read_only(tool.func):
        return CachedCall()
    # A file is read once for its digest, and may be large: not on the event loop.
    files = await asyncio.to_thread(digest_attachments) if list_attachments() else []
    function = [getattr(tool.func, name, "") for name in ("__module__", "__qualname__")]
    called = ("tool", *function, *_digest_layers(tool.func), tool.name, sorted(arguments.items()))
    everything = repr((*called, files, _describe_settings(get_settings(ToolSettings))))  # any argument has a repr
    digest = hashlib.sha256(everything.encode()).hexdigest()
    return CachedCall(context.tool_log, digest, getattr(tool.func, _COUNT, None))


def _digest_layers(function: object) -> Iterator[str]:
    """Yield a digest of each decorator's code and of the function's own."""
    while function is not None:
        named = getattr(function, "__module__", "")  # a decorator's own is that of the function that it wraps
        yield digest_code(getattr(function, "__globals__", {}).get("__name__", named))
        function = getattr(function, "__wrapped__", None)


def _describe_settings(settings: ToolSettings) -> str:
    """Return the settings that a result depends on; the presence of a key decides who answers a search."""

    def fields_of(part: object) -> dict[str, object]:
        return {name: value for name, value in vars(part).items() if name not in _WITHOUT_EFFECT}

    return f"{json.dumps(settings, default=fields_of, sort_keys=True)} {bool(settings.web.search_api_key)}"
