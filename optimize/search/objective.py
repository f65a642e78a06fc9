"""The metric that the optimisers call: the run's own score, and feedback to one agent when its name is given.

    objective = Objective({example.id: example for example in train + val})
    objective(dspy.Example(sample_id="q1"), prediction)                        # 0.0
    objective(dspy.Example(sample_id="q1"), prediction, pred_name="expert")    # the same score, with .feedback

The gold answer goes in and never comes out (`optimize.feedback.feedback`).
"""

import inspect
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from eval.benchmarks.dataset import Sample
from eval.execution.scoring import SCORER
from eval.runs.record import Record
from eval.scorers.score import Score, Scorer
from mas.runtime.event_loop import run_blocking
from optimize.feedback.expectation import Expectation
from optimize.feedback.feedback import NOT_ASKED, build_feedback
from optimize.feedback.target_matcher import TargetMatcher

NONSENSE = "qvxzzkrw"  # no word of any language, and no number
MAX_TESTED, MAX_JUDGED = (
    5,
    2,
)  # examples that `check_scorer` tries; a scorer that waits may be a judge, whose calls cost


class Objective:
    """Never raises: what an optimiser's metric raises is swallowed, and its run goes on with nothing learned.

    `errors` of the `calls` could give no score: a defect here, an answer without a record, or the scorer's own failure.
    A share of them that is not small means that the search is blind. Calls may come from several threads at once.
    """

    def __init__(self, samples: Mapping[str, Sample]) -> None:
        self._samples = samples
        self._lock = threading.Lock()
        self.calls = 0
        self.errors = 0
        self.first_error: str | None = None

    def __call__(
        self, gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        """
        Args:
            gold: a `dspy.Example` with `sample_id`, and nothing else that counts.
            pred: the student's prediction, with the `trial` in it.
            trace: of DSPy; not needed, nor is `pred_trace`.
            pred_name: the agent that is to learn from it; None: the score alone.

        Returns:
            The score, 0 to 1 (a float); with `pred_name` a `dspy.Prediction` of the same score and `feedback`.
        """
        score, feedback, error = 0.0, "", None
        try:
            trial = pred.trial
            score, error = _score(trial)
            if pred_name is not None:
                feedback = self._feedback(gold.sample_id, pred_name, trial)
        except Exception as raised:  # noqa: BLE001  the boundary of one answer: counted, and told by the run
            error = f"{type(raised).__name__}: {raised}"
        with self._lock:
            self.calls += 1
            self.errors += error is not None
            self.first_error = self.first_error or error
        if pred_name is None:
            return score
        import dspy

        return dspy.Prediction(score=score, feedback=feedback)

    def _feedback(self, sample_id: str, agent: str, trial: Any) -> str:
        if not trial.reached:
            return NOT_ASKED
        sample = self._samples[sample_id]
        if sample.target is None:
            raise ValueError(f"question {sample_id} has no gold answer")
        return build_feedback(agent, trial.record, Expectation.of(sample.target, sample.question))


def _score(trial: Any) -> tuple[float, str | None]:
    """The score, and why there is none where there should be one. A question that failed has 0."""
    if not trial.reached:
        return 0.0, None
    record: Record = trial.record
    if record.error is not None:
        return 0.0, record.error if record.error_class == SCORER else None
    if record.score is None or not math.isfinite(record.score):
        return 0.0, f"question {record.sample_id} has no score"
    return float(record.score), None


def check_scorer(scorer: Scorer, samples: Sequence[Sample]) -> str | None:
    """Try the scorer on gold answers, which must score 1, and on nonsense, which must score less.

    Returns:
        None if all is well, or a sentence that names the question and what is wrong with the scorer.
    """
    scored = [sample for sample in samples if sample.target is not None]
    if not scored:
        return "None of the questions has a gold answer, so no answer can be scored."
    waits = inspect.iscoroutinefunction(scorer) or inspect.iscoroutinefunction(type(scorer).__call__)
    for sample in scored[: MAX_JUDGED if waits else MAX_TESTED]:
        if wrong := _tried(scorer, sample, sample.target or "") or _tried(scorer, sample, NONSENSE):
            return wrong
    return None


def _tried(scorer: Scorer, sample: Sample, answer: str) -> str | None:
    target = sample.target or ""
    what = "nonsense" if answer is NONSENSE else "the gold answer itself"
    try:
        value = run_blocking(_value(scorer, sample, answer))
    except Exception as error:  # noqa: BLE001  a scorer may be the user's own
        message = " ".join(f"{type(error).__name__}: {error}".split())
        told = "" if TargetMatcher(target).is_quoted_in(message) else f" ({message})"
        return f"The scorer failed on question {sample.id} with {what} as the answer{told}; mend it, or choose another."
    if answer is NONSENSE:
        right, expected = value < 1, "less than 1"
    else:
        right, expected = value >= 1, "1"
    if right:
        return None
    return (
        f"The scorer gives {value:g} on question {sample.id} with {what} as the answer; expected {expected}. Mend the "
        "scorer or the question's gold answer."
    )


async def _value(scorer: Scorer, sample: Sample, answer: str) -> float:
    score = scorer(sample.question, answer, sample.target or "")
    return score.value if isinstance(score, Score) else (await score).value
