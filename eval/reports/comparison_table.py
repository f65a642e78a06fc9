"""The questions that flipped between two runs, for the terminal: one line a question, the answers before the question.

console.print(flips_table(made, console.width))        # made: of eval.analysis.comparison.comparing.compare_runs
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.analysis.comparison.comparing import describe_flips
from eval.cli.terminal_text import shorten_line
from eval.reports.notes import NOT_AVAILABLE, format_p_value, format_percent, format_points

MAX_FLIPS = 20  # --html and --json have all
SHORT_CHARS = 200  # of a question, an answer
MIN_ID_CHARS = 8
_LEGEND = "✓ right, ✗ wrong, ! error"
# A terminal of so many columns has room for what was asked, and for its level too.
_FOR_ASKED, _FOR_LEVEL = 80, 100


def build_flips_table(made: Mapping[str, Any], width: int) -> Table:
    """The first of them, those with the largest difference, for a terminal of so many columns."""
    short = shorten_ids([flip["id"] for flip in made["flips"]])
    cut = any(id != shown for id, shown in short.items())
    caption = f"{_LEGEND}; whole ids: --json FILE" if cut else _LEGEND
    table = Table(title=Text("questions that flipped"), caption=caption, caption_justify="left")
    optional = [name for name, least in (("asked", _FOR_ASKED), ("level", _FOR_LEVEL)) if width >= least]
    table.add_column("question", no_wrap=True)  # ids that are cut look alike
    for heading in (made["against"], made["run"], "gold", *optional):
        table.add_column(heading)
    for flip, *sides in list(describe_flips(made))[:MAX_FLIPS]:
        beside = {"asked": flip["question"], "level": flip["level"] or ""}
        cells = (short[flip["id"]], *map(_said, sides), flip["target"], *(beside[name] for name in optional))
        table.add_row(*map(build_cell, cells))
    return table


def build_cell(text: str) -> Text:
    """Cut where its column ends. Not by the column's `no_wrap`: rich would then cut the short columns like the long."""
    return Text(shorten_line(text, SHORT_CHARS), no_wrap=True, overflow="ellipsis")


def shorten_ids(ids: Sequence[str]) -> dict[str, str]:
    """Each id → the shortest prefix that tells it from the others, of 8 characters or more, the same for all."""
    chars = next(n for n in count(MIN_ID_CHARS) if len({each[:n] for each in ids}) == len(set(ids)))
    return {each: each[:chars] for each in ids}


def _said(answers: Sequence[str]) -> str:
    """`✓✗✓ 17, 18`: the verdicts of all epochs, then the answers that differ."""
    marks, texts = zip(*(each.split(" ", 1) for each in answers), strict=True)
    return f"{''.join(marks)} {', '.join(dict.fromkeys(texts))}"


MAX_CHARS = 240  # of a setting
_SIDES_INTERVAL = "its 95% interval"
# A terminal of so many columns has room for that (the difference has an interval of its own), and for padding.
_FOR_SIDES_INTERVAL, _FOR_PADDING = 90, 80
_MAX_SETTINGS = 3  # that are shown unasked
_NOTHING = "options, prompts and tools are the same"
_TOLD = {  # by name; the options that say the same
    "system": ("system._target_", "system.name", "system.default_prompts"),
    "model": ("model.name",),
    "prompts": ("prompts",),
}

Numbers = tuple[str, str, str, str, str]  # what, of the first, of the second, difference, its interval


def print_comparison(result: Mapping[str, Any], console: Console, settings: bool = False) -> None:
    """`settings`: list every setting in which two runs differ."""
    if result["notice"]:
        console.print(Text(result["notice"], style="bold yellow"))
    for run in result["runs"]:
        console.print(Text(describe_run(run)), soft_wrap=True)
    for made in result["comparisons"]:
        console.print(_numbers_table(made, console.width))
        differ = list_differences(made) if settings else shorten_differences(made, result["runs"])
        for line in (*describe_verdict(made, len(result["comparisons"])), *made["notes"], *differ):
            console.print(Text(line), soft_wrap=True)
        if made["flips"]:
            console.print(build_flips_table(made, console.width))
        if (more := len(made["flips"]) - MAX_FLIPS) > 0:
            console.print(Text(f"… and {more} more: --html FILE"))


def describe_run(run: Mapping[str, Any]) -> str:
    prompts = run["prompts"] or "none"
    times = f", {run['epochs']} answers a question" if run["epochs"] > 1 else ""
    return f"{run['label']}: {run['name']} (system {run['system']}, model {run['model']}, prompts {prompts}{times})"


def list_numbers(made: Mapping[str, Any]) -> Iterator[Numbers]:
    """The rows of a pair's table."""
    first, second = made["first"], made["second"]
    yield (
        "accuracy",
        format_percent(first["accuracy"]),
        format_percent(second["accuracy"]),
        f"{format_points(made['difference'])} points",
        _interval(made["ci95"], format_points),
    )
    yield _SIDES_INTERVAL, _interval(first["ci95"], format_percent), _interval(second["ci95"], format_percent), "", ""
    yield from _not_tuned_on(made["used_to_tune"])
    yield _row("lost by format", made["format_losses"], format_percent, format_points, " points")
    if (cost := made["cost_usd"]) is None or cost["first"] or cost["second"]:  # of a simulated model: nothing
        yield _row("cost an answer", cost, lambda each: f"${each:,.5f}", lambda each: f"{each:+,.5f}")
    yield _row("time an answer", made["seconds"], lambda each: f"{each:,.2f} s", lambda each: f"{each:+,.2f}", " s")
    yield _row("tokens an answer", made["tokens"], lambda each: f"{each:,.0f}", lambda each: f"{each:+,.0f}")
    yield "tokens in all", f"{first['tokens']:,}", f"{second['tokens']:,}", "", ""
    yield "cost in all", _money(first["cost_usd"]), _money(second["cost_usd"]), "", ""
    yield "errors", _errors(first), _errors(second), "", ""


def _not_tuned_on(told: Mapping[str, Any] | None) -> Iterator[Numbers]:
    if told and (without := told["without"]):
        first, second = map(format_percent, told["accuracies"])
        difference = f"{format_points(without['difference'])} points"
        yield (
            f"on the {told['n_without']} not tuned on",
            first,
            second,
            difference,
            _interval(without["ci95"], format_points),
        )


def describe_verdict(made: Mapping[str, Any], n_comparisons: int) -> Iterator[str]:
    """p and what it rests on, in sentences."""
    n, epochs, shows = made["n_questions"], made["epochs"], made["smallest_difference"]
    times = "" if epochs == 1 else f", each answered {epochs} times at least"
    adjusted = (
        f", {format_p_value(made['p_holm'])} as one of {n_comparisons} comparisons (Holm)" if n_comparisons > 1 else ""
    )
    yield f"p {format_p_value(made['p'])} by {made['test']}{adjusted}; {n} questions{times}"
    if told := made["used_to_tune"]:
        yield from _flattered(told, n, n_comparisons)
    yield f"{made['run']} is better on {made['wins']} questions, worse on {made['losses']}, equal on {made['ties']}"
    if shows is None:
        yield "so few questions show no difference reliably"
    else:
        yield f"these questions would show a true difference of {100 * shows:.1f} points in 80 of 100 such comparisons"


def _flattered(told: Mapping[str, Any], n: int, n_comparisons: int) -> Iterator[str]:
    """Whoever reads p must read this as well."""
    whose = " and ".join(f"of {label}, {prompts}" for label, prompts in told["sets"].items())
    used = f"all {n}" if told["without"] is None else f"{told['n_questions']} of the {n}"
    yield f"warning: {used} questions were used to tune the prompts {whose}: p and difference over all of them flatter"
    if (without := told["without"]) is None:
        yield "no question is left that was not"
        return
    single = "" if n_comparisons == 1 else f", not adjusted for {n_comparisons} comparisons"
    yield (
        f"on the other {told['n_without']}: {format_points(without['difference'])} points "
        f"(95% interval {_interval(without['ci95'], format_points)}), "
        f"p {format_p_value(without['p'])} by {without['test']}{single}"
    )


def list_differences(made: Mapping[str, Any]) -> Iterator[str]:
    """In what the two runs differ beside the answers, one line each."""
    found = [
        f"{kind.removesuffix('s')} {name}: {shorten_line(change, MAX_CHARS)}"
        for kind, changed in made["differs"].items()
        for name, change in changed.items()
    ]
    yield from found or [_NOTHING]


def shorten_differences(made: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The same in a few lines: system, model, prompts, tools, scorer, and how many settings beside."""
    sides = [next(run for run in runs if run["label"] == made[side]) for side in ("against", "run")]
    differs = made["differs"]
    renamed = {name: change for name in _TOLD if (change := _renamed(sides, name))}
    found = [f"{name}: {change}" for name, change in renamed.items()]
    if differs["prompts"]:
        found.append(f"prompts that differ: {', '.join(differs['prompts'])}")
    found += [f"tools of {agent}: {change}" for agent, change in differs["tools"].items()]
    told = {key for name in renamed for key in _TOLD[name]} | {
        f"system.agents.{each}.tools" for each in differs["tools"]
    }
    others = {key: change for key, change in differs["options"].items() if key not in told}
    found += [f"{key}: {others.pop(key)}" for key in list(others) if key.startswith("scorer.")]
    if len(others) > _MAX_SETTINGS:
        found.append(f"{len(others)} more settings differ: --settings")
    else:
        found += [f"option {key}: {change}" for key, change in others.items()]
    yield from (shorten_line(each, MAX_CHARS) for each in found or [_NOTHING])


def _renamed(sides: Sequence[Mapping[str, Any]], name: str) -> str | None:
    before, now = (side[name] or "none" for side in sides)
    return f"{before} → {now}" if before != now else None


def _row(
    name: str,
    means: Mapping[str, Any] | None,
    amount: Callable[[float], str],
    change: Callable[[float], str],
    unit: str = "",
) -> Numbers:
    if means is None:
        return name, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, ""
    return (
        name,
        amount(means["first"]),
        amount(means["second"]),
        change(means["difference"]) + unit,
        _interval(means["ci95"], change),
    )


def _interval(bounds: Sequence[float] | None, change: Callable[[float], str]) -> str:
    return f"{change(bounds[0])} to {change(bounds[1])}" if bounds else NOT_AVAILABLE


def _money(cost_usd: float | None) -> str:
    return NOT_AVAILABLE if cost_usd is None else f"${cost_usd:,.4f}"


def _errors(side: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in side["errors_by_class"].items()) or "none"


def _numbers_table(made: Mapping[str, Any], width: int) -> Table:
    padding = (0, 1) if width >= _FOR_PADDING else 0
    table = Table(title=Text(f"{made['run']} compared with {made['against']}"), padding=padding)
    table.add_column("", no_wrap=True)
    for heading in (made["against"], made["run"], f"{made['run']} - {made['against']}", "95% interval"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in list_numbers(made):
        if row[0] != _SIDES_INTERVAL or width >= _FOR_SIDES_INTERVAL:
            table.add_row(*map(Text, row))
    return table
