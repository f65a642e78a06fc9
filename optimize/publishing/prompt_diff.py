"""Difference of two prompt sets, by agent and by line."""

import difflib
import json
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from rich.text import Text

from eval.execution.console import Console
from mas.prompt_sets.prompt_set import PromptSet
from optimize.publishing.publish import build_headline

_MAX_FIELD_CHARS = 1000  # of a demo's field
_STYLES = {"-": "red", "+": "green"}

Line = tuple[str, str]  # sign and text: "-" removed, "+" added, " " in both, "" unchanged lines that are left out


class AgentDiff(NamedTuple):
    """The difference of one agent's prompts: its text, and its demos below it."""

    agent: str
    changed: bool
    only_in: str  # name of the set that alone has the agent; empty: both have it
    lines: list[Line]


def compare_sets(a: PromptSet, b: PromptSet) -> list[AgentDiff]:
    """Return the differences of all agents of both sets, in the order of the first."""
    found = []
    for agent in dict.fromkeys([*a.texts, *b.texts]):
        before, after = ((each.texts.get(agent), each.demos.get(agent)) for each in (a, b))
        only_in = "" if agent in a.texts and agent in b.texts else a.name if agent in a.texts else b.name
        found.append(
            AgentDiff(agent, before != after, only_in, list(_build_lines(_render(a, agent), _render(b, agent))))
        )
    return found


def _render(prompts: PromptSet, agent: str) -> list[str]:
    """Return the lines of an agent's prompt; none if the set has no such agent."""
    if agent not in prompts.texts:
        return []
    parts = [prompts.texts[agent]]
    for demo in prompts.demos.get(agent, ()):
        parts.append("\nworked example")
        for name, value in demo.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            n, text = len(text), text[:_MAX_FIELD_CHARS]
            parts.append(f"  {name}: {text}" + (f"… ({n:,} characters)" if n > len(text) else ""))
    return "\n".join(parts).split("\n")


def _build_lines(before: list[str], after: list[str]) -> Iterator[Line]:
    """Yield removed and added lines with some unchanged ones around them, and a gap between distant changes."""
    for line in islice(difflib.unified_diff(before, after, lineterm=""), 3, None):  # from the first change on
        yield ("", "") if line.startswith("@@") else (line[0], line[1:])


def show_difference(a: PromptSet, b: PromptSet, console: Console) -> None:
    """Print how two sets differ, agent by agent."""
    for sign, each in (("-", a), ("+", b)):
        console.print(Text(f"{sign} {each.name}", "bold"))
        if each.provenance:
            console.print(Text(f"    {build_headline(each.provenance)}"))
        if each.edited:
            console.print(Text(f"    edited after it was published: {', '.join(each.edited)}"))
    diffs = compare_sets(a, b)
    for diff in diffs:
        if diff.changed:
            only = " (only in one of the sets)" if diff.only_in else ""
            console.print(Text(f"\n{diff.agent}{only}", "bold underline"))
            for sign, text in diff.lines:
                console.print(Text(f"{sign} {text}" if sign else "  ⋯", _STYLES.get(sign, "dim")))
    if unchanged := [diff.agent for diff in diffs if not diff.changed]:
        everything = " (the two sets say the same to every agent)" if len(unchanged) == len(diffs) else ""
        console.print(Text(f"\nunchanged: {', '.join(unchanged)}{everything}"))
