"""Show the difference of two prompt sets by agent and word.

    python optimize/diff.py baseline tuned                        sets under prompts/
    python optimize/diff.py baseline latest:c004                  a candidate of a tuning run

Exit codes: 0 done, different or not · 1 a mistake in the command, explained in one sentence.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from rich.text import Text

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, exit_now, run_cli
from eval.execution.console import Console
from mas.prompt_sets.prompt_set import PromptSet
from optimize.publishing.prompt_diff import (
    AgentDiff,
    Demo,
    Part,
    build_rows,
    compare_sets,
    format_demo,
    replace_invisible,
)
from optimize.publishing.publish import build_headline
from optimize.session.tuning_store import find_set

MAX_FIELD_CHARS = 300  # of a demo's field
_OLD, _NEW, _OLD_WORD, _NEW_WORD = "red", "green", "bold reverse red", "bold reverse green"


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = UserErrorParser(
        usage="python optimize/diff.py A B",
        description="How two prompt sets differ, agent by agent and word by word.",
    )
    whose = "a set under prompts/, the path of a folder, or RUN:ID, a candidate of a tuning run"
    parser.add_argument("a", metavar="A", help=whose)
    parser.add_argument("b", metavar="B", help="the same")
    return parser.parse_args(arguments)


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    a, b = find_set(given.a), find_set(given.b)
    show(a, b, Console(highlight=False, soft_wrap=True))
    return FINISHED


def show(a: PromptSet, b: PromptSet, console: Console) -> None:
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


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
