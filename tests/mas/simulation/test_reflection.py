"""The reflection: what it proposes from feedback, in GEPA's and in DSPy's formats."""

import subprocess
import sys
from typing import Any

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from gepa.strategies.instruction_proposal import InstructionProposalSignature

from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel
from mas.simulation.model import AsyncReplyEngine, ReplyEngine
from mas.simulation.reflection import HARMFUL, HELPFUL, PARTS, USELESS, parse_brief, propose_prompt
from mas.simulation.skills.lexicon import read_emphasis

PROMPT = "You are the expert.\nWork carefully.\nGive the answer."
FEEDBACK = "The answer is wrong; the correct answer is '4711'. The arithmetic was done in the head."
GOOD = {clause for clauses in HELPFUL.values() for clause in clauses}
GOOD_FOR_A_PART = {clause for part in PARTS.values() for clause in part["helpful"]}
BAD_FOR_A_PART = {clause for part in PARTS.values() for clause in part["harmful"]}


def gepa_prompt(feedback: str = FEEDBACK) -> str:
    example = {
        "Inputs": {"question": "What is 7 * 673?"},
        "Generated Outputs": {"answer": "4700"},
        "Feedback": feedback,
    }
    values = {"current_instruction_doc": PROMPT, "dataset_with_feedback": [example], "prompt_template": None}
    rendered = InstructionProposalSignature.prompt_renderer(values)
    assert isinstance(rendered, str)
    return rendered


def replies(world: str, count: int = 200) -> list[str]:
    """What the reflection proposes, extracted as GEPA does it, for one sample id after another."""
    request = Message.user(gepa_prompt())
    texts = [
        propose_prompt(Request(f"{world}-0", (request,), config=Config(seed=seed))).message.text or ""
        for seed in range(count)
    ]
    return [InstructionProposalSignature.output_extractor(text)["new_instruction"] for text in texts]


def proposed(world: str) -> list[str]:
    """The clauses that were added, over many samples."""
    return [line for reply in replies(world) for line in reply.splitlines() if line not in PROMPT.splitlines()]


def test_it_finds_instruction_and_feedback_in_gepas_prompt() -> None:
    brief = parse_brief(gepa_prompt())

    assert brief.instruction == PROMPT
    assert brief.feedback.strip() == FEEDBACK
    assert (brief.fields, brief.as_json) == ((), False)


def test_half_of_what_it_proposes_is_useless_or_harmful() -> None:
    clauses = [line for line in proposed("normal") if not line.startswith("Here is")]
    good = sum(line in GOOD for line in clauses)

    assert 0.4 < good / len(clauses) < 0.6
    assert any(line in HARMFUL for line in clauses)
    assert any(line in USELESS for line in clauses)


def test_feedback_draws_the_clauses_that_go_with_it() -> None:
    good = [line for line in proposed("normal") if line in GOOD]

    assert sum(line in HELPFUL["arithmetic"] for line in good) / len(good) > 1.5 / len(HELPFUL)


WRITES_QUERIES = "You write the one SQL query that answers the question."
TABLES_ARE_WRONG = "The scorer explains: the answer: wrong; the tables: wrong; the choice of agents: right."


def test_a_part_of_the_answer_that_is_wrong_is_written_about_in_the_prompts_that_are_for_it() -> None:
    def proposed(instruction: str, feedback: str) -> list[str]:
        request = Message.user(gepa_prompt(feedback).replace(PROMPT, instruction))
        seeds = [Request("normal-0", (request,), config=Config(seed=seed)) for seed in range(100)]
        texts = [propose_prompt(each).message.text or "" for each in seeds]
        return [line for text in texts for line in text.splitlines() if line in GOOD_FOR_A_PART | BAD_FOR_A_PART]

    about_tables = {*PARTS["tables"]["helpful"], *PARTS["tables"]["harmful"]}
    found = proposed(WRITES_QUERIES, TABLES_ARE_WRONG)
    assert set(found) == about_tables, "not of agents, which were right, nor of the answer, which others write"
    assert 0.4 < sum(line in GOOD_FOR_A_PART for line in found) / len(found) < 0.8
    assert proposed(PROMPT, TABLES_ARE_WRONG) == []
    assert proposed(WRITES_QUERIES, FEEDBACK) == []


def test_in_the_harmful_world_most_of_it_harms_and_nothing_helps() -> None:
    clauses = [line for line in proposed("harmful") if not line.startswith("Here is")]

    assert sum(line in HARMFUL for line in clauses) / len(clauses) > 0.75
    assert not any(line in GOOD for line in clauses)


def test_in_the_leaky_world_answers_get_into_the_prompt() -> None:
    assert sum("4711" in reply for reply in replies("leaky")) > 150
    assert not any("4711" in reply for reply in replies("normal"))


def test_it_forgets_repeats_and_fails_the_format_now_and_then() -> None:
    found = replies("normal")
    whole = [reply for reply in found if not reply.startswith("Here is")]

    assert 0 < len(found) - len(whole) < 40
    assert 0 < sum(any(line not in reply for line in PROMPT.splitlines()) for reply in whole) < 50
    assert any(len(reply.splitlines()) != len(set(reply.splitlines())) for reply in whole)


def test_dspys_own_proposer_can_use_it() -> None:
    lm = dspy.LM(
        "offline/normal-0",
        engine=ReplyEngine(propose_prompt),
        async_engine=AsyncReplyEngine(propose_prompt),
        cache=False,
    )
    example = {"Inputs": {"question": "x"}, "Generated Outputs": {"answer": "y"}, "Feedback": FEEDBACK}
    with dspy.context(lm=lm):
        found = InstructionProposer()({"expert": PROMPT}, {"expert": [example]}, ["expert"])

    assert found["expert"].startswith("You are the expert.")
    assert len(found["expert"].splitlines()) > 3


@pytest.mark.parametrize("world", ["normal", "harmful", "leaky", "null"])
def test_the_same_request_has_the_same_reply(world: str) -> None:
    assert replies(world, 5) == replies(world, 5)


def test_it_never_imports_what_the_task_model_knows() -> None:
    known = "[m for m in sys.modules if m.endswith(('lexicon', 'skills', 'behaviour'))]"
    code = f"import sys, mas.simulation.reflection; print({known})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("clause", sorted(GOOD | GOOD_FOR_A_PART))
def test_helpful_clauses_help(clause: str) -> None:
    assert max(read_emphasis(clause).values()) == 1.0
    assert min(read_emphasis(clause).values()) >= 0.0


@pytest.mark.parametrize("clause", sorted({*HARMFUL, *BAD_FOR_A_PART}))
def test_harmful_clauses_harm(clause: str) -> None:
    assert min(read_emphasis(clause).values()) == -1.0


@pytest.mark.parametrize("clause", USELESS)
def test_useless_clauses_do_nothing(clause: str) -> None:
    found: dict[str, Any] = {skill: strength for skill, strength in read_emphasis(clause).items() if strength}

    assert found == {}


def test_the_profile_offers_it_as_a_model() -> None:
    reply = SimulatedModel(world="harmful", seed=2).create_reflection_lm()(gepa_prompt())

    assert "expert" in str(reply[0]) or "Here is" in str(reply[0])


@pytest.mark.parametrize("settings", [{"world": "upside-down"}, {"seed": -1}])
def test_a_profile_that_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="model"):
        SimulatedModel(**settings).check()
