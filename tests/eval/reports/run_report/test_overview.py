"""Tiles, errors by message, charts and the sentences above the questions, at their exact edges."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import Counts, CriticNumbers, LostPoints, Summary
from eval.reports.html.blocks import Blocks
from eval.reports.html.charts import Chart
from eval.reports.run_report import overview
from eval.reports.run_report.answers import AnswerRow, Gathered, QuestionRow
from eval.reports.run_report.overview import (
    build_critic_charts,
    build_loss_charts,
    build_score_charts,
    build_tiles,
    choose_words,
    describe_critics,
    describe_losses,
    group_errors,
)
from eval.runs.record import Record, Usage

Make = Callable[..., Record]


@pytest.fixture
def summary(record: Make) -> Summary:
    """Of a run of one wrong answer."""
    return summarise([record("a")], RunDetails(run_id="run-1"))


def row(key: int = 1, mark: str = "wrong", **changes: Any) -> AnswerRow:
    fields: dict[str, Any] = {"epoch": 1, "attempt": 1, "value": float(mark == "right"), "line": "", "why": ""}
    fields |= {"link": None, "error_class": "", "limit": "", "approved_by": "", "seconds": 1.0, "tokens": 10}
    return AnswerRow(
        **{**fields, "key": key, "mark": mark, "cost_usd": None, "seconds_by_agent": {}, "error": ""} | changes
    )


def gathered(answers: Iterable[AnswerRow], target: str | None = "17", **changes: Any) -> Gathered:
    fields = {"level": "1", "line": "Which?", "file": "", "tags": {}, **changes}
    questions = [QuestionRow(f"q {each.key}", target=target, answers={1: each}, **fields) for each in answers]
    return Gathered(questions, Blocks("", {}), ())


def tiles(summary: Summary, answers: Sequence[AnswerRow] = ()) -> dict[str, tuple[str, str]]:
    return {name: (value, remark) for value, name, remark in build_tiles(summary, choose_words("accuracy"), answers)}


@pytest.mark.parametrize(
    ("n", "shown"),
    [(9_999, "9,999"), (10_000, "10.0 k"), (999_999, "1,000.0 k"), (1_000_000, "1.0 M"), (2_500_000, "2.5 M")],
)
def test_tokens_are_shortened_from_ten_thousand_on(summary: Summary, n: int, shown: str) -> None:
    usage = Usage(1, input_tokens=n, output_tokens=0)
    assert tiles(replace(summary, usage=usage))["tokens"] == (shown, f"{shown} in, 0 out")
    assert tiles(replace(summary, usage=Usage(1, input_tokens=n - 7, output_tokens=7)))["tokens"][0] == shown


def test_the_time_of_a_typical_answer_is_the_median_of_those_that_ran(summary: Summary) -> None:
    answers = [row(seconds=1.0), row(seconds=2.0), row(seconds=9.0), row(mark="not run", seconds=100.0)]
    timed = replace(summary, wall_seconds=12.0)
    assert tiles(timed, answers)["time"] == ("12.0 s", "2.0 s for a typical answer")
    assert tiles(timed, [row(mark="not run")])["time"] == ("12.0 s", "")


def test_the_tile_of_right_answers_counts_each_kind_of_failure(summary: Summary) -> None:
    counts = replace(summary, n_correct=1, n_scored=12, n_wrong=2, n_error=7, n_not_run=4, n_infrastructure=1, epochs=2)
    assert tiles(counts)["right over 2 epochs"] == (
        "1 of 12",
        "2 answered wrongly, 3 in error, 1 by infrastructure, 4 not run",
    )
    assert tiles(replace(summary, n_wrong=0))["right"] == ("0 of 1", "")
    assert tiles(replace(counts, n_error=4, n_infrastructure=0, epochs=1))["right"][1] == (
        "2 answered wrongly, 4 not run"
    )


def test_a_cost_is_shown_as_far_as_it_is_known_and_per_right_answer(summary: Summary) -> None:
    paid = replace(summary, n_correct=4, usage=Usage(2, cost_usd=2.0))
    assert tiles(paid)["cost"] == ("$2.0000", "$0.5000 for each right answer")
    assert tiles(replace(paid, simulated=True))["cost"] == ("$2.0000", "simulated model")
    assert tiles(replace(paid, n_correct=0))["cost"] == ("$2.0000", "")
    partly = replace(paid, usage=Usage(2, cost_usd=None, known_cost_usd=0.25))
    assert tiles(partly)["cost"] == ("at least $0.2500", "")
    assert tiles(replace(partly, usage=Usage(2, cost_usd=None)))["cost"] == ("n/a", "")


def test_an_incomplete_run_has_a_floor_and_no_interval(summary: Summary) -> None:
    assert tiles(replace(summary, incomplete=True))["accuracy"] == ("at least 0.0%", "not complete: no interval")
    assert tiles(summary)["accuracy"] == ("0.0%", "95% interval 0.0% to 97.5%")


def test_errors_that_differ_in_numbers_alone_are_one_the_most_frequent_first() -> None:
    def failed(message: str, error_class: str = "tool", mark: str = "error") -> AnswerRow:
        return row(mark=mark, error=message, error_class=error_class)

    answers = [
        failed("refused"),
        failed("after 1.5 s"),
        failed("after 20 s"),
        failed("after 1.5 s"),
        failed("after 3 s", "model"),
        failed("the run stopped", mark="not run"),
    ]
    groups = group_errors(answers)
    assert [(each.error_class, each.message, each.n, each.others) for each in groups] == [
        ("tool", "after 1.5 s", 3, {"after 20 s"}),
        ("tool", "refused", 1, set()),
        ("model", "after 3 s", 1, set()),
    ]
    assert groups[2].href == "#?error=model"


def counts(summary: Summary, n: int, score: float | None = 0.5) -> Counts:
    names = ("n_correct", "n_wrong", "accuracy", "accuracy_ci95", "n_error", "n_infrastructure", "n_not_run")
    known = {name: getattr(summary, name) for name in names}
    return Counts(**known, n=n, n_scored=n, score=score, score_ci95=(0.25, 0.75))


def test_a_score_is_charted_by_what_has_several_values(summary: Summary) -> None:
    levels = {"1": counts(summary, 3), "2": counts(summary, 5, None), "3": counts(summary, 4, 1.0)}
    both = replace(summary, by_level=levels, by_tag={"source": {"web": counts(summary, 8)}}, score=0.5)
    (chart,) = build_score_charts(both, gathered([row(1), row(2)]))
    assert (chart.title, chart.x_domain, chart.x_mark) == ("Accuracy by level", (0, 1), 0.5)
    shown = [(each.label, each.x, each.low, each.high, each.note, each.href) for each in chart.points]
    assert shown == [
        ("level 1", 0.5, 0.25, 0.75, "50% of 3", "#?level=1"),
        ("level 3", 1.0, 0.25, 0.75, "100% of 4", "#?level=3"),
    ]
    tagged = replace(summary, by_tag={"source": {"web": counts(summary, 8), "mail": counts(summary, 1)}})
    (chart,) = build_score_charts(tagged, gathered([]))
    assert [(each.label, each.href) for each in chart.points] == [
        ("web", "#?tag+source=web"),
        ("mail", "#?tag+source=mail"),
    ]


def test_a_chart_of_an_incomplete_run_has_no_intervals(summary: Summary) -> None:
    halted = replace(summary, incomplete=True, by_level={each: counts(summary, 3) for each in "12"})
    (chart,) = build_score_charts(halted, gathered([]))
    assert chart.title == "Accuracy by level, so far"
    assert {(each.low, each.high) for each in chart.points} == {(None, None)}


@pytest.mark.parametrize(("n", "rest"), [(15, ""), (16, " (the 15 most frequent of 16)")])
def test_a_chart_has_room_for_fifteen_values(summary: Summary, n: int, rest: str) -> None:
    tag = {f"v{at}": counts(summary, 3) for at in range(n)}
    (chart,) = build_score_charts(replace(summary, by_tag={"source": tag}), gathered([]))
    assert (chart.title, len(chart.points)) == (f"Accuracy by source{rest}", 15)


def test_attachments_are_charted_the_most_frequent_first(summary: Summary) -> None:
    table, none = gathered([row(1, "right")], file="a.csv"), gathered([row(2), row(3, "right"), row(4)])
    unscored = gathered([row(5, "unscored")], target=None, file="b.pdf")
    every = Gathered([*table.questions, *none.questions, *unscored.questions], table.blocks, ())
    (chart,) = build_score_charts(summary, every)
    assert chart.title == "Accuracy by attachment"
    assert [(each.label, each.note, each.href) for each in chart.points] == [
        ("none", "33% of 3", "#?kind=none"),
        ("table", "100% of 1", "#?kind=table"),
    ]
    assert [each.low is None for each in chart.points] == [False, False]
    assert list(build_score_charts(summary, none)) == []
    of_the_users = replace(summary, by_tag={"kind": {"x": counts(summary, 1)}})
    assert list(build_score_charts(of_the_users, every)) == []


def lost(n: int = 3, points: float = 0.125, kind: str = "agent", name: str = "expert") -> LostPoints:
    return LostPoints(kind=kind, name=name, n=n, points=points, points_ci95=(0.0625, 0.5))


def test_lost_points_are_of_a_hundred_and_errors_have_their_colour(summary: Summary) -> None:
    found = (lost(), replace(lost(1, 0.0625, "error", "tool"), points_ci95=None))
    (chart,) = build_loss_charts(replace(summary, attribution=found), gathered([]))
    assert chart.title == "Points lost of 100, by the first broken link"
    shown = [(each.label, each.x, each.low, each.high, each.tone, each.note, each.href) for each in chart.points]
    assert shown == [
        ("expert", 12.5, 6.25, 50.0, "wrong", "3 answers", "#?lost=expert"),
        ("error tool", 6.25, None, None, "error", "1 answer", "#?lost=error+tool"),
    ]


@pytest.mark.parametrize(("n", "rest"), [(15, ""), (16, " (the 15 largest of 16)")])
def test_the_fifteen_largest_losses_are_charted(summary: Summary, n: int, rest: str) -> None:
    (chart,) = build_loss_charts(replace(summary, attribution=(lost(),) * n), gathered([]))
    assert (chart.title, len(chart.points)) == (f"Points lost of 100, by the first broken link{rest}", 15)


def test_the_sentence_on_losses_names_the_two_largest(summary: Summary) -> None:
    most = "Most points are lost at expert: 12.5 of 100"
    interval = " (95% interval 6.2 to 50.0)"
    two = replace(summary, attribution=(lost(), lost(2, 0.0625, "tool", "search"), lost(1, 0.01)))
    assert describe_losses(two) == f"{most}{interval}, in 3 answers; next is tool search with 6.2."
    alone = replace(summary, attribution=(replace(lost(1), points_ci95=None),))
    assert describe_losses(alone) == f"{most}, in 1 answer."
    assert describe_losses(replace(summary, attribution=None)) == ""


CRITIC = CriticNumbers(
    judges=("expert",), is_exact=True, n_reviews=10, approved_right=3, misses=1, false_alarms=2, hits=4, n_unknown=0,
    precision=4 / 6, precision_ci95=(0.2, 0.9), recall=0.8, recall_ci95=None, n_rejecting=5, n_recovered=5,
    lm_calls=10, input_tokens=90, output_tokens=10, cost_usd=0.5, seconds=1.0,
)  # fmt: skip


def judged(summary: Summary, **changes: Any) -> Summary:
    numbers = {"n_scored": 20, "usage": Usage(9, input_tokens=150, output_tokens=50, cost_usd=2.0)}
    own = {name: changes.pop(name) for name in ("n_scored", "usage", "epochs", "incomplete") if name in changes}
    return replace(summary, **{**numbers, **own}, critics={"critic": replace(CRITIC, **changes)})


def sentence(summary: Summary) -> str:
    ((name, text),) = describe_critics(summary)
    assert name == "critic"
    return text


def test_a_critic_has_its_price_and_the_most_that_it_gained(summary: Summary) -> None:
    work = "Work was wrong: it rejected 4 of 5 times. Work was right: it rejected 2 of 5 times."
    text = sentence(judged(summary))
    assert text.startswith(f"$0.5000, 25% of the run's cost. {work} 5 of 20 answers were right in the end after")
    assert text.endswith("it gained at most 25.0 points of 100 (95% interval 10.6 to 48.4), $0.1000 for each.")
    assert sentence(judged(summary, cost_usd=None)).startswith(f"100 tokens, 50% of the run's. {work}")
    assert sentence(judged(summary, cost_usd=None)).endswith("48.4).")
    without_tokens = judged(summary, cost_usd=None, usage=Usage(9))
    assert sentence(without_tokens).startswith(f"100 tokens. {work}")


def test_the_interval_of_a_critics_gain_counts_a_question_once(summary: Summary) -> None:
    wide = sentence(judged(summary, n_scored=80, n_recovered=20, epochs=4))
    assert " times. Work was right: it rejected 2 of 5 times. 20 of 80 answers were right in the end" in wide
    assert wide.endswith("25.0 points of 100 (95% interval 10.6 to 48.4), $0.0250 for each.")
    assert "gained at most 25.0 points of 100, $0.1" in sentence(judged(summary, incomplete=True))


def test_a_critic_that_recovered_nothing_has_gained_nothing(summary: Summary) -> None:
    nothing = "nothing here shows that it is worth its cost."
    assert sentence(judged(summary, n_recovered=0)).endswith(nothing)
    assert sentence(judged(summary, n_scored=0)).endswith(nothing)
    unseen = sentence(judged(summary, hits=0, misses=0, false_alarms=0, approved_right=0, n_unknown=2))
    assert "Work was wrong: that was never seen. Work was right: that was never seen; of 2 reviews nobody" in unseen


def test_a_critics_shares_are_charted_as_far_as_they_are_known(summary: Summary) -> None:
    (chart,) = build_critic_charts(judged(summary))
    assert [(each.label, each.x, each.low, each.high, each.group, each.note) for each in chart.points] == [
        ("critic", 0.8, None, None, "wrong work that it rejected", "4 of 5"),
        ("critic", 4 / 6, 0.2, 0.9, "rejections that were justified", "4 of 6"),
    ]
    assert (chart.x_domain, chart.x_format) == ((0, 1), "percent")
    assert list(build_critic_charts(judged(summary, recall=None, precision=None))) == []


def charts(summary: Summary, answers: list[AnswerRow]) -> list[Chart]:
    return list(build_loss_charts(summary, gathered(answers)))


def test_eight_answers_or_more_are_set_out_by_quarters_of_cost(summary: Summary) -> None:
    answers = [row(n, "right" if n <= 2 else "wrong", cost_usd=0.01 * n) for n in range(1, 9)]
    quarters, each = charts(summary, answers)
    assert quarters.title == "Accuracy by quarters of the answers' cost, the cheapest first"
    assert [(point.label, point.note) for point in quarters.points] == [
        ("$0.01 to $0.03", "100% of 2"),
        ("$0.03 to $0.05", "0% of 2"),
        ("$0.05 to $0.07", "0% of 2"),
        ("$0.07 to $0.08", "0% of 2"),
    ]
    assert (quarters.x_domain, all(point.low is not None for point in quarters.points)) == ((0, 1), True)
    assert (each.title, each.x_label, each.x_format) == ("Cost of each answer, by verdict", "cost", "usd")
    assert charts(summary, answers[:7]) == [], "seven are too few"
    same = [replace(each, cost_usd=0.5) for each in answers]
    assert charts(summary, same) == [], "nothing was spent more than elsewhere"
    halted = replace(summary, incomplete=True)
    assert {(point.low, point.high) for point in charts(halted, answers)[0].points} == {(None, None)}


def test_answers_without_a_price_are_set_out_by_tokens(summary: Summary) -> None:
    answers = [row(n, tokens=1_000 * n, cost_usd=0.0) for n in range(1, 9)]
    quarters, each = charts(summary, [*answers, row(9, "not run", tokens=0), row(10, "unscored", tokens=0)])
    assert quarters.title == "Accuracy by quarters of the answers' tokens, the cheapest first"
    assert [point.label for point in quarters.points][::3] == ["1,000 to 3,000", "7,000 to 8,000"]
    assert (each.title, each.x_format, len(each.points)) == ("Tokens of each answer, by verdict", "number", 8)


def test_each_answer_has_a_stroke_in_the_row_of_its_verdict(summary: Summary) -> None:
    marks = ["error", "wrong", "other", "partial", "right", "wrong", "right", "wrong"]
    _, strip = charts(summary, [row(n, mark, cost_usd=float(n)) for n, mark in enumerate(marks)])
    assert [(each.group, each.tone, each.x) for each in strip.points] == [
        ("right", "right", 4.0), ("right", "right", 6.0), ("partial", "accent", 3.0), ("wrong", "wrong", 1.0),
        ("wrong", "wrong", 5.0), ("wrong", "wrong", 7.0), ("error", "error", 0.0), ("other", "quiet", 2.0),
    ]  # fmt: skip
    assert strip.points[0].href == "#q%204"


def test_some_of_very_many_answers_have_a_stroke(summary: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "MAX_TICKS", 8)
    _, all_of_them = charts(summary, [row(n, cost_usd=float(n)) for n in range(8)])
    assert (all_of_them.title, len(all_of_them.points)) == ("Cost of each answer, by verdict", 8)
    _, some = charts(summary, [row(n, cost_usd=float(n)) for n in range(9)])
    assert (some.title, [each.x for each in some.points]) == (
        "Cost of each answer, by verdict (one answer in 2)",
        [0, 2, 4, 6, 8],
    )


def test_agents_seconds_are_means_of_all_answers_that_ran(summary: Summary) -> None:
    answers = [row(n, seconds_by_agent={"quick": 0.5, "slow": float(n)}) for n in range(1, 11)]
    (chart,) = charts(summary, [*answers, row(11, "not run")])
    assert [(each.label, each.x, each.note) for each in chart.points] == [
        ("slow", 5.5, "10 % over 10.0 s"),
        ("quick", 0.5, "10 % over 0.5 s"),
    ]
    (one,) = charts(summary, [row(1, seconds_by_agent={"solve": 1.23456}), row(2)])
    assert [(each.x, each.note) for each in one.points] == [(0.6173, "10 % over 1.2 s")]
    assert charts(summary, [row(1, "not run", seconds_by_agent={"solve": 1.0})]) == []


def test_a_graded_answer_may_be_partly_right() -> None:
    assert choose_words("accuracy") == {"right": "right", "wrong": "wrong", "answered_wrong": "answered wrongly"}
    assert choose_words("mean score")["right"] == "fully right"
