"""Numbers of a run's page that `summary.json` does not have: per agent, per tool, latencies.

They are added up record by record, so that a run's trajectories need not be in memory.

    numbers = RunNumbers()
    for record in store.records(): numbers.add(record)
    numbers.build_metrics()["agents/critic_expert_reject_rate"]      # 0.25
"""

import statistics
from collections import Counter
from typing import NamedTuple

from eval.execution.budget import has_failed
from eval.runs.record import Record
from mas.runtime.trace import Span as Step

_REJECTED = "reject"


class _Final(NamedTuple):
    """Facts of the last attempt at one sample and epoch."""

    attempt: int
    seconds: float


class RunNumbers:
    """Calls and seconds over all attempts, since all were paid for; latencies over the last ones."""

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
        """Add a record, in any order, and each once."""
        key = (record.sample_id, record.epoch)
        if key not in self._final or record.attempt > self._final[key].attempt:
            self._final[key] = _Final(record.attempt, record.wall_seconds)
        for step in record.trajectory:
            self._add_step(Step(**step))

    def _add_step(self, step: Step) -> None:
        name, failed = step.name, bool(step.error)
        if step.kind == "agent":
            self._agent_calls[name] += 1
            self._agent_errors[name] += failed
            for event in step.events:
                if event.get("name") == "decision":
                    self._decisions[name] += 1
                    self._rejections[name] += event.get("decision") == _REJECTED
        elif step.kind == "tool":
            self._tool_calls[name] += 1
            self._tool_errors[name] += has_failed(vars(step))
        elif step.kind == "lm" and step.end_seconds is not None and not _is_replayed(step):
            self._lm_seconds.append(step.seconds)

    def build_metrics(self) -> dict[str, float]:
        """Return all metrics under their names in MLflow."""
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
        return found


def _is_replayed(step: Step) -> bool:
    """Return whether the reply came from the run's call log or the shared cache, so its latency is not the model's."""
    return bool(step.attributes.get("replayed") or step.attributes.get("cached"))


def _percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return {f"{name}_p50_seconds": cuts[49], f"{name}_p95_seconds": cuts[94]}
