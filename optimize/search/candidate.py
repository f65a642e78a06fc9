"""Candidates: the prompts that a search proposes for all agents, and the decision on each proposal.

parent = Candidate("parent", prompts)
Candidate("c001", tuned, parent_ids=("parent",), agents=("finalizer",), origin="reflection")
"""

from dataclasses import dataclass, field
from typing import Literal

from eval.execution.budget import Spend
from mas.prompt_sets.prompt_set import PromptSet

PARENT = "parent"  # id of the prompt set that the search starts from

Decision = Literal["accepted", "rejected", "cut_off"]


@dataclass(frozen=True)
class Candidate:
    """A proposed prompt set. Ids count the proposals of a search."""

    id: str  # PARENT, then c001, c002, …
    prompts: PromptSet  # texts and demos of all agents
    parent_ids: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()  # agents whose text or demos differ from the first parent's
    origin: str = ""  # reflection | merge | bootstrap | mipro


@dataclass(frozen=True)
class Proposal:
    """A candidate and the search's decision on it."""

    candidate: Candidate
    decision: Decision  # cut_off: a budget or Ctrl-C interrupted its scoring, so it has no score
    reason: str  # half a sentence
    iteration: int = 0
    minibatch_before: float | None = None  # mean of the parent on the proposal's minibatch, 0 to 1; None: incomplete
    minibatch_after: float | None = None
    val_score: float | None = None  # mean over the validation questions; None: not scored on all of them
    spend: Spend = field(default_factory=Spend)  # for its reflection and its scoring


def describe_candidate(candidate: Candidate) -> str:
    """Return the agents that a candidate changes, or the candidates that it combines."""
    if candidate.origin == "merge" or not candidate.agents:
        return f"{candidate.origin or 'copy'} of {' and '.join(candidate.parent_ids) or PARENT}"
    return ", ".join(candidate.agents)
