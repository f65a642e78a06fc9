"""The texts that MIPROv2 chooses from: what their author sees of the questions, and what is counted of its replies."""

from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.utils import DummyLM

from eval.benchmarks.dataset import Sample
from optimize.search.optimizers.instruction_drafts import InstructionDrafts
from optimize.search.optimizers.prompt_rewriter import ReflectionRequests, build_labels_brief
from optimize.search.optimizers.scored_programs import SearchOverError

RULES = (
    "\n\nThe new instruction will be used for other questions than these. It must hold general rules only: no fact, "
    "name, number, date, question or answer of this dataset."
)
OBSERVED, SUMMED_UP = {"observations": "Sums of money."}, {"summary": "Questions about sums."}


class Program(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.plan = dspy.Predict(dspy.Signature("question -> steps", "Plan it."))
        self.solve = dspy.Predict(dspy.Signature("steps -> answer", "Solve it."))


def ask(n: int) -> list[Sample]:
    return [Sample(f"q{k}", f"question {k}", target=f"secret {k}") for k in range(n)]


def draft(*answers: dict[str, str], questions: list[Sample] | None = None, labels: tuple[str, ...] = (),
          max_chars: int | None = None) -> tuple[InstructionDrafts, ReflectionRequests, DummyLM]:  # fmt: skip
    """The drafts of a model with these replies, which begin with those of the summary."""
    lm, requests = DummyLM(list(answers)), ReflectionRequests(lambda: None)
    made = InstructionDrafts(
        requests, ask(3) if questions is None else questions, labels, max_chars,
        prompt_model=lm, program=Program(), trainset=[], view_data_batch_size=10, use_dataset_summary=False,
        program_aware=False, use_task_demos=False, use_instruct_history=False, set_history_randomly=False,
    )  # fmt: skip
    return made, requests, lm


def propose(drafts: InstructionDrafts, n: int) -> dict[int, list[str]]:
    settings: dict[str, Any] = {"trainset": [], "program": Program(), "demo_candidates": None, "trial_logs": {}, "N": n}
    return dict(drafts.propose_instructions_for_program(**settings))


def test_questions_are_summed_up_without_their_targets_and_each_request_is_counted() -> None:
    drafts, requests, lm = draft(OBSERVED, OBSERVED, OBSERVED, SUMMED_UP, questions=ask(21), labels=("a", "b"))
    assert drafts.data_summary == "Questions about sums." + build_labels_brief(("a", "b")) + RULES
    assert drafts.use_dataset_summary is True
    assert (requests.requests, requests.unparsable) == (4, 0)
    sent = str([entry["messages"] for entry in lm.history])
    assert all(f"question {k}" in sent for k in range(21)) and "secret" not in sent


def test_of_a_question_its_inputs_are_shown_and_each_to_a_limit() -> None:
    named = Sample("n", "not shown", target="secret", inputs={"title": "A title.", "body": "y" * 1001})
    _, _, lm = draft(OBSERVED, SUMMED_UP, questions=[Sample("q", "x" * 1001), named])
    sent = str([entry["messages"] for entry in lm.history])
    assert "x" * 1000 in sent and "x" * 1001 not in sent
    assert "A title." in sent and "y" * 1000 in sent and "y" * 1001 not in sent
    assert "not shown" not in sent and "secret" not in sent


def test_without_a_summary_the_rules_remain() -> None:
    drafts, requests, _ = draft(*[{"nothing": "to read"}] * 8)
    assert drafts.data_summary == "Not available." + RULES
    assert requests.unparsable == 2 and requests.failure is None


def test_the_present_text_comes_first_and_then_the_drafts_of_each_agent() -> None:
    replies = [
        {"proposed_instruction": text} for text in ("Plan well.", "Plan better.", "Solve well.", "Solve better.")
    ]
    drafts, requests, _ = draft(OBSERVED, SUMMED_UP, *replies)
    assert propose(drafts, 3) == {
        0: ["Plan it.", "Plan well.", "Plan better."],
        1: ["Solve it.", "Solve well.", "Solve better."],
    }
    assert (requests.requests, requests.unparsable) == (2 + 4, 0)


@pytest.mark.parametrize(
    ("reply", "max_chars", "text", "unparsable"),
    [
        ("Five.", 5, "Five.", 0),
        ("Six!!!", 5, "Plan it.", 2),
        ("Six!!!", None, "Six!!!", 0),
        (" \n ", None, "Plan it.", 2),
    ],
)
def test_an_empty_or_too_long_draft_is_asked_for_again_and_then_the_present_text_stays(
    reply: str, max_chars: int | None, text: str, unparsable: int
) -> None:
    drafts, requests, _ = draft(OBSERVED, SUMMED_UP, *[{"proposed_instruction": reply}] * 4, max_chars=max_chars)
    assert propose(drafts, 2)[0] == ["Plan it.", text]
    assert requests.unparsable == unparsable * 2, "of both agents"


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (lambda drafts: drafts._check(""), "the proposed instruction is empty"),
        (lambda drafts: drafts._check("123456"), "the proposed instruction has 6 characters; allowed are 5"),
    ],
)
def test_why_a_draft_is_of_no_use(check: Callable[[InstructionDrafts], str], reason: str) -> None:
    drafts, _, _ = draft(OBSERVED, SUMMED_UP, max_chars=5)
    with pytest.raises(ValueError) as raised:
        check(drafts)
    assert str(raised.value) == reason


@pytest.mark.parametrize(
    ("n_requests", "n_unparsable", "failure", "is_over"),
    [(0, 0, None, False), (3, 3, None, True), (3, 2, None, False), (3, 0, "no key", True)],
)
def test_the_search_is_over_if_no_reply_was_of_use(
    n_requests: int, n_unparsable: int, failure: str | None, is_over: bool
) -> None:
    drafts, requests, _ = draft(OBSERVED, SUMMED_UP)
    requests.requests, requests.unparsable, requests.failure = n_requests, n_unparsable, failure
    if is_over:
        with pytest.raises(SearchOverError):
            propose(drafts, 1)
    else:
        assert propose(drafts, 1) == {0: ["Plan it."], 1: ["Solve it."]}
