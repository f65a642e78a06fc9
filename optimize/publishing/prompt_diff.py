"""Difference of two prompt sets: by agent, by line, and within changed lines by word.

show_difference(parent, candidate, Console())
for agent in compare_sets(parent, candidate):
    for line in build_lines(agent.before, agent.after):   # as a page or a terminal shows them, one below the other
        line.sign, line.parts
"""

import difflib
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from eval.execution.console import Console
from mas.prompt_sets.prompt_set import PromptSet
from optimize.publishing.publish import build_headline

CONTEXT_LINES = 3
_WORDS = re.compile(r"\n|[^\S\n]*\w+|[^\S\n]*[^\w\s]|[^\S\n]+")
_EXACT = 1000  # lines, or words, up to which the smallest difference is looked for: beyond, it would take seconds
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_MAX_FIELD_CHARS = 1000  # of a demo's field
_STYLES = {"-": ("red", "bold reverse red"), "+": ("green", "bold reverse green")}
_WIDE = 10_000  # columns of text that no terminal shows

Part = tuple[str, bool]  # a piece of a line; True: it differs from the other side


class Line(NamedTuple):
    sign: str  # "-" removed, "+" added, " " in both; "": unchanged lines are left out here
    parts: Sequence[Part] = ()


class AgentDiff(NamedTuple):
    agent: str
    before: str | None  # its text, and its demos below it; None: the set has no such agent
    after: str | None
    changed: bool


def compare_sets(a: PromptSet, b: PromptSet) -> list[AgentDiff]:
    """Return the differences of all agents of both sets, in the order of the first."""
    found = []
    for agent in dict.fromkeys([*a.texts, *b.texts]):
        sides = [(each.texts.get(agent), each.demos.get(agent, [])) for each in (a, b)]
        found.append(AgentDiff(agent, _render(a, agent), _render(b, agent), changed=sides[0] != sides[1]))
    return found


def _render(prompts: PromptSet, agent: str) -> str | None:
    if agent not in prompts.texts:
        return None
    lines = [prompts.texts[agent]]
    for demo in prompts.demos.get(agent, ()):
        lines.append("\nworked example")
        for name, value in demo.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            n, text = len(text), text[:_MAX_FIELD_CHARS]
            lines.append(f"  {name}: {text}" + (f"… ({n:,} characters)" if n > len(text) else ""))
    return "\n".join(lines)


def build_lines(before: str | None, after: str | None) -> Iterator[Line]:
    """Yield removed and added lines, with some unchanged ones around each change and a gap for the others."""
    old, new = ([] if text is None else replace_invisible(text).split("\n") for text in (before, after))
    at = 0
    for group in _compare(old, new).get_grouped_opcodes(CONTEXT_LINES):
        if group[0][1] > at:
            yield Line("")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from (Line(" ", [(line, False)]) for line in old[i:i_end])
            else:
                removed, added = _mark_words(old[i:i_end], new[j:j_end])
                yield from (Line("-", parts) for parts in removed)
                yield from (Line("+", parts) for parts in added)
        at = group[-1][2]
    if 0 < at < len(old):
        yield Line("")


def _mark_words(old: list[str], new: list[str]) -> tuple[list[list[Part]], list[list[Part]]]:
    """Return the lines of both sides of a change in pieces, those that only one side has marked."""
    if not old or not new:
        return [[(line, True)] for line in old], [[(line, True)] for line in new]
    first, second = _WORDS.findall("\n".join(old)), _WORDS.findall("\n".join(new))
    left, right = list[list[Part]]([[]]), list[list[Part]]([[]])
    for tag, i, i_end, j, j_end in _compare(first, second).get_opcodes():
        for lines, words in ((left, first[i:i_end]), (right, second[j:j_end])):
            for number, piece in enumerate("".join(words).split("\n") if words else ()):
                if number:
                    lines.append([])
                if piece:
                    lines[-1].append((piece, tag != "equal"))
    return left, right


def _compare(old: Sequence[str], new: Sequence[str]) -> difflib.SequenceMatcher[str]:
    return difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > _EXACT)


def show_difference(a: PromptSet, b: PromptSet, console: Console) -> None:
    """Print how two sets differ, agent by agent, changed words marked."""
    for sign, each in (("-", a), ("+", b)):
        console.print(Text(f"{sign} {replace_invisible(each.name)}", "bold"))
        if each.provenance:
            console.print(Text(f"    {replace_invisible(build_headline(each.provenance))}"))
        if each.edited:
            console.print(Text(f"    edited after it was published: {replace_invisible(', '.join(each.edited))}"))
    diffs = compare_sets(a, b)
    for diff in diffs:
        if not diff.changed:
            continue
        only = "" if None not in (diff.before, diff.after) else " (only in one of the sets)"
        console.print(Text(f"\n{diff.agent}{only}", "bold underline"))
        for sign, parts in build_lines(diff.before, diff.after):
            style, word_style = _STYLES.get(sign, ("dim", "dim"))
            line = Text(f"{sign} " if sign else "  ⋯", style)
            for text, differs in parts:
                line.append(text, word_style if differs and text.strip() else style)
            console.print(line)
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


def replace_invisible(text: str) -> str:
    """Replace the characters that turn text around, move a cursor or cannot be seen: a model wrote the text."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)
