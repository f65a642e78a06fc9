"""Attribution of a wrong answer to the agent that made the first mistake, as far as its steps show.

    attribution = attribute_failure(record, AgentSteps.of(record), TargetMatcher(target))
    attribution.agent, attribution.reason      # "expert", "The evidence was in front of this agent, and it did …"

The rules, in this order: a reply that could not be read; exhausted retries; a right draft that was changed or rejected;
an empty plan; an attachment that nobody opened; failed tools; values without a source; lost evidence. Evidence is text
that contains the target. That is no criterion for answers that must be computed, or that are so short that they occur
anywhere; then the author of the draft is named. A user's own program has other rules
(`eval.analysis.attribution.predictor_attribution`), since nobody has declared what its predictors do. Reasons never
quote anybody, so that an optimizer may read them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eval.analysis.attribution.agent_steps import AgentSteps, Attribution, Step, blame, is_own_program
from eval.analysis.attribution.target_matcher import TargetMatcher, extract_numbers
from eval.runs.record import Record

if TYPE_CHECKING:
    from eval.analysis.attribution.predictor_attribution import RightAnswers

RETRY_LIMIT = "retry_limit:"
_MIN_TELLING_NUMBER = 100  # smaller whole numbers are counts, ranks and the like, and may come from anywhere
_MIN_CALCULATED = 10
_FAILURES = {  # error class → what happened to the agent; of others, prompts are not the cause
    "malformed": "its reply could not be read: output fields were missing or not in the form asked for",
    "truncated": "its reply was too long and was cut off",
    "context_overflow": "what it was given to read was too long",
    "refused": "it refused to reply",
    "tool": "a tool that it called failed",
    "limit": "it was at work when a limit was reached",
}


def attribute_failure(
    record: Record, agent_steps: AgentSteps, matcher: TargetMatcher, right_answers: "RightAnswers | None" = None
) -> Attribution:
    """Return the agent responsible for a wrong or failed answer; no agent for a right one.

    Args:
        record: of the answer.
        agent_steps: of that record.
        matcher: of its target.
        right_answers: of the same program, if it is the user's own.
    """
    if record.correct:
        return Attribution(None)
    found = _find_failed(record, agent_steps) if record.error is not None else None
    if found is None and is_own_program(record):
        from eval.analysis.attribution.predictor_attribution import attribute_to_predictor

        found = attribute_to_predictor(record, agent_steps, matcher, right_answers)
    elif found is None and record.error is None:
        case = _Case(record, agent_steps, matcher)
        found = next(filter(None, (rule(case) for rule in _RULES)), None)
    return found or Attribution(None)


@dataclass(frozen=True)
class _Case:
    record: Record
    agent_steps: AgentSteps
    matcher: TargetMatcher

    def has_right_answer(self, step: Step) -> bool:
        return self.matcher.is_contained_in(step.answer)

    @property
    def evidence(self) -> list[Step]:
        """The work of all agents but planner, finisher and the author of the draft."""
        steps = self.agent_steps
        others = {step.agent for step in (steps.plan, steps.finish, steps.draft) if step}
        return [step for step in steps.work if step.agent not in others]


def _find_failed(record: Record, agent_steps: AgentSteps) -> Attribution | None:
    """Return the agent that was running when the question failed; None if a prompt is not the cause."""
    why = _FAILURES.get(record.error_class or "")
    steps = [step for step in agent_steps.steps if step.agent == record.error_component]
    if not steps and record.error_class == "tool":
        agent = [step.agent for step in agent_steps.steps if any(tool.error for tool in step.tools)][-1:]
        steps = [step for step in agent_steps.steps if step.agent in agent]
    if why is None or not steps:
        return None
    failed = [tool for tool in steps[-1].tools if tool.error and record.error_class == "tool"]
    limit = f" ({record.limit})" if record.error_class == "limit" else ""
    why = f"The question failed with this agent: {why}{limit}."
    return blame(steps[-1], why, failed[-1] if failed else None)


def _retries_exhausted(case: _Case) -> Attribution | None:
    limit = case.record.limit or ""
    if not limit.startswith(RETRY_LIMIT):
        return None
    worker = limit.removeprefix(RETRY_LIMIT)
    reviews = case.agent_steps.pair_reviews()
    rejected = [(critic, step) for critic, step in reviews if critic.rejects and step.agent == worker]
    if wronged := next((critic for critic, step in rejected if case.has_right_answer(step)), None):
        return blame(wronged, _FALSE_ALARM)
    unread = any(agent == worker for agent, _ in case.agent_steps.unusable)
    why = "some of its replies could not be read" if unread else "its work was rejected until its retries ran out"
    critic = None
    if rejected and not unread:
        last_critic, last_work = rejected[-1]
        has_target = any("answer" in name for name in last_work.outputs)  # which shows that the critic was right
        critic = None if has_target else last_critic.agent
    steps = case.agent_steps.select_agent(worker)
    return Attribution(worker, f"The question was given up: {why}.", steps[-1] if steps else None, critic=critic)


def _finisher_spoilt_right_draft(case: _Case) -> Attribution | None:
    """Handle a right draft with a wrong final answer, in content or form."""
    finish, draft, matcher = case.agent_steps.finish, case.agent_steps.draft, case.matcher
    if finish is None or draft is None or not case.has_right_answer(draft):
        return None
    if matcher.is_contained_in(case.record.answer or ""):
        # The finisher could not fix it.
        inherited = matcher.is_reordered(draft.answer) or matcher.is_truncated(draft.answer)
        why = "The answer was right in content, and this agent did not give it the form that the question asks for."
        return blame(draft if inherited else finish, why)
    why = (
        "The draft that this agent received was right, and what it made of it was not: the content was changed "
        "where only the form was to be given."
    )
    return blame(finish, why)


def _rejected_though_right(case: _Case) -> Attribution | None:
    for critic, step in case.agent_steps.pair_reviews():
        if critic.rejects and step in case.agent_steps.drafts and case.has_right_answer(step):
            return blame(critic, _FALSE_ALARM)
    return None


_FALSE_ALARM = "This agent rejected a draft that was right in content, and the right answer was lost: a false alarm."


def _plan_is_empty(case: _Case) -> Attribution | None:
    plan = case.agent_steps.plan
    return None if plan is None or plan.said.strip() else blame(plan, "The plan was empty.")


def _file_not_read(case: _Case) -> Attribution | None:
    file, agent_steps = case.record.file, case.agent_steps
    if not file:
        return None
    tried = [(step, tool) for step in agent_steps.steps for tool in step.tools if file in tool.asked]
    if any(tool.error is None for _, tool in tried):
        return None
    if tried:
        step, tool = tried[-1]
        return blame(step, "The attached file was never read: the tool call that was to open it failed.", tool)
    if agent_steps.plan and file not in agent_steps.plan.said:
        why = "The plan does not name the attached file, and nobody read it: the evidence was never retrieved."
        return blame(agent_steps.plan, why)
    offered = [step for step in agent_steps.work if step.offered and step is not agent_steps.plan]
    why = "The attached file was never read with a tool: the evidence was never retrieved."
    return blame(offered[0], why) if offered else None


def _tools_failed(case: _Case) -> Attribution | None:
    """Find an agent all of whose tool calls failed."""
    for step in case.agent_steps.work:
        if step.tools and all(tool.error for tool in step.tools):
            why = "Every tool call of this agent failed, and it went on without the evidence."
            return blame(step, why, step.tools[-1])
    return None


def _values_from_nowhere(case: _Case) -> Attribution | None:
    """Find a report with figures that its author did not see: invented, rounded or copied wrongly."""
    for step in case.evidence:
        seen = extract_numbers(step.seen) | extract_numbers(case.record.question)
        figures = {number for number in extract_numbers(step.said) if number >= _MIN_TELLING_NUMBER or number % 1}
        if step.offered and figures - seen and not case.matcher.is_within(step.said):
            why = (
                "This agent reported values that stand in nothing it had read: made up, rounded off or copied wrongly, "
                "where the exact values of the source were needed as evidence."
            )
            return blame(step, why)
    return None


def _evidence_lost(case: _Case) -> Attribution | None:
    """Find an agent whose tools returned the answer, and whose reports lack it."""
    evidence = case.evidence
    for agent in dict.fromkeys(step.agent for step in evidence):
        steps = [step for step in evidence if step.agent == agent]
        returned = any(case.matcher.is_within(tool.seen) for step in steps for tool in step.tools)
        if returned and not any(case.matcher.is_within(step.said) for step in steps):
            why = "The evidence was in what the tools returned to this agent, and its report left it out."
            return blame(steps[-1], why)
    return None


def _draft_is_wrong(case: _Case) -> Attribution | None:
    """Attribute the answer to the author of the draft: no earlier mistake is known."""
    draft = case.agent_steps.draft
    if draft is None:
        return None
    if case.matcher.is_within(draft.seen) and not case.matcher.is_within(case.record.question):
        return blame(draft, "The evidence was in front of this agent, and it did not draw the right answer from it.")
    if _calculated_without_tool(draft, case.record):
        why = (
            "As far as can be told, this agent's result is wrong: the number comes from no tool and from nothing it "
            "was given, so it was calculated without the tools that it has."
        )
        return blame(draft, why)
    why = "As far as can be told, what it was given sufficed, and this agent's own reasoning or calculation went wrong."
    return blame(draft, why)


def _calculated_without_tool(draft: Step, record: Record) -> bool:
    given = extract_numbers(draft.seen) | extract_numbers(record.question)
    numbers = {number for number in extract_numbers(draft.answer) if number >= _MIN_CALCULATED}
    return draft.offered and bool(re.search(r"\d", draft.answer)) and bool(numbers) and not numbers & given


_RULES: tuple[Callable[[_Case], Attribution | None], ...] = (
    _retries_exhausted,
    _finisher_spoilt_right_draft,
    _rejected_though_right,
    _plan_is_empty,
    _file_not_read,
    _tools_failed,
    _values_from_nowhere,
    _evidence_lost,
    _draft_is_wrong,
)
