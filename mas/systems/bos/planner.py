"""Planner: keywords propose agents, preferences order them, one call to the language model decides.

If the model cannot be asked or its reply cannot be read, the proposed agents run.
"""

from collections.abc import Iterable, Mapping, Sequence

import dspy
from dspy.utils.exceptions import AdapterParseError, LMError

from mas.systems.bos.agents import AgentEntry
from mas.systems.bos.contracts import AgentName, PlannerDecision
from mas.systems.bos.recorder import EventRecorder

FALLBACK_CONFIDENCE = 0.4
FALLBACK_RATIONALE = "Fallback: the planner's model gave no usable plan, so the agents that the keywords propose run."
NOTHING_TO_PLAN = "No agent is available: all of them are disabled or not configured."
DEFAULT_AGENT: AgentName = "sql"


class PlanAgents(dspy.Signature):
    """Choose the agents that answer the question."""

    question_to_plan: str = dspy.InputField()
    agents: str = dspy.InputField(desc="the agents that can be chosen, one a line")
    candidates: list[str] = dspy.InputField(desc="agents that keywords of the question propose, in their order")
    preferences: str = dspy.InputField(desc="wishes of the client")
    context: str = dspy.InputField(desc="date, time and further values of the request")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    chosen_agents: list[str] = dspy.OutputField(desc="names of the agents to run, in order")
    rationale: str = dspy.OutputField(desc="why these agents, in one or two sentences")
    confidence: str = dspy.OutputField(desc="a number from 0 to 1")


async def plan(
    predictor: dspy.Predict,
    entries: Mapping[AgentName, AgentEntry],  # of the agents that are offered
    gaps: Mapping[AgentName, str],  # why others are not
    *,
    question: str,
    prefer: Sequence[AgentName] = (),
    disable: Sequence[AgentName] = (),
    context: Mapping[str, object] | None = None,
    recorder: EventRecorder | None = None,
) -> PlannerDecision:
    """Return the agents to run. A failure of the language model is recorded, not raised."""
    recorder = recorder or EventRecorder("planner", context)
    allowed = [name for name in entries if name not in disable]
    constraints = {"disabled": list(dict.fromkeys(disable)), "unavailable": dict(gaps)}
    guardrails: dict[str, object] = {name: value for name, value in constraints.items() if value}
    if not allowed:
        return PlannerDecision(rationale=NOTHING_TO_PLAN, guardrails=guardrails)
    proposed = find_candidates(question, entries)
    candidates = apply_preferences(proposed, prefer, [*disable, *gaps]) or allowed
    wishes = [f"preferred, in this order: {', '.join(prefer)}"] if prefer else []
    wishes += [f"not allowed: {', '.join(disable)}"] if disable else []
    try:
        reply = await recorder.call(
            predictor,
            question_to_plan=question,
            agents="\n".join(f"{name}: {entries[name].description}" for name in allowed),
            candidates=candidates,
            preferences="; ".join(wishes) or "none",
        )
    except (LMError, AdapterParseError) as error:
        recorder.add("ERROR", "Planner gave no usable plan", error=str(error), type=type(error).__name__)
        return PlannerDecision(
            rationale=FALLBACK_RATIONALE,
            chosen_agents=tuple(candidates),
            confidence=FALLBACK_CONFIDENCE,
            guardrails=guardrails | {"fallback": type(error).__name__},
        )
    named = list(dict.fromkeys(str(name).strip().lower() for name in reply.chosen_agents or ()))
    chosen = sorted((name for name in allowed if name in named), key=named.index)
    notes = {
        "dropped": [name for name in named if name not in allowed],
        "added": [name for name in chosen if name not in candidates],  # beyond the keywords
        "empty_choice": not chosen,
    }
    return PlannerDecision(
        rationale=str(reply.rationale or "").strip() or "The planner gave no reason.",
        chosen_agents=tuple(chosen or candidates),
        confidence=reply.confidence,
        guardrails=guardrails | {name: value for name, value in notes.items() if value},
    )


def find_candidates(question: str, entries: Mapping[AgentName, AgentEntry]) -> list[AgentName]:
    """Return the agents whose keywords occur, unless a rival's occur more often; if none does, sql."""
    lowered = question.lower()
    scores = {name: sum(word in lowered for word in entry.keywords) for name, entry in entries.items()}
    candidates = [
        name
        for name, entry in entries.items()
        if scores[name] > 0 and all(scores[name] >= scores.get(rival, 0) for rival in entry.rivals)
    ]
    return candidates or [DEFAULT_AGENT]


def apply_preferences(
    candidates: Iterable[AgentName], prefer: Sequence[AgentName], disable: Sequence[str]
) -> list[AgentName]:
    """Return the candidates that are not disabled, preferred ones first; none is added."""
    left = [name for name in candidates if name not in disable]
    return list(dict.fromkeys([*(name for name in prefer if name in left), *left]))
