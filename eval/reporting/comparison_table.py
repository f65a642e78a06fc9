"""Runs compared, for the terminal: one table of numbers for each with the first, and the questions that flipped.

print_comparison(result, Console())        # result: of eval.comparison.comparing.compared
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.comparison.comparing import flips
from eval.reporting.notes import NOT_AVAILABLE, percent
from eval.reporting.shown_text import one_line
from eval.reporting.sweep_table import p_value, points

MAX_FLIPS = 30  # in the terminal; --html and --json have all
MAX_CHARS = 60  # of a question, an answer

Numbers = tuple[str, str, str, str, str]  # what, of the first, of the second, difference, its interval


def print_comparison(result: Mapping[str, Any], console: Console) -> None:
    if result["notice"]:
        console.print(Text(result["notice"], style="bold yellow"))
    for run in result["runs"]:
        console.print(Text(run_line(run)), soft_wrap=True)
    for made in result["comparisons"]:
        console.print(_numbers_table(made))
        for line in (*verdict(made, len(result["comparisons"])), *made["notes"], *differing(made)):
            console.print(Text(line), soft_wrap=True)
        if made["flips"]:
            console.print(_flips_table(made))
        if (more := len(made["flips"]) - MAX_FLIPS) > 0:
            console.print(Text(f"and {more} more; --html FILE or --json FILE has all"))


def run_line(run: Mapping[str, Any]) -> str:
    prompts = run["prompts"] or "none"
    times = f", {run['epochs']} answers a question" if run["epochs"] > 1 else ""
    return f"{run['label']}: {run['name']} (system {run['system']}, model {run['model']}, prompts {prompts}{times})"


def numbers(made: Mapping[str, Any]) -> Iterator[Numbers]:
    """The rows of a pair's table."""
    first, second = made["first"], made["second"]
    yield (
        "accuracy",
        percent(first["accuracy"]),
        percent(second["accuracy"]),
        f"{points(made['difference'])} points",
        _interval(made["ci95"], points),
    )
    yield "its 95% interval", _interval(first["ci95"], percent), _interval(second["ci95"], percent), "", ""
    yield _row("lost by format", made["format_losses"], percent, points, " points")
    yield _row("cost an answer", made["cost_usd"], lambda each: f"${each:,.5f}", lambda each: f"{each:+,.5f}")
    yield _row("time an answer", made["seconds"], lambda each: f"{each:,.2f} s", lambda each: f"{each:+,.2f}", " s")
    yield _row("tokens an answer", made["tokens"], lambda each: f"{each:,.0f}", lambda each: f"{each:+,.0f}")
    yield "tokens in all", f"{first['tokens']:,}", f"{second['tokens']:,}", "", ""
    yield "cost in all", _money(first["cost_usd"]), _money(second["cost_usd"]), "", ""
    yield "errors", _errors(first), _errors(second), "", ""


def verdict(made: Mapping[str, Any], n_comparisons: int) -> Iterator[str]:
    """p and what it rests on, in sentences."""
    n, epochs, shows = made["n_questions"], made["epochs"], made["smallest_difference"]
    times = "" if epochs == 1 else f", each answered {epochs} times at least"
    adjusted = f", {p_value(made['p_holm'])} as one of {n_comparisons} comparisons (Holm)" if n_comparisons > 1 else ""
    yield f"p {p_value(made['p'])} by {made['test']}{adjusted}; {n} questions{times}"
    yield f"{made['run']} is better on {made['wins']} questions, worse on {made['losses']}, equal on {made['ties']}"
    if shows is None:
        yield "so few questions show no difference reliably"
    else:
        yield f"these questions would show a true difference of {100 * shows:.1f} points in 80 of 100 such comparisons"


def differing(made: Mapping[str, Any]) -> Iterator[str]:
    """In what the two runs differ beside the answers, one line each."""
    found = [
        f"{kind.removesuffix('s')} {name}: {one_line(change, 4 * MAX_CHARS)}"
        for kind, changed in made["differs"].items()
        for name, change in changed.items()
    ]
    yield from found or ["options, prompts and tools are the same"]


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


def _numbers_table(made: Mapping[str, Any]) -> Table:
    table = Table(title=Text(f"{made['run']} compared with {made['against']}"))
    table.add_column("", no_wrap=True)
    for heading in (made["against"], made["run"], f"{made['run']} - {made['against']}", "95% interval"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in numbers(made):
        table.add_row(*map(Text, row))
    return table


def _flips_table(made: Mapping[str, Any]) -> Table:
    table = Table(title=Text("questions that flipped"), caption="✓ right, ✗ wrong, ! error", caption_justify="left")
    for heading in ("question", "level", "asked", "gold", made["against"], made["run"]):
        table.add_column(heading, overflow="fold")
    for flip, *sides in list(flips(made))[:MAX_FLIPS]:
        given = ("\n".join(one_line(each, MAX_CHARS) for each in said) for said in sides)
        fixed = (flip["id"], flip["level"] or "", flip["question"], flip["target"])
        table.add_row(*(Text(one_line(each, MAX_CHARS)) for each in fixed), *map(Text, given))
    return table
