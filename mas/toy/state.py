"""What is known of one question while the toy system works on it."""

from typing import TypedDict


class ToyState(TypedDict):
    question: str
    correlation_id: str
    steps: list[str]
    working: str
    result: str
    final_answer: str
    final_reasoning_trace: str


def initial_state(question: str, correlation_id: str) -> ToyState:
    """Everything empty but the question.

    Raises:
        ValueError: so is the question.
    """
    if not question.strip():
        raise ValueError("no question was given to the system; expected some text")
    return ToyState(
        question=question,
        correlation_id=correlation_id,
        steps=[],
        working="",
        result="",
        final_answer="",
        final_reasoning_trace="",
    )
