"""Difference of two prompt sets: by agent, by line, and within a line by word.

show_difference(parent, candidate, Console())
for agent in compare_sets(parent, candidate):
    for row in build_rows(agent.before, agent.after):   # as a page or a terminal shows them side by side
        row.left, row.right
"""

import difflib
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.text import Text

from eval.execution.console import Console
from mas.prompt_sets.prompt_set import PromptSet
from optimize.publishing.publish import build_headline

CONTEXT_LINES = 3
_WORDS = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
_ALIKE = 0.4  # share of two lines' words from which on one is taken to have become the other
_MOST_WORDS = 4000  # of two lines that are compared word by word
_EXACT = 1000  # lines, or words, up to which the smallest difference is looked for
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

MAX_FIELD_CHARS = 300  # of a demo's field
_OLD, _NEW, _OLD_WORD, _NEW_WORD = "red", "green", "bold reverse red", "bold reverse green"
_WIDE = 10_000  # columns of text that no terminal shows

Demo = dict[str, object]
Part = tuple[str, bool]  # a piece of a line; True: it differs from the other line


@dataclass(frozen=True)
class Row:
    """One line on each side; None: there is none."""

    kind: Literal["same", "changed", "removed", "added", "gap"]
    left: list[Part] | None = None
    right: list[Part] | None = None
    left_line: int | None = None
    right_line: int | None = None


@dataclass(frozen=True)
class AgentDiff:
    agent: str
    before: str | None  # its text; None: the set has no such agent
    after: str | None
    removed: list[tuple[int, Demo]] = field(default_factory=list)  # demos that went, with their numbers from 1
    added: list[tuple[int, Demo]] = field(default_factory=list)
    reordered: bool = False  # the same demos in another order

    @property
    def changed(self) -> bool:
        return self.before != self.after or bool(self.removed or self.added) or self.reordered


def compare_sets(a: PromptSet, b: PromptSet) -> list[AgentDiff]:
    """Return the differences of all agents of both sets, in the order of the first."""
    return [_agent(agent, a, b) for agent in dict.fromkeys([*a.texts, *b.texts])]


def build_rows(before: str | None, after: str | None, context: int = CONTEXT_LINES) -> Iterator[Row]:
    """Yield the lines side by side, with `context` unchanged ones around each change and a gap for the others."""
    old, new = _lines(before), _lines(after)
    at = 0
    for group in _matcher(old, new).get_grouped_opcodes(context):
        if group[0][1] > at:
            yield Row("gap")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                for offset, line in enumerate(old[i:i_end]):
                    yield Row("same", [(line, False)], [(line, False)], i + offset + 1, j + offset + 1)
            else:
                yield from _block(old[i:i_end], new[j:j_end], i + 1, j + 1)
        at = group[-1][2]
    if 0 < at < len(old):
        yield Row("gap")


def show_difference(a: PromptSet, b: PromptSet, console: Console) -> None:
    """Print how two sets differ, agent by agent, changed words marked."""
    for sign, each in (("-", a), ("+", b)):
        console.print(Text(f"{sign} {replace_invisible(each.name)}", "bold"))
        if each.provenance:
            console.print(Text(f"    {replace_invisible(build_headline(each.provenance))}"))
        if each.edited:
            edited = ", ".join(map(replace_invisible, each.edited))
            console.print(Text(f"    edited after it was published: {edited}"))
    diffs = compare_sets(a, b)
    for diff in diffs:
        if diff.changed:
            _show_agent(diff, console)
    if unchanged := [diff.agent for diff in diffs if not diff.changed]:
        everything = " (the two sets say the same to every agent)" if len(unchanged) == len(diffs) else ""
        console.print(Text(f"\nunchanged: {', '.join(unchanged)}{everything}"))


def format_difference(a: PromptSet, b: PromptSet) -> str:
    """Return the same as text without colours; empty if nothing differs."""
    if not any(each.changed for each in compare_sets(a, b)):
        return ""
    text = io.StringIO()
    show_difference(a, b, Console(file=text, width=_WIDE, highlight=False, soft_wrap=True, no_color=True))
    return text.getvalue()


def _show_agent(diff: AgentDiff, console: Console) -> None:
    only = "" if None not in (diff.before, diff.after) else " (only in one of the sets)"
    console.print(Text(f"\n{diff.agent}{only}", "bold underline"))
    for row in build_rows(diff.before, diff.after):
        if row.kind == "gap":
            console.print(Text("  ⋯", "dim"))
        elif row.kind == "same" and row.left:
            console.print(_line("  ", row.left, "dim", "dim"))
        else:
            if row.left is not None:
                console.print(_line("- ", row.left, _OLD, _OLD_WORD if row.right is not None else _OLD))
            if row.right is not None:
                console.print(_line("+ ", row.right, _NEW, _NEW_WORD if row.left is not None else _NEW))
    if diff.reordered:
        console.print(Text("  the same worked examples in another order"))
    for number, demo in diff.removed:
        _show_demo("-", number, demo, _OLD, console)
    for number, demo in diff.added:
        _show_demo("+", number, demo, _NEW, console)


def _line(sign: str, parts: list[Part], style: str, word_style: str) -> Text:
    line = Text(sign, style)
    for text, differs in parts:
        line.append(text, word_style if differs and text.strip() else style)
    return line


def _show_demo(sign: str, number: int, demo: Demo, style: str, console: Console) -> None:
    console.print(Text(f"{sign} example {number}", f"bold {style}"))
    for name, text in format_demo(demo):
        flat = " ".join(text.split())
        cut = flat if len(flat) <= MAX_FIELD_CHARS else f"{flat[:MAX_FIELD_CHARS]}… ({len(flat):,} characters)"
        console.print(Text(f"{sign}   {name}: {cut}", style))


def format_demo(demo: Demo) -> list[tuple[str, str]]:
    """Return the fields of a demo with their texts."""
    return [
        (name, replace_invisible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)))
        for name, value in demo.items()
    ]


def replace_invisible(text: str) -> str:
    """Replace the characters that turn text around, move a cursor or cannot be seen: a model wrote the text."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _agent(agent: str, a: PromptSet, b: PromptSet) -> AgentDiff:
    old, new = a.demos.get(agent, []), b.demos.get(agent, [])
    removed, added = _missing(old, new), _missing(new, old)
    reordered = old != new and not removed and not added
    return AgentDiff(agent, a.texts.get(agent), b.texts.get(agent), removed, added, reordered)


def _missing(demos: Sequence[Demo], others: Sequence[Demo]) -> list[tuple[int, Demo]]:
    left = [json.dumps(demo) for demo in others]
    found = []
    for number, demo in enumerate(demos, start=1):
        if (written := json.dumps(demo)) in left:
            left.remove(written)
        else:
            found.append((number, demo))
    return found


def _lines(text: str | None) -> list[str]:
    return [replace_invisible(line) for line in text.split("\n")] if text is not None else []


def _block(old: list[str], new: list[str], i: int, j: int) -> Iterator[Row]:
    """Yield replaced lines: each next to the most similar one of those that are left."""
    at = 0
    for number, line in enumerate(old, start=i):
        likeness = [_compute_likeness(line, each) for each in new[at:]]
        if max(likeness, default=0.0) < _ALIKE:
            yield Row("removed", left=[(line, True)], left_line=number)
            continue
        match = at + likeness.index(max(likeness))
        yield from _list_added(new, at, match, j)
        yield Row("changed", *_word_parts(line, new[match]), number, j + match)
        at = match + 1
    yield from _list_added(new, at, len(new), j)


def _compute_likeness(old: str, new: str) -> float:
    """Return the share of words that two lines have in common, in any order."""
    first, second = Counter(old.split()), Counter(new.split())
    return 2 * (first & second).total() / max(first.total() + second.total(), 1)


def _list_added(new: list[str], start: int, end: int, j: int) -> Iterator[Row]:
    return (Row("added", right=[(new[at], True)], right_line=j + at) for at in range(start, end))


def _word_parts(old: str, new: str) -> tuple[list[Part], list[Part]]:
    first, second = _WORDS.findall(old), _WORDS.findall(new)
    if len(first) + len(second) > _MOST_WORDS:
        return [(old, True)], [(new, True)]
    left: list[Part] = []
    right: list[Part] = []
    for tag, i, i_end, j, j_end in _matcher(first, second).get_opcodes():
        differs = tag != "equal"
        left += [("".join(first[i:i_end]), differs)] if i_end > i else []
        right += [("".join(second[j:j_end]), differs)] if j_end > j else []
    return left, right


def _matcher(old: Sequence[str], new: Sequence[str]) -> difflib.SequenceMatcher[str]:
    """Return a matcher that is exact, except for texts so long that this would take seconds."""
    return difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > _EXACT)
