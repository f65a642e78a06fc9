"""The gate's settings at their edges, and what a verdict counts."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.compare_runs import ReadRun, read_runs
from eval.analysis.comparison.regression_gate import (
    GATE_VERSION,
    GatedRun,
    GateSettings,
    JudgedMetric,
    judge_runs,
    read_gate_settings,
)
from eval.analysis.statistics.paired_tests import Pair
from eval.analysis.statistics.regression import SAME_PROGRAM, judge_effect, measure_ratio, measure_shares
from eval.analysis.tuned_on import UsedToTune
from eval.runs.folder import format_path
from eval.runs.record import Record, Usage
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered, stored_run


def read(folder: Path, *runs: list[Record], **facts: Any) -> tuple[ReadRun, ReadRun]:
    first, second = read_runs([stored_run(folder / f"r{n}", each, **facts) for n, each in enumerate(runs)])
    return first, second


def test_defaults_are_the_score_two_points_and_five_percent() -> None:
    found = read_gate_settings()
    assert (found.metrics, found.margins, found.alpha, found.level) == (("score",), {"score": 0.02}, 0.05, 0.05)
    several = read_gate_settings("score, cost,latency", alpha=0.03)
    assert several.margins == {"score": 0.02, "cost": 0.1, "latency": 0.1}
    assert several.level == pytest.approx(0.01)
    assert GateSettings().margins["f1"] == 0.02


def test_a_margin_alone_is_for_all_shares_and_a_named_one_wins() -> None:
    found = read_gate_settings("score,accuracy,cost", ["0.05", "cost=0.3, accuracy = 0"])
    assert found.margins == {"score": 0.05, "accuracy": 0.0, "cost": 0.3}


@pytest.mark.parametrize(("alpha", "valid"), [(0.0, False), (0.001, True), (0.499, True), (0.5, False)])
def test_alpha_lies_between_nothing_and_a_half(alpha: float, valid: bool) -> None:
    if valid:
        assert read_gate_settings(alpha=alpha).alpha == alpha
    else:
        with pytest.raises(UserError, match=f"--alpha is {alpha:g}; expected"):
            read_gate_settings(alpha=alpha)


@pytest.mark.parametrize(
    ("margin", "hint"),
    [("1", "; 1 points are 0.01."), ("99", "; 99 points are 0.99."), ("100", "0.10."), ("-1", "0.10.")],
)
def test_a_margin_of_one_or_more_is_taken_for_points(margin: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        read_gate_settings(margins=[margin])
    assert str(refused.value).endswith(hint) and ("points are" in str(refused.value)) is hint.startswith(";")
    assert read_gate_settings(margins=["0"]).margins == {"score": 0.0}
    assert read_gate_settings(margins=["0.999"]).margins == {"score": 0.999}


def test_questions_that_changed_are_named_the_largest_difference_first(tmp_path: Path) -> None:
    before, after = [1.0, 0.0, 0.5, 1.0, 0.0], [0.5, 1.0, 0.25, 1.0, 0.5]
    runs = ([answered(f"q{n}", "x", score=score) for n, score in enumerate(side)] for side in (before, after))
    found = judge_runs(*read(tmp_path, *runs), read_gate_settings())
    assert (found.worse, found.better) == (("q0", "q2"), ("q1", "q4"))
    assert (found.n_questions, found.n_left_out, found.simulated) == (5, 0, False)
    assert (found.base.name, found.new.name, found.base.n_answers, found.base.n_errors) == ("r0", "r1", 5, 0)
    assert found.confidence == pytest.approx(0.9)
    (judged,) = found.metrics
    assert (judged.base, judged.new, judged.difference) == (0.5, 0.65, pytest.approx(0.15))


def test_two_questions_may_decide_and_one_may_not(tmp_path: Path) -> None:
    two = [answered("q1", "17"), answered("q2", "17")]
    assert judge_runs(*read(tmp_path / "two", two, two), read_gate_settings()).n_questions == 2
    with pytest.raises(UserError, match=r"^1 question cannot decide; 2 are needed at least"):
        judge_runs(*read(tmp_path / "one", two[:1], two[:1]), read_gate_settings())


def test_amounts_are_relative_and_their_bounds_in_order(tmp_path: Path) -> None:
    def run(*costs: float) -> list[Record]:
        return [
            answered(f"q{n}", "17", wall_seconds=cost * 2, usage=Usage(1, cost_usd=cost))
            for n, cost in enumerate(costs)
        ]

    settings = read_gate_settings("cost,latency")
    found = judge_runs(*read(tmp_path, run(1.0, 2.0, 3.0), run(1.5, 3.0, 4.4)), settings)
    cost, latency = found.metrics
    assert (cost.name, cost.relative, cost.base, latency.name, latency.base) == (
        "cost/answer", True, 2.0, "time/answer", 4.0,
    )  # fmt: skip
    assert cost.lower < cost.difference < cost.upper
    assert cost.difference == pytest.approx(latency.difference) == pytest.approx(8.9 / 6 - 1)
    assert found.verdict != "pass"


def test_an_answer_in_error_is_counted_and_right_answers_alone_make_the_accuracy(tmp_path: Path) -> None:
    failed = answered("q2", None, error="down", error_class="tool", score=None)
    records = [answered("q1", "17"), failed, answered("q3", "1", score=0.5)]
    found = judge_runs(*read(tmp_path, records, records), read_gate_settings("accuracy"))
    assert (found.new.n_answers, found.new.n_errors) == (3, 1)
    assert (found.metrics[0].name, found.metrics[0].base) == ("accuracy", pytest.approx(1 / 3))


def use(**usage: Any) -> list[Record]:
    return [answered(f"q{n}", "17", wall_seconds=2.0, usage=Usage(3, **{"cost_usd": 0.5, **usage})) for n in range(3)]


@pytest.mark.parametrize(
    ("metrics", "usage", "told"),
    [
        (
            "cost",
            {"cost_usd": None},
            "cost cannot be compared: that of 3 answers of B (r1) is unknown; give the model's prices, or leave "
            "cost out of --metrics.",
        ),
        (
            "cost",
            {"cached_calls": 1},
            "cost cannot be compared: 3 calls of B (r1) were answered by another run; run it with cache.lm=off, or "
            "leave cost out of --metrics.",
        ),
        (
            "latency",
            {"cached_calls": 2},
            "latency cannot be compared: 6 calls of B (r1) were answered by another run; run it with cache.lm=off, or "
            "leave latency out of --metrics.",
        ),
        (
            "latency",
            {"cached_tool_calls": 1},
            "latency cannot be compared: 3 tool calls of B (r1) were answered by another run; run it with "
            "cache.tools=off, or leave latency out of --metrics.",
        ),
        ("cost", {"cost_usd": 0.0}, "cost cannot be compared: it is 0 in one of the runs; leave it out of --metrics."),
        ("f1", {}, "f1 cannot be compared: the targets are answers, not labels; leave f1 out of --metrics, or name the "
         "labels in data.labels."),
    ],
)  # fmt: skip
def test_a_metric_that_a_run_does_not_have_is_refused_by_name(
    metrics: str, usage: dict[str, Any], told: str, tmp_path: Path
) -> None:
    first, second = read(tmp_path, use(), use(**usage))
    with pytest.raises(UserError) as refused:
        judge_runs(first, second, read_gate_settings(metrics))
    assert str(refused.value) == told
    if usage:
        with pytest.raises(UserError):  # whichever of the two it is
            judge_runs(second, first, read_gate_settings(metrics))


def test_other_caches_do_not_keep_costs_from_being_compared(tmp_path: Path) -> None:
    first, second = read(tmp_path, use(), use(cached_tool_calls=1, cached_input_tokens=9))
    assert judge_runs(first, second, read_gate_settings("cost")).verdict == "pass"


def test_labels_make_an_f1_and_other_targets_stand_outside_of_it(tmp_path: Path) -> None:
    def run(*answers: str) -> list[Record]:
        targets = ("yes", "yes", "no", "17")
        return [answered(f"q{n}", said, gold) for n, (said, gold) in enumerate(zip(answers, targets, strict=True))]

    labels = {"labels": ["yes", "no"]}
    first, second = read(tmp_path / "a", run("yes", "yes", "no", "17"), run("yes", "no", "no", "5"), **labels)
    (judged,) = judge_runs(first, second, read_gate_settings("f1")).metrics
    assert (judged.name, judged.base, judged.new) == ("macro F1", 1.0, pytest.approx(2 / 3))
    others = [answered(f"q{n}", "17") for n in range(3)]
    with pytest.raises(UserError, match=r"^f1 cannot be compared: no question has a label as its target; leave f1 out"):
        judge_runs(*read(tmp_path / "b", others, others, **labels), read_gate_settings("f1"))


def test_a_result_is_written_whole_with_its_version(tmp_path: Path) -> None:
    found = judge_runs(*read(tmp_path, use(), use()), read_gate_settings("score,cost"))
    written = found.to_dict()
    assert written["version"] == GATE_VERSION
    assert (written["verdict"], written["n_questions"], written["worse"]) == (found.verdict, 3, ())
    assert [each.metric for each in found.metrics] == ["score", "cost"]


def test_one_metric_that_fails_is_enough_and_all_must_pass(tmp_path: Path) -> None:
    def run(*scores: float, cost: float = 0.5) -> list[Record]:
        return [answered(f"q{n}", "1", score=each, usage=Usage(1, cost_usd=cost)) for n, each in enumerate(scores)]

    settings = read_gate_settings("score,cost", ["0.2"])
    right, wrong = [1.0] * 40, [0.0] * 40
    for name, first, second, verdict in (
        ("same", run(*right), run(*right), "pass"),
        ("worse", run(*right), run(*wrong), "fail"),
        ("dearer", run(*right), run(*right, cost=1.0), "fail"),
        ("unclear", run(*right[:4]), run(*right[:4]), "inconclusive"),
    ):
        assert judge_runs(*read(tmp_path / name, first, second), settings).verdict == verdict, name


def test_other_questions_cannot_be_judged_and_a_part_of_them_is_not_offered(tmp_path: Path) -> None:
    first, second = [answered(each, "17") for each in "abc"], [answered(each, "17") for each in "abd"]
    with pytest.raises(UserError, match=r"had different tasks: .*; choose other runs") as refused:
        judge_runs(*read(tmp_path, first, second), read_gate_settings())
    assert "--intersection" not in str(refused.value)


def test_a_gated_run_is_described_whole_by_the_questions_that_decide(tmp_path: Path) -> None:
    records = [
        answered("q0", "17"), answered("q0", "18", epoch=2), answered("q1", "17"),
        answered("q2", None, error="x", error_class="tool", score=None), answered("q3", "17"),
    ]  # fmt: skip
    folders = [
        stored_run(tmp_path / name, records, epochs=2, run_id=f"run-{name}", system="toy", model="m",
                   simulated=name == "b", planned=["q0", "q1", "q2", "q3"])
        for name in "ab"
    ]  # fmt: skip
    first, second = (replace(each, answers=replace(each.answers, n_missing=0)) for each in read_runs(folders))
    used = UsedToTune("tuned", frozenset({"q3"}), frozenset({"elsewhere"}))
    found = judge_runs(first, replace(second, used=used), read_gate_settings())
    assert found.new == GatedRun(
        name="b", folder=format_path(folders[1]), run_id="run-b", system="toy", model="m", prompts=None, n_answers=4,
        n_errors=1,
    )  # fmt: skip
    assert (found.base.name, found.base.run_id, found.n_questions, found.n_left_out) == ("a", "run-a", 3, 1)
    assert found.simulated and not judge_runs(first, first, read_gate_settings()).simulated
    assert judge_runs(replace(second, used=used), first, read_gate_settings()).simulated
    too_many = UsedToTune("tuned", frozenset({"q0", "q1"}), frozenset({"q3"}))
    with pytest.raises(UserError) as refused:
        judge_runs(replace(first, used=too_many), second, read_gate_settings())
    assert str(refused.value) == "1 question (3 were used to tune the prompts) cannot decide; 2 are needed at least."


def test_a_judged_metric_has_the_bounds_of_its_effect(tmp_path: Path) -> None:
    def run(*costs: float, score: float) -> list[Record]:
        return [answered(f"q{n}", "x", score=score, usage=Usage(1, cost_usd=each)) for n, each in enumerate(costs)]

    settings = read_gate_settings("score,cost", ["0.1", "cost=0.25"], alpha=0.04)
    first, second = read(tmp_path, run(1.0, 2.0, 4.0, 3.0, score=0.5), run(1.5, 2.0, 4.5, 3.5, score=0.25))
    found = judge_runs(first, second, settings)
    score, cost = found.metrics
    amounts = measure_ratio([Pair((a,), (b,)) for a, b in ((1.0, 1.5), (2.0, 2.0), (4.0, 4.5), (3.0, 3.5))])
    judged = judge_effect(amounts, math.log1p(0.25), 0.02, SAME_PROGRAM / 2)
    low, high = judged.bounds
    assert cost == JudgedMetric(
        metric="cost", name="cost/answer", relative=True, verdict=judged.verdict, base=2.5, new=2.875,
        difference=pytest.approx(0.15), lower=pytest.approx(math.expm1(-high)), upper=pytest.approx(math.expm1(-low)),
        margin=0.25, by_chance=judged.by_chance, n_questions=4, epochs=1, questions_needed=judged.questions_needed,
        epochs_needed=judged.epochs_needed,
    )  # fmt: skip
    shares = measure_shares([Pair((0.5,), (0.25,))] * 4)
    judged = judge_effect(shares, 0.1, 0.02, SAME_PROGRAM / 2)
    assert score == JudgedMetric(
        metric="score", name="mean score", relative=False, verdict=judged.verdict, base=0.5, new=0.25, difference=-0.25,
        lower=judged.bounds[0], upper=judged.bounds[1], margin=0.1, by_chance=judged.by_chance, n_questions=4, epochs=1,
        questions_needed=judged.questions_needed, epochs_needed=judged.epochs_needed,
    )  # fmt: skip
    assert (found.alpha, found.level, found.confidence) == (0.04, 0.02, pytest.approx(0.96))
    assert found.worse == ("q0", "q1", "q2", "q3") and found.better == ()


@pytest.mark.parametrize(
    ("metrics", "margins", "told"),
    [
        ("speed", [], "--metrics has 'speed'; expected one or more of score, accuracy, f1, cost, latency, with commas "
         "between."),
        ("score,", [], "--metrics has ''; expected one or more of score, accuracy, f1, cost, latency, with commas "
         "between."),
        ("cost,score,cost", [], "--metrics names cost twice; name each metric once."),
        ("score", ["cost=0.1"], "--margin cost=0.1: 'cost' does not decide; add it to --metrics, or leave it out."),
        ("cost,latency", ["0.1"], "--margin 0.1 is one for shares; name the metric, such as cost=0.10."),
        ("score", ["0.1", "0.2"], "--margin is given twice; give each margin once."),
        ("score,cost", ["cost=0.1,cost=0.2"], "--margin is given twice for cost; give each margin once."),
        ("score", ["much"], "--margin 'much' is no number; expected a share such as --margin 0.02 or --margin "
         "cost=0.10."),
        ("score", ["2"], "--margin 2 is not from 0 to below 1; expected a share such as --margin 0.02 or --margin "
         "cost=0.10; 2 points are 0.02."),
    ],
)  # fmt: skip
def test_a_setting_that_is_wrong_is_refused_with_what_is_expected(metrics: str, margins: list[str], told: str) -> None:
    with pytest.raises(UserError) as refused:
        read_gate_settings(metrics, margins)
    assert str(refused.value) == told


def test_labels_must_be_the_same_on_both_sides(tmp_path: Path) -> None:
    records = [answered("q0", "yes", "yes"), answered("q1", "no", "no")]
    folders = [
        stored_run(tmp_path / str(n), records, labels=labels) for n, labels in enumerate((["yes", "no"], [], ["yes"]))
    ]
    both, none, other = read_runs(folders)
    for first, second in ((both, none), (none, both), (both, other)):
        with pytest.raises(
            UserError, match=r"^f1 cannot be compared: the two runs have different labels; leave f1 out"
        ):
            judge_runs(first, second, read_gate_settings("f1"))


def test_failures_and_empty_answers_are_no_label_and_what_the_scorer_accepts_is_the_target(tmp_path: Path) -> None:
    def run(*answers: Record) -> list[Record]:
        return [answered("q0", "yes", "yes"), answered("q1", "no", "no"), *answers]

    good = run(answered("q2", "It is yes.", "yes", score=1.0), answered("q3", "no", "no"))
    failed = run(
        answered("q2", "yes", "yes", error="x", error_class="tool", score=None), answered("q3", "", "no", score=0.0)
    )
    first, second = read(tmp_path, good, failed, labels=["yes", "no"])
    (judged,) = judge_runs(first, second, read_gate_settings("f1")).metrics
    # of the second: both labels are right once in one answer and missed once: 2·1/(1 + 2)
    assert (judged.base, judged.new) == (1.0, pytest.approx(2 / 3))
