"""The recogniser: prompts understood by meaning, on sentences whose author saw the skills' names alone."""

import json
from pathlib import Path
from statistics import mean
from typing import Any, get_args

import pytest

from mas.simulation.chat import Role
from mas.simulation.skills.behaviour import Behaviour, World
from mas.simulation.skills.lexicon import count_votes, find_mentioned_skills, read_emphasis
from mas.simulation.skills.skills import SKILLS

SENTENCES = json.loads((Path(__file__).parent / "paraphrases.json").read_text())
# By another author who knew the skills' names alone; measured once, after the recogniser's last change.
BLIND = json.loads((Path(__file__).parent / "paraphrases_blind.json").read_text())
PROMPTS = Path(__file__).parents[4] / "prompts"
REQUEST_AGENTS = {
    "request_planner": "planner",
    **{"sql_tables": "sql_schema", "sql_query": "sql_generate", "sql_review": "sql_check", "sql_rows": "sql_answer"},
    **{"api_call": "api_plan", "api_adjustment": "api_adjust", "api_reply": "api_summarize"},
    **{"code": "compute_code", "code_outcome": "compute_summarize", "composer": "composer"},
}
FILES = {
    "single": "single_agent_baseline/agent",
    **{f"toy_{a}": f"toy_baseline/{a}" for a in ("plan", "solve", "finalize")},
    **{role: f"bos_baseline/{agent}" for role, agent in REQUEST_AGENTS.items()},
}
NEUTRAL = "You work in a team."
TUTORIAL = {"toy_work", "toy_conclude", "ticket"}  # programs of a reader, whose prompts are in no set


def chance(skill: str, text: str) -> float:
    role = SKILLS[skill].roles[0]
    prompt = f"{NEUTRAL} {text}".strip()
    return Behaviour(World(), role, prompt, {}, question="Why?", decision_key="").compute_chance(skill)


def effect(skill: str, text: str) -> float:
    """The change in the odds of following the skill, as a share of what its plain clause changes."""
    plain = f"{skill.replace('_', ' ').capitalize()}."
    return (chance(skill, text) - chance(skill, "")) / (chance(skill, plain) - chance(skill, ""))


@pytest.mark.parametrize("sentences", [SENTENCES, BLIND], ids=["first author", "blind"])
def test_paraphrases_keep_most_of_their_clauses_effect(sentences: Any) -> None:
    assert mean(effect(each["skill"], each["text"]) for each in sentences["clauses"]) >= 0.8


@pytest.mark.parametrize("sentences", [SENTENCES, BLIND], ids=["first author", "blind"])
def test_unrelated_sentences_have_next_to_no_effect(sentences: Any) -> None:
    assert mean(abs(effect(skill, text)) for text in sentences["unrelated"] for skill in SKILLS) < 0.05


def test_negated_clauses_count_against_the_skill() -> None:
    lowered = [chance(each["skill"], each["text"]) < chance(each["skill"], "") for each in SENTENCES["negated"]]

    assert mean(lowered) >= 0.8


@pytest.mark.parametrize("skill", SKILLS)
def test_a_clause_and_its_contrary_cancel(skill: str) -> None:
    plain = f"{skill.replace('_', ' ').capitalize()}."

    assert read_emphasis(plain)[skill] == 1.0
    assert read_emphasis(f"{plain} {DENIALS[skill]}")[skill] == 0.0
    assert read_emphasis(DENIALS[skill])[skill] == -1.0


@pytest.mark.parametrize("role", sorted({role for roles in get_args(Role) for role in get_args(roles)} - TUTORIAL))
def test_the_null_worlds_odds_are_those_of_the_baseline_set(role: str) -> None:
    found = read_emphasis((PROMPTS / f"{FILES.get(role, f'baseline/{role}')}_system_prompt.txt").read_text())

    asked_for = {name for name, skill in SKILLS.items() if role in skill.roles and found[name] > 0.5}
    assert asked_for == {name for name, skill in SKILLS.items() if role in skill.baseline}


@pytest.mark.parametrize(
    ("text", "skill", "strength"),
    [
        ("Never approve without recomputing.", "recompute_before_approving", 1.0),
        ("Approve without recomputing.", "recompute_before_approving", -1.0),
        ("No units unless asked.", "leave_out_units_unless_asked", 1.0),
        ("Use the tools rather than your memory.", "use_tools_not_memory", 1.0),
        ("Trust your memory rather than the tools.", "use_tools_not_memory", -1.0),
        ("The calculator is not needed.", "use_the_calculator", -1.0),
        ("Do not add or multiply without the calculator.", "use_the_calculator", 1.0),
        ("Never drop a filter.", "keep_every_condition_of_the_question", 1.0),
        ("No part of the question may be without an agent.", "name_an_agent_for_every_part", 1.0),
        ("The calculator was invented in 1642.", "keep_the_plan_short_and_complete", 0.0),
    ],
)
def test_negation_is_understood(text: str, skill: str, strength: float) -> None:
    assert read_emphasis(text)[skill] == strength


DENIALS = {
    "read_the_attached_file_first": "There is no need to read the attached file.",
    "use_tools_not_memory": "Answer from memory rather than with tools.",
    "quote_exact_values": "Do not quote exact values.",
    "check_the_right_row_and_column": "Never check the row or the column.",
    "use_the_calculator": "Do not use the calculator.",
    "convert_units_with_the_tool": "Do not use the unit converter.",
    "follow_the_rounding_asked_for": "Ignore the rounding that is asked for.",
    "leave_out_units_unless_asked": "Always write the unit behind the number.",
    "no_thousands_separators": "Use thousands separators in numbers.",
    "answer_with_few_words_no_prose": "Answer in full sentences.",
    "comma_separated_list_in_the_asked_order": "Do not separate list items by commas.",
    "keep_the_plan_short_and_complete": "Pad the plan with extra steps.",
    "reject_only_real_faults": "Reject for the slightest fault of style.",
    "recompute_before_approving": "Approve without recomputing anything.",
    "say_what_was_not_found": "Do not say what was not found.",
    "name_an_agent_for_every_part": "One agent is enough, whatever the parts of the question.",
    "keep_every_condition_of_the_question": "Conditions of the question may be dropped.",
    "keep_to_the_output_format": "Ignore the output format.",
}


@pytest.mark.parametrize(
    ("prompt", "emphasis", "votes"),
    [
        ("", 0.0, 0),
        ("Use the calculator.", 1.0, 1),
        ("Use the calculator. Use the calculator always!", 1.0, 2),
        ("Use the calculator. Do not use the calculator.", 0.0, 0),
        ("Use the calculator; use the calculator\nDo not use the calculator.", 1 / 3, 1),
        ("Do not use the calculator. Don't use the calculator.", -1.0, -2),
        ("Work well. Use the calculator.", 1.0, 1),
        ("Do not\u2014ever\u2014dawdle. Use the calculator.", 1.0, 1),
        ("Don\u2019t use the calculator.", -1.0, -1),
        ("You can't use the calculator.", -1.0, -1),
        ("You dont use the calculator.", -1.0, -1),
        ("Not only use the calculator.", 1.0, 1),
        ("Never fail to use the calculator.", 1.0, 1),
        ("The calculator is to be avoided.", -1.0, -1),
        ("use_the_calculator", 1.0, 1),
    ],
)
def test_each_sentence_has_one_vote(prompt: str, emphasis: float, votes: int) -> None:
    assert read_emphasis(prompt)["use_the_calculator"] == pytest.approx(emphasis)
    assert count_votes(prompt)["use_the_calculator"] == votes
    assert ("use_the_calculator" in find_mentioned_skills(prompt)) is ("calculator" in prompt)
    assert set(read_emphasis(prompt)) == set(count_votes(prompt)) == set(SKILLS)


def test_a_prompt_mentions_the_skills_that_it_is_for_or_against() -> None:
    assert find_mentioned_skills("Be kind.") == frozenset()
    both = find_mentioned_skills("Use the calculator. Do not quote exact values.")
    assert both >= {"use_the_calculator", "quote_exact_values"} and "no_thousands_separators" not in both
