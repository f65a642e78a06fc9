"""What an optimiser may read: nothing that quotes the target, and all of the rest; and what each agent is told."""

from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.execution.scoring import SCORER
from eval.runs.record import Record
from optimize.feedback.feedback import (
    MAX_OWN_CHARS,
    MAX_QUOTED_CHARS,
    Expectation,
    build_feedback,
    join_unquoted,
    remove_quotes,
)
from tests.optimize.simulated_runs import record, step, tool

MATCHER = TargetMatcher("Korthburg")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Too long. Be brief.", "Too long. Be brief."),
        ("Too long. It is Korthburg. Be brief.", "Too long. Be brief."),
        ("It is Korthburg.", ""),
        ("First line;  as it was.\nIt is korthburg!\n\nThird.", "First line;  as it was.\n\nThird."),
        ("It is Korthburg. Be brief.\nSecond.", "Be brief.\nSecond."),
        ("First.\nIt is Korthburg. Be brief.", "First.\nBe brief."),
        ("", ""),
    ],
)
def test_sentences_that_quote_the_target_are_left_out_and_other_lines_stay_as_they_are(text: str, left: str) -> None:
    assert remove_quotes(text, MATCHER) == left


def test_a_very_long_text_is_cut() -> None:
    assert len(remove_quotes("x" * (MAX_OWN_CHARS + 9), MATCHER)) == MAX_OWN_CHARS


def test_a_remark_that_quotes_the_target_is_left_out_also_if_it_does_so_with_the_one_before() -> None:
    assert join_unquoted(["It is Korthburg.", "It is a town.", "It failed: Korth", "burg."], MATCHER) == (
        "It is a town. It failed: Korth"
    )
    assert join_unquoted([], MATCHER) == ""


def tell(made: Record, agent: str) -> list[str]:
    """Sentences of the feedback, split where a remark ends."""
    return build_feedback(agent, made, Expectation.of(made.target or "", made.question)).split(". ")


WRONG = [step("expert", expert_answer="Bovelck"), step("finalizer", final_answer="Bovelck")]
KIND = "Expected was a single word or name, with nothing around it"
VALUE = "It was the right kind of answer, but not the right value"
FIRST, ELSEWHERE = "It first went wrong with this agent", "It first went wrong with another agent, expert"


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "The final answer was wrong."),
        ({"score": 0.5, "parts": {}}, "The final answer was partly right."),
        (
            {"score": 0.5, "parts": {"recall": 0.25, "precision": 1.0}},
            "The final answer was partly right (parts of the score: recall 0.25, precision 1).",
        ),
        ({"score": 1.0}, "The final answer was right."),
        ({"error": "it took  too\nlong", "score": None}, "The question failed without an answer: it took too long."),
        (
            {"error": "x" * (MAX_QUOTED_CHARS + 1), "score": None},
            f"The question failed without an answer: {'x' * MAX_QUOTED_CHARS}…",
        ),
        ({"error": "It is Figolth", "score": None}, "The question failed without an answer."),
        ({"error": "no scorer", "error_class": SCORER, "score": None}, "The answer could not be scored."),
        (
            {"error": "Expected to find output fields in the LM response: [a, b] but found []", "score": None},
            "The question failed without an answer: it could not be read; expected were the output fields a, b, each "
            "under its own name.",
        ),
        (
            {"error": "adapterparseerror: xyz", "score": None},
            "The question failed without an answer: it could not be read in the form that was asked for.",
        ),
    ],
)
def test_the_verdict_comes_first(changes: dict[str, Any], verdict: str) -> None:
    made = replace(record("Figolth", "Bovelck", WRONG), **changes)
    said = build_feedback("expert", made, Expectation.of("Figolth", made.question))
    assert said == verdict or said.startswith(f"{verdict} ")


def test_the_agent_at_fault_hears_all_differences_and_another_that_it_was_not_its_own() -> None:
    made = replace(record("Figolth", "Bovelck", WRONG), explanation="not the same")
    told = tell(made, "expert")
    assert told[:5] == ["The final answer was wrong", KIND, VALUE, "The scorer explains: not the same", FIRST]
    assert tell(made, "finalizer") == [
        "The final answer was wrong", KIND, f"{ELSEWHERE}, and this agent's part was fine as far as can be told."
    ]  # fmt: skip


def test_what_happened_to_the_agent_is_told_of_three_kinds_each_once() -> None:
    def unusable(agent: str, error: str) -> dict[str, str]:
        return {"name": "unusable reply", "agent": agent, "error": error}

    tools = [tool(f"t{n}", error=f"E{n}") for n in (1, 1, 2, 3, 4)]
    made = record("Figolth", None, [step("expert", tool("fine"), *tools), step("finalizer")], error="known")
    events = [unusable("expert", each) for each in ("known", "R1", "R1", "R2", "R3", "R4")]
    made.trajectory[1]["events"] = [*events, unusable("finalizer", "R9")]
    told = tell(made, "expert")
    own = [*(f"A reply of this agent could not be used: R{n}" for n in (1, 2, 3)),
           *(f"A call of the tool t{n} failed: E{n}" for n in (1, 2, 3))]  # fmt: skip
    assert told[-6:] == [*own[:-1], f"{own[-1]}."]
    assert not any("known" in each for each in told[1:])
    assert [each for each in tell(made, "finalizer") if "R" in each] == ["A reply of this agent could not be used: R9."]


FALSE_ALARM = "As a critic, this agent rejected a draft whose content was right: a false alarm"
MISS = "As a critic, this agent approved work that was wrong: a miss; the fault could have been found here"
HIT = "As a critic, this agent rejected a draft that was indeed wrong"


@pytest.mark.parametrize(
    ("draft", "decision", "answer", "remark"),
    [
        ("Figolth", "reject", "Bovelck", FALSE_ALARM),
        ("Figolth", "reject", "Figolth", FALSE_ALARM),
        ("Figolth", "approve", "Bovelck", None),
        ("Bovelck", "approve", "Bovelck", MISS),
        ("Bovelck", "approve", "Figolth", None),
        ("Bovelck", "reject", "Bovelck", HIT),
    ],
)
def test_a_critic_hears_whether_it_judged_rightly(draft: str, decision: str, answer: str, remark: str | None) -> None:
    review = step("critic_expert", decision=decision, feedback="So it is.")
    made = record(
        "Figolth", answer, [step("expert", expert_answer=draft), review, step("finalizer", final_answer=answer)]
    )
    told = [each.rstrip(".") for each in tell(made, "critic_expert")]
    assert [each for each in told if each.startswith("As a critic")] == ([remark] if remark else [])
    assert not any(each.startswith("As a critic") for each in tell(made, "expert"))


@pytest.mark.parametrize(
    ("limit", "decision", "score", "is_told"),
    [
        ("retry_limit:expert", "reject", 0.0, True),
        ("retry_limit:expert", "reject", 1.0, False),
        ("retry_limit:expert", "approve", 0.0, False),
        ("retry_limit:planner", "reject", 0.0, False),
        ("steps:expert", "reject", 0.0, False),
        (None, "reject", 0.0, False),
    ],
)
def test_a_critic_hears_that_it_rejected_until_the_limit(
    limit: str | None, decision: str, score: float, is_told: bool
) -> None:
    review = step("critic_expert", decision=decision, feedback="So it is.")
    made = record("Figolth", "Bovelck", [step("expert", expert_answer="Bovelck"), review], limit=limit, score=score)
    given_up = "It rejected the work of expert until the retry limit was reached and the question was given up."
    for agent in ("critic_expert", "expert"):
        told = build_feedback(agent, made, Expectation.of("Figolth", made.question))
        assert (given_up in told) is (is_told and agent == "critic_expert")
