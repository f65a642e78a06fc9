"""The tutorial's programs on the simulated model: the labels that a prompt names, and problems in two steps."""

import csv
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from dspy.utils.exceptions import AdapterParseError

from mas.llm.profiles.model import AgentModel
from mas.simulation import SimulatedModel, propose_prompt
from mas.simulation.chat import Turn
from mas.simulation.roles.tickets import sort_ticket
from mas.simulation.skills.behaviour import World
from optimize.search.optimizers.prompt_rewriter import build_brief
from scripts.make_tutorial_data import draw_problems, draw_tickets
from tests.mas.simulation.roles.scripted import Scripted, read, scripted

TICKETS = draw_tickets()[:100]
LABELS = sorted({ticket[-1] for ticket in TICKETS})
NAMED = f"Sort the ticket. Answer with exactly one of these labels: {', '.join(LABELS)}."


def is_right(ask: Callable[[], dspy.Prediction], wanted: str) -> bool:
    """Whether the last output is as wanted; the simulated model fails the format now and then."""
    try:
        return ask().values()[-1] == wanted
    except AdapterParseError:
        return False


def count_right(instructions: str, world: str = "normal") -> int:
    """Tickets that the simulated model sorts right with these instructions."""
    classify = dspy.Predict(dspy.Signature("title, body -> category", instructions))
    with dspy.context(lm=SimulatedModel(world=world).create_lm(AgentModel())):
        return sum(is_right(partial(classify, title=title, body=body), wanted) for title, body, _, wanted in TICKETS)


def test_a_prompt_that_names_the_labels_sorts_better_but_in_the_null_world() -> None:
    plain, half, named = (count_right(text) for text in ("Sort the ticket.", "Sort: billing or login.", NAMED))
    assert plain < 50 < half + 20 < named
    assert named > 85
    assert abs(count_right(NAMED, "null") - count_right("Sort the ticket.", "null")) < 15


@pytest.mark.parametrize("labels", [LABELS, []])
def test_the_reflection_names_labels_that_its_brief_lists_and_no_others(labels: list[str]) -> None:
    asked = (Message.user(f"{build_brief(labels)}\n\n```\nSort the ticket.\n```"),)
    requests = [Request("offline/normal-0", asked, config=Config(seed=seed)) for seed in range(20)]
    replies = [propose_prompt(request).message.text or "" for request in requests]
    naming = sum(f"one of these labels: {', '.join(LABELS)}." in reply for reply in replies)
    assert 3 <= naming <= 17 if labels else naming == 0


def test_a_problem_is_solved_in_two_steps() -> None:
    work, conclude = dspy.Predict("problem -> working"), dspy.Predict("problem, working -> answer")

    def solve(problem: str) -> dspy.Prediction:
        return conclude(problem=problem, working=work(problem=problem).working)

    with dspy.context(lm=SimulatedModel().create_lm(AgentModel())):
        right = sum(is_right(partial(solve, problem), wanted) for problem, _, wanted in draw_problems()[:40])
    assert 2 <= right <= 20  # its prompts do not ask for the answer alone


def test_the_tutorials_data_are_distinct_and_readable_as_csv() -> None:
    tickets, problems = draw_tickets(), draw_problems()
    assert len({(title, body) for title, body, *_ in tickets}) == len(tickets) == 300
    assert len({problem for problem, *_ in problems}) == len(problems) == 360
    text = io.StringIO()
    csv.writer(text).writerows(tickets)
    assert [tuple(row) for row in csv.reader(io.StringIO(text.getvalue()))] == tickets


KINDS = ("billing", "delivery", "login", "refund", "defect")
OUTPUTS = {"reasoning": "str", "category": "str"}


def sort(body: str, prompt: str = "", picked: int = 0, drawn: float = 0.5, world: str = "normal", **others: Any) -> str:
    chat = read("ticket", {"title": "Hello", "body": body}, prompt=prompt, outputs=OUTPUTS, **others)
    reply = sort_ticket(chat, scripted(body, picked=picked, drawn=drawn, world=world))
    assert list(reply.fields) == ["reasoning", "category"] and not reply.calls
    assert reply.fields["reasoning"] == "It follows from the ticket's words."
    return str(reply.fields["category"])


@pytest.mark.parametrize(
    ("body", "kind", "own_names"),
    [
        ("The INVOICE is wrong.", "billing", ("Payment problem", "Invoice question", "billing")),
        ("My parcel is late.", "delivery", ("Shipping", "Late parcel", "delivery")),
        ("I cannot sign in.", "login", ("Account access", "Password reset", "login")),
        ("I want my money back.", "refund", ("Return request", "Reimbursement", "refund")),
        ("It is broken.", "defect", ("Product fault", "Technical issue", "defect")),
    ],
)
def test_a_ticket_has_the_name_that_the_prompt_teaches_or_one_of_the_models_own(
    body: str, kind: str, own_names: tuple[str, ...]
) -> None:
    taught = ", ".join(KINDS)
    assert sort(body, taught) == kind
    assert tuple(sort_with_name(body, picked) for picked in range(3)) == own_names


def sort_with_name(body: str, picked: int) -> str:
    """The category of a ticket of one kind, under the model's own name of this number."""

    class Naming(Scripted):
        def pick(self, kinds: int, of: str) -> int:
            assert kinds == {"category": 1, "name": 3}[of]
            return picked if of == "name" else 0

    behaviour = Naming(World(), "", "", {}, question=body, decision_key=body)
    chat = read("ticket", {"title": "Hello", "body": body}, outputs=OUTPUTS)
    return str(sort_ticket(chat, behaviour).fields["category"])


def test_a_ticket_of_no_kind_is_other_and_one_of_two_kinds_is_one_of_them() -> None:
    assert sort("Good morning.") == "other"
    both = "The parcel is broken."
    assert [sort(both, ", ".join(KINDS), picked=picked) for picked in (0, 1)] == ["delivery", "defect"]


@pytest.mark.parametrize(
    ("prompt", "chance"),
    [("", 0.0), ("billing", 0.93 / 5), ("Billing, login", 0.93 * 2 / 5), (", ".join(KINDS), 0.93)],
)
def test_each_name_that_the_prompt_or_an_example_teaches_raises_the_chance(prompt: str, chance: float) -> None:
    for drawn, knows in ((max(chance - 0.001, 0.0), chance > 0), (chance + 0.001, False)):
        assert (sort("The invoice is wrong.", prompt, drawn=drawn) == "billing") is knows
        assert sort("The invoice is wrong.", prompt, drawn=drawn, world="null") == "Payment problem"
    demo = Turn({"title": "x"}, reply={"category": "billing"})
    assert sort("The invoice is wrong.", drawn=0.18, demos=(demo, Turn({}))) == "billing"
    assert sort("The invoice is wrong.", drawn=0.19, demos=(demo,)) == "Payment problem"
