"""Numbers of a run's page that `summary.json` does not have: per agent, per tool, latencies.

They are added up record by record, so that a run's trajectories need not be in memory.

    numbers = RunNumbers()
    for record in store.records(): numbers.add(record)
    numbers.build_metrics()["agents/critic_expert_reject_rate"]      # 0.25
"""

import statistics
from collections import Counter, defaultdict

from eval.execution.budget import has_failed
from eval.runs.record import Record
from mas.runtime.trace import Span as Step


class RunNumbers:
    """Calls and seconds over all attempts, since all were paid for; latencies over the last ones."""

    def __init__(self) -> None:
        self._last_attempts: dict[tuple[str, int], tuple[int, float]] = {}  # (sample id, epoch) → (attempt, seconds)
        self._counts: Counter[str] = Counter()  # by the metric's name
        self._decisions: defaultdict[str, list[bool]] = defaultdict(list)  # agent → each of them: did it reject?
        self._lm_seconds: list[float] = []

    def add(self, record: Record) -> None:
        """Add a record, in any order, and each once."""
        key, attempt = (record.sample_id, record.epoch), (record.attempt, record.wall_seconds)
        self._last_attempts[key] = max(attempt, self._last_attempts.get(key, attempt))
        for step in record.trajectory:
            self._add_step(Step(**step))

    def _add_step(self, step: Step) -> None:
        if step.kind == "agent":
            self._count(f"agents/{step.name}", bool(step.error))
            decisions = [event.get("decision") for event in step.events if event.get("name") == "decision"]
            if decisions:
                self._decisions[step.name] += [decision == "reject" for decision in decisions]
        elif step.kind == "tool":
            self._count(f"tools/{step.name}", has_failed(vars(step)))
        elif step.kind == "lm" and step.end_seconds is not None:
            is_stored = step.attributes.get("replayed") or step.attributes.get("cached")  # no latency of the model
            self._lm_seconds += [] if is_stored else [step.seconds]

    def _count(self, name: str, failed: bool) -> None:
        self._counts[f"{name}_calls"] += 1
        self._counts[f"{name}_errors"] += failed

    def build_metrics(self) -> dict[str, float]:
        """Return all metrics under their names in MLflow."""
        rates = {f"agents/{name}_reject_rate": statistics.mean(each) for name, each in self._decisions.items()}
        question_seconds = [seconds for _, seconds in self._last_attempts.values()]
        return {
            **self._counts,
            **rates,
            **_percentiles("latency/question", question_seconds),
            **_percentiles("latency/lm_call", self._lm_seconds),
        }


def _percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return {f"{name}_p50_seconds": cuts[49], f"{name}_p95_seconds": cuts[94]}
