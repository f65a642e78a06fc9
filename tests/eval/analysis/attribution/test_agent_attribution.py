"""The first broken link, told from the agents' steps alone: in small trajectories, and over the real systems."""

from collections import Counter
from typing import Any

import pytest

from eval.analysis.attribution.agent_attribution import Attribution, attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps
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
    assert reason in found.reason[0]


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
    assert "form" in found.reason[0]


def test_a_number_out_of_the_head_is_told_apart_from_one_that_a_tool_gave() -> None:
    question = "What is 86 times 30?"
    unaided = record("2580", "2570", [expert("2570", lm("calculator"), request=question), finalizer("2570")])
    aided = record(
        "2580", "2570", [expert("2570", tool("calculator", "2570"), request=question), finalizer("2570")]
    )  # fmt: skip
    without_tools = record("2580", "2570", [expert("2570", request=question), finalizer("2570")])

    assert "without the tools that it has" in blamed(unaided).reason[0]
    assert "tools" not in blamed(aided).reason[0]
    assert "tools" not in blamed(without_tools).reason[0]
    assert {blamed(each).agent for each in (unaided, aided, without_tools)} == {"expert"}


def test_a_short_gold_answer_is_no_evidence_of_its_own() -> None:
    page = tool("read_file", "row 4 of 12", file=FILE)
    made = [PLAN, step("researcher", page, result="There are rows."), expert("5"), finalizer("5")]
    found = blamed(record("4", "5", made, file=FILE))

    assert found.agent == "expert"
    assert "As far as can be told" in found.reason[0]


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


# Whole attributions: the agent, the most specific reason, the step's and the tool's span.


def whole(made: Record) -> tuple[str | None, str, int | None, int | None]:
    found = blamed(made)
    return (
        found.agent,
        found.reason[0] if found.reason else "",
        found.step.span if found.step else None,
        found.tool.span if found.tool else None,
    )


DAMAGED = tool("read_file", error="ToolError: damaged", file=FILE)
TROUBLED = [
    step("planner", DAMAGED, tool("search", "ok"), tool("search", error="ToolError: gone"), tool("search", "ok")),
    step("expert", tool("search", error="ToolError: slow")),
    step("planner", tool("search", "ok"), steps=["a"]),
    step("writer", text="x"),
]  # spans: 1 with tools 2 to 5, 6 with 7, 8 with 9, 10


def failed(error_class: str | None, component: str | None, steps: list[Any] = TROUBLED, **changes: Any) -> Record:
    changes = {"error": "It broke.", "error_class": error_class, "error_component": component, "score": None} | changes
    return record("Figolth", None, steps, **changes)


@pytest.mark.parametrize(
    ("error_class", "component", "agent", "why", "at", "tool_at"),
    [
        ("malformed", "planner", "planner",
         "its reply could not be read: output fields were missing or not in the form asked for", 8, None),
        ("truncated", "planner", "planner", "its reply was too long and was cut off", 8, None),
        ("context_overflow", "writer", "writer", "what it was given to read was too long", 10, None),
        ("refused", "planner", "planner", "it refused to reply", 8, None),
        ("limit", "expert", "expert", "it was at work when a limit was reached (lm_calls)", 6, None),
        ("tool", "expert", "expert", "a tool that it called failed", 6, 7),
        ("tool", "planner", "planner", "a tool that it called failed", 8, None),
        ("tool", "search", "expert", "a tool that it called failed", 6, 7),
        ("tool", None, "expert", "a tool that it called failed", 6, 7),
    ],
)  # fmt: skip
def test_a_failure_is_that_of_the_agent_that_was_running_or_of_the_last_with_a_failed_tool(
    error_class: str, component: str | None, agent: str, why: str, at: int, tool_at: int | None
) -> None:
    found = whole(failed(error_class, component, limit="lm_calls"))
    assert found == (agent, f"The question failed with this agent: {why}.", at, tool_at)


@pytest.mark.parametrize(
    ("error_class", "component"),
    [
        (None, "expert"),
        ("infrastructure", "expert"),
        ("internal", "expert"),
        ("malformed", "nobody"),
        ("malformed", None),
        ("limit", "search"),
    ],
)
def test_a_failure_that_no_prompt_can_help_or_that_came_before_any_agent_has_none(
    error_class: str | None, component: str | None
) -> None:
    assert blamed(failed(error_class, component)) == Attribution(None)


def test_of_several_failed_tools_the_last_is_named() -> None:
    found = whole(failed("tool", None, TROUBLED[:1]))
    assert (found[0], found[2], found[3]) == ("planner", 1, 4)


def test_a_users_own_program_that_failed_is_asked_for_its_last_predictor_only_if_no_agent_is_known() -> None:
    state = {"outputs": {"text": "x"}}
    failing = failed("internal", "system", state=state)
    assert whole(failing) == (
        "writer",
        "The program's code failed on what this agent had replied, the last reply before the failure.",
        10,
        None,
    )
    assert blamed(failed("internal", "system")) == Attribution(None), "a system with known roles"
    assert blamed(failed("malformed", "planner", state=state)).agent == "planner"
    assert blamed(failed("infrastructure", "system", state=state)) == Attribution(None)
    assert blamed(record("Figolth", "Bovelck", [], state=state)) == Attribution(None)


GIVEN_UP = "The question was given up: its work was rejected until its retries ran out."
UNREAD = "The question was given up: some of its replies could not be read."
FALSE_ALARM = "This agent rejected a draft that was right in content, and the right answer was lost: a false alarm."
SPOILT = (
    "The draft that this agent received was right, and what it made of it was not: the content was changed where only "
    "the form was to be given."
)
FORM = "The answer was right in content, and this agent did not give it the form that the question asks for."
REASONED = (
    "As far as can be told, what it was given sufficed, and this agent's own reasoning or calculation went wrong."
)
UNUSED = "The evidence was in front of this agent, and it did not draw the right answer from it."
NO_CALCULATOR = (
    "As far as can be told, this agent's result is wrong: the number comes from no tool and from nothing it was given, "
    "so it was calculated without the tools that it has."
)
UNPLANNED = "The plan does not name the attached file, and nobody read it: the evidence was never retrieved."
UNOPENED = "The attached file was never read with a tool: the evidence was never retrieved."
UNOPENABLE = "The attached file was never read: the tool call that was to open it failed."
ALL_FAILED = "Every tool call of this agent failed, and it went on without the evidence."
NOWHERE = (
    "This agent reported values that stand in nothing it had read: made up, rounded off or copied wrongly, where the "
    "exact values of the source were needed as evidence."
)
LOST = "The evidence was in what the tools returned to this agent, and its report left it out."
NO_FILE_PLAN = step("planner", research_steps=["Read."], expert_steps=["Find it."])
GONE = tool("search", error="ToolError: gone")
REVIEW = step("critic_expert", **REJECTED)


def thought(answer: str, *below: dict[str, Any]) -> list[dict[str, Any]]:
    return expert(answer, *below, request="-")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        # the finish
        ([READ, expert("Figolth"), FINAL], ("finalizer", SPOILT, 4, None)),
        ([expert("Bovelck"), expert("Figolth"), FINAL], ("finalizer", SPOILT, 3, None)),
        ([step("finalizer", final_answer="Bovelck")], ("finalizer", REASONED, 1, None)),
        ([expert("Bovelck")], ("expert", UNUSED, 1, None)),
        # drafts that were rejected
        ([thought("Figolth"), REVIEW, thought("Bovelck"), REVIEW, FINAL], ("critic_expert", FALSE_ALARM, 2, None)),
        ([thought("Bovelck"), REVIEW, thought("Figolth"), REVIEW, thought("Korth"), FINAL],
         ("critic_expert", FALSE_ALARM, 4, None)),
        ([thought("Figolth"), step("critic_expert", **APPROVED), thought("Bovelck"), FINAL],
         ("expert", REASONED, 3, None)),
        ([step("researcher", result="Figolth"), REVIEW, thought("Bovelck"), FINAL], ("expert", REASONED, 3, None)),
        # the plan
        ([step("planner", research_steps=[], expert_steps=[]), thought("Bovelck"), FINAL],
         ("planner", "The plan was empty.", 1, None)),
        ([PLAN, thought("Bovelck"), FINAL], ("expert", REASONED, 2, None)),
        # tools
        ([step("researcher", GONE, DAMAGED, result="-"), thought("Bovelck"), FINAL],
         ("researcher", ALL_FAILED, 1, 3)),
        ([step("researcher", GONE, tool("search", "-"), result="-"), thought("Bovelck"), FINAL],
         ("expert", REASONED, 4, None)),
        ([step("researcher", result="-"), thought("Bovelck", GONE), FINAL], ("expert", ALL_FAILED, 2, 3)),
        # reports
        ([step("researcher", PAGE, result="Bovelck 788"), thought("Bovelck"), FINAL], ("researcher", LOST, 1, None)),
        ([step("researcher", PAGE, result="-"), step("researcher", result="-"), thought("Bovelck"), FINAL],
         ("researcher", LOST, 3, None)),
        ([step("researcher", PAGE, result="Figolth"), step("researcher", result="-"), thought("Bovelck"), FINAL],
         ("expert", REASONED, 4, None)),
        ([step("researcher", PAGE, result="-"), step("reader", PAGE, result="Figolth"), thought("Bovelck"), FINAL],
         ("researcher", LOST, 1, None)),
        # the draft
        ([READ, expert("Bovelck"), FINAL], ("expert", UNUSED, 3, None)),
        ([PLAN], ("planner", "", None, None)),
    ],
)  # fmt: skip
def test_a_wrong_answer_has_the_step_and_the_reason_of_the_first_rule_that_applies(
    made: list[Any], expected: tuple[str | None, str, int | None, int | None]
) -> None:
    found = whole(record("Figolth", "Bovelck", made))
    assert found == (expected if expected[1] else (None, "", None, None))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([NO_FILE_PLAN, step("researcher", lm("read_file"), result="-"), thought("Bovelck"), FINAL],
         ("planner", UNPLANNED, 1, None)),
        ([PLAN, step("researcher", lm("read_file"), result="-"), thought("Bovelck", lm("calculator")), FINAL],
         ("researcher", UNOPENED, 2, None)),
        ([PLAN, step("researcher", result="-"), thought("Bovelck", lm("calculator")), FINAL],
         ("expert", UNOPENED, 3, None)),
        ([step("planner", lm("read_file"), research_steps=[f"Read {FILE}."]), thought("Bovelck"), FINAL],
         ("expert", REASONED, 3, None)),
        ([NO_FILE_PLAN, step("researcher", DAMAGED, result="-"), thought("Bovelck", DAMAGED), FINAL],
         ("expert", UNOPENABLE, 4, 5)),
        ([NO_FILE_PLAN, step("researcher", DAMAGED, tool("search", "-"), DAMAGED, GONE, result="-"),
          thought("Bovelck"), FINAL], ("researcher", UNOPENABLE, 2, 5)),
        ([NO_FILE_PLAN, step("researcher", DAMAGED, tool("read_file", "-", file=FILE), result="-"),
          thought("Bovelck"), FINAL], ("expert", REASONED, 5, None)),
        ([NO_FILE_PLAN, step("researcher", tool("read_file", "-", file="other.csv"), result="-"),
          thought("Bovelck"), FINAL], ("planner", UNPLANNED, 1, None)),
        ([step("researcher", lm(), result="-"), thought("Bovelck"), FINAL], ("expert", REASONED, 3, None)),
    ],
)  # fmt: skip
def test_an_attached_file_that_nobody_read_is_due_to_who_should_have_opened_it(
    made: list[Any], expected: tuple[str, str, int, int | None]
) -> None:
    assert whole(record("Figolth", "Bovelck", made, file=FILE)) == expected
    without_file = whole(record("Figolth", "Bovelck", made))
    assert without_file[1] not in (UNPLANNED, UNOPENED, UNOPENABLE)


@pytest.mark.parametrize(
    ("report", "blames"),
    [
        ("It had 100 tons.", True),
        ("It had 99 tons.", False),
        ("It had 1.5 tons.", True),
        ("It had 2.0 tons.", False),
        ("It had 7201 tons.", False),  # as it was read
        ("It had 1912 tons.", False),  # as the question says
        ("Figolth had 100 tons.", False),  # it is the evidence
    ],
)
def test_values_are_from_nowhere_if_they_are_large_or_broken_and_stand_in_nothing_that_was_read(
    report: str, blames: bool
) -> None:
    page = tool("read_file", "There were 7201 in it.")
    question = "What was it in 1912?"
    made = [step("researcher", page, result=report), thought("Bovelck"), FINAL]
    found = whole(record("Figolth", "Bovelck", made, question=question))
    assert found == (("researcher", NOWHERE, 1, None) if blames else ("expert", REASONED, 3, None))
    bare = [step("researcher", result=report), thought("Bovelck"), FINAL]
    assert whole(record("Figolth", "Bovelck", bare, question=question)) == ("expert", REASONED, 2, None)


@pytest.mark.parametrize(
    ("draft", "request_text", "unaided"),
    [
        ("10", "-", True),
        ("9", "-", False),
        ("10.5", "-", True),
        ("10", "There are 10.", False),
        ("25", "What is 86 times 30?", True),
        ("86", "-", False),  # the question has it
        ("ten", "-", False),  # no digit
        ("about 11, of 86", "-", False),
    ],
)
def test_a_result_was_calculated_without_tools_if_a_number_of_two_digits_is_from_nowhere(
    draft: str, request_text: str, unaided: bool
) -> None:
    made = [expert(draft, lm("calculator"), request=request_text), finalizer(draft)]
    found = whole(record("2580", draft, made, question="What is 86 times 30?"))
    assert found == ("expert", NO_CALCULATOR if unaided else REASONED, 1, None)


def test_evidence_that_stands_in_the_question_itself_is_no_evidence() -> None:
    made = [expert("Bovelck"), finalizer("Bovelck")]
    assert whole(record("Figolth", "Bovelck", made, question="Is it Figolth?"))[1] == REASONED
    assert whole(record("Figolth", "Bovelck", made, question="Which?"))[1] == UNUSED


@pytest.mark.parametrize(
    ("made", "unreadable", "expected"),
    [
        ([thought("Bovelck"), REVIEW, thought("Korth"), REVIEW], [], ("expert", GIVEN_UP, 3, None)),
        ([thought("Bovelck"), REVIEW], ["expert"], ("expert", UNREAD, 1, None)),
        ([thought("Bovelck"), REVIEW], ["critic_expert"], ("expert", GIVEN_UP, 1, None)),
        ([thought("Bovelck"), REVIEW, thought("Figolth"), REVIEW], ["expert"],
         ("critic_expert", FALSE_ALARM, 4, None)),
        ([thought("Figolth"), step("critic_expert", **APPROVED)], [], ("expert", GIVEN_UP, 1, None)),
        ([step("other", result="Figolth"), REVIEW, thought("Bovelck")], [], ("expert", GIVEN_UP, 3, None)),
        ([PLAN], [], ("expert", GIVEN_UP, None, None)),
    ],
)  # fmt: skip
def test_exhausted_retries_have_the_workers_last_step_or_the_critics_false_alarm(
    made: list[Any], unreadable: list[str], expected: tuple[str, str, int | None, None]
) -> None:
    found = record("Figolth", "Bovelck", [*made, FINAL], limit="retry_limit:expert")
    found.trajectory[0]["events"] = [{"name": "unusable reply", "agent": each, "error": "?"} for each in unreadable]
    assert whole(found) == expected


def test_other_limits_say_nothing_of_retries() -> None:
    made = [thought("Bovelck"), REVIEW, FINAL]
    assert whole(record("Figolth", "Bovelck", made, limit="tool_calls")) == ("expert", REASONED, 1, None)


@pytest.mark.parametrize(
    ("target", "draft", "answer", "expected"),
    [
        ("7201", "7201", "7201 tonnes", ("finalizer", FORM, 2, None)),
        ("Bovelck, Figolth", "Figolth, Bovelck", "Figolth, Bovelck", ("expert", FORM, 1, None)),
        ("7201.12", "7201", "7201", ("expert", FORM, 1, None)),
        ("7201.12", "7201.1189", "7201.1189", ("finalizer", FORM, 2, None)),
        ("7201", "7201", "7300", ("finalizer", SPOILT, 2, None)),
        ("7201", "7201", None, ("finalizer", SPOILT, 2, None)),
        ("7201", "7300", "It is 7201 tonnes", ("expert", REASONED, 1, None)),
    ],
)
def test_a_right_draft_was_spoilt_in_form_or_in_content(
    target: str, draft: str, answer: str | None, expected: tuple[str, str, int, None]
) -> None:
    assert whole(record(target, answer, [thought(draft), finalizer(answer or "")])) == expected
