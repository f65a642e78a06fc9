"""The gate's sentences and cells, from verdicts as they are judged."""

import io
import re
from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.comparison.regression_gate import GatedRun, GateResult, JudgedMetric
from eval.execution.console import Console
from eval.reports.regression_gate.files import MAX_IDS, format_code, format_markdown
from eval.reports.regression_gate.sentences import (
    describe_basis,
    describe_metric,
    describe_undecided,
    describe_verdict,
    list_cells,
    list_headings,
    print_gate,
)

METRIC = JudgedMetric(
    metric="score", name="accuracy", relative=False, verdict="inconclusive", base=0.5, new=0.25, difference=-0.25,
    lower=-0.5, upper=0.125, margin=0.02, by_chance=False, n_questions=30, epochs=2, questions_needed=123,
    epochs_needed=4,
)  # fmt: skip
RUN = GatedRun("a", "a", "1", "toy", "m", None, 30, 0)
ESTIMATE = "would pass in 80 of 100 comparisons (an estimate from the spread of the differences seen)"


def result(*metrics: JudgedMetric, **changes: Any) -> GateResult:
    made = GateResult(
        "inconclusive", 0.05, 0.05, RUN, RUN, metrics or (METRIC,), 30, 0, ("q1", "q2"), ("q3",), simulated=False
    )
    return replace(made, **changes)


def undecided(**changes: Any) -> str:
    (line,) = describe_undecided(result(replace(METRIC, **changes), replace(METRIC, verdict="pass")))
    return line


def test_the_verdict_names_the_metrics_that_made_it() -> None:
    named = [
        replace(METRIC, name=name, verdict=verdict)
        for name, verdict in zip("abcd", ["fail"] * 3 + ["pass"], strict=True)
    ]
    assert describe_verdict(result(*named, verdict="fail")) == "gate failed: a, b and c worse than allowed"
    assert describe_verdict(result()).endswith("neither show nor rule out a loss in accuracy")
    assert describe_verdict(result(*named[2:], verdict="pass")) == "gate passed: d no worse than allowed"


def test_what_would_decide_is_said_with_two_digits_rounded_up() -> None:
    few = "accuracy: too few answers to decide; if nothing has changed, about 130 questions (now 30)"
    assert undecided() == f"{few} or about 4 answers to each question (run.epochs, now 2) {ESTIMATE}"
    assert undecided(epochs_needed=None) == f"{few} {ESTIMATE}"
    assert undecided(questions_needed=31, epochs_needed=None).endswith(f"about 31 questions (now 30) {ESTIMATE}")
    assert "about 1,300 questions" in undecided(questions_needed=1_201)
    assert "about 1,200 questions" in undecided(questions_needed=1_200)


@pytest.mark.parametrize(("needed", "close"), [(29, True), (30, True), (31, False)])
def test_enough_questions_that_decide_nothing_are_close_to_the_limit(needed: int, close: bool) -> None:
    text = undecided(questions_needed=needed)
    assert ("too close to the limit" in text) is close and ("too few answers" in text) is not close
    if close:
        assert text.endswith(f"{needed} questions {ESTIMATE}, and there are 30")


def test_chance_and_a_margin_of_nothing_have_their_reasons() -> None:
    assert "equal programs might well differ so much" in undecided(by_chance=True, questions_needed=3)
    assert undecided(questions_needed=None).endswith("only a gain can pass; allow a loss with --margin")


def test_the_basis_says_what_counts() -> None:
    (counts, alpha) = describe_basis(result(replace(METRIC, epochs=1)))
    assert counts == "30 questions: score worse on 2, better on 1"
    assert alpha == "alpha 0.05, one-sided"
    two = result(METRIC, replace(METRIC, epochs=3), n_left_out=1, new=replace(RUN, n_errors=4))
    assert list(describe_basis(two)) == [
        "30 questions, each answered 2 times: score worse on 2, better on 1",
        "1 question is left out: prompts were tuned on them",
        "answers in error, which count as wrong: new 4 of 30",
        "alpha 0.05, one-sided, shared by 2 metrics (Bonferroni)",
    ]
    assert "2 questions are left out" in list(describe_basis(result(n_left_out=2)))[1]


def test_shares_are_points_and_amounts_are_relative() -> None:
    assert list_cells(METRIC) == ["accuracy", "50.0%", "25.0%", "-25.0 points", "-50.0 to +12.5", "down to -2.0"]
    cost = replace(METRIC, metric="cost", name="cost/answer", relative=True, base=1.5, new=2.0, difference=0.5)
    assert list_cells(cost) == ["cost/answer", "$1.50000", "$2.00000", "+50.0%", "-50.0% to +12.5%", "up to +2.0%"]
    assert list_cells(replace(cost, metric="latency"))[1:3] == ["1.50 s", "2.00 s"]
    assert list_headings(result())[5] == "90% interval" and list_headings(result(level=0.025))[5] == "95% interval"
    numbers = "accuracy 50.0% → 25.0%: -25.0 points (90% interval -50.0 to +12.5; allowed down to -2.0)"
    assert describe_metric(replace(METRIC, verdict="fail"), result()) == numbers
    assert describe_metric(METRIC, result()).startswith(f"{numbers}; too few answers")


@pytest.mark.parametrize(("n", "more"), [(MAX_IDS, False), (MAX_IDS + 1, True)])
def test_markdown_names_the_ten_largest_losses(n: int, more: bool) -> None:
    text = format_markdown(result(worse=tuple(f"q{at}" for at in range(n))))
    line = next(each for each in text.splitlines() if each.startswith("- largest losses"))
    assert line.count("`q") == MAX_IDS == 10 and line.endswith(" and 1 more") is more
    assert "largest losses" not in format_markdown(result(worse=()))


def test_a_name_in_markdown_is_code_on_one_line() -> None:
    assert format_code("a`b|c\nd") == "`a'b¦c d`"
    assert format_code("") == "` `"
    assert len(format_code("x" * 200)) == 82


def printed(width: int, *metrics: JudgedMetric, **changes: Any) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_gate(result(*metrics, **changes), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(("width", "headings"), [(99, []), (100, ["base", "new"])])
def test_both_runs_values_need_a_hundred_columns(width: int, headings: list[str]) -> None:
    text = printed(width)
    header, row = (
        [cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in text.splitlines() if line[0] in "┃│"
    )
    assert header == ["verdict", "metric", *headings, "change", "90% interval", "allowed"]
    values = ["50.0%", "25.0%"] if headings else []
    assert row == ["inconclusive", "accuracy", *values, "-25.0 points", "-50.0 to +12.5", "down to -2.0"]
    assert "gate: B, the new run, compared with A, its base" in text


def test_numbers_stand_at_the_right_and_names_at_the_left_and_are_not_broken() -> None:
    other = replace(METRIC, name="f1", verdict="pass", difference=-1.0)
    text = printed(120, METRIC, other)
    assert "│ pass         │ f1       │" in text
    assert "│  -25.0 points │" in text and "│ -100.0 points │" in text
    narrow = printed(40, METRIC)
    assert "│ inconclusive │ accuracy │" in narrow


def test_the_sentences_follow_the_table_each_on_one_line_and_the_verdict_is_the_last() -> None:
    made = result(METRIC)
    lines = printed(60, METRIC).splitlines()
    assert lines[-1] == describe_verdict(made)
    told = [*describe_undecided(made), *describe_basis(made)]
    assert lines[-1 - len(told) : -1] == told
    assert all(len(line) > 60 for line in (lines[-1], told[0]))
