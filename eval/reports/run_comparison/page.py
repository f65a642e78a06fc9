"""Runs compared, on one page that opens from the disk and loads nothing.

The page holds targets, and so is for the runs' owners. Two runs are shown side by side, three and more as a matrix of
questions and runs.

    runs = read_runs(folders)
    write_comparison(Path("comparison.html"), compare_read_runs(runs, intersection=False), runs)
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from eval.analysis.comparison.answers import find_common, find_obstacle, pair_scores
from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun, RunComparison
from eval.analysis.statistics.paired_tests import PairedResult, run_paired_test
from eval.benchmarks.dataset import EXPECTED, classify_attachment
from eval.reports.comparison_table import build_numbers, describe_run, describe_verdict, list_differences
from eval.reports.formats import format_p_value, format_points
from eval.reports.html.charts import CHARTS, Chart, Point, Tone, link
from eval.reports.html.rows import ROWS, STEPS, Column, Rows
from eval.reports.html.templates import load_scripts, write_page
from eval.reports.run_comparison.rows import ComparedQuestion, GatheredRuns, gather_runs, list_outcomes
from eval.runs.record import PlannedQuestion
from mas.runtime.text import format_count

MIN_GROUP = 2  # questions of a group that has an interval
MAX_GROUPS = 14  # of one kind, such as the values of a tag
MAX_ANSWERS = 20_000  # rows of (run, sample, epoch)
MAX_WITH_TEXTS = 3  # runs whose answers are written into the table; of more, their signs
_HERE = Path(__file__).parent
_TEMPLATE, _SCRIPT = _HERE / "comparison.html.jinja", _HERE / "comparison.js"


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
    ids = list(dict.fromkeys(each for other in runs[1:] for each in list_compared(runs[0], other)))
    n_answers, n = sum(each.answers.epochs for each in runs), len(result.comparisons)
    gathered, labels = gather_runs(runs, ids, max(MAX_ANSWERS // n_answers, 1)), [each.label for each in runs]
    page = {
        "notice": result.notice,
        "title": " and ".join(each.name for each in result.runs) if n == 1 else f"{len(runs)} runs compared",
        "runs": list(map(describe_run, result.runs)),
        "verdicts": [describe_result(each, n) for each in result.comparisons],
        "comparisons": [_build_section(each, n) for each in result.comparisons],
        "charts": [chart_differences(result, runs), chart_losses(gathered, labels)],
        "prompts": list(_list_prompts(runs)),
        "rows": Rows("questions", _list_columns(labels), gathered.questions),
        "n_shown": len(gathered.questions),
        "n_left_out": gathered.n_left_out,
        "blocks": gathered.blocks,
        "scripts": load_scripts(*CHARTS, *ROWS, *STEPS, _SCRIPT),
    }
    write_page(path, _TEMPLATE, page)


def describe_result(pair: RunComparison, n_comparisons: int) -> str:
    """Return the verdict in one sentence: how much, how sure, at what cost."""
    score, p, where = pair.comparison.score, pair.p_holm if n_comparisons > 1 else pair.comparison.score.p, ""
    metric = pair.comparison.metric
    if (held_out := pair.used_to_tune) is not None:
        if held_out.without is None:
            used = f"all {score.n_questions} were used to tune the prompts"
            seen = f"{format_points(score.difference)} points of {metric} on these mean little"
            return f"Nothing can be said about new questions: {used}; {seen}."
        score, p = held_out.without, min(held_out.without.p * n_comparisons, 1.0)
        where = f" on the {held_out.n_without} questions that were not tuned on"
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
    return f"{sure}{_describe_price(pair)}."


def _describe_price(pair: RunComparison) -> str:
    cost, tokens = pair.comparison.cost_usd, pair.comparison.tokens
    for means, what in ((cost, "cost"), (tokens, "tokens")):
        if means is not None and means.first > 0:
            return f"; it takes {means.second / means.first:.2f} times the {what} of an answer"
    return ""


def _build_section(pair: RunComparison, n_comparisons: int) -> dict[str, object]:
    n = len(pair.differs.options) + len(pair.differs.prompts) + len(pair.differs.tools)
    return {
        "pair": pair,
        "numbers": build_numbers(pair),
        "lines": [*describe_verdict(pair, n_comparisons), *pair.notes],
        "differing": list(list_differences(pair)),
        "differ": format_count(n, "setting"),
    }


def _list_prompts(runs: Sequence[ReadRun]) -> Iterator[dict[str, object]]:
    """Yield the prompts that differ from the first run's, as both texts."""
    for other in runs[1:]:
        before, now = (each.prompt_set.texts if each.prompt_set else {} for each in (runs[0], other))
        for agent in {**before, **now}:
            if before.get(agent) != now.get(agent):
                texts = [before.get(agent, "none"), now.get(agent, "none")]
                yield {"agent": agent, "runs": [runs[0].label, other.label], "texts": texts}


def _list_columns(labels: Sequence[str]) -> list[Column]:
    """Return the columns of a `ComparedQuestion`."""
    width = "26fr" if len(labels) <= MAX_WITH_TEXTS else "64px"
    columns = [
        Column("id", "id", read=lambda row: row.question.id),
        Column("question", "question", width="40fr", read=lambda row: row.question.line),
        Column("target", "gold answer", width="16fr", read=lambda row: row.question.target),
    ]
    for place, label in enumerate(labels):
        columns.append(Column(f"run {label}", label, width=width, read=_list_lines(place)))
    columns.append(
        Column("outcome", "outcome", "hidden", menu=True, find=False, read=lambda row: list_outcomes(row, labels))
    )
    for place, label in enumerate(labels):
        lost = _list_lost(place)
        columns.append(Column(f"lost {label}", f"lost at in {label}", "hidden", menu=True, find=False, read=lost))
    return [
        *columns,
        Column("level", "level", kind="hidden", menu=True, find=False, read=lambda row: row.question.level),
        Column("kind", "attachment", kind="hidden", menu=True, find=False, read=lambda row: row.question.kind),
        Column("file", "file", kind="hidden", read=lambda row: row.question.file),
        Column("labels", "runs", kind="hidden", find=False, read=lambda row: labels),
        Column("answers", "answers", "hidden", find=False, read=_list_all_answers),
    ]


def _list_lines(place: int) -> Callable[[ComparedQuestion], list[str]]:
    return lambda row: [f"{each.mark} {each.line}" for each in row.answers[place]]


def _list_lost(place: int) -> Callable[[ComparedQuestion], list[str]]:
    return lambda row: list(dict.fromkeys(each.lost for each in row.answers[place] if each.lost))


def _list_all_answers(row: ComparedQuestion) -> list[list[dict[str, object]]]:
    return [list(map(vars, answers)) for answers in row.answers]


def list_compared(first: ReadRun, second: ReadRun) -> list[str]:
    """Return the ids of the samples that two runs are compared on."""
    if find_obstacle(first.answers, second.answers) is None:
        return list(first.answers.questions)
    return list(find_common(first.answers, second.answers).ids)


def chart_differences(result: ComparisonResult, runs: Sequence[ReadRun]) -> Chart:
    """Return the chart of the differences of two runs or more."""
    return _chart_pair(result.comparisons[0], *runs) if len(runs) == 2 else _chart_against_first(result)


def _chart_pair(pair: RunComparison, first: ReadRun, second: ReadRun) -> Chart:
    comparison = pair.comparison
    points = [_point(f"all: {comparison.metric}", comparison.score)]
    if pair.used_to_tune and pair.used_to_tune.without:
        points.append(_point("not used to tune", pair.used_to_tune.without))
    points += [_point(f"{name}: {each.metric}", each.result) for name, each in comparison.extra.items()]
    ids = list_compared(first, second)
    is_whole = find_obstacle(first.answers, second.answers) is None  # then missing answers count as wrong
    scores = dict(zip(ids, pair_scores(first.answers, second.answers, None if is_whole else ids), strict=True))
    for name, group in _list_groups([first.answers.questions[each] for each in ids]):
        points.append(_point(name, run_paired_test([scores[each] for each in group])))
    title = f"{pair.run} - {pair.against} in points, with 95% intervals; groups are not adjusted for their number"
    return Chart("dots", title, points, x_label="points", x_format="points", x_mark=0.0)


def _chart_against_first(result: ComparisonResult) -> Chart:
    first = result.runs[0].label
    points = [_point(f"{pair.run} - {first}", pair.comparison.score) for pair in result.comparisons]
    title = f"Difference to {first} in points, with 95% intervals, each as if it were the only one"
    return Chart("dots", title, points, x_label="points", x_format="points", x_mark=0.0)


def _point(label: str, result: PairedResult) -> Point:
    low, high = result.ci95 or (None, None)
    tone: Tone = "quiet"
    if low is not None and high is not None and not low <= 0 <= high:
        tone = "right" if low > 0 else "wrong"
    note = format_count(result.n_questions, "question")
    return Point(label, result.difference, low=low, high=high, tone=tone, note=note)


def _list_groups(questions: Sequence[PlannedQuestion]) -> Iterator[tuple[str, list[str]]]:
    """Yield levels, kinds of attachment and tags with their questions, where there are several."""
    kinds: list[tuple[str, Callable[[PlannedQuestion], str]]] = [
        ("level", lambda each: each.level or ""),
        ("attachment", lambda each: classify_attachment(each.file)),
    ]
    tags = sorted({tag for each in questions for tag in each.tags if tag != EXPECTED})
    kinds += [(tag, lambda each, tag=tag: each.tags.get(tag, "")) for tag in tags]  # type: ignore[misc]
    for name, read in kinds:
        groups: dict[str, list[str]] = defaultdict(list)
        for each in questions:
            groups[read(each)].append(each.id)
        shown = {value: ids for value, ids in groups.items() if value and len(ids) >= MIN_GROUP}
        if len(groups) >= 2 and len(shown) <= MAX_GROUPS:
            yield from ((f"{name} {value}", shown[value]) for value in sorted(shown))


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
