"""Each of the seven agents through a real `dspy.Predict`, whatever the adapter."""

from pathlib import Path
from typing import Any, Literal

import dspy
import pytest

from mas.tools.attachments import use_attachments
from mas.tools.calculator import calculator
from mas.tools.read_file import read_file as real_read_file
from mas.tools.unit_converter import unit_converter
from scripts.sample_data.office import zip_bytes

pytestmark = pytest.mark.usefixtures("flawless")

FOUND = "1. Found in shop.csv:\n\nitem | price | stock\nPen | 2.50 | 40\nInk | 9.00 | 12\nNib | 0.75 | 90"


def expert_request(question: str, research: str = "(none)") -> str:
    return (
        f"Answer the following question.\n\nThe question:\n{question}\n\n"
        f"The research results:\n{research}\n\nThe steps to follow:\n1. Work it out."
    )


def review(question: str, answer: str) -> str:
    return (
        f"Review the following answer to a question.\n\nThe question:\n{question}\n\n"
        f"The research results:\n{FOUND}\n\nThe expert's answer:\n{answer}\n\nThe expert's reasoning:\nI looked."
    )


@pytest.fixture
def read_file() -> Any:
    """Two pages in the form of the real tool, which the end-to-end test below uses."""

    def read_file(file: str, sheet: str | None = None, page: int = 1, search: str | None = None) -> str:
        """Read a file."""
        assert (file, sheet, search) == ("shop.csv", None, None)
        rows = {1: "row | item | price\n1 | Pen | 2.50", 2: "row | item | price\n2 | Ink | 9.00"}
        return f"{file}: table; page {page} of 2\n\n{rows[page]}"

    return read_file


def test_planner_sends_the_researcher_to_the_file(agents: Any) -> None:
    request = "Develop a logical plan to answer the following question:\nWhat does ink cost?"
    plan = agents.ask("planner", request=f"{request}\n\nInclude using following file: shop.csv", file="shop.csv")

    assert ["shop.csv" in step for step in plan.research_steps] == [True]
    assert "What does ink cost?" in plan.research_steps[0]
    assert plan.expert_steps


def test_planner_plans_no_research_without_a_file(agents: Any) -> None:
    plan = agents.ask("planner", request="Develop a logical plan to answer the following question:\nWhat is 2 + 2?")

    assert plan.research_steps == []


def test_planner_changes_the_plan_after_feedback(agents: Any) -> None:
    first = {"request": "Develop a logical plan to answer the following question:\nWhat is 2 + 2?", "file": None}
    before = agents.ask("planner", **first)
    turn = {**first, "research_steps": before.research_steps, "expert_steps": before.expert_steps}
    after = agents.ask(
        "planner",
        request="Use the following feedback to improve the plan:\nCheck it.",
        history=dspy.History(messages=[turn]),
    )

    assert len(after.expert_steps) == len(before.expert_steps) + 1


def test_researcher_reads_every_page_and_passes_the_rows_on(agents: Any, read_file: Any) -> None:
    topic = "Research the following topic or question: Read the file shop.csv to answer: What does Ink cost?"
    reply, called = agents.work("researcher", [read_file], research_request=topic, file="shop.csv")

    assert called == ["read_file", "read_file"]
    assert "Pen | 2.50\nInk | 9.00" in reply.result


@pytest.mark.parametrize(
    ("name", "content", "question", "answer"),
    [
        ("towns.csv", "town,people\nMora,120\nVelt,80\n", "How many people live in Velt, in the attached file?", "80"),
        (
            "towns.json",
            '{"towns": {"Mora": {"mayor": "Ada"}, "Velt": {"mayor": "Ben"}}}',
            "Who is the mayor of Velt?",
            "Ben",
        ),
        (
            "note.txt",
            "The ferry is blue. It leaves from pier 12 at noon.",
            "From which pier does the ferry leave?",
            "12",
        ),
    ],
)
def test_researcher_and_expert_answer_from_a_real_file(
    agents: Any, tmp_path: Path, name: str, content: str, question: str, answer: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with use_attachments([path]):
        topic = f"Research the following topic or question: Read the file {name} to answer: {question}"
        found, called = agents.work("researcher", [real_read_file], research_request=topic, file=name)
    reply, _ = agents.work("expert", [calculator], expert_request=expert_request(question, f"1. {found.result}"))

    assert called == ["read_file"]
    assert reply.expert_answer == answer


def test_researcher_opens_the_member_of_an_archive_that_the_question_names(agents: Any, tmp_path: Path) -> None:
    rows = {name: f"ship,load\nVelmor,{load}\n".encode() for name, load in (("old/x.csv", 17), ("new/x.csv", 412))}
    (tmp_path / "ships.zip").write_bytes(zip_bytes(rows))
    topic = "Read the file ships.zip to answer: What is the load of Velmor in `new/x.csv`?"
    with use_attachments([tmp_path / "ships.zip"]):
        found, called = agents.work("researcher", [real_read_file], research_request=topic, file="ships.zip")

    assert called == ["read_file", "read_file"]
    assert "Velmor | 412" in found.result and "17" not in found.result


def test_researcher_without_a_file_calls_nothing(agents: Any, read_file: Any) -> None:
    reply, called = agents.work("researcher", [read_file], research_request="Research the following: X")

    assert called == []
    assert "No source is needed" in reply.result


def test_researcher_reports_a_file_that_cannot_be_read(agents: Any) -> None:
    def read_file(file: str) -> str:
        """Read a file."""
        return "read_file failed: it is damaged"

    reply, called = agents.work("researcher", [read_file], research_request="Research the following: X", file="a.csv")

    assert called == ["read_file"]
    assert "it is damaged" in reply.result
    assert agents.ask("critic_researcher", research_to_review=reply.result).decision == "reject"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the price of Ink?", "9.00"),
        ("Which item has the lowest price?", "Nib"),
        ("List the items with a stock over 30, in alphabetical order.", "Nib, Pen"),
    ],
)
def test_expert_answers_from_the_research(agents: Any, question: str, answer: str) -> None:
    reply, called = agents.work("expert", [calculator], expert_request=expert_request(question, FOUND))

    assert reply.expert_answer == answer
    assert called == []
    assert answer in reply.reasoning_trace


@pytest.mark.parametrize(
    ("question", "tool", "answer"),
    [
        ("What is 17.5% of 240?", "calculator", "42"),
        ("What is the remainder when 69 to the power of 48 is divided by 7055?", "calculator", "2721"),
        ("Convert 485 kilograms to pounds. Round to two decimal places.", "unit_converter", "1069.24"),
        ("Convert 212 degrees Fahrenheit to degrees Celsius, to the nearest whole number.", "unit_converter", "100"),
    ],
)
def test_expert_computes_with_the_real_tools(agents: Any, question: str, tool: str, answer: str) -> None:
    reply, called = agents.work("expert", [calculator, unit_converter], expert_request=expert_request(question))

    assert called == [tool]
    assert reply.expert_answer == answer


def test_expert_adds_up_in_the_head_when_no_tool_is_offered(agents: Any) -> None:
    question = "What is the total stock of all items?"
    reply, called = agents.work("expert", [], expert_request=expert_request(question, FOUND))

    assert (reply.expert_answer, called) == ("142", [])


def test_expert_stops_when_no_more_calls_are_allowed(agents: Any) -> None:
    def unit_converter(quantity: str, to_unit: str) -> str:
        """Convert."""
        return "unit_converter failed: no. [No more tool calls are allowed: give the answer now.]"

    request = expert_request("Convert 3 feet to metres.")
    reply, called = agents.work("expert", [unit_converter], expert_request=request)

    assert (reply.expert_answer, called) == ("unknown", ["unit_converter"])


@pytest.mark.parametrize(("answer", "decision"), [("9.00", "approve"), ("0.75", "reject")])
def test_critic_of_the_expert_works_the_answer_out_itself(agents: Any, answer: str, decision: str) -> None:
    verdict = agents.ask("critic_expert", answer_to_review=review("What is the price of Ink?", answer))

    assert verdict.decision == decision
    assert verdict.feedback


@pytest.mark.parametrize(("step", "decision"), [("Read shop.csv", "approve"), ("Look around", "reject")])
def test_critic_of_the_planner_wants_the_file_read(agents: Any, step: str, decision: str) -> None:
    plan = (
        f"Review the following plan.\n\nThe research steps:\n1. {step}\n\n"
        "The expert steps:\n1. Answer in the form asked for."
    )

    assert agents.ask("critic_planner", plan_to_review=plan, file="shop.csv").decision == decision


def test_finalizer_gives_the_experts_answer_alone(agents: Any) -> None:
    request = "Give the final answer.\n\nThe expert's answer:\n9.00\n\nThe expert's reasoning:\nRow of Ink."
    final = agents.ask("finalizer", answer_request=request)

    assert (final.final_answer, final.final_reasoning_trace) == ("9.00", "Row of Ink.")


class Typed(dspy.Signature):  # type: ignore[misc]
    """Somebody's own."""

    question: str = dspy.InputField()
    label: Literal["it's", "bug (open)", "other"] = dspy.OutputField(desc="one (of them)")
    tags: list[str] = dspy.OutputField()
    facts: dict[str, Any] = dspy.OutputField()
    n: int = dspy.OutputField()
    share: float = dspy.OutputField()
    urgent: bool = dspy.OutputField(desc="(rare)")
    answer: str = dspy.OutputField()


@pytest.mark.usefixtures("agents")
def test_fields_of_another_program_get_a_value_of_their_type() -> None:
    found = dspy.Predict(Typed)(question="?")
    assert (found.label, found.tags, found.facts, found.n, found.share) == ("other", [], {}, 0, 0)
    assert (found.urgent, found.answer) == (False, "unknown")


@pytest.mark.usefixtures("agents")
def test_an_agent_of_another_program_finishes() -> None:
    def search(query: str) -> str:
        """Search."""
        raise AssertionError(query)

    assert dspy.ReAct("question -> answer", tools=[search])(question="?").answer == "unknown"
