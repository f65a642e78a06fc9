"""Charts of the comparison page: differences with their intervals, and score against cost."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from eval.analysis.comparison.compare_runs import ComparisonResult, ReadRun, RunComparison
from eval.analysis.comparison.pairing import find_common, find_obstacle, pair_scores
from eval.analysis.statistics.paired_tests import PairedResult, run_paired_test
from eval.benchmarks.dataset import EXPECTED, classify_attachment
from eval.reports.html.charts import Chart, Format, Point, Tone
from eval.reports.run_comparison.rows import GatheredRuns
from eval.reports.run_report.overview import link
from eval.runs.record import PlannedQuestion
from mas.runtime.text import format_count

MIN_GROUP = 2  # questions of a group that has an interval
MAX_GROUPS = 14  # of one kind, such as the values of a tag


def list_compared(first: ReadRun, second: ReadRun) -> list[str]:
    """Return the ids of the samples that two runs are compared on."""
    if find_obstacle(first.answers, second.answers) is None:
        return list(first.answers.questions)
    return list(find_common(first.answers, second.answers).ids)


def build_charts(result: ComparisonResult, runs: Sequence[ReadRun]) -> Iterator[Chart]:
    """Yield the charts of two runs or more."""
    yield _chart_pair(result.comparisons[0], *runs) if len(runs) == 2 else _chart_against_first(result)
    yield _chart_cost(result)


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


def _chart_cost(result: ComparisonResult) -> Chart:
    """Return score against cost of an answer, or against tokens where no cost is known."""
    sides = {result.runs[0].label: result.comparisons[0].comparison.first}
    sides |= {pair.run: pair.comparison.second for pair in result.comparisons}
    costs = {label: _divide(side.cost_usd, side.n_answers) for label, side in sides.items()}
    is_priced = all(cost is not None for cost in costs.values()) and any(costs.values())
    xs = costs if is_priced else {label: _divide(side.tokens, side.n_answers) for label, side in sides.items()}
    points = []
    for label, side in sides.items():
        low, high = side.score_ci95 or (None, None)
        points.append(Point(label, xs[label] or 0.0, side.score, low, high, tone="accent"))
    metric = result.comparisons[0].comparison.metric
    what = "cost" if is_priced else "tokens"
    title = f"{metric} against {what} of an answer"
    form: Format = "usd" if is_priced else "number"
    axis = f"{what} of an answer"
    return Chart("scatter", title, points, axis, metric, x_format=form, y_format="percent", y_domain=(0.0, 1.0))


def chart_losses(gathered: GatheredRuns, labels: Sequence[str]) -> Chart:
    """Chart the points that each run lost by the first cause, as shares of its questions."""
    lost, n = _sum_losses(gathered, labels), max(len(gathered.questions), 1)
    order = sorted(lost, key=lambda name: -max(lost[name].values()))[:MAX_GROUPS]
    points = []
    for name in order:
        for label in labels:
            href = link(**{f"lost {label}": name}) if lost[name][label] else ""
            points.append(Point(name, lost[name][label] / n, group=label, href=href))
    title = "Points lost, by the first cause"
    return Chart("bars", title, points, x_label="share of the questions", x_format="percent")


def describe_losses(gathered: GatheredRuns, labels: Sequence[str]) -> str:
    """Return in one sentence where the second of two runs lost most more and most fewer points; empty if nowhere."""
    first, second = labels
    n = max(len(gathered.questions), 1)
    changes = {name: 100 * (each[second] - each[first]) / n for name, each in _sum_losses(gathered, labels).items()}
    if not any(changes.values()):
        return ""
    worst, best = max(changes, key=lambda name: changes[name]), min(changes, key=lambda name: changes[name])
    parts = [f"{changes[worst]:.1f} of 100 points more at {worst}"] if changes[worst] > 0 else []
    parts += [f"{-changes[best]:.1f} fewer at {best}"] if changes[best] < 0 else []
    what = ", and ".join(parts)
    return f"By the first broken link, {second} lost {what}, than {first}; a bar below shows the questions."


def _sum_losses(gathered: GatheredRuns, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the points that each run lost, by the first cause."""
    lost: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(labels, 0.0))
    for compared in gathered.questions:
        for label, answers in zip(labels, compared.answers, strict=True):
            for each in answers:
                if each.lost:
                    lost[each.lost][label] += (1 - each.value) / len(answers)
    return lost


def _divide(amount: float | None, n: int) -> float | None:
    return None if amount is None or not n else amount / n
