"""Phase 2: the score of the parent prompts on the validation questions."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from eval.analysis.statistics.intervals import Interval, compute_accuracy_interval
from eval.runs.record import Record
from optimize.search.budget import Spend
from optimize.session.tuning_run import TuningRun


@dataclass(frozen=True, kw_only=True)
class AnswerMeans:
    """Mean usage of one answer."""

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

    def estimate_spend(self, n_answers: int, concurrency: int) -> Spend:
        """Return the expected spend of so many answers."""
        return Spend(
            lm_calls=round(n_answers * self.lm_calls),
            input_tokens=round(n_answers * self.input_tokens),
            output_tokens=round(n_answers * self.output_tokens),
            cost_usd=n_answers * (self.cost_usd or 0.0),
            seconds=n_answers * self.seconds / concurrency,
        )


@dataclass(frozen=True)
class Baseline(AnswerMeans):
    """Score and usage of the parent on the validation questions."""

    val_score: float  # 0 to 1; an answer in error counts as wrong
    ci95: Interval
    n_questions: int


def measure_baseline(run: TuningRun) -> Baseline:
    """Answer each validation question once; the search reuses these replies.

    Raises:
        EarlyVerdictError: the budget is used up, or the metric is broken.
        RunStoppedError: the run was stopped.
    """
    found = run.files.read("baseline")
    if found is not None:
        return Baseline(**{**found, "ci95": tuple(found["ci95"])})
    records = [trial.record for trial in run.answer_validation(run.parent.prompts)]
    interval = compute_accuracy_interval(sum(record.correct for record in records), len(records))
    assert interval is not None, "splits have at least two validation questions"
    measured = Baseline(
        val_score=fmean(record.score or 0.0 for record in records),
        ci95=interval,
        n_questions=len(records),
        **asdict(AnswerMeans.of(records)),
    )
    run.files.write("baseline", asdict(measured))
    return measured
