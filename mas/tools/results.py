"""Results of tools: text for the agent, and facts about it that caches, checks and reports read.

A `ToolResult` is a `str`, so an agent loop that knows nothing of it shows the text. A tool of a user may return any
value: `to_tool_result` makes a result of it. A tool that cannot do what it was asked for raises `ToolError`.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from mas.runtime.text import replace_surrogates
from mas.runtime.untrusted import break_marks, enclose_data, is_untrusted

ResultKind = Literal[
    "computed",  # by our own code from the arguments alone
    "code",  # what code that a model wrote has printed
    "file",
    "web_search",  # a list of pages, an excerpt of each
    "web_page",
    "browser_page",  # a snapshot of the page in the browser
    "external",  # of a tool that is marked untrusted and says no more
]
MAX_OBSERVATION_CHARS = 20_000
WEB_KINDS: tuple[ResultKind, ...] = ("web_search", "web_page", "browser_page")


class ToolError(Exception):
    """A tool could not do it: one sentence with the cause and what to try instead.

    Its reader is the agent: the agent loop returns it as an observation, and the question goes on.
    """


@dataclass(frozen=True)
class Excerpt:
    """Stretch of a result's text that shows the content of one source."""

    source: str  # address of a page, name of a file
    title: str
    start: int  # position in the text
    end: int


class ToolResult(str):
    """Text for the agent, with its kind and sources, which hold for the text as it is: immutable."""

    kind: ResultKind
    excerpts: tuple[Excerpt, ...]
    truncated: bool  # characters were cut off
    failed: bool  # the text says why the call failed

    def __new__(
        cls,
        text: str,
        *,
        kind: ResultKind = "computed",
        excerpts: Iterable[Excerpt] = (),
        truncated: bool = False,
        failed: bool = False,
    ) -> "ToolResult":
        result = super().__new__(cls, text)
        result.kind, result.excerpts, result.truncated, result.failed = kind, tuple(excerpts), truncated, failed
        return result

    @property
    def is_untrusted(self) -> bool:
        """True if somebody else wrote it: an agent must take it for data, not for instructions."""
        return self.kind != "computed"

    def describe(self) -> dict[str, Any]:
        """Return what is stored with the text, as values for JSON; failed calls are not stored."""
        facts = {"truncated": self.truncated, "excerpts": [asdict(each) for each in self.excerpts]}
        return {"result_kind": self.kind} | {name: value for name, value in facts.items() if value}

    @classmethod
    def restore(cls, text: str, facts: Mapping[str, Any]) -> "ToolResult":
        """Return the result of this text and description; missing facts have their defaults."""
        return cls(
            text,
            kind=facts.get("result_kind", "computed"),
            excerpts=[Excerpt(**each) for each in facts.get("excerpts", ())],
            truncated=bool(facts.get("truncated")),
        )

    def to_observation(self, tool: str) -> "ToolResult":
        """Return the result as the agent sees it: not too long, valid, and untrusted data marked."""
        text, notice = replace_surrogates(str(self)), ""
        text, max_chars = break_marks(text) if self.is_untrusted else text, MAX_OBSERVATION_CHARS
        if is_cut := len(text) > max_chars:
            notice = f"\n[cut: the first {max_chars} of {len(text)} characters are shown]"
        head, data, tail = enclose_data(tool, text[:max_chars]) if self.is_untrusted else ("", text[:max_chars], "")
        at, end = len(head), len(head) + len(data)
        moved = [replace(each, start=each.start + at, end=min(each.end + at, end)) for each in self.excerpts]
        shown = [each for each in moved if each.start < end or not is_cut]
        facts = {**vars(self), "excerpts": shown, "truncated": is_cut or self.truncated}
        return ToolResult(f"{head}{data}{tail}{notice}", **facts)


def to_tool_result(returned: object, function: object, failed: bool = False) -> ToolResult:
    """Return what a tool returned as a result; that of an untrusted tool is never "computed"."""
    result = copy(returned) if isinstance(returned, ToolResult) else ToolResult(str(returned), failed=failed)
    if is_untrusted(function) and not result.is_untrusted:
        result.kind = "external"
    return result
