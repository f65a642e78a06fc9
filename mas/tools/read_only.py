"""Cache of read-only tools: the same call with the same files and settings is made once.

`SampleContext.tool_log` holds the results, before they are labelled and cut for a prompt: for this sample alone (a
search for prompts), or for any question of this run (`cache.tools`). Failures are not kept.
"""

import asyncio
import hashlib
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mas.tools.attachments import digest_attachments, list_attachments
from mas.tools.settings import ToolSettings, get_settings

if TYPE_CHECKING:
    import dspy

_MARK = "is_read_only"
_Tool = TypeVar("_Tool", bound=Callable[..., Any])


def mark_read_only(tool: _Tool) -> _Tool:
    """Mark a tool that changes nothing, and depends on its arguments and the question's files alone."""
    setattr(tool, _MARK, True)
    digest_code(tool.__module__)  # now, while the file still holds the code that was imported
    return tool


def is_read_only(tool: object) -> bool:
    """Return True if a function is marked, also behind decorators that use `functools.wraps`."""
    return getattr(tool, _MARK, False) is True


@cache
def digest_code(module_name: str) -> str:
    """Return the SHA-256 of a module's package, or of its own file, as of the first call.

    Code that they import from elsewhere, such as a library, is not in it.
    """
    module, digest = sys.modules.get(module_name), hashlib.sha256()
    own = Path(getattr(module, "__file__", None) or "")
    for file in sorted(own.parent.rglob("*.py")) if getattr(module, "__package__", None) else [own]:
        if file.is_file():  # an editor's lock is a dangling link
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


async def compute_key(tool: "dspy.Tool", arguments: Mapping[str, object]) -> str:
    """Return the key of a call in `SampleContext.tool_log`."""
    # A file is read once for its digest, and may be large: not on the event loop.
    files = await asyncio.to_thread(digest_attachments) if list_attachments() else []
    function = [getattr(tool.func, name, "") for name in ("__module__", "__qualname__")]
    code, settings = digest_code(unwrap(tool.func).__module__), get_settings(ToolSettings)
    web, sounds = replace(settings.web, contact=""), settings.transcription
    may_come = (bool(web.search_api_key), sounds.is_on, shutil.which("tesseract") is not None)
    everything = repr(("tool", *function, code, tool.name, sorted(arguments.items()), files, web, sounds, *may_come))
    return hashlib.sha256(everything.encode()).hexdigest()
