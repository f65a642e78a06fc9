import json
from typing import Any

import pytest

from eval.mlflow_export.assessments import list_assessment_names
from eval.mlflow_export.traces import RecordTrace, build_trace, format_request_preview, list_shown_steps
from eval.runs.record import Record, Usage
from mas.runtime.trace import Trace, event, record_trace, span
from tests.eval.mlflow_export.records import a_record, call


def made(record: Record) -> RecordTrace:
    return build_trace(record, experiment_id="7", run_id="mlflow-run")


def tree(found: RecordTrace) -> list[tuple[str, str, str | None]]:
    """Name, type and parent's name of each span, in order."""
    names = {span.span_id: span.name for span in found.spans}
    return [(each.name, each.span_type, names[each.parent_id] if each.parent_id else None) for each in found.spans]


def feedback(found: RecordTrace) -> dict[str, Any]:
    return {each.name: each.value for each in found.info.assessments}


def test_the_tree_is_the_record_s_own_in_its_order() -> None:
    assert tree(made(a_record())) == [
        ("question", "CHAIN", None),
        ("planner", "AGENT", "question"),
        ("gpt-4o-mini", "CHAT_MODEL", "planner"),
        ("gpt-4o-mini", "CHAT_MODEL", "planner"),
        ("expert", "AGENT", "question"),
        ("gpt-4o-mini", "CHAT_MODEL", "expert"),
        ("calculator", "TOOL", "expert"),
        ("critic_expert", "AGENT", "question"),
        ("gpt-4o-mini", "CHAT_MODEL", "critic_expert"),
        ("gpt-4o-mini", "CHAT_MODEL", "critic_expert"),
        ("critic_expert", "AGENT", "question"),
    ]


def test_times_are_the_record_s() -> None:
    record = a_record()
    found = made(record)
    assert found.info.request_time == 1795168800250
    assert found.info.execution_duration == round(record.wall_seconds * 1000)
    steps = [step for step in record.trajectory if step["kind"] != "orchestrator"]
    for step, shown in zip(steps, found.spans, strict=True):
        assert shown.start_time_ns == 1795168800250_000_000 + round(step["start_seconds"] * 1e9)
        assert shown.end_time_ns - shown.start_time_ns == pytest.approx(
            (step["end_seconds"] - step["start_seconds"]) * 1e9, abs=1
        )


def test_a_call_has_its_conversation_tokens_and_cost() -> None:
    lm = made(a_record()).spans[2]
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
    lm = found.spans[1]
    assert lm.llm_cost == {"input_cost": 0.0, "output_cost": 0.0, "total_cost": 0.0}
    assert lm.get_attribute("cost_unknown") is True
    assert (lm.name, lm.get_attribute("mlflow.llm.provider")) == ("local", None)
    assert found.info.tags["harness.cost_usd"] == "n/a"


def test_retries_decisions_and_limits_are_events() -> None:
    found = made(a_record(limit="lm_calls"))
    events = [(each.name, [event.name for event in each.events]) for each in found.spans]
    assert events[0] == ("question", ["step", "limit reached"]), "the orchestrator's own span would be empty"
    assert events[2:5] == [("gpt-4o-mini", []), ("gpt-4o-mini", ["retry"]), ("expert", [])]
    decision = found.spans[7].events[0]
    assert (decision.name, decision.attributes["decision"]) == ("decision", "reject")
    assert found.spans[0].events[0].attributes["step"] == "expert"
    assert found.spans[0].events[1].attributes == {"limit": "lm_calls"}
    assert found.spans[3].events[0].attributes == {"attempt": 2}


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
    assert [each.status.status_code.value for each in found.spans] == ["ERROR", "ERROR"]
    (raised,) = found.spans[1].events
    assert raised.name == "exception"
    assert raised.attributes == {"exception.type": "ValueError", "exception.message": "no number"}
    assert found.info.response_preview == "error: the tool calculator failed: no number"


def test_a_question_in_error_counts_as_wrong() -> None:
    found = made(failed_record())
    assert feedback(found) == {"expected_response": "391", "correct": False, "error_class": "tool"}
    assert found.info.assessments[1].rationale == "error: the tool calculator failed: no number"


def test_an_error_without_an_exception_is_told_on_the_question() -> None:
    found = made(a_record(error="no complete reply: too late", error_class="timeout", score=None))
    about = found.spans[0].events[-1].attributes
    assert about == {"exception.type": "timeout", "exception.message": "no complete reply: too late"}


def test_gold_verdict_and_diagnostics_are_assessments() -> None:
    record = a_record(parts={"format_loss": 1.0, "rule": 0.5, "correct": 0.0})
    found = made(record)
    assert feedback(found) == {
        "expected_response": "391", "correct": True, "format_ok": False, "rule": 0.5, "part_correct": 0.0,
        "error_class": "none",
    }  # fmt: skip
    assert list(feedback(found)) == list_assessment_names(record)
    correct = found.info.assessments[1]
    assert correct.rationale == "equal numbers"
    assert correct.metadata == {"mlflow.assessment.sourceRunId": "mlflow-run"}
    assert correct.span_id == found.spans[0].span_id
    assert all(each.assessment_id.startswith("a-") and len(each.assessment_id) == 34 for each in found.info.assessments)


def test_a_question_without_gold_has_no_verdict() -> None:
    record = a_record(target=None, score=None, parts={})
    assert feedback(made(record)) == {"error_class": "none"}
    assert list_assessment_names(record) == ["error_class"]


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


def test_equal_questions_have_previews_that_differ_however_long_question_and_id_are() -> None:
    records = [a_record(f"{'q' * n}{end}", question="x" * 4000) for n in (1, 36, 700) for end in "ab"]
    shown = [format_request_preview(each) for each in records]
    assert all(each.startswith("xxxxx") and len(each) == 1000 for each in shown)
    assert len(set(shown[:4])) == 4


def test_an_orchestrator_s_span_stays_if_it_failed_or_has_others_below_it() -> None:
    trace = Trace("t")
    with record_trace(trace), span("question", "q1"):
        with span("orchestrator", "orchestrator", after="planner"):
            event("step", step="expert")
            with span("tool", "calculator"):
                event("inside")
        with span("orchestrator", "orchestrator"):
            event("step", step="finalizer")
        with pytest.raises(ValueError, match="no"), span("orchestrator", "orchestrator"):
            raise ValueError("no")
    found = made(a_record(trajectory=[vars(each) for each in trace.spans]))
    assert [(each.name, [one.name for one in each.events]) for each in found.spans] == [
        ("question", ["step"]),
        ("orchestrator", ["step"]),
        ("calculator", ["inside"]),
        ("orchestrator", ["exception"]),
    ]


def test_ids_are_derived_and_differ_where_the_key_does() -> None:
    first, again = made(a_record()), made(a_record())
    assert first.info.trace_id == again.info.trace_id
    assert [each.span_id for each in first.spans] == [each.span_id for each in again.spans]
    others = [
        made(a_record(**change)) for change in ({"epoch": 2}, {"attempt": 2}, {"run_id": "x"}, {"sample_id": "y"})
    ]
    assert len({each.info.trace_id for each in [first, *others]}) == 5
    assert len({each.spans[0].span_id for each in [first, *others]}) == 5


def test_the_whole_is_in_metadata_and_tags() -> None:
    info = made(a_record(level="2", file="a.csv")).info
    assert info.trace_metadata["mlflow.sourceRun"] == "mlflow-run"
    assert json.loads(info.trace_metadata["mlflow.trace.tokenUsage"])["total_tokens"] == 550
    assert json.loads(info.trace_metadata["mlflow.trace.cost"])["total_cost"] == pytest.approx(0.01)
    assert info.client_request_id == info.tags["harness.thread_id"] == "thread-q1"
    expected = {"harness.question_id": "q1", "harness.level": "2", "harness.file": "a.csv", "harness.epoch": "1"}
    assert expected.items() <= info.tags.items()
    assert all(len(value) <= 250 for value in info.trace_metadata.values())


def test_awkward_values_are_mended_and_huge_texts_cut() -> None:
    trace = Trace("t")
    with record_trace(trace), span("question", "q1"):
        given = {"bad": "a\x00b\ud83d", "long": "x" * 30_000, "n": float("nan"), "huge": 2**70, "deep": [{"k": "é"}]}
        with span("tool", "t\x00ool", inputs=given):
            event("odd", fields={"x": "\ud83d"}, number=float("inf"), text="\x00")
    record = a_record("q\x00", trajectory=[vars(each) for each in trace.spans], question="?" * 4000, answer="\ud83d!")
    found = made(record)
    inputs = found.spans[1].inputs
    assert inputs["bad"] == "a\N{REPLACEMENT CHARACTER}b?"
    assert inputs["long"].startswith("x" * 20_000 + "\n[cut: the first 20000 of 30000 characters")
    assert (inputs["n"], inputs["huge"], inputs["deep"]) == ("nan", str(2**70), [{"k": "é"}])
    attributes = found.spans[1].events[0].attributes
    assert attributes["fields"] == '{"x": "?"}'
    assert (attributes["number"], attributes["text"]) == ("inf", "\N{REPLACEMENT CHARACTER}")
    assert len(found.info.request_preview) == 1000
    assert found.info.response_preview == "?!"
    json.dumps([each.to_dict() for each in found.spans], ensure_ascii=False).encode()


def test_a_span_that_was_cut_off_ends_with_the_question() -> None:
    trajectory = [dict(step) for step in a_record().trajectory]
    trajectory[2]["end_seconds"] = None
    record = a_record(trajectory=trajectory, wall_seconds=5.0)
    cut = made(record).spans[2]
    assert cut.get_attribute("cut_off") is True
    assert cut.end_time_ns == 1795168800250_000_000 + 5_000_000_000


def test_a_record_without_steps_still_has_its_question() -> None:
    assert tree(made(a_record(trajectory=[]))) == [("question", "CHAIN", None)]


def steps(*spans: dict[str, Any], **changes: Any) -> RecordTrace:
    times = {"start_seconds": 1.0, "end_seconds": 2.0}
    given = [{"id": n, "parent": 0 if n else None, **times, **each} for n, each in enumerate(spans)]
    return made(a_record(**{"trajectory": given, "wall_seconds": 4.0, **changes}))


QUESTION = {"kind": "question", "name": "q1", "start_seconds": 0.0, "end_seconds": 4.0}
START = 1795168800250_000_000


def test_every_attribute_of_the_spans_is_set() -> None:
    lm = {"kind": "lm", "name": "other", "attributes": {
        "model": "host/a/b", "input_tokens": 3, "output_tokens": None, "cached_input_tokens": 0, "cost_usd": 0.5,
        "temperature": 0.5, "none": None, "finish_reason": "length"}}  # fmt: skip
    tool = {"kind": "tool", "name": "t", "inputs": {"a": 1}, "outputs": {"b": 2}, "end_seconds": None}
    odd = {"kind": "odd", "name": "o", "inputs": {}, "outputs": {}}
    found = steps(QUESTION, lm, tool, odd, file="a.csv")
    common = {"mlflow.traceRequestId": found.info.trace_id}
    assert [{name: each.get_attribute(name) for name in each.attributes} for each in found.spans] == [
        {**common, "mlflow.spanType": "CHAIN", "mlflow.spanInputs": {"question": "What is 17 * 23?", "file": "a.csv"},
         "mlflow.spanOutputs": {"answer": "391", "reasoning_trace": "By the calculator."}},
        {**common, "mlflow.spanType": "CHAT_MODEL", "mlflow.message.format": "openai", "mlflow.llm.model": "a/b",
         "mlflow.llm.provider": "host", "mlflow.llm.cost": {"input_cost": 0.0, "output_cost": 0.0, "total_cost": 0.5},
         "mlflow.chat.tokenUsage": {"input_tokens": 3, "output_tokens": 0, "total_tokens": 3},
         "mlflow.spanInputs": {"messages": []}, "temperature": 0.5, "finish_reason": "length"},
        {**common, "mlflow.spanType": "TOOL", "mlflow.spanInputs": {"a": 1}, "mlflow.spanOutputs": {"b": 2},
         "cut_off": True},
        {**common, "mlflow.spanType": "UNKNOWN"},
    ]  # fmt: skip
    assert [each.name for each in found.spans] == ["question", "a/b", "t", "o"]
    assert [(each.start_time_ns - START, each.end_time_ns - START) for each in found.spans] == [
        (0, 4_000_000_000), (1_000_000_000, 2_000_000_000), (1_000_000_000, 4_000_000_000),
        (1_000_000_000, 2_000_000_000),
    ]  # fmt: skip
    assert [each.parent_id for each in found.spans] == [None, *[found.spans[0].span_id] * 3]
    assert [each.status.status_code.value for each in found.spans] == ["OK"] * 4
    assert "file" not in steps(QUESTION).spans[0].inputs


def test_a_step_that_began_after_the_answer_and_was_cut_off_ends_when_it_began() -> None:
    late = steps(QUESTION, {"kind": "tool", "name": "t", "start_seconds": 5.0, "end_seconds": None}).spans[1]
    assert late.start_time_ns == late.end_time_ns == START + 5_000_000_000


def test_events_have_their_times_and_their_fields() -> None:
    events = [{"name": "a", "seconds": 1.5, "x": 1, "none": None, "list": [1], "level": "info"}, {"y": "z"}]
    attributes = {"retry": True, "attempt": 2}
    found = steps(
        {**QUESTION, "events": [{"name": "e" * 300, "seconds": 0.5}]},
        {"kind": "tool", "name": "t", "events": events, "attributes": attributes, "error": "OSError: a: b"},
        {"kind": "tool", "name": "u", "end_seconds": None, "error": "gone"},
        limit="tokens", error="it broke", error_class="tool",
    )  # fmt: skip
    shown = [[(each.name, each.timestamp - START, dict(each.attributes)) for each in one.events] for one in found.spans]
    assert shown == [
        [
            ("e" * 249 + "…", 500_000_000, {}),
            ("limit reached", 4_000_000_000, {"limit": "tokens"}),
            ("exception", 4_000_000_000, {"exception.type": "tool", "exception.message": "it broke"}),
        ],
        [
            ("retry", 1_000_000_000, {"attempt": 2}),
            ("a", 1_500_000_000, {"x": 1, "list": "[1]", "level": "info"}),
            ("event", 1_000_000_000, {"y": "z"}),
            ("exception", 2_000_000_000, {"exception.type": "OSError", "exception.message": "a: b"}),
        ],
        [("exception", 4_000_000_000, {"exception.type": "tool", "exception.message": "gone"})],
    ]
    assert [each.status.description for each in found.spans] == ["it broke", "OSError: a: b", "gone"]
    unknown = steps(QUESTION, {"kind": "tool", "name": "t", "error": "gone"}, error="x", error_class=None).spans[1]
    assert unknown.events[0].attributes["exception.type"] == "error"


def test_every_tag_and_fact_of_a_trace_is_set() -> None:
    usage = Usage(lm_calls=5, retries=1, tool_calls=2, input_tokens=30, output_tokens=4, cost_usd=0.25)
    info = steps(
        QUESTION, level=None, epoch=2, attempt=3, file="a.csv", score=0.5, limit="tokens", usage=usage,
        leaks=[{"tool": "t", "source": "s"}], blocked_pages={"a": 2, "b": 1}, thread_id="t" * 60,
    ).info  # fmt: skip
    assert info.tags == {
        "mlflow.traceName": "q1", "harness.run_id": "run-1", "harness.question_id": "q1", "harness.epoch": "2",
        "harness.attempt": "3", "harness.thread_id": "t" * 60, "harness.file": "a.csv", "harness.score": "0.5",
        "harness.limit": "tokens", "harness.leaks": "1", "harness.blocked_pages": "3", "harness.lm_calls": "5",
        "harness.retries": "1", "harness.tool_calls": "2", "harness.cost_usd": "0.25",
    }  # fmt: skip
    assert info.trace_metadata == {
        "mlflow.sourceRun": "mlflow-run", "mlflow.trace_schema.version": "3",
        "mlflow.trace.tokenUsage": '{"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}',
        "mlflow.trace.cost": '{"input_cost": 0.0, "output_cost": 0.0, "total_cost": 0.25}',
    }  # fmt: skip
    assert (info.client_request_id, info.execution_duration, info.experiment_id) == ("t" * 49 + "…", 4_000, "7")
    assert (info.request_time, info.state.value) == (START // 1_000_000, "OK")
    plain = steps(QUESTION, thread_id="", score=0.0, error_component="scorer", error="x", answer=None).info
    assert plain.client_request_id is None and "harness.thread_id" not in plain.tags
    assert not {"harness.leaks", "harness.blocked_pages", "harness.limit", "harness.file"} & plain.tags.keys()
    assert (plain.tags["harness.score"], plain.tags["harness.error_component"]) == ("0.0", "scorer")
    assert (plain.response_preview, steps(QUESTION, answer=None).info.response_preview) == ("error: x", "")
    assert steps(QUESTION, answer="y" * 1_001).info.response_preview == "y" * 999 + "…"


def test_a_long_id_leaves_half_of_the_preview_to_the_question() -> None:
    shown = format_request_preview(a_record("i" * 700, question="x" * 4000))
    assert shown == "x" * 499 + "… · " + "i" * 496 + "…"
    assert len(shown) == 1_000


def test_only_empty_steps_of_an_orchestrator_are_left_out_and_their_events_kept_in_order() -> None:
    def orchestrator(number: int, **fields: Any) -> dict[str, Any]:
        return {"kind": "orchestrator", "name": "o", "events": [{"name": str(number)}], **fields}

    spans = [
        {**QUESTION, "events": [{"name": "0"}]},
        orchestrator(1),
        orchestrator(2, inputs={"a": 1}),
        orchestrator(3, outputs={"a": 1}),
        orchestrator(4, error="x"),
        orchestrator(5),
        {"kind": "agent", "name": "a", "parent": 5, "events": []},
        orchestrator(7, parent=6),
        orchestrator(8, parent=None),
    ]
    times = {"start_seconds": 0.0}
    trajectory = [{"id": n, "parent": 0 if n else None, **times, **each} for n, each in enumerate(spans)]
    shown = [
        (each.id, [event["name"] for event in each.events])
        for each in list_shown_steps(a_record(trajectory=trajectory))
    ]
    assert shown == [(0, ["0", "1", "8"]), (2, ["2"]), (3, ["3"]), (4, ["4"]), (5, ["5"]), (6, ["7"])]
    alone = a_record(trajectory=[{"id": 0, "parent": None, **orchestrator(0), **times}])
    assert [each.id for each in list_shown_steps(alone)] == [0], "the root itself always stays"
