"""The reflection: what it proposes from feedback, in GEPA's and in DSPy's formats."""

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from gepa.strategies.instruction_proposal import InstructionProposalSignature

from mas.simulation import SimulatedModel
from mas.simulation.reflection import HARMFUL, HELPFUL, USELESS, propose_prompt

PROMPT = "You are the expert.\nWork carefully.\nGive the answer."
FEEDBACK = "The answer is wrong; the correct answer is '4711'. The arithmetic was done in the head."
GOOD = {clause for clauses in HELPFUL.values() for clause in clauses}


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


def test_half_of_what_it_proposes_is_useless_or_harmful() -> None:
    clauses = [line for line in proposed("normal") if not line.startswith("Here is")]
    good = sum(line in GOOD for line in clauses)

    assert 0.4 < good / len(clauses) < 0.6
    assert any(line in HARMFUL for line in clauses)
    assert any(line in USELESS for line in clauses)


def test_in_the_harmful_world_most_of_it_harms_and_nothing_helps() -> None:
    clauses = [line for line in proposed("harmful") if not line.startswith("Here is")]

    assert sum(line in HARMFUL for line in clauses) / len(clauses) > 0.75
    assert not any(line in GOOD for line in clauses)


def test_in_the_leaky_world_answers_get_into_the_prompt() -> None:
    assert sum("4711" in reply for reply in replies("leaky")) > 150
    assert not any("4711" in reply for reply in replies("normal"))


def test_dspys_own_proposer_can_use_it() -> None:
    lm = SimulatedModel().create_reflection_lm()
    example = {"Inputs": {"question": "x"}, "Generated Outputs": {"answer": "y"}, "Feedback": FEEDBACK}
    with dspy.context(lm=lm):
        found = InstructionProposer()({"expert": PROMPT}, {"expert": [example]}, ["expert"])

    assert found["expert"].startswith("You are the expert.")
    assert len(found["expert"].splitlines()) > 3


@pytest.mark.parametrize("world", ["normal", "harmful", "leaky", "null"])
def test_the_same_request_has_the_same_reply(world: str) -> None:
    assert replies(world, 5) == replies(world, 5)
