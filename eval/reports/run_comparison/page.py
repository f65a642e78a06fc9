"""Runs compared, on one page that opens from the disk and loads nothing; it holds targets.

Two runs are shown side by side, three and more as a matrix of questions and runs.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pvariance

from eval.analysis.attribution.broken_link import read_with_steps
from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun, RunComparison
from eval.reports.comparison_table import build_numbers, describe_run, describe_verdict, list_differences
from eval.reports.formats import format_interval, format_p_value, format_points
from eval.reports.html.page import ROWS, STEPS, Blocks, BlockWriter, Column, Rows, write_page
from eval.reports.run_report.page import MAX_BLOCK_BYTES, Row, gather_answers, list_values
from eval.runs.store import open_run
from mas.runtime.text import format_count

MAX_WITH_TEXTS = 3  # runs whose answers are written into the table; of more, their signs
RIGHT, WRONG, EQUAL = "all right", "all wrong", "equal in part"
DISAGREE = "runs disagree"  # of three runs or more
FLIPS = "flips"  # all questions on which runs differ
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPTS = _HERE / "comparison.html.jinja", (*ROWS, *STEPS, _HERE / "comparison.js")


def write_comparison(path: Path, result: ComparisonResult) -> None:
    """Write the page.

    UserError: a run's store cannot be read. OSError: the page cannot be written; one already there stays as it was.
    """
    ids = list(dict.fromkeys(id for each in result.comparisons for id in each.comparison.differences))
    runs, n = result.runs, len(result.comparisons)
    rows, blocks = gather_runs(runs, ids)
    labels = [each.label for each in runs]
    page = {
        "notice": result.notice,
        "title": " and ".join(each.name for each in runs) if n == 1 else f"{len(runs)} runs compared",
        "runs": list(map(describe_run, runs)),
        "comparisons": [_build_section(each, n) for each in result.comparisons],
        "rows": Rows("question", _list_columns(labels), rows),
        "blocks": blocks,
    }
    write_page(path, _TEMPLATE, _SCRIPTS, page)


def describe_result(pair: RunComparison, n_comparisons: int) -> str:
    score, p = pair.comparison.score, pair.p_holm if n_comparisons > 1 else pair.comparison.score.p
    where, sure = "", "one question says nothing about others"
    if pair.n_tuned_on:
        where = f" on the {score.n_questions} questions that were {'' if pair.is_optimistic else 'not '}tuned on"
    verdict = f"No difference is shown between {pair.against} and {pair.run}"
    if score.ci95:
        sure = f"95% interval {format_interval(score.ci95, format_points)}, p {format_p_value(p)}"
        if p <= 0.05:
            verdict = f"{pair.run} is {'better' if score.difference > 0 else 'worse'} than {pair.against}"
    return f"{verdict}{where}: {format_points(score.difference)} points of {pair.comparison.metric} ({sure})."


def _build_section(pair: RunComparison, n_comparisons: int) -> dict[str, object]:
    return {
        "pair": pair,
        "verdict": describe_result(pair, n_comparisons),
        "numbers": build_numbers(pair),
        "lines": [*describe_verdict(pair, n_comparisons), *pair.notes],
        "differing": list(list_differences(pair)),
        "differ": format_count(len(pair.differs), "setting"),
    }


def _list_columns(labels: Sequence[str]) -> list[Column]:
    width = "26fr" if len(labels) <= MAX_WITH_TEXTS else "64px"
    return [
        Column("question", "question", width="40fr"),
        Column("target", "gold answer", width="16fr"),
        *(Column(f"run {label}", label, width=width) for label in labels),
        Column("outcome", "outcome", kind="hidden", menu=True),
        *(Column(f"lost {label}", f"lost at in {label}", kind="hidden", menu=True) for label in labels),
        Column("level", "level", kind="hidden", menu=True),
        Column("kind", "attachment", kind="hidden", menu=True),
        Column("file", "file", kind="hidden"),
    ]


def gather_runs(runs: Sequence[ReadRun], ids: Sequence[str]) -> tuple[list[Row], Blocks]:
    """Return the rows of questions, those on which the runs disagree most first, and what opens in them."""
    means = {each: [fmean(run.answers.list_scores(each)) for run in runs] for each in ids}
    # stable: else in the dataset's order; losses before gains
    ids = sorted(ids, key=lambda each: (-pvariance(means[each]), means[each][-1] - means[each][0]))
    disagree = frozenset(each for each in ids if pvariance(means[each]))
    writer, wanted = BlockWriter(MAX_BLOCK_BYTES), frozenset(ids)
    found: list[dict[str, Row]] = []
    for run in runs:
        with open_run(run.path) as store:
            records, plan = read_with_steps(store, lambda key: key[0] in wanted), store.read_plan()
            found.append({row["id"]: row for row in gather_answers(writer, records, plan, kept_first=disagree)})
    labels, rows = [each.label for each in runs], []
    for id in ids:
        answers = [each[id]["answers"] for each in found]
        row = found[0][id] | {"labels": labels, "answers": answers, "outcome": _list_outcomes(means[id], labels)}
        for label, given in zip(labels, answers, strict=True):
            row[f"run {label}"] = [f"{each['mark']} {each['line']}" for each in given]
            row[f"lost {label}"] = list_values(given, "lost")
        rows.append(row)
    return rows, writer.close()


def _list_outcomes(means: Sequence[float], labels: Sequence[str]) -> list[str]:
    """Return what a comparison sees in a question, by the mean of each run, and whether it is one of the flips."""
    if min(means) == 1:
        return [RIGHT]
    if max(means) == 0:
        return [WRONG]
    if len(set(means)) == 1:
        return [EQUAL]
    if len(means) == 2:
        return [f"better in {labels[1] if means[1] > means[0] else labels[0]}", FLIPS]
    return [DISAGREE, FLIPS]
