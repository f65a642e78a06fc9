"""What a summary counts, at the edges of its rules; its other numbers: test_summary.py."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.analysis.statistics.metric_interval import compute_metric_interval
from eval.analysis.summary.epochs import measure_agreement
from eval.analysis.summary.summarise import (
    MAX_PARTS,
    MAX_TAG_VALUES,
    RunDetails,
    is_planned,
    select_final_attempts,
    summarise,
)
from eval.analysis.summary.summary import (
    BlockedPages,
    Counts,
    ExtraNumbers,
    JudgeAgreement,
    LeakedResult,
    Leaks,
    PaceChange,
    PartNumbers,
    Retried,
    Reviews,
    RunNames,
    SessionSummary,
    Summary,
    TuningOverlap,
)
from eval.analysis.tuned_on import UsedToTune
from eval.benchmarks.dataset import EXPECTED
from eval.runs.record import ExtraScore, Record, Usage
from mas.simulation import SIMULATED_NOTICE

Make = Callable[..., Record]


def summed(*records: Record, **details: object) -> Summary:
    return summarise(records, RunDetails(run_id="run-1", **details))  # type: ignore[arg-type]


def in_error(error_class: str | None = "internal") -> dict[str, object]:
    return {"answer": None, "score": None, "error": f"it is {error_class}", "error_class": error_class}


def test_the_counts_of_right_wrong_failed_and_unscored_answers(record: Make) -> None:
    found = summed(
        record("a", score=1.0),
        record("b", score=0.5),
        record("c", **in_error("infrastructure")),
        record("d", **in_error()),
        record("e", target=None, score=None),
        record("f", target=None, **in_error()),
        record("g", score=1.0, level=None),
    )
    assert Counts(**{name: getattr(found, name) for name in vars(found.by_level["1"])}) == Counts(
        n=7,
        n_scored=5,
        n_correct=2,
        n_wrong=1,
        accuracy=0.4,
        accuracy_ci95=found.accuracy_ci95,
        score=0.5,
        score_ci95=found.score_ci95,
        n_error=3,
        n_infrastructure=1,
        n_not_run=0,
    )
    assert found.accuracy_ci95 and found.accuracy_ci95[0] < 0.4 < found.accuracy_ci95[1]
    assert (found.incomplete, found.n_unscored, found.n_questions, found.epochs) == (False, 2, 7, 1)
    assert found.mean_score == 0.5 and list(found.by_level) == ["1"] and found.by_level["1"].n == 6
    assert found.errors_by_class == {"internal": 2, "infrastructure": 1}
    assert found.first_errors == {"infrastructure": "it is infrastructure", "internal": "it is internal"}


def test_one_answer_to_come_makes_the_run_incomplete(record: Make) -> None:
    found = summed(record("a", score=1.0), record("b", **in_error("not_run")))
    assert (found.incomplete, found.n_not_run, found.accuracy, found.accuracy_ci95) == (True, 1, 0.5, None)
    assert found.first_errors == {}, "nothing was met where nothing was run"


@pytest.mark.parametrize(
    ("epoch", "epochs", "sample_ids", "expected"),
    [
        (2, 2, None, True),
        (3, 2, None, False),
        (3, None, None, True),
        (1, 1, {"a"}, True),
        (1, 1, {"b"}, False),
        (2, 1, {"a"}, False),
        (1, None, {"b"}, False),
    ],
)
def test_an_attempt_is_planned_by_its_epoch_and_its_sample(
    epoch: int, epochs: int | None, sample_ids: set[str] | None, expected: bool, record: Make
) -> None:
    made = record("a", epoch=epoch, score=1.0)
    assert is_planned(made, epochs, sample_ids) is expected
    found = summed(made, epochs=epochs, sample_ids=sample_ids)
    assert (found.n, found.n_outside_plan) == ((1, 0) if expected else (0, 1))


def test_the_last_attempt_at_each_epoch_is_final_whatever_the_order(record: Make) -> None:
    first, second, other = (
        record("a", attempt=1),
        record("a", attempt=2, score=1.0),
        record("a", epoch=2, attempt=1),
    )
    assert select_final_attempts([first, other, second]) == [second, other]
    assert select_final_attempts([second, first]) == [second]
    same = record("a", attempt=2)
    assert select_final_attempts([second, same])[0] is second


def test_what_a_second_attempt_changed(record: Make) -> None:
    found = summed(
        record("a", attempt=2, score=1.0),
        record("a", attempt=1, **in_error()),
        record("b", attempt=1, score=0.5),
        record("b", attempt=2, **in_error()),
        record("c", score=1.0),
        record("d", target=None, score=None),
    )
    assert found.retried == Retried(
        n=2, recovered=1, accuracy_first_tries=pytest.approx(1 / 3), score_first_tries=pytest.approx(0.5)
    )


@pytest.mark.parametrize(("n_parts", "is_shown"), [(1, False), (2, True), (MAX_PARTS, True), (MAX_PARTS + 1, False)])
def test_a_score_of_two_to_twelve_parts_is_summarised(n_parts: int, is_shown: bool, record: Make) -> None:
    parts = {f"p{place}": place % 2 for place in range(n_parts)}
    found = summed(record("a", score=1.0, parts=parts)).parts
    assert {name: (each.score, each.n) for name, each in found.items()} == (
        {name: (value, 1) for name, value in parts.items()} if is_shown else {}
    )


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_one_part_that_is_no_share_hides_all(value: float, record: Make) -> None:
    records = [record("a", score=1.0, parts={"x": 1.0, "y": 0.0}), record("b", parts={"x": value, "y": 0.5})]
    assert summed(*records).parts == {} and summed(records[0]).parts != {}
    unscored = record("b", target=None, score=None, parts={"x": value, "y": 0.5})
    assert summed(records[0], unscored).parts["x"].n == 1


def test_a_tag_with_one_value_is_not_shown_and_very_many_are_cut(record: Make) -> None:
    records = [record(f"q{place:02}", score=float(place == 0)) for place in range(MAX_TAG_VALUES + 2)]

    def tagged(n_values: int) -> dict[str, Counts]:
        tags = {each.sample_id: {"topic": f"t{place % n_values:02}", "lone": "x"} for place, each in enumerate(records)}
        found = summed(*records, tags=tags).by_tag
        assert "lone" not in found
        return found.get("topic", {})

    assert {name: each.n for name, each in tagged(2).items()} == {"t00": 16, "t01": 16}
    whole = {name: each.n for name, each in tagged(MAX_TAG_VALUES).items()}
    assert len(whole) == MAX_TAG_VALUES and whole["t00"] == whole["t01"] == 2 and whole["t29"] == 1
    cut = tagged(MAX_TAG_VALUES + 1)
    assert list(cut)[-1] == "(1 other values)" and len(cut) == MAX_TAG_VALUES + 1
    assert (cut["(1 other values)"].n, "t30" in cut, cut["t00"].n) == (1, False, 2)


@pytest.mark.parametrize(
    ("sizes", "peak"), [((), None), ((None,), None), ((0.0,), None), ((5.0, 9.0, 7.0), 9.0), ((None, 3.0), 3.0)]
)
def test_the_memory_is_that_of_the_largest_session(sizes: tuple[float | None, ...], peak: float | None) -> None:
    sessions = tuple(SessionSummary(peak_memory_mb=each) for each in sizes)
    assert summed(sessions=sessions).peak_memory_mb == peak


def test_a_summary_has_what_is_known_of_the_run_besides_its_records(record: Make) -> None:
    pace, session = PaceChange(seconds=1.0, pace=2.0, reason="slower"), SessionSummary(started_at="2026")
    found = summed(
        record("a"), simulated=True, no_measurement="a proof", wall_seconds=1.23456, stopped="by you",
        names=RunNames(folder="night", system="toy", scorer="exact"), shown_tags=("topic",),
        bad_rows=("row 1", "row 2"), command=("data=x",), sessions=(session,), pace_history=(pace,),
        unfinished=Usage(3),
    )  # fmt: skip
    assert (found.run_id, found.folder, found.system, found.model) == ("run-1", "night", "toy", None)
    assert (found.simulated, found.notice, found.no_measurement) == (True, SIMULATED_NOTICE, "a proof")
    assert (found.wall_seconds, found.stopped, found.tags, found.command) == (1.235, "by you", ("topic",), ("data=x",))
    assert (found.n_bad_rows, found.bad_rows, found.unfinished) == (2, ("row 1", "row 2"), Usage(3))
    assert (found.sessions, found.pace_history, found.peak_memory_mb) == ((session,), (pace,), None)
    bare = summed(record("a"))
    assert (bare.simulated, bare.notice, bare.no_measurement, bare.stopped, bare.wall_seconds) == (
        False, None, "", None, 0.0,
    )  # fmt: skip
    assert (bare.labels, bare.by_tag, bare.tags, bare.extra_scorers, bare.human_review) == (None, {}, (), {}, None)
    assert (bare.attribution, bare.critics, bare.used_to_tune, bare.unfinished, bare.by_epochs) == (
        None, {}, None, None, None,
    )  # fmt: skip
    assert (bare.bad_rows, bare.command, bare.sessions, bare.pace_history, bare.folder) == ((), (), (), (), None)


def test_what_was_spent_is_rounded_and_told_by_agent_and_by_tool(record: Make) -> None:
    found = summed(
        record("a", waited_seconds=0.00149, seconds_by_agent={"expert": 1.23449}, limit="tokens",
               calls_by_tool={"visit": 1, "search": 3}, tool_errors={"search": 1}, blocked_pages={"x.org": 1}),
        record("a", attempt=2, seconds_by_agent={"planner": 2.0}, calls_by_tool={"visit": 1}, limit="time",
               tool_errors={"visit": 2}, blocked_pages={"x.org": 1, "y.org": 3},
               reviews={"critic": {"reviews": 4, "rejected": 3, "retried": 2, "recovered": 1}}),
        record("b", limit="time", parts={"format_loss": 1.0}),
    )  # fmt: skip
    assert (found.waited_seconds, found.by_agent) == (0.001, {"expert": 1.234, "planner": 2.0})
    assert list(found.calls_by_tool.items()) == [("search", 3), ("visit", 2)], "the most frequent first"
    assert list(found.tool_errors.items()) == [("visit", 2), ("search", 1)]
    assert found.limits == {"time": 2} and found.format_loss == 1, "of the last attempts"
    assert found.blocked_pages == BlockedPages(n=5, hosts={"y.org": 3, "x.org": 2}), "of all attempts"
    assert list(found.blocked_pages.hosts) == ["y.org", "x.org"]
    assert found.reviews_by_agent == {"critic": Reviews(reviews=4, rejected=3, retried=2, recovered=1)}


def test_an_extra_scorer_has_its_mean_over_all_answers_with_a_target(record: Make) -> None:
    down = ExtraScore(None, error="it is down")
    records = [
        record("a", extra_scores={"f1": ExtraScore(0.5)}),
        record("b", extra_scores={"f1": down}),
        record("b", epoch=2, extra_scores={"f1": ExtraScore(1.0)}),
        record("c", **in_error()),
        record("d", target=None, score=None, extra_scores={"f1": ExtraScore(0.25), "other": down}),
    ]
    for incomplete in (False, True):
        more = [record("e", **in_error("not_run"))] if incomplete else []
        found = summed(*records, *more, extra_scorers={"f1": "numeric", "other": None}).extra_scorers
        values = [(0.5,), (0.0, 1.0), (0.0,), *[(0.0,) for _ in more]]
        assert found["f1"] == ExtraNumbers(
            metric="mean score", score=1.5 / (4 + len(more)), n_scored=4 + len(more), n_failed=1,
            score_ci95=None if incomplete else compute_metric_interval(values), first_error="it is down",
        )  # fmt: skip
        assert (found["other"].score, found["other"].n_failed) == (0.0, 1)
    unscored = summed(records[-1], extra_scorers={"f1": "numeric"}).extra_scorers["f1"]
    assert (unscored.score, unscored.score_ci95, unscored.n_scored, unscored.first_error) == (None, None, 0, None)


def test_parts_are_means_over_the_answers_that_have_them_and_over_failures(record: Make) -> None:
    records = [
        record("a", parts={"x": 1.0, "y": 0.0}),
        record("a", epoch=2, parts={"x": 0.5, "y": 1.0}),
        record("b", parts={"x": 0.0}),
        record("c", **in_error()),
    ]
    assert summed(*records).parts == {
        "x": PartNumbers(score=1.5 / 4, score_ci95=compute_metric_interval([(1.0, 0.5), (0.0,), (0.0,)]), n=4),
        "y": PartNumbers(score=1.0 / 3, score_ci95=compute_metric_interval([(0.0, 1.0), (0.0,)]), n=3),
    }
    unfinished = summed(*records, record("d", **in_error("not_run"))).parts
    assert (unfinished["x"].score_ci95, unfinished["x"].n) == (None, 5)


def test_web_results_that_give_an_answer_away_are_listed_and_left_out(record: Make) -> None:
    leaks = [{"tool": "search", "source": "x.org"}, {"tool": "visit", "source": "y.org"}]
    records = [
        record("a", score=1.0, leaks=leaks), record("a", epoch=2, leaks=leaks[:1]), record("a", epoch=3),
        record("b", score=1.0), record("c", score=0.5),
    ]  # fmt: skip
    found = summed(*records).leaks
    assert found == Leaks(
        n_questions=1,
        results=(
            LeakedResult(sample_id="a", epoch=1, tool="search", source="x.org"),
            LeakedResult(sample_id="a", epoch=1, tool="visit", source="y.org"),
            LeakedResult(sample_id="a", epoch=2, tool="search", source="x.org"),
        ),
        accuracy_without=0.5, accuracy_without_ci95=compute_clustered_interval([(1, 1), (0, 1)]), score_without=0.75,
        score_without_ci95=compute_metric_interval([(1.0,), (0.5,)]), n_without=2,
    )  # fmt: skip
    none = summed(*records[2:]).leaks
    assert (none.n_questions, none.results, none.accuracy_without, none.n_without) == (0, (), None, 3)
    unfinished = summed(*records, record("d", **in_error("not_run"))).leaks
    assert (unfinished.accuracy_without, unfinished.accuracy_without_ci95) == (pytest.approx(1 / 3), None)


def test_samples_that_the_prompts_were_tuned_on_are_counted_among_those_with_a_target(record: Make) -> None:
    records = [record("a", score=1.0), record("b"), record("c", score=0.5), record("d", target=None, score=None)]
    used = UsedToTune("owned", frozenset({"a", "d", "z"}), frozenset({"b"}))
    assert summed(*records, used=used).used_to_tune == TuningOverlap(
        prompts="owned", n_questions=2, n_all=3, n_unscored=1, edited=(), n_learnt_from=1, n_picked_by=1,
        accuracy_without=0.0, accuracy_without_ci95=compute_clustered_interval([(0, 1)]), score_without=0.5,
        score_without_ci95=None, n_without=1,
    )  # fmt: skip
    elsewhere = UsedToTune("owned", frozenset({"z"}), frozenset())
    for edited, n_questions in (((), 0), (("owned",), None)):
        found = summed(*records, used=replace(elsewhere, edited=edited)).used_to_tune
        assert found is not None
        assert (found.n_questions, found.edited, found.n_all, found.accuracy_without) == (n_questions, edited, 3, None)
    assert summed(records[3], used=used).used_to_tune is None and summed(*records).used_to_tune is None


def test_a_judge_is_compared_with_both_rules_by_what_it_said_itself(record: Make) -> None:
    records = [
        record("a", score=1.0, parts={"rule": 1.0, "exact": 0.0}),
        record("b", score=0.0, parts={"rule": 1.0, "exact": 1.0}),
        record("c", score=0.5, parts={"rule": 0.0, "exact": 0.0}),
        record("d", score=1.0),
    ]
    found = summed(*records).judge_agreement
    assert found == JudgeAgreement(
        rule=measure_agreement([(True, True), (False, True), (False, False)]),
        exact=measure_agreement([(True, False), (False, True), (False, False)]),
        people=None,
    )
    assert summed(records[3]).judge_agreement is None


@pytest.mark.parametrize(("error_class", "incomplete"), [("not_run", True), ("internal", False), (None, False)])
def test_only_answers_that_resuming_makes_keep_a_run_from_being_complete(
    error_class: str | None, incomplete: bool, record: Make
) -> None:
    found = summed(record("a", score=1.0), record("b", **in_error(error_class)), record("a", epoch=2, score=1.0))
    assert found.incomplete is incomplete
    assert (found.score_ci95 is None, found.by_epochs is None, found.by_level["1"].score_ci95 is None) == (
        incomplete, incomplete, incomplete,
    )  # fmt: skip
    assert found.mean_score is None, "no answer is partly right"


def test_tags_that_say_what_is_expected_have_no_numbers(record: Make) -> None:
    tags = {"a": {EXPECTED: "one", "topic": "x"}, "b": {EXPECTED: "two", "topic": "y"}}
    found = summed(record("b", score=1.0), record("a"), record("c"), tags=tags).by_tag
    assert list(found) == ["topic"] and list(found["topic"]) == ["x", "y"]
    assert (found["topic"]["x"].n, found["topic"]["y"].accuracy) == (1, 1.0)


def test_levels_stand_in_order(record: Make) -> None:
    found = summed(record("a", level="2"), record("b", level="1"), record("c", level="10"), record("d", level=None))
    assert list(found.by_level) == ["1", "10", "2"]
