"""Facts and titles of a run, in words."""

from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.statistics.kappa import HumanAgreement
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import (
    Agreement,
    BlockedPages,
    CriticNumbers,
    EpochNumbers,
    Estimate,
    ExtraNumbers,
    HumanReview,
    JudgeAgreement,
    LabelNumbers,
    LabelSummary,
    LeakedResult,
    Leaks,
    LostPoints,
    PaceChange,
    PartNumbers,
    Retried,
    Reviews,
    RunFacts,
    RunNames,
    SessionSummary,
    TuningOverlap,
)
from eval.reports.notes import (
    MAX_ERROR_CHARS,
    RATE_LIMIT,
    describe_critic,
    describe_human_agreement,
    describe_labels,
    describe_review,
    describe_run,
    describe_tuned_on,
    describe_verdict,
    format_changes,
    format_duration,
    format_floor,
    format_interval,
    format_p_value,
    format_percent,
    format_points,
    format_title,
    format_usd,
    list_notes,
    select_ks,
)
from eval.runs.record import HumanVerdict, Usage
from eval.runs.run_info import NO_MEASUREMENT, RunInfo, TaskInfo
from eval.scorers.score import ACCURACY

NAMES = RunNames(
    folder="night", system="gaia", model="small", data="sample", split="val", prompts="baseline", scorer="gaia"
)


def lines(info: RunInfo, **facts: Any) -> dict[str, str]:
    return dict(describe_run(info, summarise([], RunDetails(run_id="run-1", wall_seconds=75.0, **facts))))


def test_everything_that_the_run_noted_is_told() -> None:
    agents = {"planner": {"model": "big"}, "expert": {"model": None}}
    info = RunInfo(
        config={"system": {"name": "gaia", "agents": agents}},
        task=TaskInfo(data_revision="abc"),
        prompts_sha256="0123456789abcdef",
        prompts_edited=["planner"],
        started_at="2026-11-21T08:00:00.5+00:00",
        origin={"mlflow.source.git.commit": "f" * 40, "mlflow.source.git.dirty": "true"},
    )
    assert lines(info, names=NAMES, command=("model=small", "run.name=a b"), epochs=3) == {
        "run": "night (id run-1)",
        "system": "gaia",
        "model": "small; planner: big",
        "questions": "sample, split val, revision abc: 0, 3 epochs",
        "scorer": "gaia",
        "prompts": "baseline (sha256 0123456789ab), edited since it was published",
        "date": "2026-11-21 08:00 UTC; it took 75.0 s",
        "harness": "commit ffffffffffff, with uncommitted changes",
        "command": "python eval/run.py model=small 'run.name=a b'",
    }


def test_what_a_run_did_not_note_is_left_out() -> None:
    assert lines(RunInfo()) == {"run": "run-1"}


def test_answers_scored_anew_name_their_run() -> None:
    assert lines(RunInfo(rescored_from="evening"))["answers"] == "those of evening, scored again"


def test_long_runs_are_told_in_hours() -> None:
    assert [format_duration(seconds) for seconds in (4.26, 100, 3_700)] == ["4.3 s", "2 min", "1 h 2 min"]
    assert [format_duration(seconds) for seconds in (89.9, 90, 3_540, 3_600)] == [
        "89.9 s",
        "2 min",
        "59 min",
        "1 h 0 min",
    ]


def test_a_p_value_of_a_thousandth_is_written_out() -> None:
    assert [format_p_value(p) for p in (0.0009, 0.001, 0.0456)] == ["<0.001", "0.001", "0.046"]


def test_a_title_leaves_out_what_is_unknown_or_usual() -> None:
    run = RunFacts(run_id="r1", **vars(NAMES))
    assert format_title(run) == "gaia · small · sample/val · prompts baseline · night"
    assert format_title(replace(run, split=None, prompts=None)) == "gaia · small · sample · night"
    assert format_title(RunFacts(run_id="r1")) == "r1"


def test_a_name_cannot_move_the_terminal() -> None:
    assert format_title(RunFacts(run_id="r1", model="a\n\x1b[31mb" + "x" * 99)).startswith("a \\u001b[31mbxxx")
    assert len(format_title(RunFacts(run_id="r1", model="x" * 999))) < 80


USED = Usage(
    lm_calls=1_234,
    retries=5,
    replayed_calls=6,
    cached_calls=7,
    tool_calls=89,
    replayed_tool_calls=10,
    cached_tool_calls=11,
    oldest_cached_tool_result="2026-11-01T08:00:00+00:00",
    input_tokens=5_000,
    output_tokens=600,
    cost_usd=0.5,
)
EVERYTHING: dict[str, Any] = {
    "stopped": "a budget",
    "incomplete": True,
    "n": 20,
    "n_scored": 12,
    "n_correct": 7,
    "n_wrong": 5,
    "n_error": 8,
    "n_not_run": 6,
    "errors_by_class": {"timeout": 2, "not_run": 6},
    "first_errors": {"timeout": "it took long"},
    "n_infrastructure": 2,
    "limits": {"tokens": 3},
    "retried": Retried(n=4, recovered=3, accuracy_first_tries=0.3, score_first_tries=0.35),
    "format_loss": 2,
    "judge_agreement": JudgeAgreement(
        rule=Agreement(n=12, share=0.75, kappa=0.5), exact=Agreement(n=12, share=0.5, kappa=None)
    ),
    "n_unscored": 1,
    "n_outside_plan": 1,
    "n_bad_rows": 2,
    "epochs": 2,
    "n_questions": 10,
    "leaks": Leaks(
        accuracy_without=0.5,
        accuracy_without_ci95=(0.4, 0.6),
        score_without=0.5,
        score_without_ci95=(0.4, 0.6),
        n_without=8,
        n_questions=2,
        results=tuple(
            LeakedResult(sample_id="q1", epoch=1, tool="read_page", source=f"https://{n}.example") for n in (1, 2, 1)
        ),
    ),
    "blocked_pages": BlockedPages(n=3, hosts={"a.example": 2, "b.example": 1}),
    "usage": USED,
    "scorer_usage": Usage(lm_calls=12, input_tokens=100, output_tokens=20, cost_usd=0.01),
    "unfinished": Usage(lm_calls=3, cost_usd=0.02),
    "calls_by_tool": {"python": 40, "read_page": 49},
    "tool_errors": {"python": 4},
    "reviews_by_agent": {
        "expert": Reviews(reviews=9, rejected=4, retried=3, recovered=2),
        "planner": Reviews(reviews=5, rejected=0, retried=0, recovered=0),
    },
    "waited_seconds": 0.05,
    "peak_memory_mb": 1_300.4,
    "wall_seconds": 75.0,
    "pace_history": (
        PaceChange(seconds=1, pace=4, reason="growth"),
        PaceChange(seconds=2, pace=3, reason=RATE_LIMIT),
        PaceChange(seconds=3, pace=2, reason=RATE_LIMIT),
    ),
    "sessions": (SessionSummary(), SessionSummary(changes={"model.name": "a → b"})),
}


def notes(**facts: Any) -> dict[str, str]:
    return dict(list_notes(replace(summarise([], RunDetails(run_id="run-1")), **facts)))


def test_every_note_of_a_run_in_which_everything_happened() -> None:
    assert notes(**EVERYTHING) == {
        "stopped": "a budget",
        "incomplete": (
            "7 right of 12 answered, 6 of 20 not run; what has no answer yet counts as wrong, so the "
            "accuracy is a floor"
        ),
        "errors": "timeout 2",
        "first error, timeout": "it took long",
        "infrastructure errors": "2 (of the wrong answers; run again with run.resume=RUN run.retry_errors=true)",
        "ended by a limit": "tokens 3",
        "retried": "4 after an error, 3 of them without one now; on first tries the accuracy was at least 35.0%",
        "format loss": "2 wrong only in format (counted as wrong)",
        "the judge agrees": (
            "with the GAIA rule in 75.0% (kappa 0.50); with exact text in 50.0% (kappa n/a), on 12 answers"
        ),
        "the judge and people": "no human labels yet; python eval/view.py has a queue for them",
        "unscored": "1 without a gold answer, outside the accuracy",
        "left out": (
            "1 answer of questions or epochs that the run's plan no longer has; only their calls and cost count"
        ),
        "skipped": "2 unreadable rows of the dataset, outside every number above",
        "benchmark leaks": (
            "2 questions met a page that gives the benchmark away: https://1.example; "
            "https://2.example; accuracy without them: at least 50.0% of 8 (40.0% to 60.0%)"
        ),
        "blocked pages": "3: a.example 2, b.example 1",
        "epochs": "2 of each of 10 questions; pass@k, pass^k and the majority vote need all answers",
        "calls": (
            "1,234 to language models (of which 5 sent again, 6 replayed from before an interruption, "
            "7 from the shared cache), 89 to tools (of which 10 answered before in this run, 11 from "
            "the shared cache)"
        ),
        "tool results": "11 tool results come from other runs (cache.tools=shared), the oldest of 2026-11-01",
        "failed tool calls": "python 4 of 40",
        "rejected work": "expert 4 of 9 reviews (2 of 3 retries approved in the end)",
        "tokens": "5,000 in, 600 out",
        "judging": "12 calls, tokens 100 in, 20 out and $0.0100, in no other number here",
        "cost": "$0.5000",
        "unfinished questions": "3 calls, $0.0200; outside the numbers above until the run is resumed",
        "waited": "0.1 s for rate limits, free places and retries, of all questions together",
        "rate": "limited 2 times by the server; paced to 2 to 3 requests a second",
        "sessions": "2: the run was resumed",
        "configuration changed": "model.name: a → b",
        "time": "75.0 s",
        "memory": "1,300 MB at most, without that of its helper processes",
    }


def test_a_run_in_which_nothing_happened_has_five_notes() -> None:
    assert notes() == {
        "errors": "none",
        "calls": "0 to language models, 0 to tools",
        "tokens": "0 in, 0 out",
        "cost": "n/a",
        "time": "0.0 s",
    }


@pytest.mark.parametrize(
    ("changes", "name", "note"),
    [
        ({"waited_seconds": 0.049}, "waited", None),
        ({"pace_history": EVERYTHING["pace_history"][:2]}, "rate", "once"),
        ({"pace_history": EVERYTHING["pace_history"][:1]}, "rate", None),
        ({"sessions": (SessionSummary(),)}, "sessions", None),
        ({"sessions": (SessionSummary(),)}, "configuration changed", None),
        ({"epochs": 1}, "epochs", None),
        ({"incomplete": False}, "incomplete", None),
        ({"retried": Retried(n=0, recovered=0, accuracy_first_tries=None)}, "retried", None),
        ({"scorer_usage": Usage(lm_calls=2)}, "judging", "2 calls, tokens 0 in, 0 out, in no other"),
        ({"n_not_run": 0}, "incomplete", "7 right of 12 answered; what"),
        ({"n_scored": 0}, "incomplete", "12 answered, 6 of 20 not run"),
        ({"usage": replace(USED, cached_tool_calls=1)}, "tool results", "1 tool result comes from"),
        ({"usage": replace(USED, cached_tool_calls=0)}, "tool results", None),
        ({"errors_by_class": {"not_run": 6}}, "errors", "none"),
        ({"blocked_pages": BlockedPages(n=7, hosts={f"{n}.example": 1 for n in range(7)})}, "blocked pages", "more"),
        ({"leaks": replace(EVERYTHING["leaks"], n_questions=1)}, "benchmark leaks", "1 question met a page"),
    ],
)
def test_a_note_depends_on_its_facts(changes: dict[str, Any], name: str, note: str | None) -> None:
    found = notes(**{**EVERYTHING, **changes}).get(name)
    assert (found is None) if note is None else note in str(found)


OVERLAP = TuningOverlap(
    accuracy_without=0.5, accuracy_without_ci95=(0.4, 0.6), score_without=0.5, score_without_ci95=(0.4, 0.6),
    n_without=8, prompts="mine", n_questions=2, n_all=10, n_unscored=0, edited=(), n_learnt_from=1, n_picked_by=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        (
            {},
            (
                "2 of the 10 questions were used to tune mine (1 for training, 1 for validation), so the "
                "accuracy is inflated; accuracy without them: 50.0% of 8 (40.0% to 60.0%)"
            ),
        ),
        (
            {"n_questions": 1},
            (
                "1 of the 10 questions was used to tune mine (1 for training, 1 for validation), so the "
                "accuracy is inflated; accuracy without it: 50.0% of 8 (40.0% to 60.0%)"
            ),
        ),
        (
            {"n_questions": 10},
            "all 10 questions were used to tune mine (1 for training, 1 for validation), so the accuracy is inflated",
        ),
        (
            {"n_questions": 1, "n_all": 1},
            "the one question was used to tune mine (1 for training, 1 for validation), so the accuracy is inflated",
        ),
        ({"n_questions": 0}, "none of the 10 questions was used to tune mine"),
        ({"n_questions": 0, "n_all": 1}, "the one question was not used to tune mine"),
        (
            {"edited": ("mine",)},
            (
                "2 of the 10 questions were used to tune mine (1 for training, 1 for validation), so the "
                "accuracy is inflated; accuracy without them: 50.0% of 8 (40.0% to 60.0%); tuned_on.json "
                "of mine was edited or removed: which questions it was tuned on is not known"
            ),
        ),
        (
            {"edited": ("mine",), "n_questions": None},
            "tuned_on.json of mine was edited or removed: which questions it was tuned on is not known",
        ),
    ],
)
def test_samples_that_the_prompts_were_tuned_on_are_counted(changes: dict[str, Any], note: str) -> None:
    assert describe_tuned_on(replace(OVERLAP, **changes)) == note


def test_the_agreement_of_a_judge_with_people_has_its_interval_or_says_which_labels_are_missing() -> None:
    whole = HumanAgreement(n=50, n_accepted=20, n_confirmed=45, share=0.9, kappa=0.72, kappa_ci95=(0.44, 0.87))
    text = describe_human_agreement(whole)
    assert text.startswith("Cohen's kappa 0.72 (95% interval 0.44 to 0.87), 50 labelled answers (20 that the judge")
    part = HumanAgreement(n=3, n_accepted=0, n_confirmed=2, share=None, kappa=None, kappa_ci95=None)
    assert describe_human_agreement(part).endswith("label also some that it accepted for Cohen's kappa")


REVIEW = HumanReview(
    n_corrected=0, n_accepted=0, n_rejected=0, n_ambiguous=0, n_bad_questions=0, n_pending=2, accuracy_before=None,
    score_before=None, corrections=(), accuracy_without=None, accuracy_without_ci95=None, n_without=5,
)  # fmt: skip


def test_labels_that_wait_are_named_with_the_command_that_applies_them() -> None:
    facts = replace(summarise([], RunDetails(run_id="run-1")), human_review=REVIEW)
    assert dict(list_notes(facts))["reviewed by people"] == (
        "2 answers with a label that is not applied yet; "
        "apply all with python eval/rescore.py outputs gold=outputs/gold"
    )


def test_a_review_says_what_it_changed_and_how_much_depends_on_unfair_questions() -> None:
    review = replace(
        REVIEW, n_corrected=1, n_accepted=2, n_rejected=3, n_ambiguous=1, n_bad_questions=1, n_pending=0,
        score_before=0.25, score_without=0.5, score_without_ci95=(0.25, 0.75),
    )  # fmt: skip
    summary = summarise([], RunDetails(run_id="run-1"))
    assert describe_review(review, summary) == (
        "1 target corrected, 2 answers accepted, 3 rejected; before, the accuracy was 25.0%; "
        "1 ambiguous and 1 bad question, which count: accuracy without them: 50.0% of 5 (25.0% to 75.0%)"
    )
    only_bad = replace(review, n_ambiguous=0, score_before=None)
    assert describe_review(only_bad, replace(summary, incomplete=True)) == (
        "0 ambiguous and 1 bad question, which count: accuracy without it: at least 50.0% of 5 (25.0% to 75.0%)"
    )


VERDICT = HumanVerdict("v1", "gold_wrong", "Mora", "2026-11-21T08:15:42+00:00", "night")


@pytest.mark.parametrize(
    ("changes", "rest"),
    [
        ({}, "the scorer had given no score"),
        ({"score_before": 0.5}, "the scorer had given a score of 0.5"),
        ({"is_applied": False, "note": "see page 3"}, "not applied yet; note: see page 3"),
        (
            {"target": "8", "target_before": "7", "score_before": 0},
            "gold answer '7' corrected to '8'; the scorer had given a score of 0",
        ),
    ],
)
def test_a_verdict_names_its_person_and_what_it_changed(changes: dict[str, Any], rest: str) -> None:
    told = describe_verdict(replace(VERDICT, **changes))
    assert told == f"gold wrong: Mora, 2026-11-21 08:15 UTC, who saw it in night; {rest}"


CRITIC = CriticNumbers(
    judges=("expert", "researcher"), is_exact=True, n_reviews=9, approved_right=3, misses=2, false_alarms=1, hits=3,
    n_unknown=0, precision=0.75, precision_ci95=(0.3, 0.95), recall=0.6, recall_ci95=None, n_rejecting=1, n_recovered=1,
    lm_calls=9, input_tokens=1_000, output_tokens=234, cost_usd=0.5, seconds=12.34,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({}, ""),
        ({"n_unknown": 2}, " (2 unknown)"),
        ({"is_exact": False, "n_unknown": 2}, " (judged by attribution, an approximation; 2 unknown)"),
        ({"is_exact": False}, " (judged by attribution, an approximation; 0 unknown)"),
    ],
)
def test_a_critic_is_told_by_what_it_found_and_missed(changes: dict[str, Any], unknown: str) -> None:
    assert describe_critic(replace(CRITIC, **changes)) == (
        f"9 reviews of expert, researcher{unknown}; 3 of 4 rejections justified (30.0% to 95.0%); 3 of 5 faults found; "
        "2 missed, 1 false alarm; 1 of 1 answer right in the end after a rejection; cost $0.5000, 1,234 tokens, 12.3 s"
    )


def test_labels_are_told_with_the_one_of_the_lowest_f1() -> None:
    def label(n: int, f1: float | None) -> LabelNumbers:
        return LabelNumbers(
            n=n, n_given=1, precision=0.5, precision_ci95=None, recall=0.25, recall_ci95=None, f1=f1, f1_ci95=None
        )

    by_label = {"z": label(3, 0.2), "a": label(2, 0.9), "never": label(0, None)}
    labels = LabelSummary(
        macro_f1=0.55, macro_f1_ci95=(0.4, 0.7), n_other=1, n_no_answer=1, by_label=by_label, confusion={}
    )
    lowest = "lowest: z, F1 20.0% (precision 50.0%, recall 25.0%)"
    assert describe_labels(labels, incomplete=False) == (
        f"macro F1 55.0% (40.0% to 70.0%) over 2 labels; {lowest}; "
        "1 answer is no label; 1 sample without a scored answer, counted as missed"
    )
    few = replace(labels, macro_f1_ci95=None, n_other=2, n_no_answer=0)
    assert describe_labels(few, incomplete=True) == (
        f"macro F1 55.0% so far over 2 labels; {lowest}; 2 answers are no label"
    )
    assert describe_labels(replace(few, n_other=0), incomplete=True) == f"macro F1 55.0% so far over 2 labels; {lowest}"
    by_label["a"] = label(2, None)
    assert "lowest: a, F1 n/a" in describe_labels(few, incomplete=True)
    for none in (replace(labels, macro_f1=None), replace(labels, by_label={"never": label(0, 0.5)})):
        assert describe_labels(none, incomplete=False) == "no answer has one of the labels as its target"


def test_shares_intervals_points_and_costs_are_written_with_their_digits_or_as_unknown() -> None:
    assert [format_percent(share) for share in (0.1234, 1.0, 0.0, None)] == ["12.3%", "100.0%", "0.0%", "n/a"]
    assert [format_floor(0.5, incomplete) for incomplete in (True, False)] == ["at least 50.0%", "50.0%"]
    assert [format_floor(None, incomplete) for incomplete in (True, False)] == ["n/a", "n/a"]
    assert [format_interval(bounds) for bounds in ((0.25, 0.75), None)] == ["25.0% to 75.0%", "n/a"]
    assert [format_points(difference) for difference in (0.125, -0.3, 0.0)] == ["+12.5", "-30.0", "+0.0"]
    assert [format_usd(cost) for cost in (1_234.56789, 0.0, None)] == ["$1,234.5679", "$0.0000", "n/a"]


def test_changes_of_a_session_are_listed_and_a_session_without_any_has_none() -> None:
    assert format_changes(SessionSummary(changes={"a": "1 → 2", "b": "x → y"})) == "a: 1 → 2; b: x → y"
    assert format_changes(SessionSummary()) == ""


def epochs(n: int, icc: float = 0.25) -> EpochNumbers:
    shares = {str(k): Estimate(value=0.5, ci95=None) for k in range(1, n + 1)}
    vote = Estimate(value=0.75, ci95=(0.5, 0.875))
    return EpochNumbers(n_questions=4, icc=icc, pass_at=shares, pass_hat={}, majority=vote)


def test_of_more_than_six_k_the_powers_of_two_and_the_last_are_shown() -> None:
    assert select_ks(epochs(6)) == ["1", "2", "3", "4", "5", "6"]
    assert select_ks(epochs(7)) == ["1", "2", "4", "7"]
    assert select_ks(epochs(8)) == ["1", "2", "4", "8"]


def test_a_title_names_a_scorer_that_is_not_the_usual_one_and_a_run_without_folder_by_its_id() -> None:
    run = RunFacts(run_id="r1", **{**vars(NAMES), "scorer": "judge", "folder": None, "system": None, "data": None})
    assert format_title(run) == "small · prompts baseline · scorer judge · r1"
    long = format_title(RunFacts(run_id="x" * 61))
    assert (long, format_title(RunFacts(run_id="x" * 60))) == ("x" * 59 + "…", "x" * 60)


@pytest.mark.parametrize(
    ("info", "name", "fact"),
    [
        (RunInfo(config={"system": {"target": "my.module:build"}}), "system", "gaia (my.module:build)"),
        (RunInfo(config={"system": {"agents": {"a": "text", "b": {"model": "big"}}}}), "model", "small; b: big"),
        (RunInfo(config={"system": {"agents": None}}), "model", "small"),
        (RunInfo(), "prompts", "baseline"),
        (
            RunInfo(task=TaskInfo(data_revision="0123456789abcdef")),
            "questions",
            "sample, split val, revision 0123456789ab: 0",
        ),
        (RunInfo(origin={"mlflow.source.git.commit": "abc"}), "harness", "commit abc"),
        (
            RunInfo(origin={"mlflow.source.git.commit": "abc", "mlflow.source.git.dirty": "false"}),
            "harness",
            "commit abc",
        ),
        (RunInfo(origin={"mlflow.source.git.dirty": "true"}), "harness", None),
        (RunInfo(), "date", None),
        (RunInfo(gold_informed="control"), NO_MEASUREMENT, RunInfo(gold_informed="control").describe_gold()),
        (RunInfo(), NO_MEASUREMENT, None),
    ],
)
def test_a_fact_of_a_run_depends_on_what_it_recorded(info: RunInfo, name: str, fact: str | None) -> None:
    assert lines(info, names=NAMES).get(name) == fact


def test_a_run_without_split_or_with_one_epoch_does_not_name_them() -> None:
    assert lines(RunInfo(), names=replace(NAMES, split=None), epochs=1)["questions"] == "sample: 0"
    assert lines(RunInfo(), names=replace(NAMES, split=None), epochs=2)["questions"] == "sample: 0, 2 epochs"


def extra(n_failed: int = 0, first_error: str | None = None) -> ExtraNumbers:
    bounds = (0.25, 0.75) if n_failed else None
    return ExtraNumbers(
        metric="mean score", score=0.5, score_ci95=bounds, n_scored=12, n_failed=n_failed, first_error=first_error
    )


def lost(points: float, kind: str = "agent", name: str = "expert", exact: bool = True) -> LostPoints:
    bounds = None if exact else (0.1, 0.4)
    return LostPoints(kind=kind, name=name, n=3, points=points, points_ci95=bounds)


GRADED: dict[str, Any] = {
    "metric": "mean score",
    "n": 12,
    "n_questions": 4,
    "epochs": 3,
    "accuracy": 0.5,
    "accuracy_ci95": (0.25, 0.75),
    "used_to_tune": TuningOverlap(
        accuracy_without=0.1, accuracy_without_ci95=None, score_without=0.6, score_without_ci95=None, n_without=9,
        prompts="mine", n_questions=1, n_all=4, n_unscored=2, edited=(), n_learnt_from=1, n_picked_by=0,
    ),
    "attribution": (lost(0.25, exact=False), lost(0.125, "tool", "search"), lost(0.0625, "error", "not_run")),
    "critics": {},
    "labels": LabelSummary(macro_f1=None, macro_f1_ci95=None, n_other=0, n_no_answer=0, by_label={}, confusion={}),
    "by_tag": {"source": {"web": None, "(3 other values)": None}, "year": {"1": None}},
    "parts": {
        "tables": PartNumbers(score=0.5, score_ci95=(0.25, 0.75), n=1),
        "text": PartNumbers(score=0.25, score_ci95=None, n=2),
    },
    "extra_scorers": {"plain": extra(), "judge": extra(2, "no\nreply " + "x" * 300)},
    "human_review": HumanReview(
        n_corrected=2, n_accepted=1, n_rejected=0, n_ambiguous=0, n_bad_questions=0, n_pending=1, accuracy_before=0.1,
        score_before=0.25, corrections=(), accuracy_without=None, accuracy_without_ci95=None, n_without=0,
    ),
    "by_epochs": epochs(3),
    "usage": Usage(lm_calls=4, input_tokens=1_000, cached_input_tokens=2_000, output_tokens=3, cost_usd=0.25),
    "simulated": True,
}  # fmt: skip


def test_every_note_of_a_graded_run_of_several_epochs() -> None:
    assert notes(**GRADED) == {
        "tuned on": (
            "1 of the 4 questions with a gold answer was used to tune mine (1 for training, 0 for validation), so the "
            "mean score is inflated; mean score without it: 60.0% of 9"
        ),
        "errors": "none",
        "points lost": "expert 25.0 (10 to 40), tool search 12.5, not run 6.2; of 100, by the first broken link",
        "fully right": "50.0% (25.0% to 75.0%) of the answers; the mean score counts partly right ones in part",
        "labels": "no answer has one of the labels as its target",
        "by source": "the 30 values with the most questions are shown, and (3 other values) as one row",
        "part tables": "50.0% (25.0% to 75.0%) of 1 answer",
        "part text": "25.0% of 2 answers",
        "scored by plain": "mean score 50.0%",
        "scored by judge": (
            "mean score 50.0% (25.0% to 75.0%); 2 answers could not be scored and count as 0: "
            f"no reply {'x' * (MAX_ERROR_CHARS - 10)}…"
        ),
        "reviewed by people": (
            "2 targets corrected, 1 answer accepted, 0 rejected; before, the mean score was 25.0%; "
            "1 answer with a label that is not applied yet; apply all with python eval/rescore.py outputs "
            "gold=outputs/gold"
        ),
        "epochs": "3 of each of 4 questions; the interval is clustered by question (ICC 0.25)",
        "majority vote": "75.0% (50.0% to 87.5%)",
        "calls": "4 to language models, 0 to tools",
        "tokens": "1,000 in (2,000 cached by the provider), 3 out",
        "cost": "$0.2500 (simulated)",
        "time": "0.0 s",
    }


@pytest.mark.parametrize(
    ("changes", "name", "note"),
    [
        ({"incomplete": True}, "part text", "at least 25.0% of 2 answers"),
        ({"incomplete": True}, "scored by plain", "mean score at least 50.0%"),
        (
            {"incomplete": True, "accuracy_ci95": None},
            "fully right",
            "at least 50.0% of the answers; the mean score counts partly right ones in part",
        ),
        ({"metric": ACCURACY}, "fully right", None),
        ({"used_to_tune": None}, "tuned on", None),
        ({"attribution": None}, "points lost", None),
        (
            {"attribution": tuple(lost(0.125, name=f"a{n}") for n in range(6))},
            "points lost",
            f"{', '.join(f'a{n} 12.5' for n in range(6))}; of 100, by the first broken link",
        ),
        (
            {"attribution": tuple(lost(0.125, name=f"a{n}") for n in range(8))},
            "points lost",
            f"{', '.join(f'a{n} 12.5' for n in range(6))}, 2 more 25.0; of 100, by the first broken link",
        ),
        ({"by_epochs": None, "epochs": 2}, "epochs", "2 of each of 4 questions"),
        ({"by_epochs": None, "epochs": 2}, "majority vote", None),
        ({"epochs": 1}, "majority vote", None),
        ({"simulated": False}, "cost", "$0.2500"),
        ({"peak_memory_mb": 0.0}, "memory", None),
        ({"n_outside_plan": 2}, "left out", "2 answers of questions or epochs that the run's plan no longer has; only "
            "their calls and cost count"),
        ({"n_bad_rows": 1}, "skipped", "1 unreadable row of the dataset, outside every number above"),
        ({"n_unscored": 0}, "unscored", None),
        ({"errors_by_class": {"a": 1, "b": 2}}, "errors", "a 1, b 2"),
        ({"first_errors": {"a": "x" * 241}}, "first error, a", "x" * 239 + "…"),
        ({"first_errors": {"a": "x" * 240}}, "first error, a", "x" * 240),
        ({"blocked_pages": BlockedPages(n=3, hosts={"a": 1, "b": 1, "c": 1})}, "blocked pages", "3: a 1, b 1, c 1"),
        ({"blocked_pages": BlockedPages(n=5, hosts=dict.fromkeys("abcde", 1))}, "blocked pages",
            "5: a 1, b 1, c 1, 2 more"),
        ({"usage": Usage(lm_calls=0)}, "cost", "n/a"),
        ({"usage": Usage(lm_calls=1, output_tokens=5, unknown_cost_calls=1)}, "cost", "n/a (price of small unknown)"),
        ({"usage": Usage(lm_calls=1, output_tokens=5, unknown_cost_calls=1), "model": None}, "cost",
            "n/a (price of the model unknown)"),
        ({"usage": Usage(lm_calls=1, unknown_cost_calls=1)}, "cost", "n/a (1 call of unknown cost)"),
        ({"usage": Usage(lm_calls=1_000, output_tokens=5, unknown_cost_calls=1_000, known_cost_usd=0.5)}, "cost",
            "at least $0.5000 (1,000 calls of unknown cost)"),
        ({"usage": Usage(lm_calls=1)}, "cost", "n/a (price of small unknown)"),
        ({"unfinished": Usage(lm_calls=2, unknown_cost_calls=2)}, "unfinished questions",
            "2 calls, n/a (2 calls of unknown cost); outside the numbers above until the run is resumed"),
        ({"unfinished": None}, "unfinished questions", None),
        ({"scorer_usage": Usage(lm_calls=1_000, known_cost_usd=0.5, unknown_cost_calls=1)}, "judging",
            "1,000 calls, tokens 0 in, 0 out and at least $0.5000 (1 call of unknown cost), in no other number here"),
        ({"scorer_usage": Usage(lm_calls=0)}, "judging", None),
        ({"usage": Usage(cached_tool_calls=1, tool_calls=1, oldest_cached_tool_result="2026-11-01T08")}, "tool results",
            "1 tool result comes from other runs (cache.tools=shared), the oldest of 2026-11-01"),
        ({"sessions": (SessionSummary(changes={"a": "1"}), SessionSummary(changes={"b": "2"}))},
            "configuration changed", "a: 1; b: 2"),
        ({"reviews_by_agent": {"e": Reviews(reviews=2, rejected=0, retried=0, recovered=0)}}, "rejected work", None),
        ({"leaks": replace(EVERYTHING["leaks"], n_questions=1)}, "benchmark leaks",
            "1 question met a page that gives the benchmark away: https://1.example; https://2.example; "
            "mean score without it: 50.0% of 8 (40.0% to 60.0%)"),
        ({"waited_seconds": 1_234.56}, "waited",
            "1,234.6 s for rate limits, free places and retries, of all questions together"),
        ({"wall_seconds": 1_234.56}, "time", "1,234.6 s"),
        ({"pace_history": (
            PaceChange(seconds=1, pace=9, reason="growth"), PaceChange(seconds=2, pace=1_234.5, reason=RATE_LIMIT),
        )}, "rate", "limited once by the server; paced to 1.23e+03 to 1.23e+03 requests a second"),
    ],
)  # fmt: skip
def test_a_note_of_a_graded_run_depends_on_its_facts(changes: dict[str, Any], name: str, note: str | None) -> None:
    assert notes(**{**GRADED, "model": "small", **changes}).get(name) == note


def test_a_critic_and_an_agent_have_their_names_cut() -> None:
    found = notes(critics={"c" * 61: CRITIC}, attribution=(lost(0.5, name="a" * 61),))
    assert found[f"critic {'c' * 59}…"] == describe_critic(CRITIC)
    assert found["points lost"].startswith(f"{'a' * 59}… 50.0;")


@pytest.mark.parametrize(("n_accepted", "missing"), [(3, "rejected"), (0, "accepted")])
def test_labels_of_one_kind_alone_have_no_kappa(n_accepted: int, missing: str) -> None:
    part = HumanAgreement(n=3, n_accepted=n_accepted, n_confirmed=2, share=None, kappa=None, kappa_ci95=None)
    assert describe_human_agreement(part) == (
        f"3 labelled answers ({n_accepted} that the judge accepted, {3 - n_accepted} that it rejected), 2 with the "
        f"judge's verdict; label also some that it {missing} for Cohen's kappa"
    )
    assert "for Cohen's kappa" in describe_human_agreement(replace(part, kappa=0.5))
    whole = replace(part, n=1, kappa=0.5, kappa_ci95=(0.25, 0.75))
    assert describe_human_agreement(whole) == (
        f"Cohen's kappa 0.50 (95% interval 0.25 to 0.75), 1 labelled answer ({n_accepted} that the judge accepted, "
        f"{1 - n_accepted} that it rejected), 2 with the judge's verdict"
    )
