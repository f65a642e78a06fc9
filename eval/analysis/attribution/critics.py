"""Critics as classifiers of the work that they review: misses, false alarms, and what a rejection gained.

    tally = CriticTally(("critic_planner", "critic_expert"))
    tally.add(record)                                    # of each last attempt, right or wrong
    tally.counts["critic_expert"].n_rejections

A draft, the work that becomes the answer, is right if it holds the target apart from its form. Other work (plans,
reports) has no target: its last version is right if the answer became right with it. Of all else nobody knows whether
it was right; a wrong answer does not show that its plan was wrong.

A real small model often rejects with phrases of its own instructions; such rejections are counted.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from eval.analysis.attribution.agent_steps import AgentSteps, Step, is_own_program
from eval.analysis.attribution.broken_link import build_matcher
from eval.runs.record import Record
from eval.scorers.labels import LabelSet

PHRASE = 4  # words


@dataclass
class SampleReviews:
    """Reviews of one critic in the answers to one sample."""

    approved_right: int = 0
    approved_wrong: int = 0  # misses
    rejected_right: int = 0  # false alarms
    rejected_wrong: int = 0


@dataclass
class CriticCount:
    """All that is counted of one critic."""

    by_sample: defaultdict[str, SampleReviews] = field(default_factory=lambda: defaultdict(SampleReviews))
    judges: set[str] = field(default_factory=set)  # agents whose work it reviewed
    n_reviews: int = 0
    n_unknown: int = 0  # of which: of work of which nobody knows whether it was right
    n_rejections: int = 0
    n_quoting: int = 0  # of which: with a feedback that repeats the critic's own instructions
    n_rejecting: int = 0  # answers in which it rejected something
    n_recovered: int = 0  # answers that were right after it had rejected wrong work


class CriticTally:
    """Counts of all critics of a run; per sample it keeps four numbers."""

    def __init__(self, critics: Iterable[str] | None, labels: LabelSet | None = None) -> None:
        """
        Args:
            critics: names, as the system declares them; None: unknown, all agents that decide are.
            labels: that the targets of the run are, if they are.
        """
        self._declared = None if critics is None else set(critics)
        self._labels = labels
        self.counts: dict[str, CriticCount] = {}

    def add(self, record: Record) -> None:
        """Count the reviews of a record with its trajectory."""
        if is_own_program(record):
            return
        steps = AgentSteps.of(record)
        rejecting, recovered = set[str](), set[str]()
        last = {work.agent: work for work in steps.work}
        for critic, judged in steps.pair_reviews():
            if not self._is_critic(critic.agent):
                continue
            count = self.counts.setdefault(critic.agent, CriticCount())
            is_draft = judged in steps.drafts
            right = self._is_right(record, judged, is_draft, judged is last[judged.agent])
            count.n_reviews += 1
            count.judges.add(judged.agent)
            if critic.rejects:
                rejecting.add(critic.agent)
                count.n_rejections += 1
                count.n_quoting += _quotes_instructions(critic, record)
            if right is None:
                count.n_unknown += 1
                recovered |= {critic.agent} if critic.rejects and not is_draft else set()
                continue
            reviews = count.by_sample[record.sample_id]
            reviews.approved_right += right and not critic.rejects
            reviews.approved_wrong += not right and not critic.rejects
            reviews.rejected_right += right and critic.rejects
            reviews.rejected_wrong += not right and critic.rejects
            recovered |= {critic.agent} if critic.rejects and not right else set()
        for name in rejecting:
            self.counts[name].n_rejecting += 1
            self.counts[name].n_recovered += name in recovered and record.scored and record.correct

    def _is_critic(self, agent: str) -> bool:
        return self._declared is None or agent in self._declared

    def _is_right(self, record: Record, judged: Step, is_draft: bool, is_last: bool) -> bool | None:
        """Return whether reviewed work was right; None: that cannot be known."""
        if not record.scored:
            return None
        if is_draft:
            return build_matcher(record.target or "", self._labels).is_contained_in(judged.answer)
        return True if is_last and record.correct else None


def _quotes_instructions(critic: Step, record: Record) -> bool:
    """Return whether most of what a critic said stands word for word in its own instructions."""
    said = _list_phrases(str(critic.outputs.get("feedback") or critic.said))
    requests = (span.get("inputs") or {} for span in record.trajectory if span.get("parent") == critic.span)
    instructions = {phrase for request in requests for phrase in _list_phrases(str(request.get("system") or ""))}
    return bool(said) and sum(phrase in instructions for phrase in said) > len(said) / 2


def _list_phrases(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + PHRASE]) for i in range(len(words) - PHRASE + 1)]
