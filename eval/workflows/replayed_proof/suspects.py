"""Agents whose correction is tested, from the wrong answers of a run, and why others are not.

    suspects = find_suspects(config, blamed=["expert"], records=wrong, labels=labels)
    suspects.tested[0].agent, suspects.tested[0].kind       # "expert", "answer"
    suspects.skipped["finalizer"]                           # "its output is the answer, which would always be right"

A record shows who looks responsible. It cannot show a critic that decides without looking: one that rejects all plans
looks like a planner whose plans are never good enough, one that approves all drafts like their author. A critic whose
decisions on the wrong answers are nearly all the same, and wrong as far as that is known, is therefore tested, too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.broken_link import build_matcher
from eval.config.evaluation import EvalConfig
from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from eval.workflows.replayed_proof.correction import Correction, Kind
from mas.system import agent_names

MAX_BLAMED = 3  # agents that are tested because the record blames them
MAX_EXCEPTIONS = 0.1  # share of a critic's decisions that may be otherwise, if it decides without looking
RIGHT, WRONG, OTHER = "right draft", "wrong draft", "other work"  # of other work nobody knows whether it was right


@dataclass(frozen=True)
class Suspects:
    tested: list[Correction] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # agent → why it is not corrected


def find_suspects(
    config: EvalConfig, records: Sequence[Record], labels: LabelSet, blamed: Sequence[str], chosen: Sequence[str] = ()
) -> Suspects:
    """Return the agents to be tested.

    Args:
        config: of the run.
        records: of the wrong answers, with their steps.
        labels: that the targets are, if they are.
        blamed: agents that the records blame, the most frequent first.
        chosen: by the user, in place of those.
    """
    judged = {spec.critic: spec.name for spec in config.system.agent_specs if spec.critic}
    steps = [AgentSteps.of(record) for record in records]
    authors = {each.draft.agent for each in steps if each.draft is not None} - _list_earlier(judged)
    last = Counter(each.work[-1].agent for each in steps if each.work)
    finisher = max(last, key=lambda name: last[name], default=None)  # some answers ended before it
    matchers = {each.sample_id: build_matcher(each.target or "", labels) for each in records}
    names = agent_names(config.system)
    found = Suspects()

    def test(agent: str) -> None:
        kind: Kind = "answer" if agent in authors else "hint"
        if agent in judged:
            kind = "review" if judged[agent] in authors else "approval"
        found.tested.append(Correction(agent, kind, matchers, judged.get(agent)))

    for agent in dict.fromkeys(chosen or blamed):
        if agent not in names:
            found.skipped[agent] = f"it makes several calls of a model; name those to correct, of {', '.join(names)}"
        elif agent == finisher and agent not in judged:
            found.skipped[agent] = "its output is the answer, which would always be right"
        elif config.simulated and agent not in judged and agent not in authors:
            found.skipped[agent] = "its correction is a hint in its prompt, which the simulated model does not read"
        else:
            test(agent)
    if not chosen:
        del found.tested[MAX_BLAMED:]
        tested = {each.agent for each in found.tested}
        for critic in find_one_sided_critics(records, judged, labels):
            if critic not in tested:
                test(critic)
    return found


def find_one_sided_critics(records: Iterable[Record], judged_by: Mapping[str, str], labels: LabelSet) -> list[str]:
    """Return the critics that decide nearly always the same way on the work of wrong answers, wrongly as far as known.

    A draft that was right, and approved, and spoilt by a later agent is no decision against its critic.

    Args:
        records: of wrong answers, with their steps.
        judged_by: critic → the agent whose work it reviews, in the order of their work.
        labels: that the targets are, if they are.
    """
    earlier = _list_earlier(judged_by)
    found: dict[str, Counter[tuple[str, bool]]] = {critic: Counter() for critic in judged_by}  # (work, rejected) → n
    for record in records:
        steps, matcher = AgentSteps.of(record), build_matcher(record.target or "", labels)
        for critic, judged in steps.pair_reviews():
            if critic.agent in found:
                is_draft = judged in steps.drafts and judged.agent not in earlier
                work = OTHER if not is_draft else RIGHT if matcher.is_contained_in(judged.answer) else WRONG
                found[critic.agent][work, critic.rejects] += 1
    return [critic for critic, counts in found.items() if _are_one_sided(counts)]


def _list_earlier(judged_by: Mapping[str, str]) -> set[str]:
    """Return the reviewed agents before the last: their work looks like a draft where the question was given up."""
    return set(list(judged_by.values())[:-1])


def _are_one_sided(counts: Counter[tuple[str, bool]]) -> bool:
    """Return whether wrong drafts are approved, or right ones or other work rejected, nearly always."""
    for work, rejects in ((WRONG, False), (RIGHT, True), (OTHER, True)):
        alike, exceptions = counts[work, rejects], counts[work, not rejects]
        if alike and exceptions <= MAX_EXCEPTIONS * (exceptions + alike):
            return True
    return False
