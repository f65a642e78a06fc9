"""Plans, and what each critic says of sound and of faulty work, attentive or not."""

import pytest

from mas.simulation.chat import Reply
from mas.simulation.roles.planner_and_critics import plan, review_answer, review_plan, review_research
from mas.simulation.solving.material import NOTHING_FOUND
from tests.mas.simulation.roles.scripted import read, scripted

QUESTION = "What is the price of Ink?"
WORK, FORM = "Work out the answer to the question from the research results.", "Give it in the form that is asked for."
READ = f"Read the file shop.csv and find what is needed to answer: {QUESTION}"
LOOK = f"Look for general information to answer: {QUESTION}"
SHORT, FIRST = "keep_the_plan_short_and_complete", "read_the_attached_file_first"
APPROVED = Reply({"decision": "approve", "feedback": "The work is complete and follows from what it is based on."})
PETTY = Reply({"decision": "reject", "feedback": "This could be worked out in more detail; do it again."})


def rejected(feedback: str) -> Reply:
    return Reply({"decision": "reject", "feedback": feedback})


@pytest.mark.parametrize(
    ("file", "forgotten", "picked", "research_steps", "expert_steps"),
    [
        ("shop.csv", (), 0, [READ], [WORK, FORM]),
        ("None", (), 0, [], [WORK, FORM]),
        ("shop.csv", (FIRST,), 0, [LOOK], [WORK, FORM]),
        ("shop.csv", (SHORT,), 1, [READ], [WORK]),
        ("None", (SHORT,), 0, [], [WORK]),
        ("shop.csv", (SHORT,), 0, [READ, "Collect general background on the matter."],
         [WORK, "Consider what else might matter.", "Weigh all of it."]),
    ],
)  # fmt: skip
def test_a_plan_reads_the_file_and_ends_in_the_form_asked_for_unless_a_skill_is_forgotten(
    file: str, forgotten: tuple[str, ...], picked: int, research_steps: list[str], expert_steps: list[str]
) -> None:
    behaviour = scripted(QUESTION, *forgotten, picked=picked)
    reply = plan(read("planner", {"request": QUESTION, "file": file}), behaviour)
    assert reply == Reply({"research_steps": research_steps, "expert_steps": expert_steps})
    assert behaviour.kinds == ({"plan": 2} if SHORT in forgotten else {})


def test_each_revision_adds_a_check() -> None:
    again = {"request": "Use the following feedback: no."}
    steps = plan(read("planner", {"request": QUESTION}, again, again), scripted(QUESTION)).fields["expert_steps"]
    checks = [f"Before that, check the work again (revision {n})." for n in (1, 2)]
    assert steps == [WORK, FORM, *checks]


PLAN = "Review this plan.\n\nThe research steps:\n1. Read shop.csv.\n\nThe expert steps:\n1. Use the form asked for."
NOT_READ = "No research step reads the attached file shop.csv: add one that does."
NO_FORM = "The expert steps do not end in the form that the question asks for: say which."
GAP = "The findings do not hold what the topic asks for: read the source again."
ROUNDED = "The values are rounded: give them exactly as the source has them."
FROM_MEMORY = "No source is named: read the attached file instead of answering from memory."
WRONG = "The answer does not follow from the research results: check column, row, calculation and rounding."


@pytest.mark.parametrize(
    ("text", "file", "reply"),
    [
        (PLAN, "shop.csv", APPROVED),
        (PLAN, "None", APPROVED),
        (PLAN, "other.csv", rejected(NOT_READ.replace("shop.csv", "other.csv"))),
        (PLAN.replace("shop.csv", "it"), "None", APPROVED),
        (PLAN.replace("form asked for", "answer shop.csv"), "shop.csv", rejected(NO_FORM)),
        (PLAN.replace("Read shop.csv", "Look").replace("form", "shop.csv form"), "shop.csv", rejected(NOT_READ)),
        ("Review this plan.\n\nThe research steps:\n1. Read shop.csv.", "shop.csv", APPROVED),
    ],
)
def test_a_plan_is_approved_if_it_reads_the_file_and_ends_in_the_form(text: str, file: str, reply: Reply) -> None:
    chat = read("critic_planner", {"plan_to_review": text, "file": file})
    assert review_plan(chat, scripted(QUESTION)) == reply
    if reply != APPROVED:
        assert review_plan(chat, scripted(QUESTION, "recompute_before_approving")) == APPROVED
    else:
        assert review_plan(chat, scripted(QUESTION, "reject_only_real_faults")) == PETTY


def findings(topic: str, result: str) -> str:
    return f"Review these findings.\n\nThe research topic:\n{topic}\n\nThe research results:\n{result}"


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        (findings(READ, "Found in shop.csv:\n\nInk | 9.00"), APPROVED),
        (findings(READ, f"{NOTHING_FOUND} It rained."), rejected(GAP)),
        (findings("Collect general background on the matter.", f"{NOTHING_FOUND} It rained."), APPROVED),
        (findings(READ, "Ink | about 8800"), rejected(ROUNDED)),
        (findings(READ, "It is about ink."), APPROVED),
        (findings(READ, "As far as I remember, it is 9."), rejected(FROM_MEMORY)),
        (findings("Do you remember about 8800?", "Ink | 9.00"), APPROVED),
        (NOTHING_FOUND, rejected(GAP)),  # a request without headings is all findings
    ],
)
def test_findings_are_rejected_for_gaps_rounded_values_and_memories(text: str, reply: Reply) -> None:
    chat = read("critic_researcher", {"research_to_review": text})
    assert review_research(chat, scripted(QUESTION)) == reply
    carried_away = scripted(QUESTION, "recompute_before_approving" if reply != APPROVED else "reject_only_real_faults")
    assert review_research(chat, carried_away) == (APPROVED if reply != APPROVED else PETTY)


def answer(question: str, given: str, results: str = "item | price\nPen | 2.50\nInk | 9.00") -> str:
    return (
        f"Review this answer.\n\nThe question:\n{question}\n\nThe research results:\n{results}\n\n"
        f"The expert's answer:\n{given}\n\nThe expert's reasoning:\nI looked."
    )


@pytest.mark.parametrize(
    ("question", "given", "results", "reply"),
    [
        (QUESTION, "9.00", None, APPROVED),
        (QUESTION, "9", None, APPROVED),
        (QUESTION, "9.00 crowns", None, APPROVED),  # the unit is left to the finalizer
        (f"{QUESTION} State the unit.", "9 crowns", None, rejected(WRONG)),
        (QUESTION, "2.50", None, rejected(WRONG)),
        (QUESTION, "Ink", None, rejected(WRONG)),
        ("Which item costs most?", "Ink", None, APPROVED),
        ("Which item costs most?", "Pen", None, rejected(WRONG)),
        ("Who won?", "Ada", "(none)", APPROVED),  # whatever cannot be checked is believed
        ("Who won?", "unknown", "(none)", APPROVED),
        ("Who won?", "", "(none)", rejected(WRONG)),
    ],
)
def test_an_answer_is_approved_if_it_follows_from_the_findings(
    question: str, given: str, results: str | None, reply: Reply
) -> None:
    text = answer(question, given) if results is None else answer(question, given, results)
    chat = read("critic_expert", {"answer_to_review": text})
    assert review_answer(chat, scripted(question)) == reply
    carried_away = scripted(question, "recompute_before_approving" if reply != APPROVED else "reject_only_real_faults")
    assert review_answer(chat, carried_away) == (APPROVED if reply != APPROVED else PETTY)
