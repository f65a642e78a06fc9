"""The first broken link, told from the agents' steps alone: in small trajectories, and over the real systems."""

from collections import Counter
from typing import Any

import pytest

from eval.analysis.attribution.agent_attribution import attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps, Attribution
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from eval.runs.record import Record
from tests.optimize.simulated_runs import lm, record, records, step, tool

FILE = "ships.csv"
PLAN = step("planner", research_steps=[f"Read {FILE}."], expert_steps=["Find the highest."])
PAGE = tool("read_file", "Figolth 7201\nBovelck 788", file=FILE)
READ = step("researcher", PAGE, result="Figolth 7201, Bovelck 788")
APPROVED = {"decision": "approve", "feedback": "Fine."}
REJECTED = {"decision": "reject", "feedback": "Wrong."}


def blamed(made: Record) -> Attribution:
    return attribute_failure(made, AgentSteps.of(made), TargetMatcher(made.target or ""))


def expert(answer: str, *below: dict[str, Any], request: str = "Figolth 7201, Bovelck 788") -> list[dict[str, Any]]:
    return step("expert", *below, request=request, expert_answer=answer, reasoning_trace="It follows.")


def finalizer(answer: str) -> list[dict[str, Any]]:
    return step("finalizer", final_answer=answer)


def test_nobody_is_blamed_for_a_right_answer() -> None:
    assert blamed(record("Figolth", "Figolth", [PLAN, READ, expert("Figolth"), finalizer("Figolth")])) == Attribution(
        None
    )


def test_without_any_step_nothing_can_be_told() -> None:
    assert blamed(record("Figolth", "Bovelck")) == Attribution(None)


FINAL = finalizer("Bovelck")


@pytest.mark.parametrize(
    ("agent", "reason", "made"),
    [
        ("expert", "The evidence was in front", [PLAN, READ, expert("Bovelck"), finalizer("Bovelck")]),
        (
            "researcher",
            "left it out",
            [PLAN, step("researcher", PAGE, result="Bovelck 788"), expert("Bovelck", request="-"), FINAL],
        ),
        (
            "researcher",
            "stand in nothing it had read",
            [PLAN, step("researcher", PAGE, lm("read_file"), result="Bovelck had 800"), expert("Bovelck"), FINAL],
        ),
        (
            "researcher",
            "never read with a tool",
            [PLAN, step("researcher", lm("read_file"), result="It is known."), expert("Bovelck"), finalizer("Bovelck")],
        ),
        (
            "researcher",
            "tool call that was to open it failed",
            [
                PLAN,
                step("researcher", tool("read_file", error="ToolError: damaged", file=FILE), result="Nothing."),
                expert("Bovelck"),
                finalizer("Bovelck"),
            ],
        ),
        (
            "researcher",
            "Every tool call of this agent failed",
            [PLAN, READ, step("researcher", tool("x", error="ToolError: no"), result="-"), expert("Bovelck"), FINAL],
        ),
        (
            "planner",
            "The plan does not name the attached file",
            [
                step("planner", research_steps=[], expert_steps=["Think."]),
                expert("Bovelck", lm("calculator")),
                finalizer("Bovelck"),
            ],
        ),
        (
            "planner",
            "The plan was empty",
            [step("planner", research_steps=[], expert_steps=[]), expert("Bovelck"), finalizer("Bovelck")],
        ),
        ("finalizer", "was right, and what it made of it was not", [PLAN, READ, expert("Figolth"), FINAL]),
        (
            "critic_expert",
            "false alarm",
            [
                PLAN,
                READ,
                expert("Figolth"),
                step("critic_expert", **REJECTED),
                expert("Bovelck"),
                step("critic_expert", **APPROVED),
                finalizer("Bovelck"),
            ],
        ),
    ],
)  # fmt: skip
def test_the_first_broken_link(agent: str, reason: str, made: list[Any]) -> None:
    found = blamed(record("Figolth", "Bovelck", made, file=FILE))

    assert found.agent == agent
    assert reason in found.reason


@pytest.mark.parametrize(
    ("agent", "target", "draft", "answer"),
    [
        ("finalizer", "7201", "7201", "7201 tonnes"),
        ("finalizer", "7201", "7201", "7 201"),
        ("finalizer", "7201", "7201", "After all of that I arrive at 7201."),
        ("finalizer", "7201.12", "7201.1189", "7201.1189"),
        ("expert", "7201.12", "7201", "7201"),
        ("finalizer", "Bovelck, Figolth", "Bovelck, Figolth", "Bovelck and Figolth"),
        ("finalizer", "Bovelck, Figolth", "Bovelck, Figolth", "Figolth, Bovelck"),
        ("expert", "Bovelck, Figolth", "Figolth, Bovelck", "Figolth, Bovelck"),
    ],
)
def test_a_wrong_form_is_due_to_the_finish_unless_the_draft_had_lost_what_it_needs(
    agent: str, target: str, draft: str, answer: str
) -> None:
    found = blamed(record(target, answer, [READ, expert(draft), finalizer(answer)]))

    assert found.agent == agent
    assert "form" in found.reason


def test_a_number_out_of_the_head_is_told_apart_from_one_that_a_tool_gave() -> None:
    question = "What is 86 times 30?"
    unaided = record("2580", "2570", [expert("2570", lm("calculator"), request=question), finalizer("2570")])
    aided = record(
        "2580", "2570", [expert("2570", tool("calculator", "2570"), request=question), finalizer("2570")]
    )  # fmt: skip
    without_tools = record("2580", "2570", [expert("2570", request=question), finalizer("2570")])

    assert "without the tools that it has" in blamed(unaided).reason
    assert "tools" not in blamed(aided).reason
    assert "tools" not in blamed(without_tools).reason
    assert {blamed(each).agent for each in (unaided, aided, without_tools)} == {"expert"}


def test_a_short_gold_answer_is_no_evidence_of_its_own() -> None:
    page = tool("read_file", "row 4 of 12", file=FILE)
    made = [PLAN, step("researcher", page, result="There are rows."), expert("5"), finalizer("5")]
    found = blamed(record("4", "5", made, file=FILE))

    assert found.agent == "expert"
    assert "As far as can be told" in found.reason


def test_retries_that_ran_out_are_due_to_the_worker_unless_a_right_draft_was_rejected() -> None:
    critic = step("critic_expert", **REJECTED)
    limit = {"limit": "retry_limit:expert"}
    given_up = "The question could not be answered."

    assert blamed(record("Figolth", given_up, [expert("Bovelck"), critic], **limit)).agent == "expert"
    assert blamed(record("Figolth", given_up, [expert("Figolth"), critic], **limit)).agent == "critic_expert"


@pytest.mark.parametrize(
    ("agent", "error_class", "component"),
    [
        ("expert", "malformed", "expert"),
        ("expert", "limit", "expert"),
        ("researcher", "tool", "read_file"),
        (None, "infrastructure", "expert"),
        (None, "internal", "expert"),
        (None, "scorer", "scorer"),
    ],
)
def test_a_failed_question_is_due_to_an_agent_only_if_a_prompt_can_help(
    agent: str | None, error_class: str, component: str
) -> None:
    failing = step("researcher", tool("read_file", error="ToolError: damaged"), result="Nothing.")
    made = record("Figolth", None, [failing, expert("Bovelck")], error="It broke.", error_class=error_class)
    made.score, made.error_component = None, component

    assert blamed(made).agent == agent


@pytest.mark.slow
def test_who_is_blamed_over_the_real_systems(capsys: pytest.CaptureFixture[str]) -> None:
    """The sanity table: every wrong answer of the simulated model has an agent, and no agent has them all."""
    by_system = {}
    for name, samples in (
        ("toy", ToyDataset().load("val").samples),
        ("gaia", BundledDataset().load("val").samples),
    ):
        found = [blamed(each) for each in records(name, samples[:40], "normal") if not each.correct]
        by_system[name] = Counter(each.agent for each in found)
    with capsys.disabled():
        print(f"\nblame, simulated model: { {name: dict(each) for name, each in by_system.items()} }")

    assert by_system["toy"].keys() <= {"plan", "solve", "finalize"}
    assert by_system["toy"]["solve"] > 3 and by_system["toy"]["finalize"] > 2
    assert None not in by_system["gaia"]
    assert {"researcher", "expert", "finalizer"} <= by_system["gaia"].keys()


def test_evidence_is_lost_if_one_tool_returned_it_and_no_report_has_it() -> None:
    other = tool("search", "nothing was found")
    lost = step("researcher", other, PAGE, lm("read_file"), result="Bovelck 788")
    found = blamed(record("Figolth", "Bovelck", [PLAN, lost, expert("Bovelck", request="-"), FINAL]))
    assert found.agent == "researcher" and "left it out" in str(found.reason)
    kept = step("researcher", PAGE, lm("read_file"), result="Figolth 7201")
    found = blamed(record("Figolth", "Bovelck", [PLAN, kept, lost, expert("Bovelck", request="-"), FINAL]))
    assert "left it out" not in str(found.reason), "one of its reports has it"
