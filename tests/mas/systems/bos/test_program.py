"""The program: its predictors, its copies, the fields of a sample, and a model that cannot be asked."""

import copy
import json
from collections import defaultdict
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY, AsyncMock

import dspy
import pytest
from dspy.utils.exceptions import LMServerError
from pydantic import ValidationError

from mas.runtime.errors import UserError
from mas.runtime.text import to_jsonable
from mas.runtime.trace import Trace, record_trace
from mas.systems.bos.agents import API, REGISTRY, SPECS, SQL
from mas.systems.bos.api.agent import ApiDocsAgent
from mas.systems.bos.computation.agent import ComputationAgent
from mas.systems.bos.contracts.events import REQUEST_SENT, EventRecorder
from mas.systems.bos.contracts.request import AgentRequest
from mas.systems.bos.contracts.response import OrchestratorResponse, PlannerDecision
from mas.systems.bos.contracts.result import AgentError, AgentExecutionStatus, AgentResult
from mas.systems.bos.planner import AgentChoice
from mas.systems.bos.program import BosProgram, ModelFailedError, explain, list_outputs, parse_inputs
from mas.systems.bos.settings import ComputationSettings, PlannerSettings
from mas.systems.bos.sql.agent import SqlAgent
from mas.systems.bos.system import BosSystem
from mas.systems.bos.temporal import read_clock
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources
from tests.mas.systems.bos.building import NOW, WrittenAgent, build, choose, succeed, use_agents
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


def test_w02_w05_one_call_of_planner_and_composer_with_a_written_model() -> None:
    model = ScriptedModel(answering())
    with dspy.context(trace=[]):
        assert build(model)(question="6 times 7?").final_answer == "42"
        assert len(dspy.settings.trace) == 4
    assert model.agents_asked == ["bos_planner", "compute_code", "compute_summarize", "composer"]


def test_t09_the_prompts_hold_the_date() -> None:
    model = ScriptedModel(answering())
    build(model)(question="6 times 7?")
    for agent in ("bos_planner", "compute_code", "composer"):
        assert "current_date: 2026-11-22\n" in all_text(model.asked(agent)[0])


def test_r13_the_system_prompt_reaches_every_step() -> None:
    model = ScriptedModel(answering())
    build(model)(question="6 times 7?", inputs={"system_prompt": "Answer in Dutch."})
    assert len(model.requests) == 4
    assert all("[[ ## system_prompt ## ]]\nAnswer in Dutch." in all_text(request) for _, request in model.requests)


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
        ({}, {"question": "text"}),
        ({"question": "own", "tenant": "7"}, {"question": "own", "context": {"tenant": "7"}}),
        ({"prefer_agents": "SQL, api_docs", "disable_agents": ""}, {"prefer_agents": ("sql", "api_docs")}),
        ({"disable_agents": '["sql"]', "max_turns": "2"}, {"disable_agents": ("sql",), "max_turns": 2}),
        ({"trace": "true", "include_data": "false"}, {"trace": True, "include_data": False}),
        ({"context": '{"a": 1}', "b": "2"}, {"context": {"a": 1, "b": "2"}}),
        ({"context": ""}, {"context": {}}),
        (
            {"request": '{"prefer_agents": "sql", "context": {"a": 1}}', "b": "2"},
            {"question": "text", "prefer_agents": ("sql",), "context": {"a": 1, "b": "2"}},
        ),
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
        ({"request": "How many?"}, UserError, "The field request"),
        ({"prefer_agents": "[sql"}, UserError, "expected a list of agents"),
        ({"prefer_agents": "nobody"}, ValidationError, "prefer_agents"),
        ({"request": '{"context": 3}'}, ValidationError, "context"),
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
        return AgentResult(agent="api_docs", status=AgentExecutionStatus.FAILED, error=error, trace=recorder.events)

    rows = [{"b": 1, "a": "x"}]
    database = WrittenAgent("sql", lambda question, context: succeed("sql", rows=rows))
    use_agents(monkeypatch, WrittenAgent("api_docs", ask_api), database)
    model = ScriptedModel(answering(bos_planner=choose("api_docs", "sql"), composer={"final_answer": "1"}))
    outputs = build(model)(question="How many?").state["outputs"]
    assert outputs == {
        "answer": "1",
        "agents": ["api_docs", "sql"],
        "statuses": {"api_docs": "failed", "sql": "succeeded"},
        "tables": [{"columns": ["b", "a"], "rows": [[1, "x"]]}],
        "requests": [{"method": "GET", "path": "/v1/stock/7", "query": {"unit": "kg"}, "status": 500}],
    }


def test_a_model_that_cannot_be_asked_is_an_error_and_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(question: str, context: Any) -> AgentResult:
        raise LMServerError("503: down")

    use_agents(monkeypatch, WrittenAgent("sql", fail))
    model = ScriptedModel(answering(bos_planner=LMServerError("503: down"), composer=LMServerError("503: down")))
    with pytest.raises(ModelFailedError, match=r"could not be asked. planner: .*503: down; sql: .*503: down"):
        build(model)(question="q")
    use_agents(monkeypatch, WrittenAgent("sql"))
    assert build(model)(question="q").final_answer == "sql says so", "the agent has found something"
    model = ScriptedModel(answering(bos_planner=choose("sql"), composer=LMServerError("503: down")))
    assert build(model)(question="q").final_answer == "sql says so"


def test_an_empty_question_is_refused() -> None:
    with pytest.raises(ValueError, match="no question"):
        build(ScriptedModel(answering()))(question=" ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"execution": "at once"}, "system.execution=at once is not known; choose one of: sequential, parallel."),
        ({"planner": PlannerSettings("fuzzy")}, "choose one of: substring, word."),
        ({"planner": PlannerSettings(keywords={"nobody": []})}, "the agents are sql, api_docs, computation."),
        ({"planner": PlannerSettings(keywords={"sql": ["SQL"]})}, "expected words in lower case"),
        ({"planner": PlannerSettings(keywords={"sql": [""]})}, "expected words in lower case"),
        ({"computation": ComputationSettings(repair_attempts=-1)}, "expected 0 to 5."),
    ],
)
def test_p12_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        BosSystem(**settings).check()
    assert message in str(raised.value)


def test_g06_each_name_has_its_agent() -> None:
    settings, predictors = BosSystem(), defaultdict(lambda: dspy.Predict("a -> b"))
    services: dict[str, Any] = {
        API: SimpleNamespace(catalogue=None, tokens=None, client=None, settings=None),
        SQL: object(),
    }
    resources = Resources(ToolSettings(), services)
    made = {name: type(entry.make(predictors, settings, resources)) for name, entry in REGISTRY.items()}
    assert made == {"sql": SqlAgent, "api_docs": ApiDocsAgent, "computation": ComputationAgent}


def test_agents_that_are_not_configured_are_named_in_the_guardrails() -> None:
    decision = build(ScriptedModel(answering()))(question="6 times 7?").state["planner"]
    gaps = BosSystem().find_gaps()
    assert "computation" not in gaps and decision.guardrails["unavailable"] == gaps


WHOLE = {
    "question": "own",
    "prefer_agents": "SQL,, api_docs ,",
    "disable_agents": ' ["computation"]',
    "max_turns": "2",
    "include_data": "",
    "trace": "true",
    "system_prompt": "Dutch.",
    "context": '{"a": 1, "tenant": "of the context"}',
    "tenant": "7",
    "request": '{"question": "of the request", "context": {"a": 0, "b": 2}, "max_turns": 9, "include_data": false}',
}


def test_fields_by_name_count_before_those_of_the_whole_request() -> None:
    assert parse_inputs("text", WHOLE) == AgentRequest(
        question="own",
        prefer_agents=("sql", "api_docs"),
        disable_agents=("computation",),
        max_turns=2,
        include_data=False,
        trace=True,
        system_prompt="Dutch.",
        context={"a": 1, "b": 2, "tenant": "7"},
    )
    assert parse_inputs("text", {}) == AgentRequest(question="text")
    assert parse_inputs("text", {"request": "", "question": ""}) == AgentRequest(question="text")
    assert parse_inputs("text", {"request": '{"question": "q"}', "x": ""}) == AgentRequest(
        question="q", context={"x": ""}
    )


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"context": "[" * 100_000}, f"The field context of a sample is {'[' * 60!r}; expected a JSON object."),
        ({"context": "x" * 61}, f"The field context of a sample is {'x' * 60!r}; expected a JSON object."),
        ({"request": "3"}, "The field request of a sample is '3'; expected a JSON object."),
        (
            {"disable_agents": "[" + "x" * 60},
            f"The field disable_agents of a sample is {'[' + 'x' * 59!r}; expected a list of agents.",
        ),
    ],
)
def test_a_wrong_field_is_told_by_its_beginning(inputs: dict[str, str], told: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_inputs("text", inputs)
    assert str(caught.value) == told


def state_of(*results: AgentResult, trace: Any = (), **guardrails: object) -> Any:
    decision = PlannerDecision(rationale="because", guardrails=guardrails)
    return {
        "planner": decision,
        "agent_results": list(results),
        "trace": list(trace),
        "response": OrchestratorResponse(answer="42"),
    }


def lost(name: Any, status: str = "failed") -> AgentResult:
    error = AgentError(message=f"{name} is down", type="LMServerError")
    return AgentResult(agent=name, status=AgentExecutionStatus(status), error=error)


def test_how_an_answer_came_about_is_the_reason_and_each_status() -> None:
    assert explain(state_of()) == "because\n\nAgents: none"
    assert explain(state_of(succeed("sql"), lost("api_docs"))) == "because\n\nAgents: sql succeeded, api_docs failed"


def test_outputs_leave_out_skipped_agents_and_events_that_are_no_request() -> None:
    recorder = EventRecorder("sql")
    recorder.add("TOOL", "Executed query", url="http://a.b/c")
    recorder.add("TOOL", REQUEST_SENT, url="http://a.b/c?d=1")
    database = succeed("sql", rows=[]).model_copy(update={"trace": recorder.events})
    assert list_outputs(state_of(database, lost("api_docs", "skipped"), lost("computation"))) == {
        "answer": "42",
        "agents": ["sql", "computation"],
        "statuses": {"sql": "succeeded", "api_docs": "skipped", "computation": "failed"},
        "tables": [{"columns": [], "rows": []}],
        "requests": [{"method": None, "path": "/c", "query": None, "status": None}],
    }


@pytest.mark.parametrize("failed", [True, False])
@pytest.mark.parametrize("results", [(), (lost("sql"),), (lost("sql"), succeed("api_docs")), (lost("sql", "skipped"),)])
def test_only_if_neither_planner_nor_any_agent_was_answered_the_model_failed(
    monkeypatch: pytest.MonkeyPatch, failed: bool, results: tuple[AgentResult, ...]
) -> None:
    planner, sql = EventRecorder("planner"), EventRecorder("sql")
    planner.add("MESSAGE", "planned", error="no error of the model")
    planner.add("ERROR", "no plan", error="503: down")
    sql.add("ERROR", "no query", error="of an agent")
    trace = [*planner.events, *sql.events]
    final = state_of(*results, trace=trace, **({"model_failed": True} if failed else {"fallback": "AdapterParseError"}))
    program = build(ScriptedModel(answering()))
    monkeypatch.setattr(type(program), "run_graph", AsyncMock(return_value=final))
    succeeded = any(result.status is AgentExecutionStatus.SUCCEEDED for result in results)
    if failed and not succeeded:
        reasons = ["planner: 503: down", *["sql: sql is down"] * len(results)]
        with pytest.raises(ModelFailedError) as caught:
            program(question="q")
        assert "The language model could not be asked. " + "; ".join(reasons) in str(caught.value)
        assert "of an agent" not in str(caught.value) and "no error of the model" not in str(caught.value)
    else:
        assert dict(program(question="q").state) == {
            "question": "q",
            "correlation_id": ANY,
            **final,
            "final_answer": "42",
            "final_reasoning_trace": explain(final),
            "outputs": list_outputs(final),
        }


def test_the_graph_gets_the_settings_of_the_system_and_the_agents_that_are_configured() -> None:
    settings = BosSystem(execution="parallel", share_results=True, planner=PlannerSettings("word"))
    program = BosProgram(settings, Resources(ToolSettings()), lambda: NOW)
    context = program.make_graph_context()
    assert (context.execution, context.share_results, context.clock()) == ("parallel", True, NOW)
    assert list(context.agents) == ["computation"]
    assert context.composer.predictor is program.composer
    assert (context.planner.predictor, context.planner.settings) == (program.planner, settings.planner)
    gaps = settings.find_gaps()
    assert context.planner.choices == {
        "api_docs": AgentChoice("", (), gaps["api_docs"]),
        "sql": AgentChoice("", (), gaps["sql"]),
        "computation": AgentChoice(REGISTRY["computation"].description, ("sql",), None),
    }
    assert BosProgram(settings, Resources(ToolSettings())).shared.clock is read_clock


def test_copies_share_settings_and_resources() -> None:
    program = build(ScriptedModel(answering()))
    assert program.deepcopy().shared is program.shared
    assert copy.deepcopy(program.shared) is program.shared
    assert ModelFailedError.default_code == "model_failed"
