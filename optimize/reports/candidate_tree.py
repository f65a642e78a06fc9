"""The proposals of a search as a tree, in the order in which a page lists them: who was derived from whom.

    for branch in build_tree(tuning):
        branch.depth, branch.row.candidate_id, branch.row.decision      # 1, "c004", "accepted"

A page shows the difference to the first parent for the proposals that were kept.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mas.runtime.errors import UserError
from optimize.publishing.diff_page import render_agents
from optimize.search.candidate import PARENT
from optimize.session.tuning_store import ProposalRow, TuningSnapshot

if TYPE_CHECKING:
    from markupsafe import Markup

MAX_DIFFS = 100
MAX_ROWS = 2_000


@dataclass
class Branch:
    """A candidate with its place in the tree."""

    row: ProposalRow
    depth: int = 0
    marks: Sequence[str] = ()  # published, tested, on the shortlist
    difference: "Markup | None" = None  # to the first parent; None: it is not shown

    @property
    def score_width(self) -> float:
        """Percent of the width of a bar."""
        return 100 * min(max(self.row.val_score or 0.0, 0.0), 1.0)


def build_tree(tuning: TuningSnapshot) -> list[Branch]:
    """Return the parent and all proposals, each below the first candidate that it was derived from."""
    score = tuning.read_part("baseline").get("val_score")
    root = Branch(ProposalRow(PARENT, "start", origin=tuning.info.prompts_name or "", val_score=score))
    branches = {PARENT: root}
    children: defaultdict[str, list[Branch]] = defaultdict(list)
    for row in tuning.proposals[:MAX_ROWS]:
        parent = next(iter(row.parent_ids), PARENT)
        branch = Branch(row, marks=_list_marks(tuning, row.candidate_id))
        # a parent comes before its offspring; what a folder of others says otherwise is put below the first prompts
        children[parent if parent in branches else PARENT].append(branch)
        branches[row.candidate_id] = branch
    kept = [each for each in branches.values() if each.marks or each.row.decision == "accepted"]
    for branch in kept[:MAX_DIFFS]:
        parent = next(iter(branch.row.parent_ids), PARENT)
        branch.difference = render_difference(tuning, parent, branch.row.candidate_id)
    return _order(root, children)


def _order(root: Branch, children: dict[str, list[Branch]]) -> list[Branch]:
    ordered, left = [], [root]
    while left:
        branch = left.pop()
        ordered.append(branch)
        own = children.pop(branch.row.candidate_id, [])
        for each in own:
            each.depth = branch.depth + 1
        left += reversed(own)
    return ordered


def _list_marks(tuning: TuningSnapshot, candidate_id: str) -> list[str]:
    marks = ["shortlist"] if candidate_id in tuning.shortlist else []
    return ["published" if tuning.published else "tested", *marks] if candidate_id == tuning.winner else marks


def render_difference(tuning: TuningSnapshot, before: str, after: str) -> "Markup | None":
    """Return how the prompts of two candidates differ; None if the run does not have both, or they were changed."""
    try:
        return render_agents(tuning.get_prompts(before), tuning.get_prompts(after))
    except UserError:
        return None
