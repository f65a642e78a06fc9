"""Attribution of a wrong answer to the agent that made the first mistake, as far as its steps show.

    attribution = attribute_failure(record, AgentSteps.of(record), TargetMatcher(target))
    attribution.agent, attribution.reason      # "expert", "The evidence was in front of this agent, and it did …"

Evidence is text that contains the target. That is no criterion for answers that must be computed, or that are so short
that they occur anywhere; then the author of the draft is named. A user's own program has other rules
(`eval.analysis.attribution.predictor_attribution`), since nobody has declared what its predictors do. Reasons never
quote anybody, so that an optimizer may read them.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from eval.analysis.attribution.agent_steps import (
    REASONED_WRONGLY,
    AgentSteps,
    Attribution,
    Step,
    blame,
    is_own_program,
)
from eval.analysis.attribution.target_matcher import TargetMatcher, extract_numbers
from eval.runs.record import Record

RETRY_LIMIT = "retry_limit:"
_MIN_TELLING_NUMBER = 100  # smaller whole numbers are counts, ranks and the like, and may come from anywhere
_MIN_CALCULATED = 10
_FALSE_ALARM = "This agent rejected a draft that was right in content, and the right answer was lost: a false alarm."
_FAILURES = {  # error class → what happened to the agent; of others, prompts are not the cause
    "malformed": "its reply could not be read: output fields were missing or not in the form asked for",
    "truncated": "its reply was too long and was cut off",
    "context_overflow": "what it was given to read was too long",
    "refused": "it refused to reply",
    "tool": "a tool that it called failed",
    "limit": "it was at work when a limit was reached",
}


def attribute_failure(record: Record, agent_steps: AgentSteps, matcher: TargetMatcher) -> Attribution:
    """Return the agent responsible for a wrong or failed answer; no agent for a right one.

    `matcher`: of the record's target.
    """
    if record.correct:
        return Attribution(None)
    found = _find_failed(record, agent_steps) if record.error is not None else None
    if found is None and is_own_program(record):
        from eval.analysis.attribution.predictor_attribution import attribute_to_predictor

        found = attribute_to_predictor(record, agent_steps, matcher)
    elif found is None and record.error is None:
        found = next(_list_faults(record, agent_steps, matcher), None)
    return found or Attribution(None)


def _find_failed(record: Record, agent_steps: AgentSteps) -> Attribution | None:
    """Return the agent that was running when the question failed; None if a prompt is not the cause."""
    why, is_of_tool = _FAILURES.get(record.error_class or ""), record.error_class == "tool"
    steps = agent_steps.select_agent(record.error_component)
    if not steps and is_of_tool:
        steps = [step for step in agent_steps.steps if any(tool.error for tool in step.tools)]
        steps = agent_steps.select_agent(steps[-1].agent) if steps else []
    if why is None or not steps:
        return None
    failed = [tool for tool in steps[-1].tools if tool.error and is_of_tool]
    limit = f" ({record.limit})" if record.error_class == "limit" else ""
    return blame(steps[-1], f"The question failed with this agent: {why}{limit}.", failed[-1] if failed else None)


def _list_faults(record: Record, agent_steps: AgentSteps, matcher: TargetMatcher) -> Iterator[Attribution]:
    """Yield the faults that the steps of a wrong answer show; the first of them counts."""
    plan, draft, finish = agent_steps.plan, agent_steps.draft, agent_steps.finish
    rejected = [(critic, step) for critic, step in agent_steps.pair_reviews() if critic.rejects]
    false_alarms = [(critic, step) for critic, step in rejected if matcher.is_contained_in(step.answer)]

    if (record.limit or "").startswith(RETRY_LIMIT):
        worker = (record.limit or "").removeprefix(RETRY_LIMIT)
        yield from (blame(critic, _FALSE_ALARM) for critic, step in false_alarms if step.agent == worker)
        yield _explain_retries(worker, agent_steps, [each for each in rejected if each[1].agent == worker])

    if finish and draft and matcher.is_contained_in(draft.answer):
        if matcher.is_contained_in(record.answer or ""):
            # Of a draft that had lost what the form needs, the finisher could not make it.
            is_inherited = matcher.is_reordered(draft.answer) or matcher.is_truncated(draft.answer)
            why = "The answer was right in content, and this agent did not give it the form that the question asks for."
            yield blame(draft if is_inherited else finish, why)
        why = (
            "The draft that this agent received was right, and what it made of it was not: the content was changed "
            "where only the form was to be given."
        )
        yield blame(finish, why)
    yield from (blame(critic, _FALSE_ALARM) for critic, step in false_alarms if step in agent_steps.drafts)

    if plan and not plan.said.strip():
        yield blame(plan, "The plan was empty.")
    if record.file:
        yield from _list_unread(record.file, agent_steps, plan)
    for step in agent_steps.work:
        if step.tools and all(tool.error for tool in step.tools):
            why = "Every tool call of this agent failed, and it went on without the evidence."
            yield blame(step, why, step.tools[-1])

    # Of all agents but planner, finisher and the author of the draft: values without a source, and lost evidence.
    others = {step.agent for step in (plan, finish, draft) if step}
    evidence = [step for step in agent_steps.work if step.agent not in others]
    for step in evidence:
        figures = {number for number in extract_numbers(step.said) if number >= _MIN_TELLING_NUMBER or number % 1}
        if step.offered and figures - _list_given(step, record) and not matcher.is_within(step.said):
            why = (
                "This agent reported values that stand in nothing it had read: made up, rounded off or copied wrongly, "
                "where the exact values of the source were needed as evidence."
            )
            yield blame(step, why)
    for agent in dict.fromkeys(step.agent for step in evidence):
        steps = [step for step in evidence if step.agent == agent]
        returned = any(matcher.is_within(tool.seen) for step in steps for tool in step.tools)
        if returned and not any(matcher.is_within(step.said) for step in steps):
            why = "The evidence was in what the tools returned to this agent, and its report left it out."
            yield blame(steps[-1], why)

    if draft:
        yield blame(draft, _explain_draft(draft, record, matcher))


def _explain_retries(worker: str, agent_steps: AgentSteps, rejected: list[tuple[Step, Step]]) -> Attribution:
    """Blame an agent whose retries ran out; a critic may have been wrong if its work had no answer to be compared."""
    is_unread = any(agent == worker for agent, _ in agent_steps.unusable)
    why = "some of its replies could not be read" if is_unread else "its work was rejected until its retries ran out"
    critic = None
    if rejected and not is_unread and not any("answer" in name for name in rejected[-1][1].outputs):
        critic = rejected[-1][0].agent
    steps = agent_steps.select_agent(worker)
    return Attribution(worker, f"The question was given up: {why}.", steps[-1] if steps else None, critic=critic)


def _list_unread(file: str, agent_steps: AgentSteps, plan: Step | None) -> Iterator[Attribution]:
    tried = [(step, tool) for step in agent_steps.steps for tool in step.tools if file in tool.asked]
    if any(tool.error is None for _, tool in tried):
        return
    for step, tool in tried[-1:]:
        yield blame(step, "The attached file was never read: the tool call that was to open it failed.", tool)
    if plan and file not in plan.said:
        why = "The plan does not name the attached file, and nobody read it: the evidence was never retrieved."
        yield blame(plan, why)
    why = "The attached file was never read with a tool: the evidence was never retrieved."
    yield from (blame(step, why) for step in agent_steps.work if step.offered and step is not plan)


def _explain_draft(draft: Step, record: Record, matcher: TargetMatcher) -> str:
    """Return why the author of the draft is named, where no earlier mistake is known."""
    if matcher.is_within(draft.seen) and not matcher.is_within(record.question):
        return "The evidence was in front of this agent, and it did not draw the right answer from it."
    numbers = {number for number in extract_numbers(draft.answer) if number >= _MIN_CALCULATED}
    has_digits = re.search(r"\d", draft.answer) is not None
    if draft.offered and has_digits and numbers and not numbers & _list_given(draft, record):
        return (
            "As far as can be told, this agent's result is wrong: the number comes from no tool and from nothing it "
            "was given, so it was calculated without the tools that it has."
        )
    return REASONED_WRONGLY


def _list_given(step: Step, record: Record) -> set[Decimal]:
    return extract_numbers(step.seen) | extract_numbers(record.question)
