"""Tiles, errors by message, and charts: everything above the questions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from urllib.parse import quote, urlencode

from eval.analysis.attribution.broken_link import name_link
from eval.analysis.statistics.intervals import Interval, compute_metric_interval
from eval.analysis.summary.summary import LostPoints, Summary
from eval.execution.projection import format_duration
from eval.reports.formats import format_floor, format_interval, format_usd, shorten_number
from eval.reports.html.charts import Chart, Format, Point, Tone, format_number
from eval.reports.run_report.answers import AnswerRow, Gathered
from eval.scorers.score import ACCURACY
from mas.runtime.text import format_count

MAX_CAUSES = 15
MAX_VALUES = 15  # of a level, kind or tag in a chart
MIN_ANSWERS = 8  # for quarters by cost
MAX_TICKS = 300  # answers that have a stroke of their own
_TONES: dict[str, Tone] = {"right": "right", "partial": "accent", "wrong": "wrong", "error": "error"}  # by verdict
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")

Tile = tuple[str, str, str]  # value, name, remark


@dataclass(slots=True)
class ErrorGroup:
    """Answers in error whose messages differ in numbers at most."""

    error_class: str
    message: str  # of the first, all of it
    n: int = 0
    others: set[str] = field(default_factory=set)  # messages that differ in numbers

    @property
    def href(self) -> str:
        return link(error=self.error_class)


def link(**filters: str) -> str:
    """Return the address of the rows that have these values."""
    return f"#?{urlencode(filters)}"


def build_tiles(summary: Summary, answers: Sequence[AnswerRow]) -> Iterator[Tile]:
    """Yield the score with its interval, what it cost, and how long it took."""
    interval = f"95% interval {format_interval(summary.score_ci95)}"
    remark = "not complete: no interval" if summary.incomplete else interval
    yield format_floor(summary.score, summary.incomplete), summary.metric, remark
    over = f" over {summary.epochs} epochs" if summary.epochs > 1 else ""
    right = "right" if summary.metric == ACCURACY else "fully right"
    yield f"{summary.n_correct:,} of {summary.n_scored:,}", right + over, _count_failures(summary)
    usage = summary.usage
    known = f"at least {format_usd(usage.known_cost_usd)}" if usage.known_cost_usd else format_usd(None)
    cost = known if usage.cost_usd is None else format_usd(usage.cost_usd)
    yield cost, "cost", "simulated model" if summary.simulated else ""
    n_in, n_out = usage.input_tokens, usage.output_tokens
    yield shorten_number(n_in + n_out), "tokens", f"{shorten_number(n_in)} in, {shorten_number(n_out)} out"
    seconds = [each.seconds for each in answers if each.mark != "not run"]
    typical = f"{format_number(median(seconds), 'seconds')} for a typical answer" if seconds else ""
    yield format_duration(summary.wall_seconds), "time", typical


def _count_failures(summary: Summary) -> str:
    wrong = "answered wrongly" if summary.metric == ACCURACY else "answered, not fully right"
    n_failed = summary.n_error - summary.n_not_run
    infrastructure = f", {summary.n_infrastructure} by infrastructure" if summary.n_infrastructure else ""
    parts = [
        f"{summary.n_wrong:,} {wrong}" if summary.n_wrong else "",
        f"{n_failed:,} in error{infrastructure}" if n_failed else "",
        f"{summary.n_not_run:,} not run" if summary.n_not_run else "",
    ]
    return ", ".join(filter(None, parts))


def group_errors(answers: Iterable[AnswerRow]) -> list[ErrorGroup]:
    """Return the errors by message, the most frequent first; what was not run is none."""
    groups: dict[tuple[str, str], ErrorGroup] = {}
    for each in answers:
        if each.mark != "error":
            continue
        same = each.error_class, _NUMBERS.sub("#", each.error)
        group = groups.setdefault(same, ErrorGroup(each.error_class, each.error))
        group.n += 1
        if each.error != group.message:
            group.others.add(each.error)
    return sorted(groups.values(), key=lambda group: -group.n)


def build_score_charts(summary: Summary) -> Iterator[Chart]:
    """Yield the score by level and by tag, such as the kind of the attachment, as far as there are several."""
    floor = ", so far" if summary.incomplete else ""
    for name, counts in {"level": summary.by_level, **summary.by_tag}.items():
        scored = [(value, each) for value, each in counts.items() if each.score is not None]
        few = f" (the first {MAX_VALUES} of {len(scored)})" if len(scored) > MAX_VALUES else ""
        points = []
        for value, each in scored[:MAX_VALUES]:
            label, key = (f"level {value}", "level") if name == "level" else (value, f"tag {name}")
            points.append(_build_share(label, each.score, each.score_ci95, each.n_scored, link(**{key: value})))
        if len(points) > 1:
            yield _chart_score(summary, f"by {name}{few}{floor}", points)


def build_loss_charts(summary: Summary, gathered: Gathered) -> Iterator[Chart]:
    """Yield where points are lost, then whether money and time bought any."""
    if lost := summary.attribution:
        rest = f" (the {MAX_CAUSES} largest of {len(lost)})" if len(lost) > MAX_CAUSES else ""
        title = f"Points lost of 100, by the first broken link{rest}"
        yield Chart("bars", title, list(map(_build_loss, lost[:MAX_CAUSES])), x_label="points lost")
    yield from _chart_cost(summary, gathered)
    yield from _chart_agents(gathered.answers)


def _build_loss(lost: LostPoints) -> Point:
    low, high = (round(100 * bound, 2) for bound in lost.points_ci95) if lost.points_ci95 else (None, None)
    name, note = name_link(lost.kind, lost.name), format_count(lost.n, "answer")
    tone: Tone = "error" if lost.kind == "error" else "wrong"
    return Point(name, round(100 * lost.points, 2), low=low, high=high, tone=tone, note=note, href=link(lost=name))


def describe_losses(summary: Summary) -> str:
    """Return in one sentence where most points are lost; empty if none are."""
    if not summary.attribution:
        return ""
    first, *others = summary.attribution
    bounds = first.points_ci95
    interval = f" (95% interval {100 * bounds[0]:.1f} to {100 * bounds[1]:.1f})" if bounds else ""
    most = f"{name_link(first.kind, first.name)}: {100 * first.points:.1f} of 100{interval}"
    second = "".join(f"; next is {name_link(each.kind, each.name)} with {100 * each.points:.1f}" for each in others[:1])
    return f"Most points are lost at {most}, in {format_count(first.n, 'answer')}{second}."


def _chart_score(summary: Summary, title: str, points: list[Point]) -> Chart:
    metric = summary.metric
    title = f"{metric[0].upper()}{metric[1:]} {title}"
    return Chart("dots", title, points, metric, x_format="percent", x_domain=(0, 1), x_mark=summary.score)


def _build_share(label: str, value: float | None, bounds: Interval | None, n: int, href: str = "") -> Point:
    low, high = bounds or (None, None)
    share = value or 0.0
    return Point(label, share, low=low, high=high, tone="accent", note=f"{share:.0%} of {n:,}", href=href)


def _chart_cost(summary: Summary, gathered: Gathered) -> Iterator[Chart]:
    """Yield the score by quarters of cost, or of tokens where nothing has a price: does more spending buy points?"""
    asked = [each for each in gathered.answers if each.mark not in ("not run", "unscored")]
    costs = {each.key: each.cost_usd for each in asked if each.cost_usd is not None}
    by_cost = any(costs.values())
    spent = costs if by_cost else {each.key: float(each.tokens) for each in asked}
    amounts = sorted(each for each in spent.values() if each is not None)
    if len(amounts) < MIN_ANSWERS or amounts[0] == amounts[-1]:
        return
    bounds = [amounts[len(amounts) * n // 4] for n in (1, 2, 3)]

    quarters: list[dict[str, list[float]]] = [{} for _ in range(4)]  # question → values of its answers
    for question in gathered.questions:
        for answer in question.in_order if question.target is not None else ():
            if (amount := spent.get(answer.key)) is not None:
                values = quarters[sum(amount >= bound for bound in bounds)]
                values.setdefault(question.id, []).append(answer.value)
    edges = [amounts[0], *bounds, amounts[-1]]
    points = []
    for n, samples in enumerate(quarters):
        if scores := [value for values in samples.values() for value in values]:
            interval = None if summary.incomplete else compute_metric_interval(list(samples.values()))
            written = [f"${each:.2g}" if by_cost else shorten_number(int(each)) for each in edges[n : n + 2]]
            mean = sum(scores) / len(scores)
            points.append(_build_share(" to ".join(written), mean, interval, len(scores)))
    what = "cost" if by_cost else "tokens"
    yield _chart_score(summary, f"by quarters of the answers' {what}, the cheapest first", points)
    yield _chart_each_cost(gathered, spent, by_cost)


def _chart_each_cost(gathered: Gathered, spent: dict[int, float], by_cost: bool) -> Chart:
    """Return a stroke for each answer, in a row for each verdict."""
    found = []
    for question in gathered.questions:
        href = f"#{quote(question.id, safe='')}"
        for answer in question.in_order:
            if (amount := spent.get(answer.key)) is not None:
                tone = _TONES.get(answer.mark, "quiet")
                found.append(Point(question.line, amount, group=answer.mark, tone=tone, href=href))
    step = -(-len(found) // MAX_TICKS)
    points = sorted(found[::step], key=lambda each: list(_TONES).index(each.group) if each.group in _TONES else 9)
    some = f" (one answer in {step})" if step > 1 else ""
    what = "cost" if by_cost else "tokens"
    form: Format = "usd" if by_cost else "number"
    return Chart("strip", f"{what.capitalize()} of each answer, by verdict{some}", points, what, x_format=form)


def _chart_agents(answers: Sequence[AnswerRow]) -> Iterator[Chart]:
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for each in answers:
        for agent, one in each.seconds_by_agent.items():
            seconds[agent].append(one)
    n = sum(each.mark != "not run" for each in answers)
    if not seconds or not n:
        return
    points = []
    for agent, times in sorted(seconds.items(), key=lambda item: -sum(item[1])):
        slow = sorted(times)[len(times) * 9 // 10]
        note = f"10 % over {format_number(slow, 'seconds')}"
        points.append(Point(agent, round(sum(times) / n, 4), tone="accent", note=note))
    yield Chart("bars", "Seconds of each agent, mean of all answers", points, "seconds", x_format="seconds")
