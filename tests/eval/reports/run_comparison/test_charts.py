"""Tests of what the charts of a comparison show, from stored runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from eval.analysis.comparison.compare_runs import ReadRun, compare_read_runs, read_runs
from eval.analysis.comparison.comparison import ExtraComparison, HeldOut
from eval.reports.html.charts import Chart, Point
from eval.reports.run_comparison.charts import (
    MAX_GROUPS,
    build_charts,
    chart_losses,
    describe_losses,
    list_compared,
)
from eval.reports.run_comparison.rows import GatheredRuns
from eval.runs.record import Record, Usage
from tests.eval.stored_run import answered, stored_run


def records(answers: str, cost: float | None = 0.5, tokens: int = 100) -> list[Record]:
    """Answers to q0, q1, …: R is right, any other letter wrong."""
    usage = Usage(2, input_tokens=tokens, cost_usd=cost, unknown_cost_calls=2 * (cost is None))
    return [answered(f"q{n}", "17" if each == "R" else "18", usage=usage) for n, each in enumerate(answers)]


def read(folder: Path, *runs: Sequence[Record]) -> list[ReadRun]:
    return read_runs([stored_run(folder / f"r{n}", each) for n, each in enumerate(runs)])


def grouped(run: ReadRun, **columns: Sequence[Any]) -> ReadRun:
    """The run with other levels, files or tags of its questions."""
    changed = {
        each.id: replace(each, **{name: values[n] for name, values in columns.items()})
        for n, each in enumerate(run.answers.questions.values())
    }
    return replace(run, answers=replace(run.answers, questions=changed))


def charts(runs: Sequence[ReadRun], intersection: bool = False) -> list[Chart]:
    return list(build_charts(compare_read_runs(runs, intersection), runs))


def by_label(chart: Chart) -> dict[str, Point]:
    return {each.label: each for each in chart.points}


def test_two_runs_are_compared_in_all_and_a_clear_difference_has_its_colour(tmp_path: Path) -> None:
    for n, (second, tone) in enumerate((("R" * 12, "right"), ("WR" * 6, "quiet"))):
        first, *_ = charts(read(tmp_path / str(n), records("W" * 11 + "R"), records(second)))
        (point,) = first.points
        assert (first.kind, first.x_mark, first.x_format) == ("dots", 0.0, "points")
        assert (point.label, point.note, point.tone) == ("all: accuracy", "12 questions", tone)
        assert point.low is not None and point.high is not None and point.low < point.x < point.high
    worse, *_ = charts(read(tmp_path / "worse", records("R" * 12), records("W" * 11 + "R")))
    assert (worse.points[0].x, worse.points[0].tone) == (pytest.approx(-11 / 12), "wrong")
    assert worse.title.startswith("B - A in points")


def test_groups_of_two_questions_and_more_are_compared_where_there_are_several(tmp_path: Path) -> None:
    runs = read(tmp_path, records("RRWWR"), records("WRRRR"))
    levels = ["1", "1", "2", "2", "3"]
    files = [None, None, "a.csv", "b.csv", None]
    tags = [{"topic": each, "same": "x"} for each in ("b", "b", "a", "a", "")]
    runs = [grouped(each, level=levels, file=files, tags=tags) for each in runs]
    points = by_label(charts(runs)[0])
    assert list(points) == [
        "all: accuracy", "level 1", "level 2", "attachment none", "attachment table", "topic a", "topic b",
    ]  # fmt: skip
    assert (points["level 1"].x, points["level 2"].x, points["attachment none"].x) == (-0.5, 1.0, pytest.approx(-1 / 3))
    assert points["level 1"].note == "2 questions"


@pytest.mark.parametrize(("number", "shown"), [(MAX_GROUPS, True), (MAX_GROUPS + 1, False)])
def test_a_tag_with_very_many_values_has_no_groups(number: int, shown: bool, tmp_path: Path) -> None:
    runs = read(tmp_path, records("RR" * number), records("RW" * number))
    tags = [{"topic": f"t{n // 2}"} for n in range(2 * number)]
    assert ("topic t0" in by_label(charts([grouped(each, tags=tags) for each in runs])[0])) is shown


def test_of_questions_in_common_only_these_are_drawn(tmp_path: Path) -> None:
    first, second = read(tmp_path, records("RRW"), records("RWWW"))
    assert list_compared(first, second) == ["q0", "q1", "q2"]
    turned = replace(second.answers, questions=dict(reversed(list(second.answers.questions.items()))))
    assert list_compared(first, replace(second, answers=turned)) == ["q0", "q1", "q2"], "in the first run's order"
    assert list_compared(replace(second, answers=turned), first) == ["q2", "q1", "q0"]
    (point,) = charts([first, second], intersection=True)[0].points
    assert (point.x, point.note) == (pytest.approx(-1 / 3), "3 questions")


def test_several_runs_are_drawn_against_the_first(tmp_path: Path) -> None:
    against, cost = charts(read(tmp_path, records("RRWW"), records("RRRW", 0.25), records("RWWW", 0.75)))
    assert {label: each.x for label, each in by_label(against).items()} == {"B - A": 0.25, "C - A": -0.25}
    assert against.title.startswith("Difference to A in points")
    assert (cost.kind, cost.x_label, cost.y_label, cost.x_format) == ("scatter", "cost of an answer", "accuracy", "usd")
    assert {each.label: (each.x, each.y) for each in cost.points} == {
        "A": (0.5, 0.5), "B ★": (0.25, 0.75), "C": (0.75, 0.25),
    }  # fmt: skip
    best = by_label(cost)["B ★"]
    assert best.tone == "accent" and best.note == "efficient: no run is both better and cheaper"
    assert best.low is not None and best.high is not None and best.low < 0.75 < best.high


def test_equal_runs_are_both_efficient_and_a_dearer_or_worse_one_is_not(tmp_path: Path) -> None:
    runs = read(tmp_path, records("RW", 0.5), records("RW", 0.5), records("RW", 0.6), records("WW", 0.5))
    assert [each.label for each in charts(runs)[1].points] == ["A ★", "B ★", "C", "D"]


@pytest.mark.parametrize("costs", [(None, 0.5), (0.0, 0.0)], ids=["unknown", "free"])
def test_without_costs_the_score_is_drawn_against_tokens(costs: tuple[float | None, ...], tmp_path: Path) -> None:
    first, second = costs
    _, chart = charts(read(tmp_path, records("RW", first, tokens=100), records("RR", second, tokens=300)))
    assert (chart.x_label, chart.x_format) == ("tokens of an answer", "number")
    assert [(each.label, each.x) for each in chart.points] == [("A ★", 100), ("B ★", 300)]


def test_a_missing_answer_counts_as_wrong_where_runs_are_compared_as_wholes(tmp_path: Path) -> None:
    first, second = read(tmp_path, records("RR"), records("RR"))
    assert list_compared(first, second) == ["q0", "q1"]
    unanswered = replace(second.answers, given={"q0": second.answers.given["q0"]})
    (point,) = charts([first, replace(second, answers=unanswered)])[0].points
    assert (point.x, point.note) == (-0.5, "2 questions")


@dataclass
class Row:
    """The part of a row that losses are read from: the value of each answer and where its points were lost."""

    answers: Sequence[Sequence[Any]]


@dataclass
class Given:
    value: float
    lost: str


def gathered(*rows: Sequence[Sequence[tuple[float, str]]]) -> GatheredRuns:
    questions = [Row([[Given(*each) for each in answers] for answers in row]) for row in rows]
    return GatheredRuns(cast(Any, questions), cast(Any, None), 0)


def test_points_lost_are_shares_of_the_questions_the_largest_cause_first() -> None:
    found = gathered(
        ([(0.0, "planner"), (1.0, "")], [(1.0, ""), (1.0, "")]),
        ([(0.5, "expert"), (0.5, "expert")], [(0.0, "expert"), (0.0, "expert")]),
        ([(1.0, "")], [(1.0, "")]),
        ([], [(0.0, "expert")]),
    )
    chart = chart_losses(found, ["A", "B"])
    assert [(each.label, each.group, each.x) for each in chart.points] == [
        ("expert", "A", 0.125), ("expert", "B", 0.5), ("planner", "A", 0.125), ("planner", "B", 0.0),
    ]  # fmt: skip
    assert [each.href for each in chart.points] == [
        "#?lost+A=expert", "#?lost+B=expert", "#?lost+A=planner", "",
    ]  # fmt: skip
    assert describe_losses(found, ["A", "B"]).startswith(
        "By the first broken link, B lost 37.5 of 100 points more at expert, and 12.5 fewer at planner, than A; "
    )


def test_a_change_in_one_direction_is_told_alone_and_none_not_at_all() -> None:
    more = gathered(([(1.0, "")], [(0.0, "expert")]))
    assert "B lost 100.0 of 100 points more at expert, than A;" in describe_losses(more, ["A", "B"])
    fewer = gathered(([(0.0, "expert")], [(1.0, "")]))
    assert "B lost 100.0 fewer at expert, than A;" in describe_losses(fewer, ["A", "B"])
    assert describe_losses(gathered(([(0.0, "x")], [(0.0, "x")])), ["A", "B"]) == ""
    assert describe_losses(gathered(), ["A", "B"]) == "" and list(chart_losses(gathered(), ["A", "B"]).points) == []


def test_of_causes_the_fourteen_that_cost_one_run_the_most_are_drawn() -> None:
    def lost(name: str, first: float, second: float) -> Any:
        return ([(1 - first, name)], [(1 - second, name)])

    found = gathered(lost("even", 0.5, 0.5), lost("one", 0.0, 0.75), lost("other", 0.625, 0.0))
    labels = [each.label for each in chart_losses(found, ["A", "B"]).points]
    assert labels == ["one", "one", "other", "other", "even", "even"]
    many = gathered(*(lost(f"c{n}", 0.5, 0.5) for n in range(MAX_GROUPS + 1)))
    assert len(chart_losses(many, ["A", "B"]).points) == 2 * MAX_GROUPS == 28


def test_a_cause_that_did_not_change_is_neither_more_nor_fewer() -> None:
    same, worse = ([(0.0, "x")], [(0.0, "x")]), ([(1.0, "")], [(0.0, "y")])
    assert describe_losses(gathered(same, worse), ["A", "B"]) == (
        "By the first broken link, B lost 50.0 of 100 points more at y, than A; a bar below shows the questions."
    )
    better = ([(0.0, "y")], [(1.0, "")])
    assert describe_losses(gathered(same, better), ["A", "B"]) == (
        "By the first broken link, B lost 50.0 fewer at y, than A; a bar below shows the questions."
    )


def test_questions_that_were_not_tuned_on_and_extra_scorers_have_their_points(tmp_path: Path) -> None:
    runs = read(tmp_path, records("RW"), records("RR"))
    result = compare_read_runs(runs, intersection=False)
    (pair,) = result.comparisons
    kept = replace(pair.comparison.score, difference=0.25, ci95=None, n_questions=1)
    extra = ExtraComparison("mean score", 0.5, 0.5, replace(kept, difference=0.125, ci95=(0.0, 0.5)))
    held_out = HeldOut({"B": "own"}, 1, 1, (0.5, 0.5), (0.5, 0.75), kept)
    changed = replace(pair, used_to_tune=held_out, comparison=replace(pair.comparison, extra={"judge": extra}))
    chart = next(build_charts(replace(result, comparisons=[changed]), runs))
    shown = [(each.label, each.x, each.low, each.high, each.tone, each.note) for each in chart.points]
    assert shown[1:] == [
        ("not used to tune", 0.25, None, None, "quiet", "1 question"),
        ("judge: mean score", 0.125, 0.0, 0.5, "quiet", "1 question"),
    ]
    assert (chart.x_label, chart.title) == (
        "points", "B - A in points, with 95% intervals; groups are not adjusted for their number"
    )  # fmt: skip
    below = replace(extra.result, ci95=(-0.5, 0.0))
    changed = replace(pair, comparison=replace(pair.comparison, extra={"judge": replace(extra, result=below)}))
    assert next(build_charts(replace(result, comparisons=[changed]), runs)).points[1].tone == "quiet"


def test_charts_of_costs_and_losses_have_their_axes_and_formats(tmp_path: Path) -> None:
    against, cost = charts(read(tmp_path, records("RW"), records("RR"), records("WW")))
    assert (against.title, against.x_label, against.x_format, against.x_mark) == (
        "Difference to A in points, with 95% intervals, each as if it were the only one", "points", "points", 0.0
    )  # fmt: skip
    assert (cost.title, cost.y_format, cost.y_domain) == (
        "accuracy against cost of an answer (★: no run is both better and cheaper)", "percent", (0.0, 1.0)
    )  # fmt: skip
    losses = chart_losses(gathered(([(0.0, "x")], [(1.0, "")])), ["A", "B"])
    assert (losses.kind, losses.title, losses.x_label, losses.x_format) == (
        "bars", "Points lost, by the first cause", "share of the questions", "percent"
    )  # fmt: skip
