"""What a candidate changes, in a phrase."""

from pathlib import Path
from typing import Any

import pytest

from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.budget import Spend
from optimize.search.candidate import Candidate, Proposal, describe_candidate

PROMPTS = PromptSet("base", "toy", {"plan": "P."}, Path("base"))


@pytest.mark.parametrize(
    ("parts", "phrase"),
    [
        ({}, "copy of parent"),
        ({"parent_ids": ("c001",)}, "copy of c001"),
        ({"origin": "mipro"}, "mipro of parent"),
        ({"origin": "mipro", "agents": ("plan", "solve")}, "plan, solve"),
        ({"agents": ("plan",), "parent_ids": ("c001",)}, "plan"),
        ({"origin": "merge", "agents": ("plan",), "parent_ids": ("c001", "c002")}, "merge of c001 and c002"),
        ({"origin": "merge"}, "merge of parent"),
    ],
)
def test_a_candidate_is_described_by_its_agents_or_by_what_it_combines(parts: dict[str, Any], phrase: str) -> None:
    assert describe_candidate(Candidate("c003", PROMPTS, **parts)) == phrase


def test_a_proposal_has_no_scores_and_took_nothing_unless_it_says_so() -> None:
    made = Proposal(Candidate("c001", PROMPTS), "rejected", "no better")
    assert (made.iteration, made.minibatch_before, made.minibatch_after, made.val_score) == (0, None, None, None)
    assert made.spend == Spend()
