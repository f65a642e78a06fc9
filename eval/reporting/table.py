"""A run's summary for the terminal.

print_table(summary, Console())
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

NOT_AVAILABLE = "n/a"


def print_table(summary: Mapping[str, Any], console: Console) -> None:
    """Print accuracy with its interval, by level too, then errors, tokens, cost and time; null shows as "n/a".

    Names from data (levels, error classes) are printed as they are: rich's markup in them has no effect.
    """
    if summary["notice"]:
        console.print(Text(summary["notice"], style="bold yellow"))
    console.print(_accuracy_table(summary))
    for name, value in _lines(summary):
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)


def _accuracy_table(summary: Mapping[str, Any]) -> Table:
    table = Table(title=Text(str(summary["run_id"])))
    table.add_column("questions")
    for heading in ("accuracy", "95% interval", "correct", "scored", "n", "errors"):
        table.add_column(heading, justify="right")
    table.add_row(*_row("all", summary), end_section=bool(summary["by_level"]))
    for level, counts in summary["by_level"].items():
        table.add_row(*_row(f"level {level}", counts))
    return table


def _row(name: str, counts: Mapping[str, Any]) -> Iterator[Text]:
    interval = counts["accuracy_ci95"]
    yield Text(name)
    yield Text(_percent(counts["accuracy"]))
    yield Text(f"{_percent(interval[0])} to {_percent(interval[1])}" if interval else NOT_AVAILABLE)
    for key in ("n_correct", "n_scored", "n", "n_error"):
        yield Text(str(counts[key]))


def _percent(share: float | None) -> str:
    return NOT_AVAILABLE if share is None else f"{share:.1%}"


def _lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What stands below the table; a line that would only say "none" is left out, except errors."""
    if summary["stopped"]:
        not_run = summary["errors_by_class"].get("not_run", 0)
        yield "stopped", f"{summary['stopped']}; {not_run} of {summary['n']} questions were not run and count as wrong"
    yield "errors", _tally(summary["errors_by_class"]) or "none"
    if summary["limits"]:
        yield "ended by a limit", _tally(summary["limits"])
    if summary["format_loss"]:
        yield "format loss", f"{summary['format_loss']} wrong only in format (counted as wrong)"
    if summary["mean_score"] is not None:
        yield "mean score", f"{summary['mean_score']:.3f} with partial credit; the accuracy counts full credit only"
    if summary["judge_agreement"]:
        rules = (("rule", "the GAIA rule"), ("exact", "exact text"))
        told = (_agreement(name, summary["judge_agreement"][key]) for key, name in rules)
        yield "the judge agrees", f"{'; '.join(told)}, on {summary['judge_agreement']['rule']['n']} answers"
    if summary["n_unscored"]:
        yield "unscored", f"{summary['n_unscored']} without a gold answer, outside the accuracy"
    if summary["n_bad_rows"]:
        yield "skipped", f"{summary['n_bad_rows']} unreadable rows of the dataset, outside every number above"
    if summary["epochs"] > 1:
        yield "repeats", f"{summary['epochs']} epochs; the interval takes them as independent and so is too narrow"
    yield from _cost_lines(summary)


def _cost_lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    usage = summary["usage"]
    yield "calls", f"{usage['lm_calls']:,} to language models, {usage['tool_calls']:,} to tools"
    yield "tokens", f"{usage['input_tokens']:,} in, {usage['output_tokens']:,} out"
    judging = summary["scorer_usage"]
    if judging["lm_calls"]:
        tokens = f"{judging['input_tokens']:,} tokens in, {judging['output_tokens']:,} out"
        yield "judging", f"{judging['lm_calls']:,} calls, {tokens}, outside the calls and tokens above"
    yield "cost", NOT_AVAILABLE if usage["cost_usd"] is None else f"${usage['cost_usd']:,.4f}"
    yield "time", f"{summary['wall_seconds']:,.1f} s"


def _agreement(name: str, numbers: Mapping[str, Any]) -> str:
    kappa = NOT_AVAILABLE if numbers["kappa"] is None else f"{numbers['kappa']:.2f}"
    return f"with {name} in {_percent(numbers['share'])} (kappa {kappa})"


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
