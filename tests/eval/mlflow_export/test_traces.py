import json
from typing import Any

import mlflow.entities
import pytest

from eval.mlflow_export.traces import build_trace, format_request_preview
from eval.runs.record import Record, Usage
from mas.runtime.trace import Trace, record_trace, span
from tests.eval.mlflow_export.records import a_record, call


def made(record: Record) -> mlflow.entities.Trace:
    return build_trace(record, experiment_id="7", run_id="mlflow-run")


def tree(found: mlflow.entities.Trace) -> list[tuple[str, str, str | None]]:
    """Name, type and parent's name of each span, in order."""
    names = {span.span_id: span.name for span in found.data.spans}
    return [(each.name, each.span_type, names[each.parent_id] if each.parent_id else None) for each in found.data.spans]


def feedback(found: mlflow.entities.Trace) -> dict[str, Any]:
    return {each.name: each.value for each in found.info.assessments}


def test_a_call_has_its_conversation_tokens_and_cost() -> None:
    lm = made(a_record()).data.spans[2]
    assert lm.inputs["messages"][1] == {"role": "user", "content": "What is 17 * 23?"}
    assert lm.outputs["choices"][0]["message"]["content"] == "391"
    assert lm.get_attribute("mlflow.message.format") == "openai"
    assert lm.get_attribute("mlflow.chat.tokenUsage") == {
        "input_tokens": 100, "output_tokens": 10, "total_tokens": 110, "cache_read_input_tokens": 40,
    }  # fmt: skip
    assert lm.llm_cost == {"input_cost": 0.0, "output_cost": 0.0, "total_cost": 0.002}
    assert (lm.model_name, lm.get_attribute("mlflow.llm.provider")) == ("gpt-4o-mini", "openai")
    assert lm.get_attribute("cost_unknown") is None
    assert lm.get_attribute("finish_reason") == "stop"


def test_an_unknown_cost_is_zero_and_says_so() -> None:
    trace = Trace("t")
    with record_trace(trace), span("question", "q"):
        call(cost_usd=None, model="local")
    found = made(a_record(trajectory=[vars(each) for each in trace.spans], usage=Usage(lm_calls=1)))
    lm = found.data.spans[1]
    assert lm.llm_cost == {"input_cost": 0.0, "output_cost": 0.0, "total_cost": 0.0}
    assert lm.get_attribute("cost_unknown") is True
    assert (lm.name, lm.get_attribute("mlflow.llm.provider")) == ("local", None)
    assert found.info.tags["harness.cost_usd"] == "n/a"


def test_decisions_are_events() -> None:
    found = made(a_record())
    events = [(each.name, [event.name for event in each.events]) for each in found.data.spans]
    assert events[0] == ("question", ["step"]), "the orchestrator's own span would be empty"
    assert events[2:5] == [("gpt-4o-mini", []), ("gpt-4o-mini", []), ("expert", [])]
    decision = found.data.spans[7].events[0]
    assert (decision.name, decision.attributes["decision"]) == ("decision", "reject")
    assert found.data.spans[0].events[0].attributes["step"] == "expert"
    assert found.data.spans[3].get_attribute("attempt") == 2


def failed_record(**changes: Any) -> Record:
    trace = Trace("t")
    with record_trace(trace), pytest.raises(ValueError, match="no"), span("question", "q1"), span("tool", "calculator"):
        raise ValueError("no number")
    given: dict[str, Any] = {
        "error": "the tool calculator failed: no number", "error_class": "tool", "answer": None, "score": None,
        "explanation": "", "parts": {}, "trajectory": [vars(each) for each in trace.spans],
    }  # fmt: skip
    return a_record(**(given | changes))


def test_an_error_is_the_trace_s_state_and_an_exception_event() -> None:
    found = made(failed_record())
    assert found.info.state.value == "ERROR"
    assert [each.status.status_code.value for each in found.data.spans] == ["ERROR", "ERROR"]
    (raised,) = found.data.spans[1].events
    assert raised.name == "exception"
    assert raised.attributes == {"exception.type": "ValueError", "exception.message": "ValueError: no number"}
    assert found.info.response_preview == "error: the tool calculator failed: no number"


def test_a_question_in_error_counts_as_wrong() -> None:
    found = made(failed_record())
    assert feedback(found) == {"expected_response": "391", "correct": False, "error_class": "tool"}
    assert found.info.assessments[1].rationale == "error: the tool calculator failed: no number"


def test_an_error_without_an_exception_is_told_on_the_question() -> None:
    found = made(a_record(error="no complete reply: too late", error_class="timeout", score=None))
    about = found.data.spans[0].events[-1].attributes
    assert about == {"exception.type": "timeout", "exception.message": "no complete reply: too late"}


def test_gold_verdict_and_diagnostics_are_assessments() -> None:
    record = a_record(parts={"format_loss": 1.0, "rule": 0.5, "correct": 0.0})
    found = made(record)
    assert feedback(found) == {
        "expected_response": "391", "correct": True, "format_ok": False, "part_rule": 0.5, "part_correct": 0.0,
        "error_class": "none",
    }  # fmt: skip
    correct = found.info.assessments[1]
    assert correct.rationale == "equal numbers"
    assert correct.metadata == {"mlflow.assessment.sourceRunId": "mlflow-run"}
    assert correct.span_id == found.data.spans[0].span_id
    assert all(each.assessment_id.startswith("a-") and len(each.assessment_id) == 34 for each in found.info.assessments)


def test_a_question_without_gold_has_no_verdict() -> None:
    record = a_record(target=None, score=None, parts={})
    assert feedback(made(record)) == {"error_class": "none"}


def test_a_judge_is_named_and_its_span_stands_under_the_question() -> None:
    trace = Trace("t")
    with record_trace(trace):
        with span("question", "q1"):
            call()
        with span("scorer", "GradedScorer"):
            call()
    found = made(a_record(trajectory=[vars(each) for each in trace.spans]))
    assert tree(found)[2:] == [
        ("GradedScorer", "EVALUATOR", "question"),
        ("gpt-4o-mini", "CHAT_MODEL", "GradedScorer"),
    ]
    source = found.info.assessments[1].source
    assert (source.source_type, source.source_id) == ("LLM_JUDGE", "GradedScorer")


@pytest.mark.parametrize(
    ("epoch", "attempt", "end"),
    [
        (1, 1, " · q1"),
        (2, 1, " · q1 · epoch 2"),
        (1, 3, " · q1 · attempt 3"),
        (2, 3, " · q1 · epoch 2 · attempt 3"),
    ],
)
def test_previews_start_with_the_question_and_pair_the_same_draw_of_two_runs(
    epoch: int, attempt: int, end: str
) -> None:
    mine = a_record(epoch=epoch, attempt=attempt)
    assert format_request_preview(mine) == f"What is 17 * 23?{end}"
    assert format_request_preview(mine) == format_request_preview(
        a_record(epoch=epoch, attempt=attempt, run_id="run-2")
    )


def test_the_whole_is_in_metadata_and_tags() -> None:
    info = made(a_record(level="2", file="a.csv")).info
    assert info.trace_metadata["mlflow.sourceRun"] == "mlflow-run"
    assert json.loads(info.trace_metadata["mlflow.trace.tokenUsage"])["total_tokens"] == 550
    assert json.loads(info.trace_metadata["mlflow.trace.cost"])["total_cost"] == pytest.approx(0.01)
    assert info.client_request_id == info.tags["harness.thread_id"] == "thread-q1"
    expected = {"harness.question_id": "q1", "harness.level": "2", "harness.file": "a.csv", "harness.epoch": "1"}
    assert expected.items() <= info.tags.items()
    assert all(len(value) <= 250 for value in info.trace_metadata.values())


def test_a_span_that_was_cut_off_ends_with_the_question() -> None:
    trajectory = [dict(step) for step in a_record().trajectory]
    trajectory[2]["end_seconds"] = None
    record = a_record(trajectory=trajectory, wall_seconds=5.0)
    cut = made(record).data.spans[2]
    assert cut.get_attribute("cut_off") is True
    assert cut.end_time_ns == 1795168800250_000_000 + 5_000_000_000


def test_a_record_without_steps_still_has_its_question() -> None:
    assert tree(made(a_record(trajectory=[]))) == [("question", "CHAIN", None)]
