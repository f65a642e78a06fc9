"""The numbers of a run page that `summary.json` does not have: per agent, per tool, latencies, accuracy by kind.

Added up record by record, so that a run's trajectories need not be in memory.

    numbers = RunNumbers()
    for record in store.records(): numbers.add(record)
    numbers.metrics()["agents/critic_expert_reject_rate"]      # 0.25
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from eval.execution.tool_counts import has_failed
from eval.runs.record import PlannedQuestion, Record

MAX_VALUES = 20  # of one of the dataset's tags; with more it names questions rather than kinds of them
_REJECTED = "reject"


class _Final(NamedTuple):
    """What is kept of the last attempt at one question and epoch."""

    attempt: int
    scored: bool
    correct: bool
    seconds: float


class RunNumbers:
    """Calls and seconds over all attempts, as all were paid for; latencies and accuracies over the last ones."""

    def __init__(self) -> None:
        self._final: dict[tuple[str, int], _Final] = {}
        self._agent_calls: Counter[str] = Counter()
        self._agent_errors: Counter[str] = Counter()
        self._tool_calls: Counter[str] = Counter()
        self._tool_errors: Counter[str] = Counter()
        self._decisions: Counter[str] = Counter()
        self._rejections: Counter[str] = Counter()
        self._lm_seconds: list[float] = []

    def add(self, record: Record) -> None:
        """The order does not matter, except that a record must come once."""
        key = (record.sample_id, record.epoch)
        if key not in self._final or record.attempt > self._final[key].attempt:
            self._final[key] = _Final(record.attempt, record.scored, record.correct, record.wall_seconds)
        for step in record.trajectory:
            self._add_step(step)

    def _add_step(self, step: Mapping[str, Any]) -> None:
        kind, name, failed = step["kind"], str(step["name"]), bool(step.get("error"))
        if kind == "agent":
            self._agent_calls[name] += 1
            self._agent_errors[name] += failed
            for event in step.get("events") or []:
                if event.get("name") == "decision":
                    self._decisions[name] += 1
                    self._rejections[name] += event.get("decision") == _REJECTED
        elif kind == "tool":
            self._tool_calls[name] += 1
            self._tool_errors[name] += has_failed(step)
        elif kind == "lm" and step.get("end_seconds") is not None and not _kept(step):
            self._lm_seconds.append(step["end_seconds"] - step["start_seconds"])

    def metrics(self, planned: Iterable[PlannedQuestion] = (), epochs: int = 1) -> dict[str, float]:
        """
        Args:
            planned: the run's questions, whose tags make the kinds; those without a record count as wrong.
            epochs: as planned.
        """
        found: dict[str, float] = {}
        for name, calls in self._agent_calls.items():
            found[f"agents/{name}_calls"] = calls
            found[f"agents/{name}_errors"] = self._agent_errors[name]
        for name, decisions in self._decisions.items():
            found[f"agents/{name}_reject_rate"] = self._rejections[name] / decisions
        for name, calls in self._tool_calls.items():
            found[f"tools/{name}_calls"] = calls
            found[f"tools/{name}_errors"] = self._tool_errors[name]
        question_seconds = [each.seconds for each in self._final.values()]
        found |= _percentiles("latency/question", question_seconds) | _percentiles("latency/lm_call", self._lm_seconds)
        return found | self._by_kind(list(planned), epochs)

    def _by_kind(self, planned: list[PlannedQuestion], epochs: int) -> dict[str, float]:
        """Over the rows that the summary counts: every record with a gold answer, and what of the plan has none."""
        verdicts: defaultdict[str, list[bool]] = defaultdict(list)
        for (sample_id, _), final in self._final.items():
            if final.scored:
                verdicts[sample_id].append(final.correct)
        groups: defaultdict[str, defaultdict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
        for question in planned:
            never_run = sum((question.id, epoch) not in self._final for epoch in range(1, epochs + 1))
            unanswered = [False] * (never_run if question.target is not None else 0)
            for tag, value in question.tags.items():
                groups[tag][value] += [*verdicts[question.id], *unanswered]
        return {
            f"accuracy/{tag}_{value}": sum(correct) / len(correct)
            for tag, values in groups.items()
            if len(values) <= MAX_VALUES
            for value, correct in values.items()
            if correct
        }


def _kept(step: Mapping[str, Any]) -> bool:
    """Whether the reply came from the run's call log or the shared cache: no latency of the model's."""
    noted = step.get("attributes") or {}
    return bool(noted.get("replayed") or noted.get("cached"))


def _percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return {f"{name}_p50_seconds": cuts[49], f"{name}_p95_seconds": cuts[94]}
