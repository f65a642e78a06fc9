"""The program: its predictors, its copies, the fields of a sample, and a model that cannot be asked."""

import json
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMServerError
from pydantic import ValidationError

from eval.scorers.expected import ExpectedScorer
from eval.scorers.score import AnsweredSample
from mas.runtime.errors import UserError
from mas.runtime.lm_errors import TruncatedReplyError
from mas.runtime.text import to_jsonable
from mas.runtime.trace import Trace, record_trace
from mas.systems.bos.agents import SPECS
from mas.systems.bos.contracts import REQUEST_SENT, AgentError, AgentExecutionStatus, AgentResult
from mas.systems.bos.program import parse_inputs
from mas.systems.bos.recorder import EventRecorder
from tests.mas.systems.bos.building import WrittenAgent, build, choose, succeed, use_agents
from tests.needs import needs
from tests.scripted_model import ScriptedModel, all_text, answering

TOKEN = "tok-1234567890abcdef"


STEPS = """planner api_plan api_adjust api_summarize sql_schema sql_generate sql_check sql_answer compute_code
    compute_summarize composer"""


def test_w03_every_step_is_a_named_predictor_with_inputs_of_its_own() -> None:
    program = build(ScriptedModel(answering()))
    predictors = dict(program.named_predictors())
    assert list(predictors) == [spec.name for spec in SPECS] == STEPS.split()
    firsts = [next(iter(each.signature.input_fields)) for each in predictors.values()]
    assert len(set(firsts)) == len(firsts)
    assert all("system_prompt" in each.signature.input_fields for each in predictors.values())


@needs("bubblewrap")
def test_w04_a_copy_runs_its_own_prompts_through_the_shared_graph() -> None:
    model = ScriptedModel(answering())
    program = build(model)
    copy = program.deepcopy()
    for name, predictor in copy.named_predictors():
        predictor.signature = predictor.signature.with_instructions(f"COPY {name}")
    state = copy.dump_state()
    other, lms = build(model), {name: each.lm for name, each in program.named_predictors()}
    other.load_state(json.loads(json.dumps({name: {**each, "lm": None} for name, each in state.items()})))
    for name, predictor in other.named_predictors():
        predictor.lm = lms[name]  # the models are the run's, never a file's
    for made, expected in ((copy, True), (other, True), (program, False)):
        model.requests.clear()
        assert made(question="6 times 7?").final_answer == "42"
        assert len(model.requests) == 4
        assert all(("COPY" in all_text(request)) is expected for _, request in model.requests)


@needs("bubblewrap")
def test_w02_w05_t09_r13_each_step_is_asked_once_with_the_date_and_the_system_prompt() -> None:
    model = ScriptedModel(answering())
    with dspy.context(trace=[]):
        answer = build(model)(question="6 times 7?", inputs={"system_prompt": "Answer in Dutch."}).final_answer
        assert (answer, len(dspy.settings.trace)) == ("42", 4)
    assert model.agents_asked == ["bos_planner", "compute_code", "compute_summarize", "composer"]
    for agent, request in model.requests:
        assert "[[ ## system_prompt ## ]]\nAnswer in Dutch." in all_text(request)
        assert "current_date: 2026-11-22\n" in all_text(request) or agent == "compute_summarize"


@needs("bubblewrap")
def test_the_final_state_is_kept_without_secrets_and_fits_into_json() -> None:
    """O05"""
    trace = Trace("thread")
    inputs = {"context": json.dumps({"api_bearer_token": TOKEN}), "firebase_password": TOKEN}
    with record_trace(trace):
        prediction = build(ScriptedModel(answering()))(question="6 times 7?", inputs=inputs)
    state = json.loads(json.dumps(to_jsonable(prediction.state)))
    assert state["response"]["answer"] == state["final_answer"] == prediction.final_answer == "42"
    assert state["agent_results"][0]["status"] == "succeeded" and state["planner"]["chosen_agents"] == ["computation"]
    assert (state["question"], state["correlation_id"]) == ("6 times 7?", "thread")
    assert prediction.final_reasoning_trace == "a sum\n\nAgents: computation succeeded"
    assert state["request"]["context"]["api_bearer_token"] == "***"
    assert TOKEN not in json.dumps(state) and TOKEN not in repr(prediction)
    assert TOKEN not in json.dumps(to_jsonable(trace.spans)) and TOKEN not in json.dumps(to_jsonable(trace.state))


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, {"question": "text", "max_turns": None, "include_data": True, "trace": False, "system_prompt": None}),
        ({"question": "own", "tenant": "7"}, {"question": "own", "context": {"tenant": "7"}}),
        ({"prefer_agents": "SQL, api_docs", "disable_agents": ""}, {"prefer_agents": ("sql", "api_docs")}),
        ({"disable_agents": '["sql"]', "max_turns": "2"}, {"disable_agents": ("sql",), "max_turns": 2}),
        ({"trace": "true", "include_data": "false"}, {"trace": True, "include_data": False}),
        ({"context": '{"a": 1}', "b": "2"}, {"context": {"a": 1, "b": "2"}}),
        ({"context": ""}, {"context": {}}),
    ],
)
def test_fields_of_a_sample_are_those_of_the_request(inputs: dict[str, str], expected: dict[str, Any]) -> None:
    """R04 R05 R12 R16"""
    request = parse_inputs("text", inputs)
    assert {name: getattr(request, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"context": "[1]"}, UserError, "The field context of a sample is '\\[1\\]'; expected a JSON object"),
        ({"prefer_agents": "nobody"}, ValidationError, "prefer_agents"),
        ({"disable_agents": "nobody"}, ValidationError, "disable_agents"),
        ({"max_turns": "0"}, ValidationError, "max_turns"),
    ],
)
def test_a_wrong_field_is_refused(inputs: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_inputs("text", inputs)


def test_a_scorer_can_read_which_agents_ran_their_tables_and_their_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask_api(question: str, context: Any) -> AgentResult:
        recorder = EventRecorder("api_docs")
        facts = {"method": "GET", "url": "http://127.0.0.1:9/v1/stock/7", "query": {"unit": "kg"}, "status_code": 500}
        recorder.add("TOOL", REQUEST_SENT, **facts)
        error = AgentError(message="HTTP 500", type="HttpError")
        return AgentResult(agent="api_docs", status=AgentExecutionStatus.failed, error=error, trace=recorder.events)

    rows = [{"b": 1, "a": "x"}]
    database = WrittenAgent("sql", lambda question, context: succeed("sql", rows=rows))
    use_agents(monkeypatch, WrittenAgent("api_docs", ask_api), database)
    model = ScriptedModel(answering(bos_planner=choose("api_docs", "sql"), composer={"final_answer": "1"}))
    outputs = build(model)(question="How many?").state["outputs"]
    assert outputs == {
        "answer": "1",
        "agents": ["api_docs", "sql"],
        "statuses": {"api_docs": "failed", "sql": "succeeded"},
        "model_failed": [],
        "tables": [{"columns": ["b", "a"], "rows": [[1, "x"]]}],
        "requests": [{"method": "GET", "path": "/v1/stock/7", "query": {"unit": "kg"}, "status": 500}],
    }


def test_a_model_that_cannot_be_asked_is_an_error_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(question: str, context: Any) -> AgentResult:
        raise LMServerError("503: down")

    use_agents(monkeypatch, WrittenAgent("sql", fail))
    model = ScriptedModel(answering(bos_planner=LMServerError("503: down"), composer=LMServerError("503: down")))
    with record_trace(trace := Trace("thread")):
        build(model)(question="q")
    assert trace.failure is not None and (type(trace.failure[0]), trace.failure[1]) == (LMServerError, "sql")
    use_agents(monkeypatch, WrittenAgent("sql"))
    assert build(model)(question="q").final_answer == "sql says so", "the agent has found something"
    model = ScriptedModel(answering(bos_planner=choose("sql"), composer=LMServerError("503: down")))
    assert build(model)(question="q").final_answer == "sql says so"


def test_agents_that_their_model_failed_are_no_answer_and_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(question: str, context: Any) -> AgentResult:
        raise TruncatedReplyError("cut off")

    model = ScriptedModel(answering(bos_planner=choose("sql", "computation"), composer={"final_answer": "sql failed"}))
    use_agents(monkeypatch, WrittenAgent("sql", fail))
    with record_trace(trace := Trace("thread")):
        build(model)(question="Delete all orders.")
    assert trace.failure is not None and (type(trace.failure[0]), trace.failure[1]) == (TruncatedReplyError, "sql")
    use_agents(monkeypatch, WrittenAgent("sql", fail), WrittenAgent("computation"))
    with record_trace(trace := Trace("thread")):
        state = build(model)(question="Delete all orders.").state
    assert trace.failure is None, "another agent has found something"
    expected = {"expected": json.dumps({"answer": {"type": "refusal"}})}
    for failed, value in ((["sql"], 0.0), ([], 1.0)):
        outputs = {**state["outputs"], "model_failed": failed}
        sample = AnsweredSample("Delete all orders.", state["final_answer"], "", outputs=outputs, tags=expected)
        assert state["outputs"]["model_failed"] == ["sql"] and ExpectedScorer().score_sample(sample).value == value


def test_an_empty_question_is_refused() -> None:
    with pytest.raises(ValueError, match="no question"):
        build(ScriptedModel(answering()))(question=" ")
