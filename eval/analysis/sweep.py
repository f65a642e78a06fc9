"""Results of a sweep: a row for each job, and each job compared with the first; `sweep.json` holds their JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from eval.analysis.statistics.paired_tests import PairedResult
from eval.analysis.summary.summary import Summary

_SUMMARY_KEYS = (
    *("accuracy", "accuracy_ci95", "n", "n_scored", "n_correct", "n_error", "wall_seconds", "stopped"),
    *("metric", "score", "score_ci95"),
    *("used_to_tune", "incomplete", "n_not_run"),
)


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """One combination of a sweep's values."""

    job: int  # from 0
    differs: Sequence[str]  # overrides that other jobs have otherwise
    folder: str | None  # of its run, relative to the sweep's folder
    run_id: str | None
    exit_code: int | None  # None: not started, or not ended
    error: str | None
    summary: Summary | None = None  # None: no answer
    mlflow: dict[str, str] | None = None

    def to_dict(self) -> dict[str, object]:
        data = {each: value for each, value in asdict(self).items() if each not in ("summary", "mlflow")}
        numbers = self.summary.to_dict() if self.summary else {}
        data |= {key: numbers.get(key) for key in _SUMMARY_KEYS}
        data["cost_usd"] = self.summary.usage.cost_usd if self.summary else None
        data["simulated"] = self.summary is not None and self.summary.simulated
        return {**data, "mlflow": self.mlflow}


@dataclass(frozen=True, kw_only=True)
class JobComparison:
    """A job compared with the first."""

    job: int
    reason: str | None = None  # why there is no result
    result: PairedResult | None = None
    p_holm: float | None = None  # p, adjusted for the number of comparisons

    def to_dict(self) -> dict[str, object]:
        data: dict[str, object] = {"job": self.job, "against": 0, "reason": self.reason}
        return {**data, **self.result.to_dict(), "p_holm": self.p_holm} if self.result else data


@dataclass(frozen=True)
class SweepResult:
    """All jobs and comparisons."""

    jobs: Sequence[JobResult]
    comparisons: Sequence[JobComparison]

    @property
    def simulated(self) -> bool:
        return any(job.summary is not None and job.summary.simulated for job in self.jobs)

    def to_dict(self) -> dict[str, object]:
        return {
            "jobs": [each.to_dict() for each in self.jobs],
            "comparisons": [each.to_dict() for each in self.comparisons],
            "simulated": self.simulated,
        }
