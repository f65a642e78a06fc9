"""Roles of the agents, read from the spans of a record alone."""

from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.attribution.agent_steps import AgentSteps, Step, ToolUse, find_answer_field, is_reasoning
from eval.runs.record import Record
from tests.optimize.simulated_runs import lm, record, step, tool

APPROVED, REJECTED = {"decision": "approve"}, {"decision": "REJECTED: no"}
PLAN = step("planner", tasks=["a"], hints=["b"])


def read(*steps: list[dict[str, Any]]) -> AgentSteps:
    made: Record = record("17", "17", steps)
    return AgentSteps.of(made)


def names(steps: Any) -> list[str]:
    return [each.agent for each in steps]


def test_critics_the_finisher_and_the_draft_follow_from_the_outputs() -> None:
    found = read(
        PLAN, step("expert", result="16"), step("critic", **REJECTED), step("expert", result="17"),
        step("critic", **APPROVED), step("writer", final_answer="17"), step("silent"),
    )  # fmt: skip
    assert names(found.work) == ["planner", "expert", "expert", "writer"]
    assert found.finish is not None and found.finish.agent == "writer"
    assert [each.outputs for each in found.drafts] == [{"result": "16"}, {"result": "17"}]
    assert found.draft is found.drafts[-1]
    assert found.plan is not None and found.plan.agent == "planner"
    assert [each.outputs.get("result") for each in found.select_agent("expert")] == ["16", "17"]
    assert [(critic.rejects, judged.outputs) for critic, judged in found.pair_reviews()] == [
        (True, {"result": "16"}), (False, {"result": "17"})
    ]  # fmt: skip
    assert list(found.pair_reviews("other")) == [] and len(list(found.pair_reviews("critic"))) == 2


def test_a_tool_called_within_other_spans_belongs_to_the_agent_around_them() -> None:
    outer = {"id": 1, "parent": 0, "kind": "agent", "name": "expert", "outputs": {"result": "17"}}
    between = [
        {"id": 2, "parent": 1, "kind": "module", "name": "a"},
        {"id": 3, "parent": 2, "kind": "module", "name": "b"},
    ]
    used = {"id": 4, "parent": 3, "kind": "tool", "name": "calculator", "outputs": {"value": "17"}}
    itself = {"id": 5, "parent": 5, "kind": "tool", "name": "forged"}
    found = AgentSteps.of(replace(record("17", "17"), trajectory=[outer, *between, used, itself]))
    assert [tool.name for tool in found.steps[0].tools] == ["calculator"]


def test_without_another_agent_the_finishers_own_work_is_the_draft() -> None:
    alone = read(step("solver", final_answer="17"))
    assert alone.draft is alone.finish is not None
    assert read(PLAN, step("solver", final_answer="17")).draft == read(PLAN, step("solver", final_answer="17")).finish
    unfinished = read(step("a", result="1"), step("b", result="2"))
    assert unfinished.finish is None and names(unfinished.drafts) == ["b"]
    nothing = read()
    assert (nothing.draft, nothing.finish, nothing.plan, nothing.work) == (None, None, None, ())


def test_lists_are_a_plan_only_of_the_first_agent_and_if_others_work_after_it() -> None:
    assert read(PLAN).plan is None
    assert read(step("expert", result="1"), PLAN).plan is None
    assert read(step("planner", tasks=["a"], why="b"), step("expert", result="1")).plan is None
    twice = read(PLAN, step("planner", tasks=["c"]), step("expert", result="1")).plan
    assert twice is not None and twice.outputs == {"tasks": ["c"]}


@pytest.mark.parametrize(
    ("outputs", "answer"),
    [
        ({"reasoning": "because", "expert_answer": "seventeen, as said"}, "seventeen, as said"),
        ({"long": "a longer text", "short": "17"}, "17"),
        ({"result": "", "note": "17"}, "17"),
        ({"result": ["17"]}, ""),
        ({}, ""),
        ({"answer": "17 ships", "result": "17"}, "17"),
    ],
)
def test_the_answer_of_a_step_is_named_so_or_its_shortest_text(outputs: dict[str, Any], answer: str) -> None:
    (made,) = read(step("expert", **outputs)).steps
    assert made.answer == answer


def test_a_step_has_what_its_own_tools_returned_and_whether_it_had_any() -> None:
    used, offered, bare = read(
        step("reader", tool("read_file", "Rome 3", file="a.csv"), request="Read it.", result="Rome"),
        step("other", lm("read_file"), result="x"),
        step("third", lm(), result="x"),
    ).steps
    (call,) = used.tools
    assert (call.name, call.error) == ("read_file", None) and "a.csv" in call.asked and "Rome 3" in call.seen
    assert used.seen.startswith("Read it.\n") and "Rome 3" in used.seen and used.said == "Rome"
    assert (used.offered, offered.offered, bare.offered) == (True, True, False)
    assert offered.tools == ()


def test_replies_that_could_not_be_used_are_those_of_the_agent_that_gave_them() -> None:
    made = record("17", "17", [step("expert", result="17")])
    made.trajectory[1]["events"] = [
        {"name": "unusable reply", "agent": "critic", "error": "no JSON"}, {"name": "unusable reply"},
        {"name": "decision", "agent": "critic"},
    ]  # fmt: skip
    assert AgentSteps.of(made).unusable == (("critic", "no JSON"), ("expert", ""))


def test_spans_that_enclose_each_other_end() -> None:
    made = record("17", "18", [step("expert", result="18")])
    made.trajectory += [
        {"id": 8, "parent": 9, "kind": "tool", "name": "search"},
        {"id": 9, "parent": 8, "kind": "lm", "name": "model"},
    ]

    assert AgentSteps.of(made).steps[0].tools == ()


@pytest.mark.parametrize(
    ("outputs", "name"),
    [
        ({"final_answer": "1", "note": ""}, "final_answer"),
        ({"result": "12", "answer": "1"}, "answer"),
        ({"working": "x", "text": "long", "code": "ab"}, "code"),
        ({"working": "x"}, None),
        ({"answer": " "}, None),
        ({"parts": ["1"]}, None),
    ],
)
def test_the_field_of_the_answer(outputs: dict[str, object], name: str | None) -> None:
    assert find_answer_field(outputs) == name


def test_a_step_is_read_from_its_span_whole() -> None:
    own = {
        "id": 3, "parent": None, "kind": "agent", "name": "reader", "error": "cut off",
        "inputs": {"request": "Read it.", "files": ["a.csv", ("b.csv", 7)]},
        "outputs": {"answer": "Rome", "notes": ["one", {"two": 2}]},
    }  # fmt: skip
    call = {
        "id": 5, "parent": 3, "kind": "tool", "name": "read_file", "error": "no such file",
        "inputs": {"path": "a.csv", "lines": [1, 2]}, "outputs": {"text": "x"},
    }  # fmt: skip
    bare = {"id": 6, "parent": 3, "kind": "tool", "name": "clock", "inputs": None, "outputs": None}
    other = {"kind": "agent", "name": "lost", "outputs": {"answer": "no id, so it is none"}}
    made = replace(record("17", "17"), trajectory=[own, call, bare, other])
    (found,) = AgentSteps.of(made).steps
    assert (found.agent, found.request, found.error, found.span) == (
        "reader", "Read it.\na.csv\nb.csv\n7", "cut off", 3,
    )  # fmt: skip
    assert found.outputs == {"answer": "Rome", "notes": ["one", {"two": 2}]} and found.offered
    assert [(each.name, each.asked, each.seen, each.error, each.span) for each in found.tools] == [
        ("read_file", "a.csv\n1\n2", "x", "no such file", 5), ("clock", "", "", None, 6),
    ]  # fmt: skip
    assert found.said == "Rome\none\n2" and found.seen == "Read it.\na.csv\nb.csv\n7\nx\n"
    assert (found.answer, found.decision, found.rejects, found.is_list) == ("Rome", None, False, False)
    assert replace(found, span=9) == found, "where it stands is no part of what it is"
    empty = Step("a", "b", {}, (), offered=False, error=None)
    assert (empty.span, empty.is_list, empty.said, empty.seen, empty.answer) == (-1, False, "", "b", "")
    assert ToolUse("t", "a", "s", None).span == -1


@pytest.mark.parametrize(
    ("decision", "rejects"),
    [("Reject", True), ("I would REJECT it", True), ("approve", False), ("", False), (7, False)],
)
def test_a_decision_rejects_if_it_says_so(decision: object, rejects: bool) -> None:
    (made,) = read(step("critic", decision=decision)).steps
    assert (made.decision, made.rejects) == (str(decision), rejects)
    assert read(step("critic", decision=decision)).work == (), "a critic makes nothing"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reasoning", True), ("the_working", True), ("rationale", True), ("trace_of_it", True), ("explanation", True),
        ("reply", False), ("work", False), ("", False),
    ],
)  # fmt: skip
def test_a_field_that_tells_how_an_answer_was_found_is_known_by_its_name(name: str, expected: bool) -> None:
    assert is_reasoning(name) is expected


def test_a_critic_judges_the_last_work_before_it_and_none_before_any() -> None:
    found = read(
        step("early", decision="reject"), step("expert", result="1"), step("silent"), step("critic", **APPROVED),
        step("other", **REJECTED), step("expert", result="2"), step("critic", **REJECTED),
    )  # fmt: skip
    pairs = [(critic.agent, critic.rejects, judged.outputs["result"]) for critic, judged in found.pair_reviews()]
    assert pairs == [("critic", False, "1"), ("other", True, "1"), ("critic", True, "2")]
    of_one = [(critic.agent, judged.outputs["result"]) for critic, judged in found.pair_reviews("critic")]
    assert of_one == [("critic", "1"), ("critic", "2")]


def test_drafts_are_of_the_last_agent_to_work_before_the_finisher_but_no_lists() -> None:
    found = read(
        step("expert", result="1"), step("other", result="2"), step("expert", result="3"), step("planner", tasks=["a"]),
        step("writer", final_answer="5"), step("writer", final_answer="6"),
    )  # fmt: skip
    assert [each.outputs for each in found.drafts] == [{"result": "1"}, {"result": "3"}]
    assert found.finish is not None and found.finish.outputs == {"final_answer": "6"}, "the last one"
    of_itself = read(PLAN, step("writer", final_answer="5"), step("writer", final_answer="6"))
    assert [each.outputs for each in of_itself.drafts] == [{"final_answer": "6"}]


def test_an_agent_had_tools_if_any_of_its_calls_offered_some_or_it_used_one() -> None:
    either, other, used, none = read(
        step("a", lm(), lm("search"), result="x"), step("b", lm("search"), lm(), result="x"),
        step("c", lm(), tool("search"), result="x"), step("d", {"kind": "tool_choice", "name": "x"}, result="x"),
    ).steps  # fmt: skip
    assert [each.offered for each in (either, other, used, none)] == [True, True, True, False]
    assert [len(each.tools) for each in (either, other, used, none)] == [0, 0, 1, 0]
