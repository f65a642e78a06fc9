"""A run's summary in the terminal: its title, the table of its numbers, and the lines below it, as on its page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.style import Style
from rich.text import Text

from eval.analysis.summary.summarise import GOING_ON
from eval.analysis.summary.summary import Counts, LostPoints, Summary
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.execution.console import Console
from eval.reports.formats import (
    MAX_ERROR_CHARS,
    MAX_NAME_CHARS,
    NOT_AVAILABLE,
    Table,
    format_floor,
    format_interval,
    format_usd,
    list_parts,
)
from eval.runs.folder import REPORT, format_path, format_report_command, format_resume_hint
from eval.runs.record import NOT_RUN, Record, Usage
from eval.scorers.score import ACCURACY, JUDGE
from mas.runtime.terminal import shorten_line
from mas.runtime.text import format_count

_ID_CHARS, _QUESTION_CHARS, _ANSWER_CHARS = 40, 60, 60  # of a wrong answer's line
MAX_LISTED_LOSSES = 6  # links in the line of lost points
_INFRASTRUCTURE = "infrastructure"  # error class of faults that `run.retry_errors=true` runs again
_DEFAULT_SCORER = "gaia"  # of conf/eval.yaml
_ADVICE = {  # error class → what helps, where asking again does not
    "truncated": "give replies more room with model.max_tokens=…, or a thinking model less to think",
    "context_overflow": "a model or server with a longer context, fewer demos, smaller attachments",
    "malformed": "the model misses the form asked for: a larger model, or prompts tuned for this one",
}


def print_summary(summary: Summary, console: Console) -> None:
    """Print the metric with its interval, also by level, and the notes; names from data are no markup of rich."""
    if summary.notice:
        console.print(Text(summary.notice, style="bold yellow"))
    console.print(Text(format_title(summary), style="bold"))
    console.print(build_counts(summary, summary.tags).drop("wrong", "not fully", "n").build())
    for name, value in list_notes(summary):
        console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)


def print_results(summary: Summary, folder: Path, console: Console) -> None:
    """Print the summary and the folder with the rest."""
    print_summary(summary, console)
    _print_line(f"results: {format_path(folder)}", console)


def print_last_lines(summary: Summary, folder: Path, console: Console) -> None:
    """Print where the run's page is, or how it is made, and the command that resumes a run that was stopped."""
    print_report_path(folder, console)
    if summary.stopped not in (None, GOING_ON):
        _print_line(format_resume_hint(folder), console)


def print_report_path(folder: Path, console: Console) -> None:
    """Print where the run's page is, in a terminal as a link; of an evaluation without one, the command for it."""
    path = (folder / REPORT).absolute()
    if path.is_file():
        console.print(Text.assemble("report: ", (str(path), Style(link=path.as_uri()))), soft_wrap=True)
    else:
        _print_line(f"report: {format_report_command(folder)}", console)


def print_wrong_answers(records: Sequence[Record], console: Console) -> None:
    """Print wrong answers with the expected ones, one a line; they hold targets, and so are for the run's owner."""
    if records:
        _print_line("wrong answers:" if len(records) > 1 else "a wrong answer:", console)
    for each in records:
        name, question = shorten_line(each.sample_id, _ID_CHARS), shorten_line(each.question, _QUESTION_CHARS)
        answer = "no answer" if each.answer is None else f'"{shorten_line(each.answer, _ANSWER_CHARS)}"'
        expected = shorten_line(each.target or "", _ANSWER_CHARS)
        _print_line(f'  {name}: {question} → {answer}, expected "{expected}"', console)


def choose_exit_code(summary: Summary, fail_under: float | None, console: Console) -> int:
    """Return the exit code of a command that ran or showed the run, and print why it is not 0."""
    if summary.stopped:
        return STOPPED
    score = summary.score or 0.0
    if fail_under is not None and score < fail_under:
        _print_line(f"{summary.metric} {score:.4g} is below run.fail_under={fail_under}", console)
        return FAILURES
    return FAILURES if summary.n_error else FINISHED


def build_counts(summary: Summary, tags: Iterable[str]) -> Table:
    """Return the counts of all answers, by level and by some tags; without intervals if answers are missing."""
    groups: dict[str, Counts] = {"all": summary}
    groups |= {f"level {level}": counts for level, counts in summary.by_level.items()}
    for tag in tags:
        groups |= {f"{tag} {value}": counts for value, counts in summary.by_tag.get(tag, {}).items()}
    rows = []
    for name, counts in groups.items():
        shares = (format_floor(counts.score, summary.incomplete), format_interval(counts.score_ci95))
        numbers = (counts.n_wrong, counts.n_not_run, counts.n_error - counts.n_not_run, counts.n)
        right = f"{counts.n_correct}/{counts.n_scored}"
        rows.append((shorten_line(name, MAX_NAME_CHARS), *shares, right, *map(str, numbers)))
    verdicts = ("right", "wrong") if summary.metric == ACCURACY else ("fully right", "not fully")
    table = Table(("part", summary.metric, "95% interval", *verdicts, "not run", "errors", "n"), rows)
    return table.drop("95% interval" if summary.incomplete else "not run")


def _print_line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def format_title(run: Summary) -> str:
    """Return one line that names what was run; the usual scorer and what is unknown are left out."""
    data = "/".join(filter(None, (run.data, run.split)))
    scorer = [f"scorer {run.scorer}"] if run.scorer and run.scorer != _DEFAULT_SCORER else []
    return " · ".join([*list_parts(run.system, run.model, data, run.prompts), *scorer, run.folder or run.run_id])


def list_notes(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield names and sentences; a line that would only say "none" is left out, except errors."""
    rare = (
        *(summary.used_to_tune, summary.critics, summary.labels, summary.parts),
        *(summary.extra_scorers, summary.human_review, summary.leaks),
        *(summary.epochs > 1, summary.metric != ACCURACY, summary.scorer == JUDGE),
    )
    if any(rare):
        from eval.reports.rare_notes import list_rare_notes

        yield from list_rare_notes(summary)
    yield from _list_failures(summary)
    if lost := summary.attribution:
        listed = lost[:MAX_LISTED_LOSSES]
        parts = [f"{shorten_line(each.title, MAX_NAME_CHARS)} {format_loss(each)}" for each in listed]
        if rest := lost[MAX_LISTED_LOSSES:]:
            parts.append(f"{len(rest)} more {100 * sum(each.points.value or 0.0 for each in rest):.1f}")
        yield "points lost", f"{', '.join(parts)}; of 100, by the first broken link"
    if summary.format_loss:
        yield "format loss", f"{summary.format_loss} wrong only in format (counted as wrong)"
    if summary.n_unscored:
        yield "unscored", f"{summary.n_unscored} without a gold answer, outside the {summary.metric}"
    if summary.bad_rows:
        yield "skipped", f"{format_count(len(summary.bad_rows), 'unreadable row')} of the dataset, in no number here"
    yield from _list_spending(summary)
    if len(summary.sessions) > 1:
        changes = [f"; {key}: {change}" for each in summary.sessions for key, change in (each.changes or {}).items()]
        yield "sessions", f"{len(summary.sessions)}: the run was resumed{''.join(changes)}"
    yield "time", f"{summary.wall_seconds:,.1f} s"


def format_loss(lost: LostPoints) -> str:
    """Return the points of 100 that were lost at a link, with their interval."""
    points, bounds = lost.points.value or 0.0, lost.points.ci95
    interval = f" ({100 * bounds[0]:.0f} to {100 * bounds[1]:.0f})" if bounds else ""
    return f"{100 * points:.1f}{interval}"


def _list_failures(summary: Summary) -> Iterator[tuple[str, str]]:
    if summary.stopped:
        yield "stopped", summary.stopped
    if summary.incomplete:
        right = f"{summary.n_correct} right of {summary.n_correct + summary.n_wrong} answered"
        so_far = right if summary.n_scored else f"{summary.n - summary.n_error} answered"
        not_run = f", {summary.n_not_run} of {summary.n} not run" if summary.n_not_run else ""
        floor = f"what has no answer yet counts as wrong, so the {summary.metric} is a floor"
        yield "incomplete", f"{so_far}{not_run}; {floor}"
    errors = {name: count for name, count in summary.errors_by_class.items() if name != NOT_RUN}
    yield "errors", _format_tally(errors) or "none"
    for name, message in summary.first_errors.items():
        yield f"first error, {name}", shorten_line(message, MAX_ERROR_CHARS)
        if name in _ADVICE:
            yield f"against {name}", _ADVICE[name]
    if n := errors.get(_INFRASTRUCTURE):
        again = "run again with run.resume=RUN run.retry_errors=true"
        yield "infrastructure errors", f"{n} (of the wrong answers; {again})"
    if summary.limits:
        yield "ended by a limit", _format_tally(summary.limits)


def _list_spending(summary: Summary) -> Iterator[tuple[str, str]]:
    usage, judging = summary.usage, summary.scorer_usage
    kinds = {"sent again": usage.retries, "replayed from before an interruption": usage.replayed_calls}
    listed = ", ".join(f"{n:,} {kind}" for kind, n in kinds.items() if n)
    of_which = f" (of which {listed})" if listed else ""
    yield "calls", f"{usage.lm_calls:,} to language models{of_which}, {usage.tool_calls:,} to tools"
    if (idle := summary.agents_without_calls) and usage.lm_calls:
        have = f"{', '.join(idle)} {'has' if len(idle) == 1 else 'have'} tools"
        yield "no tool was called", f"{have}; a model without native calls may make them with model.native_tools=false"
    if errors := summary.tool_errors:
        calls = summary.calls_by_tool
        yield "failed tool calls", ", ".join(f"{name} {n:,} of {calls[name]:,}" for name, n in errors.items())
        for name, n in errors.items():
            if n == calls[name] and (reason := summary.first_tool_errors.get(name)):
                yield f"{name} never worked", shorten_line(reason, MAX_ERROR_CHARS)
    yield "tokens", _format_tokens(usage)
    if judging.lm_calls:
        spent = f"tokens {_format_tokens(judging)}, cost {_format_cost(judging, 'the judge')}"
        yield "judging", f"{judging.lm_calls:,} calls, {spent}, in no other number here"
    simulated = " (simulated)" if summary.simulated and usage.cost_usd is not None else ""
    yield "cost", _format_cost(usage, summary.model) + simulated
    if unfinished := summary.unfinished:
        spent = f"{unfinished.lm_calls:,} calls, {_format_cost(unfinished, summary.model)}"
        yield "unfinished questions", f"{spent}; outside the numbers above until the run is resumed"


def _format_tokens(usage: Usage) -> str:
    cached = f" ({usage.cached_input_tokens:,} cached by the provider)" if usage.cached_input_tokens else ""
    return f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"


def _format_cost(usage: Usage, model: str | None) -> str:
    """Return the cost, or its known part: a call that was cut off may have been billed."""
    if usage.cost_usd is not None:
        return format_usd(usage.cost_usd)
    if not usage.lm_calls:
        return NOT_AVAILABLE
    if not usage.unknown_cost_calls or (usage.output_tokens and not usage.known_cost_usd):
        return f"{NOT_AVAILABLE} (price of {model or 'the model'} unknown)"
    known = f"at least {format_usd(usage.known_cost_usd)}" if usage.known_cost_usd else NOT_AVAILABLE
    return f"{known} ({format_count(usage.unknown_cost_calls, 'call')} of unknown cost)"


def _format_tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
