"""First broken link of each wrong answer: the agent, tool, limit, format or error that cost its points.

    link = find_broken_link(record)                  # None: no point was lost
    link.kind, link.name                             # "tool", "read_file"
    link.evidence                                    # 'Every tool call … read_file failed: "ToolError: damaged".'
    link.step                                        # id of the span that shows it, to jump to
    attribute_run(store).links["q17", 1].name        # "researcher": of a whole run, by sample and epoch

The agent comes from the rules that also make an optimizer's feedback, whose reasons quote nobody. Evidence quotes the
record, and even the target: a contract in pyproject.toml keeps `optimize` from importing this module.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from eval.analysis.attribution import CriticNumbers
from eval.analysis.attribution.agent_attribution import RETRY_LIMIT, attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps, Attribution, ToolUse
from eval.analysis.attribution.target_matcher import LabelMatcher, TargetMatcher
from eval.runs.record import NOT_RUN, Record
from eval.runs.store import RunStore
from eval.scorers.labels import LabelSet

Key = tuple[str, int]  # sample id, epoch
Kind = Literal["agent", "tool", "limit", "format", "error"]

PROGRAM = "program"  # name of the link where a program shows no steps
PAIR = " or "  # between an agent and the critic that rejected its work, where nothing says which was wrong
MAX_QUOTED_CHARS = 200
_ERROR = "error"  # output of an agent that reports a failure to the agents after it
_LENGTH_LIMITS = {"truncated": "max_tokens", "context_overflow": "context_window"}  # error class → limit


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """Link of an answer that lost points, with what shows it."""

    kind: Kind
    name: str  # of the agent (or two, see `PAIR`), tool or limit; of a format the agent; of an error its class
    evidence: str  # for people: it may quote the target
    step: int | None = None  # id of the span in the record's trajectory; None: the record has no such step


@dataclass(frozen=True)
class RunAttribution:
    """First broken links and critics' reviews of a run."""

    links: dict[Key, BrokenLink]
    critics: dict[str, CriticNumbers] = field(default_factory=dict)  # by name


def attribute_run(store: RunStore) -> RunAttribution:
    """Return the links and reviews of a run's last attempts; raise StoreError if the store cannot be read.

    Records are read one at a time; of a run without critics only the answers that lost points are parsed.
    """
    info = store.read_info()
    labels = LabelSet(tuple(info.task.labels))
    lost = {
        (each.sample_id, each.epoch)
        for each in store.final_records()
        if each.error is not None or (each.scored and not each.correct)
    }
    found = RunAttribution({})
    if not lost and not info.critics:
        return found
    for record in read_with_steps(store, lambda key: bool(info.critics) or key in lost):
        if (link := find_broken_link(record, labels)) is not None:
            found.links[record.sample_id, record.epoch] = link
        if info.critics:
            from eval.analysis.attribution.critics import count_reviews

            count_reviews(record, build_matcher(record.target or "", labels), info.critics, found.critics)
    return found


def read_with_steps(store: RunStore, wants: Callable[[Key], bool]) -> Iterator[Record]:
    """Yield the last attempts that are wanted; no other record is parsed, for each may have megabytes."""
    last = store.read_last_attempts()
    for ids, line in zip(store.correlation_ids(), store.lines(), strict=False):  # both in the order of writing
        key = (ids["task_id"], ids["epoch"])
        if last.get(key, (0, None))[0] == ids["attempt"] and wants(key):
            yield Record.from_dict(json.loads(line))


def find_broken_link(record: Record, labels: LabelSet | None = None) -> BrokenLink | None:
    """Return the first broken link of an answer that lost points or failed; None for any other.

    The record needs its trajectory and state. `labels`: that the targets of the run are, if they are.
    """
    if record.error is None and (not record.scored or record.correct):
        return None
    if record.error_class == NOT_RUN:
        return BrokenLink("error", NOT_RUN, "The run stopped before this question was answered.")
    steps = AgentSteps.of(record)
    found = attribute_failure(record, steps, build_matcher(record.target or "", labels))
    if record.error is not None or (record.limit and not record.limit.startswith(RETRY_LIMIT)):
        return _explain_end(record, steps, found)
    if found.tool is not None:
        return _explain_tool(found.tool, found.reason)
    calls = [tool for step in steps.steps for tool in step.tools]
    worked = {tool.name for tool in calls if tool.error is None}
    if (failed := next((tool for tool in calls if tool.name not in worked), None)) is not None:
        return _explain_tool(failed, f"Every call of the tool {failed.name} failed, and the answer was wrong.")
    if (reported := next((step for step in steps.steps if step.outputs.get(_ERROR)), None)) is not None:
        text = f"{reported.agent} reported a failure: {_quote(str(reported.outputs[_ERROR]))}. {_differ(record)}"
        return BrokenLink("agent", reported.agent, text, reported.span)
    if found.agent and (unread := _find_unread(record, steps, found.agent)) is not None:
        text = f"Replies of {found.agent} could not be read until its retries ran out: {_quote(unread)}."
        return BrokenLink("format", found.agent, text, _find_span(steps, found, found.agent))
    if record.parts.get("format_loss", 0.0) > 0:
        text = f"Right in content, wrong in form: {_quote(record.answer)} in place of {_quote(record.target)}."
        return BrokenLink("format", found.agent or PROGRAM, text, found.step.span if found.step else None)
    return _explain_agent(record, steps, found)


def build_matcher(target: str, labels: LabelSet | None = None) -> TargetMatcher:
    """Return what finds a target in texts; a label is found as a label."""
    label = labels.find(target) if labels else None
    return LabelMatcher(label, labels) if labels and label else TargetMatcher(target)


def _explain_end(record: Record, steps: AgentSteps, found: Attribution) -> BrokenLink:
    """Return the link of an answer that ended in an error, or at a limit."""
    error_class = record.error_class or "unknown"
    agent = (record.error_details.agent if record.error_details else None) or found.agent
    span, message = _find_span(steps, found, agent), _quote(record.error)
    where = f"While {agent} was running, " if agent else ""
    if record.error is None or error_class == "limit":
        limit = record.limit or "limit"
        result = f": {message}" if record.error else ", and the answer was wrong"
        text = f"{where}the limit {limit} was reached{result}."
        return BrokenLink("limit", limit, text[0].upper() + text[1:], span)
    if error_class in _LENGTH_LIMITS:
        return BrokenLink("limit", _LENGTH_LIMITS[error_class], f"{where}{message}.", span)
    if error_class == "tool":
        name = found.tool.name if found.tool else record.error_component or "tool"
        return BrokenLink("tool", name, f"The tool {name} failed: {message}.", found.tool.span if found.tool else span)
    if error_class == "malformed" and agent:
        return BrokenLink("format", agent, f"A reply of {agent} could not be read: {message}.", span)
    return BrokenLink("error", error_class, f"{where}{message}.", span)


def _explain_tool(tool: ToolUse, reason: str) -> BrokenLink:
    result = f"failed: {_quote(tool.error)}" if tool.error else f"returned {_quote(tool.seen)}"
    return BrokenLink("tool", tool.name, f"{reason} {tool.name} {result}.", tool.span)


def _explain_agent(record: Record, steps: AgentSteps, found: Attribution) -> BrokenLink:
    if found.agent is None or (step := found.step) is None:
        text = f"{_differ(record)} The program shows no steps, so that no part of it can be named."
        return BrokenLink("agent", found.agent or PROGRAM, text)
    parts = [found.reason, f"{step.agent} said {_quote(step.answer or step.said)}."]
    reviews = [critic for critic, judged in steps.pair_reviews() if judged == step]
    if reviews and reviews[-1].rejects:
        critic = reviews[-1]
        parts.append(f"{critic.agent} rejected it: {_quote(str(critic.outputs.get('feedback') or critic.said))}.")
    elif reviews:
        parts.append(f"{reviews[-1].agent} approved it.")
    if found.critic:
        parts.append("Nothing in the record says which of the two was wrong.")
    name = f"{step.agent}{PAIR}{found.critic}" if found.critic else step.agent
    return BrokenLink("agent", name, " ".join([*parts, _differ(record)]), step.span)


def _find_unread(record: Record, steps: AgentSteps, agent: str) -> str | None:
    """Return why an agent's first reply was unreadable, if its retries ran out on such and not on rejections."""
    unread = [error for name, error in steps.unusable if name == agent]
    n_rejected = sum(critic.rejects and judged.agent == agent for critic, judged in steps.pair_reviews())
    return unread[0] if record.limit == f"{RETRY_LIMIT}{agent}" and len(unread) > n_rejected else None


def _find_span(steps: AgentSteps, found: Attribution, agent: str | None) -> int | None:
    """Return the id of the step that was found to be wrong, or else of an agent's last one."""
    step = found.step or next((each for each in reversed(steps.steps) if each.agent == agent), None)
    return step.span if step else None


def _differ(record: Record) -> str:
    answer = _quote(record.answer) if record.answer else "nothing"
    return f"The answer was {answer}; expected was {_quote(record.target)}."


def _quote(text: str | None) -> str:
    line = " ".join((text or "").split())
    return f'"{line if len(line) <= MAX_QUOTED_CHARS else line[:MAX_QUOTED_CHARS] + "…"}"'
