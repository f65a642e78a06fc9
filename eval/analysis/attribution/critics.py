"""Critics as classifiers of the work that they review: misses, false alarms, and what a rejection gained.

    found = {}
    count_reviews(record, TargetMatcher(record.target), ("critic_planner", "critic_expert"), found)
    found["critic_expert"].n_rejections

A draft, the work that becomes the answer, is right if it holds the target apart from its form. Other work (plans,
reports) has no target: its last version is right if the answer became right with it. Of all else nobody knows whether
it was right; a wrong answer does not show that its plan was wrong.

A real small model often rejects with phrases of its own instructions; such rejections are counted.
"""

import re
from collections.abc import Collection

from eval.analysis.attribution import CriticNumbers
from eval.analysis.attribution.agent_steps import AgentSteps, Step
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.runs.record import Record

PHRASE = 4  # words


def count_reviews(
    record: Record, matcher: TargetMatcher, declared: Collection[str], found: dict[str, CriticNumbers]
) -> None:
    """Add the reviews of a record with its trajectory to the numbers that were found so far, by critic.

    `matcher`: of the record's target; `declared`: names of the critics, as the system declares them.
    """
    steps = AgentSteps.of(record)
    rejecting, recovered = set[str](), set[str]()
    last = {work.agent: work for work in steps.work}
    for critic, judged in steps.pair_reviews():
        if critic.agent not in declared:
            continue
        numbers = found.setdefault(critic.agent, CriticNumbers())
        is_draft = judged in steps.drafts
        right = None  # nobody knows
        if record.scored and is_draft:
            right = matcher.is_contained_in(judged.answer)
        elif record.scored and record.correct and judged is last[judged.agent]:
            right = True
        numbers.n_reviews += 1
        numbers.approved_right += right is True and not critic.rejects
        numbers.misses += right is False and not critic.rejects
        numbers.false_alarms += right is True and critic.rejects
        numbers.hits += right is False and critic.rejects
        numbers.n_unknown += right is None
        if critic.rejects:
            rejecting.add(critic.agent)
            numbers.n_rejections += 1
            numbers.n_quoting += _quotes_instructions(critic, record)
            if right is False or (right is None and not is_draft):
                recovered.add(critic.agent)
    for name in rejecting:
        found[name].n_rejecting += 1
        found[name].n_recovered += name in recovered and record.scored and record.correct


def _quotes_instructions(critic: Step, record: Record) -> bool:
    """Return whether most of what a critic said stands word for word in its own instructions."""
    said = _list_phrases(str(critic.outputs.get("feedback") or critic.said))
    requests = (span.get("inputs") or {} for span in record.trajectory if span.get("parent") == critic.span)
    instructions = {phrase for request in requests for phrase in _list_phrases(str(request.get("system") or ""))}
    return bool(said) and sum(phrase in instructions for phrase in said) > len(said) / 2


def _list_phrases(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return [tuple(words[i : i + PHRASE]) for i in range(len(words) - PHRASE + 1)]
