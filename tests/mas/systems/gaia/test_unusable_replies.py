"""Unusable replies count as rejections, with the reason as feedback (docs/explanation/decisions.md 7b, 7d)."""

import json
from typing import Any

import pytest
from dspy.utils.exceptions import AdapterParseError, LMServerError, LMUnexpectedError

from mas.runtime.lm_errors import RefusedReplyError, TruncatedReplyError
from mas.runtime.trace import Trace, record_trace
from mas.systems.gaia.agents import WORKERS, Worker
from tests.mas.systems.gaia.building import build, toolbox
from tests.scripted_model import (
    CUT_OFF,
    STRAIGHT,
    UNREADABLE,
    Call,
    Reply,
    ScriptedModel,
    all_text,
    answering,
    in_turn,
    plan,
    reject,
)

TOPIC = plan("the only topic")
REASONS = {"unreadable": (UNREADABLE, "could not be used"), "cut off": (CUT_OFF, "token limit")}


def good(agent: str) -> Any:
    return TOPIC if agent == "planner" else STRAIGHT[agent]


def attempts(reply: Any) -> int:
    """Requests that one try takes: an unreadable reply is asked for again as JSON, by the adapter itself."""
    return 2 if reply is UNREADABLE else 1


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("agent", WORKERS)
def test_an_unusable_reply_sends_the_agent_back_with_the_reason_and_what_it_was_asked(
    agent: Worker, reason: str
) -> None:
    reply, why = REASONS[reason]
    replies = {"planner": TOPIC, agent: in_turn(*[reply] * 2 * attempts(reply), good(agent))}
    model = ScriptedModel(answering(**replies))
    prediction = build(model)(question="How many?")
    assert prediction.final_answer == "42"
    *_, again = model.asked(agent)
    assert len(model.asked(agent)) == 2 * attempts(reply) + 1
    assert len(model.asked(f"critic_{agent}")) == 1, "nobody reviews a reply that could not be read"
    assert "Use the following feedback" in all_text(again) and why in all_text(again)
    assert ("the only topic" if agent == "researcher" else "How many?") in all_text(again)
    feedback = [m for m in prediction.state["agent_messages"] if m["type"] == "feedback"]
    assert [m["receiver"] for m in feedback] == [agent] * 2


def test_too_many_research_steps_go_back_to_the_planner_without_a_review() -> None:
    model = ScriptedModel(answering(planner=in_turn(plan("1", "2", "3"), plan("1", "2"))))
    prediction = build(model, max_research_steps=2)(question="How many?")
    assert len(model.asked("critic_planner")) == 1
    again = all_text(model.asked("planner")[1])
    assert "has 3 research steps; at most 2 are allowed" in again and "How many?" in again
    assert prediction.state["research_steps"] == ["1", "2"]


def test_a_plan_without_expert_steps_goes_back_to_the_planner() -> None:
    model = ScriptedModel(answering(planner=in_turn(plan("1", expert_steps=()), plan("1"))))
    prediction = build(model)(question="How many?")
    assert "no expert steps" in all_text(model.asked("planner")[1])
    assert (prediction.final_answer, len(model.asked("critic_planner"))) == ("42", 1)


def test_an_expert_that_will_not_stop_calling_tools_is_sent_back() -> None:
    def tick() -> str:
        return "tock"

    calls = [[Call("tick")]] * 3  # two steps are allowed, the third call is one too many
    model = ScriptedModel(answering(expert=in_turn(*calls, STRAIGHT["expert"])))
    program = build(model)
    program.toolboxes["expert"] = toolbox(tick, max_steps=2)
    prediction = program(question="How many?")
    assert prediction.final_answer == "42"
    assert "no answer after 2 steps of tool calls" in all_text(model.asked("expert")[3])


def test_an_answer_that_is_empty_is_no_answer() -> None:
    model = ScriptedModel(
        answering(planner=TOPIC, researcher=in_turn({"result": ""}, {"result": ""}, STRAIGHT["researcher"]))
    )
    prediction = build(model)(question="How many?")
    assert prediction.state["research_results"] == ["the finding"]
    feedback = [m["content"] for m in prediction.state["agent_messages"] if m["type"] == "feedback"]
    assert feedback and all("gave no result" in text for text in feedback)


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("agent", ["critic_planner", "critic_researcher", "critic_expert", "finalizer"])
def test_reviewers_and_finalizer_are_asked_once_more(agent: str, reason: str) -> None:
    reply, _ = REASONS[reason]
    model = ScriptedModel(answering(**{"planner": TOPIC, agent: in_turn(*[reply] * attempts(reply), STRAIGHT[agent])}))
    prediction = build(model)(question="How many?")
    assert prediction.final_answer == "42"
    assert len(model.asked(agent)) == attempts(reply) + 1
    assert [m for m in prediction.state["agent_messages"] if m["type"] == "feedback"] == []


@pytest.mark.parametrize("agent", ["critic_planner", "critic_researcher", "critic_expert", "finalizer"])
@pytest.mark.parametrize(
    ("reply", "error"), [(UNREADABLE, AdapterParseError), (CUT_OFF, TruncatedReplyError)], ids=["unreadable", "cut off"]
)
def test_not_understood_twice_they_end_the_question(agent: str, reply: Any, error: type[Exception]) -> None:
    model = ScriptedModel(answering(**{"planner": TOPIC, agent: reply}))
    trace = Trace("thread")
    with record_trace(trace):
        build(model)(question="How many?")
    assert trace.failure is not None and (type(trace.failure[0]), trace.failure[1]) == (error, agent)
    assert len(model.asked(agent)) == 2 * attempts(reply)
    failed = [span for span in trace.spans if span.kind == "agent" and span.error]
    assert [span.name for span in failed] == [agent]
    assert trace.state["question"] == "How many?", "how far it got is still known"


@pytest.mark.parametrize("said", ["Approve.", "APPROVE", "**approve**", "Approve!", '"Approve"'])
def test_an_approval_in_another_case_or_with_punctuation_is_one(said: str) -> None:
    reply = f"[[ ## decision ## ]]\n{said}\n\n[[ ## feedback ## ]]\nReject nothing.\n\n[[ ## completed ## ]]"
    as_json = json.dumps({"decision": said.strip('"'), "feedback": "good"})
    model = ScriptedModel(answering(planner=TOPIC, critic_planner=reply, critic_expert=in_turn("prose", as_json)))
    assert build(model)(question="How many?").final_answer == "42"
    assert len(model.asked("critic_planner")) == 1 and len(model.asked("critic_expert")) == 2


DOWN, WITHHELD, ON_FIRE = LMServerError("503: down"), Reply("", "content_filter"), RuntimeError("on fire")


@pytest.mark.parametrize(
    ("agent", "reply", "kind", "requests"),
    [
        *((agent, DOWN, LMServerError, 1) for agent in ("planner", "expert", "finalizer")),
        *((agent, WITHHELD, RefusedReplyError, 1) for agent in ("planner", "researcher", "expert", "critic_expert")),
        ("expert", ON_FIRE, LMUnexpectedError, 1),
        ("critic_expert", UNREADABLE, AdapterParseError, 4),
        ("finalizer", CUT_OFF, TruncatedReplyError, 2),
    ],
)
def test_an_error_of_an_agent_reaches_the_finalizer_which_asks_no_model(
    agent: str, reply: Any, kind: Any, requests: int
) -> None:
    model = ScriptedModel(answering(**{"planner": TOPIC, agent: reply}))
    trace = Trace("thread")
    with record_trace(trace):
        prediction = build(model)(question="How many?")
    assert prediction.final_answer == "The question could not be answered."
    state = prediction.state
    assert state["error_component"] == agent and state["error"] in prediction.final_reasoning_trace
    assert (state["current_step"], model.agents_asked[-1]) == ("finalizer", agent)
    assert len(model.asked(agent)) == requests
    assert trace.failure is not None and (type(trace.failure[0]), trace.failure[1]) == (kind, agent)


def test_with_best_effort_the_finalizer_answers_after_an_error_from_what_there_is() -> None:
    model = ScriptedModel(answering(planner=TOPIC, expert=DOWN))
    trace = Trace("thread")
    with record_trace(trace):
        assert build(model, on_retry_exhausted="best_effort")(question="How many?").final_answer == "42"
    text = all_text(model.asked("finalizer")[0])
    assert "The expert failed" in text and "503: down" in text and "the finding" in text
    assert trace.failure is None


@pytest.mark.parametrize(("reply", "kind"), [(UNREADABLE, AdapterParseError), (CUT_OFF, TruncatedReplyError)])
def test_a_question_given_up_for_unusable_replies_has_failed_by_the_model(reply: Any, kind: Any) -> None:
    trace = Trace("thread")
    with record_trace(trace):
        build(ScriptedModel(answering(expert=reply)))(question="How many?")
    assert trace.failure is not None and (type(trace.failure[0]), trace.failure[1]) == (kind, "expert")
    trace = Trace("thread")
    with record_trace(trace):  # a rejection of a reply that could be read is none of the model's faults
        build(ScriptedModel(answering(expert=in_turn(reply, *[STRAIGHT["expert"]] * 9), critic_expert=reject("no"))))(
            question="How many?"
        )
    assert trace.failure is None
