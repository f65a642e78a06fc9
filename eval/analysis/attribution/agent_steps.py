"""The agents' steps in a record, read from its spans for any system.

Roles follow from the outputs: an agent with a `decision` is a critic of the agent before it; the last one with a
`final_answer` is the finisher; the last one to work before the finisher made the draft.

    agent_steps = AgentSteps.of(record)
    agent_steps.steps[0].agent, agent_steps.finish.agent      # "planner", "finalizer"
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from eval.runs.record import Record

DECISION, FINAL_ANSWER = "decision", "final_answer"
Span = dict[str, Any]  # as a record's trajectory holds it
INPUTS, OUTPUTS = "inputs", "outputs"  # of the final state of a user's own program
REASONED_WRONGLY = (
    "As far as can be told, what it was given sufficed, and this agent's own reasoning or calculation went wrong."
)
_REASONING_PARTS = ("reason", "working", "rationale", "trace", "explanation")  # in names of fields
_UNUSABLE = "unusable reply"  # event of a reply that could not be used


@dataclass(frozen=True)
class ToolUse:
    """A tool call of an agent."""

    name: str
    asked: str  # arguments
    seen: str  # what came back
    error: str | None
    span: int = field(default=-1, compare=False)  # its id in the trajectory


@dataclass(frozen=True)
class Step:
    """One run of an agent."""

    agent: str
    request: str
    outputs: dict[str, Any]
    tools: tuple[ToolUse, ...]
    offered: bool  # True: it had tools
    span: int = field(default=-1, compare=False)  # its id in the trajectory

    @property
    def is_review(self) -> bool:
        return self.outputs.get(DECISION) is not None

    @property
    def rejects(self) -> bool:
        return "reject" in str(self.outputs.get(DECISION)).lower()

    @cached_property
    def said(self) -> str:
        return _text(self.outputs)

    @cached_property
    def seen(self) -> str:
        """The request and all tool results."""
        return "\n".join([self.request, *(tool.seen for tool in self.tools)])

    @cached_property
    def answer(self) -> str:
        """The output that is its answer; empty if there is none."""
        name = find_answer_field(self.outputs)
        return "" if name is None else str(self.outputs[name])

    @property
    def is_list(self) -> bool:
        """True if all outputs are lists, as those of a plan are."""
        return bool(self.outputs) and all(isinstance(value, list) for value in self.outputs.values())


@dataclass(frozen=True)
class Attribution:
    """The responsible agent and the reason."""

    agent: str | None  # None: nothing went wrong, or the cause is unknown
    reason: str = ""  # about that agent
    step: Step | None = None  # of that agent, where it went wrong
    tool: ToolUse | None = None  # that failed, if the agent's tools are the cause
    critic: str | None = None  # that rejected the work, if nothing says which of the two was wrong


def blame(step: Step, reason: str, tool: ToolUse | None = None) -> Attribution:
    """Return the attribution to the agent of a step."""
    return Attribution(step.agent, reason, step, tool)


def is_own_program(record: Record) -> bool:
    """Return whether a user's own program answered, and not a system with known roles."""
    return INPUTS in record.state or OUTPUTS in record.state


@dataclass(frozen=True)
class AgentSteps:
    """All steps of an answer in order, and the replies that could not be used."""

    steps: tuple[Step, ...]
    unusable: tuple[tuple[str, str], ...]  # agent, reason

    @classmethod
    def of(cls, record: Record) -> "AgentSteps":
        spans = [span for span in record.trajectory if "id" in span]
        owners: dict[int | None, int | None] = {}  # id of a span → that of the agent that it is part of
        below: defaultdict[int | None, list[Span]] = defaultdict(list)  # id of an agent's span → spans within it
        for span in spans:  # a span is opened after the one that it is within
            owner = owners.get(span.get("parent"))
            below[owner].append(span)
            owners[span["id"]] = span["id"] if span.get("kind") == "agent" else owner
        steps = [_read_step(span, below[span["id"]]) for span in spans if span.get("kind") == "agent"]
        unusable = [
            (str(event.get("agent") or span.get("name")), str(event.get("error") or ""))
            for span in spans
            for event in span.get("events") or ()
            if event.get("name") == _UNUSABLE
        ]
        return cls(tuple(steps), tuple(unusable))

    @cached_property
    def work(self) -> tuple[Step, ...]:
        """The steps with outputs of all agents but the critics."""
        return tuple(step for step in self.steps if step.outputs and not step.is_review)

    @cached_property
    def finish(self) -> Step | None:
        return next((step for step in reversed(self.work) if FINAL_ANSWER in step.outputs), None)

    @cached_property
    def drafts(self) -> tuple[Step, ...]:
        """All attempts of the agent whose work became the final answer; the finisher's own if there is no other."""
        before = [step for step in self.work if self.finish is None or step.agent != self.finish.agent]
        source = [step for step in before if not step.is_list] or ([self.finish] if self.finish else [])
        return tuple(step for step in source if step.agent == source[-1].agent)

    @property
    def draft(self) -> Step | None:
        return self.drafts[-1] if self.drafts else None

    @property
    def plan(self) -> Step | None:
        """The last plan: an output of the first agent, if it gives only lists and others work after it."""
        plans = [step for step in self.work if step.agent == self.work[0].agent and step.is_list]
        return plans[-1] if plans and len({step.agent for step in self.work}) > 1 else None

    def pair_reviews(self, critic: str | None = None) -> Iterator[tuple[Step, Step]]:
        """Yield each critic's step with the step it judges."""
        judged: Step | None = None
        for step in self.steps:
            if not step.is_review:
                judged = step if step.outputs else judged
            elif judged is not None and critic in (None, step.agent):
                yield step, judged

    def select_agent(self, agent: str | None) -> Sequence[Step]:
        return [step for step in self.steps if step.agent == agent]


def find_answer_field(outputs: Mapping[str, object]) -> str | None:
    """Return the output that is an agent's answer: named so, or else the shortest text but its reasoning.

    None: it gave no text but reasoning, as in a turn that calls tools.
    """
    texts = {name: value for name, value in outputs.items() if isinstance(value, str) and value.strip()}
    named = {name: value for name, value in texts.items() if "answer" in name or "result" in name}
    chosen = named or {name: value for name, value in texts.items() if not is_reasoning(name)}
    return min(chosen, key=lambda name: len(chosen[name]), default=None)


def is_reasoning(name: str) -> bool:
    """Return whether an output of this name tells how the answer was found."""
    return any(part in name for part in _REASONING_PARTS)


def _read_step(span: Span, below: Sequence[Span]) -> Step:
    tools = tuple(_read_tool(each) for each in below if each.get("kind") == "tool")
    has_tools = any((each.get("inputs") or {}).get("tools") for each in below if each.get("kind") == "lm")
    outputs, offered = dict(span.get("outputs") or {}), bool(tools) or has_tools
    return Step(str(span.get("name")), _text(span.get("inputs") or {}), outputs, tools, offered, span["id"])


def _read_tool(span: Span) -> ToolUse:
    asked, seen = (_text(span.get(name) or {}) for name in ("inputs", "outputs"))
    return ToolUse(str(span.get("name")), asked, seen, span.get("error"), span["id"])


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(map(_text, value.values()))
    return "\n".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
