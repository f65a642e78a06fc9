"""What a search proposes: the prompts of all agents, as they would be published, and what became of the proposal.

parent = Candidate("parent", prompts)
Candidate("c001", tuned, parent_ids=("parent",), agents=("finalizer",), origin="reflection")
"""

from dataclasses import dataclass, field
from typing import Literal

from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.budget import Spend

PARENT = "parent"  # id of the set that the search began with

Decision = Literal["accepted", "rejected", "cut_off"]


@dataclass(frozen=True)
class Candidate:
    """Numbered in the order of their proposal."""

    id: str  # PARENT, then c001, c002, …
    prompts: PromptSet  # texts and demos of all agents
    parent_ids: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()  # whose text or demos differ from the first parent's
    origin: str = ""  # reflection | merge | bootstrap


def describe_candidate(candidate: Candidate) -> str:
    """In a few words what it changes: its agents, or of what it is put together."""
    if candidate.origin == "merge" or not candidate.agents:
        return f"{candidate.origin or 'copy'} of {' and '.join(candidate.parent_ids) or PARENT}"
    return ", ".join(candidate.agents)


@dataclass(frozen=True)
class Proposal:
    """A candidate and its fate in the search."""

    candidate: Candidate
    decision: Decision  # cut_off: a budget or Ctrl-C ended its scoring, so that its scores mean nothing
    reason: str  # half a sentence
    iteration: int = 0
    minibatch_before: float | None = None  # mean score of the parent on the proposal's minibatch, 0 to 1
    minibatch_after: float | None = None
    val_score: float | None = None  # mean over the validation questions; None: not scored on them
    spend: Spend = field(default_factory=Spend)  # its share: scoring it, and the reflection that made it
