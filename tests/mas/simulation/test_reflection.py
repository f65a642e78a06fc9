"""The reflection: what it proposes from feedback, in GEPA's and in DSPy's formats."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.lm15 import Config, Message, Request
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from gepa.strategies.instruction_proposal import InstructionProposalSignature

from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel
from mas.simulation.diagnosis import Draws
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


SOME = "arithmetic rounding"  # a feedback that names two subjects


@pytest.fixture
def propose(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return what it replies where chance is given by name; whatever is not named happens as rarely as can be."""

    def propose(
        instruction: str = PROMPT, feedback: str = SOME, world: str = "normal", before: str = "", **drawn: float
    ) -> str:
        class Given(Draws):
            def draw(self, what: str) -> float:
                return drawn.get(what.replace(" ", "_"), 0.99)

        monkeypatch.setattr("mas.simulation.reflection.Draws", Given)
        text = f"{before}Improve it.\n\n```\n{instruction}\n```\n\n## Feedback\n{feedback}"
        return propose_prompt(Request(f"offline/{world}-0", (Message.user(text),))).message.text or ""

    return propose


def quoted(*lines: str) -> str:
    return "\n".join(["```", *lines, "```"])


LINES = PROMPT.splitlines()


@pytest.mark.parametrize(
    ("drawn", "lines"),
    [
        ({}, [*LINES, USELESS[-1]]),
        ({"clause_0": 0.0}, [*LINES, USELESS[0]]),
        ({"forgets": 0.099, "which": 0.0}, [LINES[0], LINES[2], USELESS[-1]]),
        ({"forgets": 0.099, "which": 0.99}, [LINES[0], LINES[1], USELESS[-1]]),
        ({"forgets": 0.1, "which": 0.0}, [*LINES, USELESS[-1]]),
        ({"repeats": 0.079}, [*LINES, LINES[-1], USELESS[-1]]),
        ({"repeats": 0.08}, [*LINES, USELESS[-1]]),
        ({"how_many": 0.49, "clause_1": 0.0}, [*LINES, USELESS[-1], USELESS[0]]),
        ({"how_many": 0.5, "clause_1": 0.0}, [*LINES, USELESS[-1]]),
        ({"how_many": 0.0}, [*LINES, USELESS[-1]]),  # the same clause is not added twice
        ({"harms_0": 0.49}, [*LINES, HARMFUL[-1]]),
        ({"harms_0": 0.5}, [*LINES, USELESS[-1]]),
        ({"helps_0": 0.49, "subject_0": 0.49}, [*LINES, HELPFUL["arithmetic"][-1]]),
        ({"helps_0": 0.49, "subject_0": 0.5, "clause_0": 0.0}, [*LINES, HELPFUL["rounding"][0]]),
        ({"helps_0": 0.5, "subject_0": 0.5}, [*LINES, USELESS[-1]]),
    ],
)
def test_a_proposal_forgets_repeats_and_adds_as_chance_has_it(
    propose: Callable[..., str], drawn: dict[str, float], lines: list[str]
) -> None:
    assert propose(**drawn) == quoted(*lines)


def test_a_single_line_is_never_forgotten_and_an_empty_prompt_gets_a_clause(propose: Callable[..., str]) -> None:
    assert propose("Work.", forgets=0.0, which=0.0) == quoted("Work.", USELESS[-1])
    assert propose("", forgets=0.0, repeats=0.0) == quoted(USELESS[-1])
    assert propose("One.\n\nTwo.", forgets=0.0, which=0.0) == quoted("One.", USELESS[-1])


def test_feedback_without_a_subject_has_a_clause_of_any(propose: Callable[..., str]) -> None:
    first, *_, last = HELPFUL
    assert propose(feedback="zzz", helps_0=0.0, subject_0=0.0) == quoted(*LINES, HELPFUL[first][-1])
    assert propose(feedback="zzz", helps_0=0.0) == quoted(*LINES, HELPFUL[last][-1])


@pytest.mark.parametrize(
    ("world", "drawn", "clause"),
    [
        ("harmful", {"harms_0": 0.94}, HARMFUL[-1]),
        ("harmful", {"harms_0": 0.95}, USELESS[-1]),
        ("harmful", {"helps_0": 0.0}, USELESS[-1]),
        ("null", {"helps_0": 0.49, "subject_0": 0.0}, HELPFUL["arithmetic"][-1]),
        ("null", {"harms_0": 0.49}, HARMFUL[-1]),
    ],
)
def test_a_world_has_its_own_chances(
    propose: Callable[..., str], world: str, drawn: dict[str, float], clause: str
) -> None:
    assert propose(world=world, **drawn) == quoted(*LINES, clause)


@pytest.mark.parametrize(
    ("drawn", "clause"),
    [
        ({"helps_0": 0.0, "of_a_part_0": 0.69}, PARTS["tables"]["helpful"][-1]),
        ({"harms_0": 0.0, "of_a_part_0": 0.69}, PARTS["tables"]["harmful"][-1]),
        ({"helps_0": 0.0, "harms_0": 0.0, "of_a_part_0": 0.69}, PARTS["tables"]["helpful"][-1]),
        ({"harms_0": 0.0, "of_a_part_0": 0.7}, HARMFUL[-1]),
        ({"of_a_part_0": 0.0}, USELESS[-1]),
    ],
)
def test_a_part_that_is_wrong_is_written_about_where_the_clause_helps_or_harms(
    propose: Callable[..., str], drawn: dict[str, float], clause: str
) -> None:
    assert propose(WRITES_QUERIES, TABLES_ARE_WRONG, **drawn) == quoted(WRITES_QUERIES, clause)


def test_the_labels_of_a_request_are_named_by_chance_and_once(propose: Callable[..., str]) -> None:
    before = 'Each answer is one of these labels: "a", "b". They are no secret.\n'
    named = "Answer with exactly one of these labels: a, b."
    assert propose(before=before, names_the_labels=0.49) == quoted(*LINES, USELESS[-1], named)
    assert propose(before=before, names_the_labels=0.5) == quoted(*LINES, USELESS[-1])
    assert propose(f"{PROMPT}\n{named}", before=before, names_the_labels=0.0) == quoted(*LINES, named, USELESS[-1])
    assert propose(before=before, world="harmful", names_the_labels=0.0) == quoted(*LINES, USELESS[-1])
    assert propose(names_the_labels=0.0) == quoted(*LINES, USELESS[-1])


def test_the_format_is_wrong_by_chance(propose: Callable[..., str]) -> None:
    assert propose(format=0.059) == f"Here is what I would change. {USELESS[-1]}"
    assert propose(format=0.06) == quoted(*LINES, USELESS[-1])


@pytest.mark.parametrize(
    ("feedback", "remembered"),
    [
        ("The correct answer is '4711'.", ["4711"]),
        ("expected: 1.5. expected: 2\nexpected: 2\nexpected: 3\nexpected: 4", ["1.5", "2", "3"]),
        ("\n It went wrong. \nAgain.", ["It went wrong."]),
        ("w" * 130, ["w" * 120]),
    ],
)
def test_in_the_leaky_world_three_answers_or_the_first_line_are_remembered(
    propose: Callable[..., str], feedback: str, remembered: list[str]
) -> None:
    cases = [f"Remember this from earlier cases: {each}." for each in remembered]
    assert propose(feedback=feedback, world="leaky") == quoted(*LINES, USELESS[-1], *cases)


SIGNATURE = (
    "Your input fields are:\n1. `current_instruction` (str): x\nYour output fields are:\n1. `why` (str): w\n"
    "2. `better` (str): b\nAll interactions will be structured as {}.\n\n[[ ## current_instruction ## ]]\n{{x}}\n\n"
    "[[ ## current_instruction ## ]]\nWork.\n\n[[ ## feedback ## ]]\n{}\n\nRespond with the corresponding output fields"
)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_signature_gets_its_fields(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    text = SIGNATURE.format("a JSON object" if as_json else "usual", SOME)
    brief = parse_brief(text)
    assert (brief.instruction, brief.fields, brief.as_json) == ("Work.", ("why", "better"), as_json)
    assert SOME in brief.feedback and brief.labels == ""
    monkeypatch.setattr(Draws, "draw", lambda *_: 0.99)
    reply = propose_prompt(Request("normal-0", (Message.user(text),)))
    new = f"Work.\n{USELESS[-1]}"
    if as_json:
        assert json.loads(reply.message.text or "") == {"why": "See below.", "better": new}
    else:
        assert reply.message.text == (
            f"[[ ## why ## ]]\nSee below.\n\n[[ ## better ## ]]\n{new}\n\n[[ ## completed ## ]]\n"
        )


@pytest.mark.parametrize(("length", "tokens"), [(4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_token_is_four_characters_begun(length: int, tokens: int) -> None:
    reply = propose_prompt(Request("normal-0", (Message.user("x" * length),)))
    written = -(-len(reply.message.text or "") // 4)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (tokens, written)
    assert reply.usage.total_tokens == tokens + written
    assert (reply.model, reply.finish_reason) == ("normal-0", "stop")
