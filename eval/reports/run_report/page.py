"""`report.html`: a run on one page that opens from the disk and loads nothing; it holds targets.

`eval/report.py` writes it, the viewer when it is opened there, and the exporter for MLflow.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path

from eval.analysis.attribution.broken_link import attribute_run, read_with_steps
from eval.analysis.summary.summarise import read_missing
from eval.analysis.summary.summary import LostPoints, Summary
from eval.execution.console import format_duration
from eval.reports.files import write_files
from eval.reports.formats import Table, format_floor, format_interval, format_seconds, format_share, format_usd
from eval.reports.html.page import ROWS, STEPS, Bar, Blocks, BlockWriter, Chart, Column, Rows, link, write_page
from eval.reports.rare_notes import (
    LABEL_LEGEND,
    PASS_LEGEND,
    build_confusion,
    build_epochs,
    build_labels,
    describe_critic,
    describe_labels,
)
from eval.reports.run_report.answers import MAX_BLOCK_BYTES, RIGHT, Links, Row, gather_answers, list_values
from eval.reports.step_tree import MAX_TEXT_CHARS
from eval.reports.summary_table import build_counts, format_title, list_notes
from eval.runs.folder import REPORT
from eval.runs.record import NOT_RUN, PlannedQuestion, Record
from eval.runs.run_info import NO_MEASUREMENT, RunInfo
from eval.runs.store import RunStore
from eval.scorers.score import ACCURACY
from mas.runtime.text import format_count

MAX_CAUSES = 15
_DIGEST_CHARS = 12
CAVEATS = (  # what a reader must know before the number is believed
    *("tuned on", "benchmark leaks", "judged", "reviewed by people"),
    *("unscored", "left out", "skipped", "answers"),
)
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPTS = _HERE / "report.html.jinja", (*ROWS, *STEPS, _HERE / "report.js")


def write_reports(folder: Path, store: RunStore) -> Summary:
    """Write all files and the page, also while the run is going on, and return the summary; raise as `write_files`."""
    attribution = attribute_run(store)
    summary = write_files(folder, store, attribution)
    info, plan = store.read_info(), store.read_plan()
    known = {each.id for each in plan}
    last = read_with_steps(store, lambda key: key[0] in known and key[1] <= info.epochs)
    records = chain(last, read_missing(store))
    write_report(folder / REPORT, summary, records, plan, describe_run(info, summary), attribution.links)
    return summary


def write_report(
    path: Path,
    summary: Summary,
    records: Iterable[Record],
    plan: Sequence[PlannedQuestion] = (),
    facts: Mapping[str, str] | None = None,
    links: Links | None = None,
) -> None:
    """Write the page; if it cannot be written, one that is already there stays as it was.

    `records`, `plan` and `links` are those of `gather_answers`; `facts`: names and sentences about the run.
    """
    writer = BlockWriter(MAX_BLOCK_BYTES)
    questions = gather_answers(writer, records, plan, links)
    write_page(path, _TEMPLATE, _SCRIPTS, _build_page(summary, questions, writer.close(), facts or {}))


def describe_run(info: RunInfo, summary: Summary) -> dict[str, str]:
    """Return facts of a run that are not in its title; what it did not record is left out."""
    digest = f" (sha256 {info.prompts_sha256[:_DIGEST_CHARS]})" if info.prompts_sha256 else ""
    edited = ", edited since it was published" if info.prompts_edited else ""
    facts = {
        "run": f"{summary.folder} (id {summary.run_id})",
        "scorer": summary.scorer,
        "prompts": summary.prompts and f"{summary.prompts}{digest}{edited}",
        "answers": info.rescored_from and f"those of {info.rescored_from}, scored again",
        NO_MEASUREMENT: info.describe_gold(),
        "date": info.started_at and f"{datetime.fromisoformat(info.started_at):%Y-%m-%d %H:%M} UTC",
        "command": summary.command and f"python eval/run.py {shlex.join(summary.command)}",
    }
    return {name: str(text) for name, text in facts.items() if text}


def _build_page(
    summary: Summary, questions: Sequence[Row], blocks: Blocks, facts: Mapping[str, str]
) -> dict[str, object]:
    notes = dict(list_notes(summary))
    about = [*facts.items(), *notes.items()]
    errors = [
        (n, name, summary.first_errors.get(name, ""), link(error=name))
        for name, n in summary.errors_by_class.items()
        if name != NOT_RUN
    ]
    overlap = summary.used_to_tune
    clean = "tuned on" if overlap and not overlap.n_questions and not overlap.is_edited else ""
    return {
        "summary": summary,
        "title": format_title(summary),
        "about": about,
        "banner": "; ".join(notes[name] for name in ("stopped", "incomplete") if name in notes),
        "tiles": list(_build_tiles(summary)),
        "caveats": [(name, text) for name, text in about if name in CAVEATS and name != clean],
        "errors": errors,
        "all_failed": bool(errors) and summary.n_error == summary.n,
        "score_charts": list(_build_score_charts(summary)),
        "loss_charts": list(_build_loss_charts(summary)),
        "critics": {name: describe_critic(each) for name, each in summary.critics.items()},
        "tables": list(_list_tables(summary)),
        "rows": _build_rows(questions),
        "n_shown": len(questions),
        "blocks": blocks,
        "max_chars": MAX_TEXT_CHARS,
    }


def _list_tables(summary: Summary) -> Iterator[tuple[str, str, Table]]:
    """Yield titles, remarks and tables."""
    if labels := summary.labels:
        remark = f"{describe_labels(labels, summary.incomplete)}."
        yield "Precision, recall and F1 of each label", remark, build_labels(summary, labels)
        yield "Confusion matrix", LABEL_LEGEND, build_confusion(labels)
    several = ", by level and tag" if len(summary.by_level) + len(summary.by_tag) else ""
    yield f"Counts of all answers{several}", "", build_counts(summary, summary.by_tag)
    if summary.by_epochs:
        title = f"Repeats: {summary.epochs} epochs of each question"
        yield title, f"{PASS_LEGEND}.", build_epochs(summary.by_epochs)


def _build_rows(questions: Sequence[Row]) -> Rows:
    """Return the questions; a list has one value for each answer that has it, each once."""
    values = {pair for question in questions for pair in question["tags"].items()}
    tags = sorted(tag for tag, n in Counter(tag for tag, _ in values).items() if n > 1)
    columns = [
        Column("question", "question", width="46fr"),
        Column("target", "gold answer", width="18fr"),
        Column("answer", "answer", width="36fr"),
        Column("lost", "lost at", width="19fr", menu=True),
        Column("cost", "cost", kind="usd", width="74px"),
        Column("seconds", "time", kind="seconds", width="70px"),
        Column("mark", "verdict", kind="hidden", menu=True, find=False),
        Column("error", "error", kind="hidden", menu=True),
        Column("people", "people", kind="hidden", menu=True, find=False),
        Column("level", "level", kind="hidden", menu=True, find=False),
        Column("kind", "attachment", kind="hidden", menu=True, find=False),
        *(Column(f"tag {tag}", tag, kind="hidden", menu=True) for tag in tags),
        Column("file", "file", kind="hidden"),
        Column("why", "why", kind="hidden"),
    ]
    return Rows("question", columns, [_build_row(each, tags) for each in questions])


def _build_row(question: Row, tags: Sequence[str]) -> Row:
    answers = question["answers"]
    costs, marks = [each["cost_usd"] for each in answers], list_values(answers, "mark")
    return {
        **question,
        **{name: list_values(answers, name) for name in ("lost", "people", "why")},
        "error": list_values(answers, "error_class"),
        "mark": [*marks, "not right"] if set(marks) - {RIGHT} else marks,
        "answer": [each["line"] for each in answers],
        "cost": None if None in costs else round(sum(costs), 6),
        "seconds": round(sum(each["seconds"] for each in answers), 6),
        **{f"tag {tag}": question["tags"].get(tag, "") for tag in tags},
    }


def _build_tiles(summary: Summary) -> Iterator[tuple[str, str, str]]:
    interval = f"95% interval {format_interval(summary.score_ci95)}"
    remark = "not complete: no interval" if summary.incomplete else interval
    yield format_floor(summary.score, summary.incomplete), summary.metric, remark
    over = f" over {summary.epochs} epochs" if summary.epochs > 1 else ""
    right = "right" if summary.metric == ACCURACY else "fully right"
    n_failed, wrong = summary.n_error - summary.n_not_run, "wrong" if summary.metric == ACCURACY else "not fully"
    failures = f"{summary.n_wrong:,} {wrong}, {n_failed:,} in error"
    not_run = f", {summary.n_not_run:,} not run" if summary.n_not_run else ""
    yield f"{summary.n_correct:,} of {summary.n_scored:,}", right + over, failures + not_run
    usage = summary.usage
    known = f"at least {format_usd(usage.known_cost_usd)}" if usage.known_cost_usd else format_usd(None)
    cost = known if usage.cost_usd is None else format_usd(usage.cost_usd)
    yield cost, "cost", "simulated model" if summary.simulated else ""
    n_in, n_out = usage.input_tokens, usage.output_tokens
    yield f"{n_in + n_out:,}", "tokens", f"{n_in:,} in, {n_out:,} out"
    yield format_duration(summary.wall_seconds), "time", ""


def _build_score_charts(summary: Summary) -> Iterator[Chart]:
    """Yield the score by level and by tag, such as the kind of the attachment, as far as there are several."""
    floor, metric = ", so far" if summary.incomplete else "", summary.metric
    for name, counts in {"level": summary.by_level, **summary.by_tag}.items():
        bars = []
        for value, each in counts.items():
            if each.score is not None:
                label, key = (f"level {value}", "level") if name == "level" else (value, f"tag {name}")
                text = f"{format_share(each.score, each.score_ci95)} of {each.n_scored:,}"
                bars.append(Bar(label, each.score, text, each.score_ci95, href=link(**{key: value})))
        if len(bars) > 1:
            yield Chart(f"{metric[0].upper()}{metric[1:]} by {name}{floor}", bars, longest=1.0, mark=summary.score)


def _build_loss_charts(summary: Summary) -> Iterator[Chart]:
    if lost := summary.attribution:
        rest = f" (the {MAX_CAUSES} largest of {len(lost)})" if len(lost) > MAX_CAUSES else ""
        yield Chart(f"Points lost of 100, by the first broken link{rest}", list(map(_build_loss, lost[:MAX_CAUSES])))
    n = summary.n - summary.n_not_run
    if summary.by_agent and n:
        means = {agent: seconds / n for agent, seconds in summary.by_agent.items()}
        slowest_first = sorted(means.items(), key=lambda item: -item[1])
        bars = [Bar(agent, seconds, format_seconds(seconds)) for agent, seconds in slowest_first]
        yield Chart("Seconds of each agent, mean of all answers", bars)


def _build_loss(lost: LostPoints) -> Bar:
    points, bounds = 100 * (lost.points.value or 0.0), lost.points.ci95
    interval = f" ({100 * bounds[0]:.1f} to {100 * bounds[1]:.1f})" if bounds else ""
    return Bar(
        label=lost.title,
        value=points,
        text=f"{points:.1f}{interval}, {format_count(lost.points.n or 0, 'answer')}",
        bounds=bounds and (100 * bounds[0], 100 * bounds[1]),
        tone="error" if lost.kind == "error" else "wrong",
        href=link(lost=lost.title),
    )
