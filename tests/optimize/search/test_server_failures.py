"""When a model server that fails answers is taken to be down."""

from collections.abc import Sequence

from eval.runs.record import Record
from optimize.gate.failed_answers import exceeds_failure_limit, max_failing_questions
from optimize.search.server_failures import MIN_FAILURES, FailuresInARow


def failed(question: int = 0, attempt: int = 1) -> Record:
    return Record(
        "r", f"q{question}", 1, attempt, "t", "?", None, "1", "17", error="500", error_class="infrastructure"
    )  # fmt: skip


ANSWERED = Record("r", "q0", 1, 1, "t", "?", None, "1", "17", answer="17", score=1.0)


def told(records: Sequence[Record], always_failing: int = 0) -> list[str | None]:
    """After each."""
    failures = FailuresInARow(1, always_failing)
    return [failures.observe(record) for record in records]


def test_a_question_that_fails_again_and_again_is_no_sign_that_the_server_is_down() -> None:
    again = failed(attempt=2)
    records = [*[again] * 3 * MIN_FAILURES, *[failed()] * (MIN_FAILURES - 1), again, failed()]
    *before, last = told(records)
    assert before == [None] * len(before), "nor that it is up"
    assert last == f"the model's server has failed {MIN_FAILURES} answers in a row (500)"


def test_different_questions_that_all_fail_again_are_a_sign_that_the_server_is_down() -> None:
    records = [failed(question, attempt) for question in range(MIN_FAILURES) for attempt in (2, 3)][:-1]
    *before, last = told(records)
    assert before == [None] * len(before)
    assert last == f"the model's server has failed {MIN_FAILURES} questions in a row once more (500)"
    assert told([*records[:-1], ANSWERED, records[-1]])[-1] is None, "one was answered in between"


def test_as_many_questions_as_a_verdict_may_do_without_can_fail_each_time() -> None:
    most, epochs = max_failing_questions(n_questions=100), 5
    *before, last = told([failed(question, attempt=2) for question in range(most + 1)], always_failing=most)
    assert before == [None] * most
    assert last is not None
    assert not exceeds_failure_limit(most * epochs, n_answers=100 * epochs * 2), "one side's answers to each"
    assert exceeds_failure_limit((most + 1) * epochs, n_answers=100 * epochs * 2)
