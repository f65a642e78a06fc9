"""What the orchestrator asks each agent, word for word, and the agents themselves."""

from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from mas.systems.gaia.agents import (
    AGENTS,
    COULD_NOT_ANSWER,
    SPECS,
    WORKERS,
    GraphState,
    Worker,
    describe_exhaustion,
    initial_state,
    to_critic_expert,
    to_critic_planner,
    to_critic_researcher,
    to_expert,
    to_finalizer,
    to_finalizer_retry_failed,
    to_planner,
    to_researcher,
)


def state(**changes: Any) -> GraphState:
    first: Any = initial_state("How many?", None, "thread-1", {"planner": 2, "researcher": 4, "expert": 6})
    return {**first, **changes}  # type: ignore[return-value]


WORK: dict[str, Any] = {
    "research_steps": ["find the river", "find the town"],
    "expert_steps": ["halve it"],
    "research_results": ["the Tiber", "Rome"],
    "current_research_index": 1,
    "expert_answer": "203",
    "expert_reasoning": "406 / 2",
    "critic_planner_feedback": "of the plan",
    "critic_researcher_feedback": "of the research",
    "critic_expert_feedback": "of the answer",
}


def test_before_the_first_step_nothing_is_known_but_the_question() -> None:
    assert initial_state("How many?", "a.csv", "thread-1", {"planner": 2, "researcher": 4, "expert": 6}) == {
        "question": "How many?",
        "file": "a.csv",
        "correlation_id": "thread-1",
        "agent_messages": [],
        "planner_turns": [],
        "research_steps": [],
        "expert_steps": [],
        "current_research_index": -1,
        "researcher_states": {},
        "research_results": [],
        "expert_state": None,
        "expert_answer": "",
        "expert_reasoning": "",
        "critic_planner_decision": "",
        "critic_planner_feedback": "",
        "critic_researcher_decision": "",
        "critic_researcher_feedback": "",
        "critic_expert_decision": "",
        "critic_expert_feedback": "",
        "final_answer": "",
        "final_reasoning_trace": "",
        "current_step": "input",
        "next_step": "planner",
        "planner_retry_count": 0,
        "researcher_retry_count": 0,
        "expert_retry_count": 0,
        "planner_retry_limit": 2,
        "researcher_retry_limit": 4,
        "expert_retry_limit": 6,
        "retry_failed": False,
        "failing_agent": "",
        "error": "",
        "error_component": "",
    }
    assert set(state()) == set(get_type_hints(GraphState))


REQUESTS: list[tuple[Callable[[GraphState], str], dict[str, Any], str]] = [
    (to_planner, {}, "Develop a logical plan to answer the following question:\nHow many?"),
    (
        to_planner,
        {"file": "a.csv", "critic_planner_decision": "approve"},
        "Develop a logical plan to answer the following question:\nHow many?\n\n"
        "Include using following file in any of the research steps:a.csv",
    ),
    (
        to_planner,
        {**WORK, "file": "a.csv", "critic_planner_decision": "reject"},
        "Use the following feedback to improve the plan:\nof the plan",
    ),
    (
        to_critic_planner,
        WORK,
        "Review the following plan to answer a question.\n\nThe question:\nHow many?\n\n"
        "The research steps:\n1. find the river\n2. find the town\n\nThe expert steps:\n1. halve it",
    ),
    (
        to_critic_planner,
        {"file": "a.csv"},
        "Review the following plan to answer a question.\n\nThe question:\nHow many?\n\n"
        "The file attached to the question:\na.csv\n\nThe research steps:\n(none)\n\nThe expert steps:\n(none)",
    ),
    (to_researcher, WORK, "Research the following topic or question: find the town"),
    (
        to_researcher,
        {**WORK, "current_research_index": 0, "critic_researcher_decision": "approve"},
        "Research the following topic or question: find the river",
    ),
    (
        to_researcher,
        {**WORK, "critic_researcher_decision": "reject"},
        "Use the following feedback to improve the research:\nof the research",
    ),
    (
        to_critic_researcher,
        WORK,
        "Review the following research.\n\nThe research topic:\nfind the town\n\nThe research results:\nRome",
    ),
    (
        to_critic_researcher,
        {**WORK, "current_research_index": 0},
        "Review the following research.\n\nThe research topic:\nfind the river\n\nThe research results:\nthe Tiber",
    ),
    (
        to_expert,
        {**WORK, "critic_expert_decision": "approve"},
        "Answer the following question.\n\nThe question:\nHow many?\n\n"
        "The research results:\n1. the Tiber\n2. Rome\n\nThe steps to follow:\n1. halve it",
    ),
    (
        to_expert,
        {**WORK, "critic_expert_decision": "reject"},
        "Use the following feedback to improve your answer:\nof the answer",
    ),
    (
        to_critic_expert,
        WORK,
        "Review the following answer to a question.\n\nThe question:\nHow many?\n\n"
        "The research results:\n1. the Tiber\n2. Rome\n\nThe expert's answer:\n203\n\n"
        "The expert's reasoning:\n406 / 2",
    ),
    (
        to_finalizer,
        WORK,
        "Give the final answer to the following question and its reasoning trace.\n\nThe question:\nHow many?\n\n"
        "The research steps:\n1. find the river\n2. find the town\n\nThe expert steps:\n1. halve it\n\n"
        "The expert's answer:\n203\n\nThe expert's reasoning:\n406 / 2",
    ),
    (
        to_finalizer_retry_failed,
        {**WORK, "failing_agent": "expert"},
        "The expert reached its retry limit. The last feedback on its work was:\nof the answer\n\n"
        "Give the best final answer that the work so far supports, and its reasoning trace, which says that the work "
        "was not approved.\n\nThe question:\nHow many?\n\n"
        "The research steps:\n1. find the river\n2. find the town\n\n"
        "The research results:\n1. the Tiber\n2. Rome\n\n"
        "The expert's answer:\n203\n\nThe expert's reasoning:\n406 / 2",
    ),
    (
        to_finalizer_retry_failed,
        {"failing_agent": "planner"},
        "The planner reached its retry limit. The last feedback on its work was:\n\n\n"
        "Give the best final answer that the work so far supports, and its reasoning trace, which says that the work "
        "was not approved.\n\nThe question:\nHow many?\n\n"
        "The research steps:\n(none)\n\nThe research results:\n(none)\n\n"
        "The expert's answer:\n(none)\n\nThe expert's reasoning:\n(none)",
    ),
]


@pytest.mark.parametrize(("request_of", "changes", "text"), REQUESTS)
def test_a_request_says_what_its_agent_needs(
    request_of: Callable[[GraphState], str], changes: dict[str, Any], text: str
) -> None:
    assert request_of(state(**changes)) == text


@pytest.mark.parametrize(
    ("agent", "feedback"), [("planner", "of the plan"), ("researcher", "of the research"), ("expert", "of the answer")]
)
def test_a_question_that_is_given_up_names_the_agent_and_its_last_feedback(agent: Worker, feedback: str) -> None:
    assert describe_exhaustion(state(**WORK, failing_agent=agent)) == (
        f"The {agent} reached its retry limit. The last feedback on its work was:\n{feedback}"
    )


def test_a_question_that_no_agent_failed_is_not_given_up() -> None:
    with pytest.raises(ValueError, match=r"^no agent has exhausted its retries$"):
        describe_exhaustion(state(**WORK))


def test_the_agents_are_these_in_the_order_of_their_work() -> None:
    nodes = "mas.systems.gaia.nodes."
    assert [(spec.name, spec.signature, spec.uses_tools, spec.critic, spec.request) for spec in SPECS] == [
        ("planner", f"{nodes}Plan", False, "critic_planner", to_planner),
        ("critic_planner", f"{nodes}ReviewPlan", False, None, to_critic_planner),
        ("researcher", f"{nodes}Research", True, "critic_researcher", to_researcher),
        ("critic_researcher", f"{nodes}ReviewResearch", False, None, to_critic_researcher),
        ("expert", f"{nodes}Solve", True, "critic_expert", to_expert),
        ("critic_expert", f"{nodes}ReviewAnswer", False, None, to_critic_expert),
        ("finalizer", f"{nodes}Finalize", False, None, to_finalizer),
    ]
    assert AGENTS == (
        "planner", "critic_planner", "researcher", "critic_researcher", "expert", "critic_expert", "finalizer",
    )  # fmt: skip
    assert WORKERS == ("planner", "researcher", "expert")
    assert COULD_NOT_ANSWER == "The question could not be answered."
