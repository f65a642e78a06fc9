"""Phase 2: how good the prompts are that the search begins with, on the validation questions."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from eval.analysis.statistics.intervals import Interval, compute_accuracy_interval
from eval.runs.record import Record
from optimize.search.budget import Spend
from optimize.session.tuning_run import TuningRun


@dataclass(frozen=True, kw_only=True)
class AnswerMeans:
    """What one answer takes."""

    lm_calls: float
    input_tokens: float
    output_tokens: float
    cost_usd: float | None  # None: unknown
    seconds: float

    @classmethod
    def of(cls, records: Sequence[Record]) -> "AnswerMeans":
        usages = [record.usage for record in records]
        costs = [usage.cost_usd for usage in usages]
        return AnswerMeans(
            lm_calls=fmean(usage.lm_calls for usage in usages),
            input_tokens=fmean(usage.input_tokens for usage in usages),
            output_tokens=fmean(usage.output_tokens for usage in usages),
            cost_usd=None if None in costs else fmean(cost or 0.0 for cost in costs),
            seconds=fmean(record.wall_seconds for record in records),
        )

    def answers(self, n: int, at_once: int) -> Spend:
        """What n answers will take."""
        return Spend(
            lm_calls=round(n * self.lm_calls),
            input_tokens=round(n * self.input_tokens),
            output_tokens=round(n * self.output_tokens),
            cost_usd=n * (self.cost_usd or 0.0),
            seconds=n * self.seconds / at_once,
        )


@dataclass(frozen=True)
class Baseline(AnswerMeans):
    val_score: float  # 0 to 1; an answer in error counts as wrong
    ci95: Interval
    n_questions: int


def measure_baseline(run: TuningRun) -> Baseline:
    """Ask each validation question once; the search is answered from the same replies.

    Raises:
        EndedError: the budget is used up, or the metric is broken.
        HaltedError: it was stopped.
    """
    found = run.files.read("baseline")
    if found is not None:
        return Baseline(**{**found, "ci95": tuple(found["ci95"])})
    records = [trial.record for trial in run.answers(run.parent.prompts)]
    measured = _measured(records)
    run.files.write("baseline", asdict(measured))
    return measured


def _measured(records: Sequence[Record]) -> Baseline:
    correct = sum(record.correct for record in records)
    interval = compute_accuracy_interval(correct, len(records))
    assert interval is not None, "splits have at least two validation questions"
    return Baseline(
        val_score=fmean(record.score or 0.0 for record in records),
        ci95=interval,
        n_questions=len(records),
        **asdict(AnswerMeans.of(records)),
    )
