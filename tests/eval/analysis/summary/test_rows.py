"""The little that a summary keeps of each record, and sums of what was spent."""

from collections.abc import Callable
from dataclasses import asdict, replace

import pytest

from eval.analysis.summary.rows import MAX_ERROR_CHARS, Row, Spending, UsageTotal, build_row, find_given_label
from eval.runs.record import ExtraScore, HumanVerdict, Record, Usage
from eval.scorers.labels import LabelSet

Make = Callable[..., Record]
LABELS = LabelSet(("yes", "no"))


def test_a_failure_keeps_its_class_and_the_beginning_of_its_message(record: Make) -> None:
    row = build_row(record(error="x" * (MAX_ERROR_CHARS + 1), error_class=None, score=None, target="yes"), LABELS)
    assert (row.error_class, row.error, row.vote, row.given_label, row.label) == (
        "unknown",
        "x" * 300,
        None,
        None,
        "yes",
    )
    assert (row.scored, row.correct, row.value) == (True, False, 0.0)
    empty = build_row(record(error="", score=None))
    assert (empty.error_class, empty.error) == ("unknown", "")


def test_an_answer_without_a_target_is_not_scored(record: Make) -> None:
    row = build_row(record(target=None, score=1.0, level=None, limit="tokens"))
    assert (row.scored, row.correct, row.value, row.level, row.limit) == (False, False, 0.0, None, "tokens")
    scored = build_row(record(score=0.5))
    assert (scored.scored, scored.correct, scored.value) == (True, False, 0.5)


def test_remarks_are_no_parts_of_the_score(record: Make) -> None:
    parts = {"format_loss": 1.0, "rule": 1.0, "exact": 0.99, "safety": 1.0, "tables": 0.25}
    row = build_row(record(parts=parts))
    assert (row.parts, row.format_loss, row.judged) == ((("tables", 0.25),), True, (True, False))
    plain = build_row(record(parts={"rule": 1.0, "format_loss": 0.0}))
    assert (plain.format_loss, plain.judged) == (False, None), "a judge gives both verdicts"
    assert build_row(record(parts={"rule": 0.0, "exact": 1.0})).judged == (False, True)
    assert build_row(record(parts=parts, score=None)).judged is None


def test_extra_scores_have_a_value_or_an_error(record: Make) -> None:
    extra = {"f1": ExtraScore(0.5), "judge": ExtraScore(None, error="e" * 400)}
    row = build_row(record(extra_scores=extra))
    assert row.extra == (("f1", 0.5), ("judge", None))
    assert row.extra_errors == (("judge", "e" * 300),)


def test_answers_that_say_the_same_have_one_vote(record: Make) -> None:
    def vote(answer: str | None) -> int | None:
        return build_row(record(answer=answer)).vote

    assert vote("Seventeen") == vote(" seventeen ") != vote("eighteen")
    assert vote(None) is None and vote("") is None


@pytest.mark.parametrize(
    ("answer", "target", "correct", "label"),
    [
        (None, "yes", True, ""),
        (" ", "yes", True, ""),
        ("no", "yes", False, "no"),
        ("surely", "yes", True, "yes"),
        ("surely", "yes", False, None),
    ],
)
def test_a_label_is_the_answer_or_what_the_scorer_took_it_for(
    answer: str | None, target: str, correct: bool, label: str | None
) -> None:
    assert find_given_label(answer, target, correct, LABELS) == label


def total(*usages: Usage) -> Usage:
    made = UsageTotal()
    for each in usages:
        made.add(each)
    return made.total()


def test_a_cost_is_the_whole_or_unknown() -> None:
    paid, unknown, uncalled = Usage(2, cost_usd=0.5, input_tokens=3), Usage(1, input_tokens=4), Usage()
    assert (total(paid, paid).cost_usd, total(paid, paid).lm_calls, total(paid, unknown).input_tokens) == (1.0, 4, 7)
    assert (total(paid, unknown).cost_usd, total(paid, unknown).known_cost_usd) == (None, 0.5)
    assert total(unknown, paid).cost_usd is None, "in any order"
    assert total(paid, uncalled).cost_usd == 0.5, "no call costs nothing"
    assert total().cost_usd is None
    assert total(Usage(1, cost_usd=None, known_cost_usd=0.25), paid).known_cost_usd == 0.75


def test_the_oldest_cached_result_is_kept() -> None:
    dates = [Usage(oldest_cached_tool_result=each) for each in ("2026-02-01", None, "2026-01-01", "2026-03-01")]
    assert total(*dates).oldest_cached_tool_result == "2026-01-01"
    assert total(Usage()).oldest_cached_tool_result is None


def test_every_attempt_adds_to_what_was_spent(record: Make) -> None:
    spent = Spending()
    each = record(
        usage=Usage(1, cost_usd=0.5), scorer_usage=Usage(2, cost_usd=0.25), waited_seconds=1.5,
        calls_by_tool={"search": 2}, tool_errors={"search": 1}, seconds_by_agent={"expert": 2.5},
        reviews={"critic": {"rejected": 1}},
    )  # fmt: skip
    for _ in range(2):
        spent.add(each)
    assert (spent.usage.total().cost_usd, spent.scorer_usage.total().lm_calls, spent.waited_seconds) == (1.0, 4, 3.0)
    assert (spent.calls_by_tool, spent.tool_errors) == ({"search": 4}, {"search": 2})
    assert (spent.seconds_by_agent, spent.reviews) == ({"expert": 5.0}, {"critic": {"rejected": 2}})


def test_a_row_keeps_the_little_that_a_summary_needs(record: Make) -> None:
    verdict = HumanVerdict("1", "right", "ada", "2026-11-21", "night")
    made = record(
        "q7", epoch=2, attempt=3, level="2", target="Yes", answer="no", score=0.25, limit="tokens",
        parts={"tables": 0.5, "format_loss": 0.25}, extra_scores={"f1": ExtraScore(0.75)},
        leaks=[{"tool": "search", "source": "x.org"}, {"tool": "visit", "source": "y.org"}],
        blocked_pages={"z.org": 2}, human=[verdict],
    )  # fmt: skip
    row = build_row(made, LABELS)
    assert row == Row(
        sample_id="q7", epoch=2, attempt=3, level="2", scored=True, correct=False, value=0.25,
        parts=(("tables", 0.5),), extra=(("f1", 0.75),), extra_errors=(), error_class=None, error=None, limit="tokens",
        format_loss=True, judged=None, leaks=(("search", "x.org"), ("visit", "y.org")), blocked_pages=(("z.org", 2),),
        label="yes", given_label="no", human=(verdict,), vote=row.vote,
    )  # fmt: skip
    assert build_row(made).label is build_row(made).given_label is None, "the targets are answers"
    failed = build_row(replace(made, error="it broke", error_class="tool"), LABELS)
    assert (failed.error_class, failed.error, failed.vote, failed.given_label) == ("tool", "it broke", None, None)


def test_all_that_was_used_adds_up_field_by_field() -> None:
    counts = {
        name: place for place, (name, value) in enumerate(asdict(Usage()).items(), 1) if isinstance(value, int)
        and name not in ("cost_usd", "known_cost_usd")
    }  # fmt: skip
    assert {"lm_calls", "tool_calls", "output_tokens", "unknown_cost_calls"} < set(counts)
    once = Usage(**counts, cost_usd=0.25)  # type: ignore[arg-type]
    twice = asdict(total(once, once))
    assert {name: twice[name] for name in counts} == {name: 2 * value for name, value in counts.items()}
    assert (twice["cost_usd"], twice["known_cost_usd"]) == (0.5, 0.5)
