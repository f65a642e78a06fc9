"""Runs compared, on one page that opens from the disk and loads nothing.

The page holds targets, and so is for the runs' owners. Two runs are shown side by side, three and more as a matrix of
questions and runs.

    runs = read_runs(folders)
    write_comparison(Path("comparison.html"), compare_read_runs(runs, intersection=False), runs)
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pvariance

from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun, RunComparison
from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test
from eval.reports.comparison_table import build_numbers, describe_run, describe_verdict, list_differences
from eval.reports.formats import format_p_value, format_points
from eval.reports.html.blocks import Blocks
from eval.reports.html.charts import CHARTS, Chart, Point, Tone, link
from eval.reports.html.rows import ROWS, STEPS, Column, Rows
from eval.reports.html.templates import load_scripts, write_page
from eval.reports.run_report.answers import AnswerGatherer, AnswerRow, QuestionRow
from eval.runs.store import open_run
from mas.runtime.text import format_count

MIN_GROUP = 2  # questions of a group that has an interval
MAX_GROUPS = 14  # levels, or causes of lost points
MAX_ANSWERS = 20_000  # rows of (run, sample, epoch)
MAX_WITH_TEXTS = 3  # runs whose answers are written into the table; of more, their signs
RIGHT, WRONG, EQUAL = "all right", "all wrong", "equal in part"
DISAGREE = "runs disagree"  # of three runs or more
FLIPS = "flips"  # all questions on which runs differ
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPT = _HERE / "comparison.html.jinja", _HERE / "comparison.js"


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    question: QuestionRow  # as the first run that has it has it
    answers: Sequence[Sequence[AnswerRow]]  # of each run, by epoch; empty: not answered
    means: Sequence[float]  # value of each run's answers


@dataclass(frozen=True)
class GatheredRuns:
    """Everything that the page shows of answers."""

    questions: Sequence[ComparedQuestion]  # those on which the runs disagree most first
    blocks: Blocks
    n_left_out: int


def write_comparison(path: Path, result: ComparisonResult, runs: Sequence[ReadRun]) -> None:
    """Write the page.

    Args:
        path: of the page.
        result: of the comparison.
        runs: that were compared, in the same order.

    Raises:
        UserError: a run's store cannot be read.
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    ids = list(dict.fromkeys(id for each in result.comparisons for id in each.comparison.pairs))
    n_answers, n = sum(each.answers.epochs for each in runs), len(result.comparisons)
    gathered, labels = gather_runs(runs, ids, max(MAX_ANSWERS // n_answers, 1)), [each.label for each in runs]
    page = {
        "notice": result.notice,
        "title": " and ".join(each.name for each in result.runs) if n == 1 else f"{len(runs)} runs compared",
        "runs": list(map(describe_run, result.runs)),
        "verdicts": [describe_result(each, n) for each in result.comparisons],
        "comparisons": [_build_section(each, n) for each in result.comparisons],
        "charts": [chart_differences(result, runs), chart_losses(gathered, labels)],
        "rows": _build_rows(gathered.questions, labels),
        "n_shown": len(gathered.questions),
        "n_left_out": gathered.n_left_out,
        "blocks": gathered.blocks,
        "scripts": load_scripts(*CHARTS, *ROWS, *STEPS, _SCRIPT),
    }
    write_page(path, _TEMPLATE, page)


def describe_result(pair: RunComparison, n_comparisons: int) -> str:
    score, p = pair.comparison.score, pair.p_holm if n_comparisons > 1 else pair.comparison.score.p
    metric, where = pair.comparison.metric, ""
    if pair.n_tuned_on:
        where = f" on the {score.n_questions} questions that were {'' if pair.is_optimistic else 'not '}tuned on"
    points = f"{format_points(score.difference)} points of {metric}"
    if score.ci95 is None:
        sure = f"{pair.run} - {pair.against}{where}: {points}; one question says nothing about others"
    else:
        low, high = map(format_points, score.ci95)
        bounds = f"95% interval {low} to {high}, p {format_p_value(p)}"
        if p <= 0.05:
            how = "better" if score.difference > 0 else "worse"
            amount = f"{100 * abs(score.difference):.1f} points of {metric}"
            sure = f"{pair.run} is {how} than {pair.against} by {amount}{where} ({bounds})"
        else:
            sure = f"No difference is shown between {pair.against} and {pair.run}{where}: {points} ({bounds})"
    return f"{sure}."


def _build_section(pair: RunComparison, n_comparisons: int) -> dict[str, object]:
    n = len(pair.differs.options) + len(pair.differs.prompts) + len(pair.differs.tools)
    return {
        "pair": pair,
        "numbers": build_numbers(pair),
        "lines": [*describe_verdict(pair, n_comparisons), *pair.notes],
        "differing": list(list_differences(pair)),
        "differ": format_count(n, "setting"),
    }


def _build_rows(questions: Sequence[ComparedQuestion], labels: Sequence[str]) -> Rows:
    width = "26fr" if len(labels) <= MAX_WITH_TEXTS else "64px"
    columns = [
        Column("question", "question", width="40fr"),
        Column("target", "gold answer", width="16fr"),
        *(Column(f"run {label}", label, width=width) for label in labels),
        Column("outcome", "outcome", kind="hidden", menu=True, find=False),
        *(Column(f"lost {label}", f"lost at in {label}", kind="hidden", menu=True, find=False) for label in labels),
        Column("level", "level", kind="hidden", menu=True, find=False),
        Column("kind", "attachment", kind="hidden", menu=True, find=False),
        Column("file", "file", kind="hidden"),
        Column("labels", "runs", kind="hidden", find=False),
        Column("answers", "answers", kind="hidden", find=False),
    ]
    rows = []
    for each in questions:
        row: dict[str, object] = {
            name: getattr(each.question, name) for name in ("id", "target", "level", "kind", "file")
        }
        row |= {"question": each.question.line, "outcome": list_outcomes(each, labels), "labels": labels}
        for label, answers in zip(labels, each.answers, strict=True):
            row[f"run {label}"] = [f"{answer.mark} {answer.line}" for answer in answers]
            row[f"lost {label}"] = list(dict.fromkeys(answer.lost for answer in answers if answer.lost))
        rows.append(row | {"answers": [list(map(vars, answers)) for answers in each.answers]})
    return Rows("questions", columns, rows)


def chart_differences(result: ComparisonResult, runs: Sequence[ReadRun]) -> Chart:
    if len(runs) > 2:
        first = result.runs[0].label
        points = [_point(f"{pair.run} - {first}", pair.comparison.score) for pair in result.comparisons]
        title = f"Difference to {first} in points, with 95% intervals, each as if it were the only one"
        return Chart("dots", title, points, x_label="points", x_format="points", x_mark=0.0)
    (pair,), questions = result.comparisons, runs[0].answers.questions
    comparison = pair.comparison
    points = [_point(f"all: {comparison.metric}", comparison.score)]
    levels: dict[str, list[Pair]] = defaultdict(list)
    for sample_id, scores in comparison.pairs.items():
        levels[questions[sample_id].level or ""].append(scores)
    shown = {level: group for level, group in sorted(levels.items()) if level and len(group) >= MIN_GROUP}
    if 2 <= len(shown) <= MAX_GROUPS:
        points += [_point(f"level {level}", run_paired_test(group)) for level, group in shown.items()]
    title = f"{pair.run} - {pair.against} in points, with 95% intervals; levels are not adjusted for their number"
    return Chart("dots", title, points, x_label="points", x_format="points", x_mark=0.0)


def _point(label: str, result: PairedResult) -> Point:
    low, high = result.ci95 or (None, None)
    tone: Tone = "quiet"
    if low is not None and high is not None and not low <= 0 <= high:
        tone = "right" if low > 0 else "wrong"
    note = format_count(result.n_questions, "question")
    return Point(label, result.difference, low=low, high=high, tone=tone, note=note)


def chart_losses(gathered: GatheredRuns, labels: Sequence[str]) -> Chart:
    """Chart the points that each run lost by the first cause, as shares of its questions."""
    n = max(len(gathered.questions), 1)
    lost: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(labels, 0.0))
    for compared in gathered.questions:
        for label, answers in zip(labels, compared.answers, strict=True):
            for each in answers:
                if each.lost:
                    lost[each.lost][label] += (1 - each.value) / len(answers)
    order = sorted(lost, key=lambda name: -max(lost[name].values()))[:MAX_GROUPS]
    points = []
    for name in order:
        for label in labels:
            href = link(**{f"lost {label}": name}) if lost[name][label] else ""
            points.append(Point(name, lost[name][label] / n, group=label, href=href))
    title = "Points lost, by the first cause"
    return Chart("bars", title, points, x_label="share of the questions", x_format="percent")


def gather_runs(runs: Sequence[ReadRun], ids: Sequence[str], max_questions: int) -> GatheredRuns:
    """Read the answers of all runs to the questions that are compared.

    Args:
        runs: that are compared.
        ids: of the questions.
        max_questions: that the page has room for.

    Raises:
        UserError: a store cannot be read.
    """
    scores = {each: [run.answers.list_scores(each, with_missing=False) for run in runs] for each in ids}
    means = {id: [fmean(each) if each else 0.0 for each in sides] for id, sides in scores.items()}
    # stable: else in the dataset's order; losses before gains
    ids = sorted(ids, key=lambda each: (-pvariance(means[each]), means[each][-1] - means[each][0]))
    n_left_out = max(len(ids) - max_questions, 0)
    ids = ids[:max_questions]
    disagree = frozenset(each for each in ids if pvariance(means[each]))
    gatherer, wanted = AnswerGatherer(disagree), frozenset(ids)
    found: list[dict[str, QuestionRow]] = []
    for run in runs:
        with open_run(run.path) as store:
            records = (each for each in store.records() if each.sample_id in wanted)
            plan = [each for each in store.read_plan() if each.id in wanted]
            found.append({row.id: row for row in gatherer.gather(records, plan, len(plan))})
    questions = []
    for id in ids:
        if (first := next((rows[id] for rows in found if id in rows), None)) is not None:
            answers = [rows[id].in_order if id in rows else [] for rows in found]
            questions.append(ComparedQuestion(first, answers, means[id]))
    return GatheredRuns(questions, gatherer.writer.close(), n_left_out)


def list_outcomes(question: ComparedQuestion, labels: Sequence[str]) -> list[str]:
    """Return what a comparison sees in a question, and whether it is one of the flips."""
    means = question.means
    if min(means) == 1:
        return [RIGHT]
    if max(means) == 0:
        return [WRONG]
    if len(set(means)) == 1:
        return [EQUAL]
    if len(means) == 2:
        return [f"better in {labels[1] if means[1] > means[0] else labels[0]}", FLIPS]
    return [DISAGREE, FLIPS]
