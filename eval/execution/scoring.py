"""Score of a record, made in the same way for a run and for `eval/rescore.py`."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from eval.runs.record import ExtraScore, Record
from eval.scorers.score import AnsweredSample, SampleScorer, Score, Scorer
from mas.runtime.trace import span

_NO_TAGS: Mapping[str, str] = MappingProxyType({})
INPUTS, OUTPUTS = "inputs", "outputs"  # of the final state: the named fields that a program took and returned
EXTRA = "extra_scorers."  # begins the names of their spans
SCORER = "scorer"  # error class and component of a question whose answer stands and only its score is missing


@dataclass(frozen=True)
class Scoring:
    scorer: Scorer
    deadline_seconds: float  # for one verdict
    redact: Callable[[str], str]  # takes secrets out of an error message
    extra: str | None = None  # name among the extra scorers; None: it is the one that decides

    async def score(self, record: Record, tags: Mapping[str, str] = _NO_TAGS) -> None:
        """Fill in the record's score, or the error of the scorer; of an extra one, its entry in `extra_scores`.

        Rows in error never reach a scorer: a gold answer of `inf` or `none` would call them right.
        """
        if record.target is None or (record.error is not None and not (self.extra and record.error_class == SCORER)):
            return
        score, raised, deadline = None, None, asyncio.timeout(self.deadline_seconds)
        try:
            async with deadline:
                score = await self._verdict(describe_answered(record, tags))
        except Exception as error:  # noqa: BLE001  the boundary of one question: a scorer may be the user's own
            raised = error
        if raised is not None or deadline.expired():
            from eval.execution.failure import describe_scoring  # loaded for the first failure

            failure = describe_scoring(None if deadline.expired() else raised, self.deadline_seconds, record.target)
            if self.extra:
                record.extra_scores[self.extra] = ExtraScore(None, error=self.redact(failure.message))
            else:
                failure.write_to(record, self.redact)
        elif score and self.extra:
            record.extra_scores[self.extra] = ExtraScore(score.value, score.explanation)
        elif score:
            record.score, record.explanation, record.parts = score.value, score.explanation, dict(score.parts)

    async def _verdict(self, sample: AnsweredSample) -> Score:
        """A judge's calls and time stand in a span of their own, apart from the program's; a plain rule needs none."""
        if isinstance(self.scorer, SampleScorer):
            score = self.scorer.score_sample(sample)
        else:
            score = self.scorer(sample.question, sample.answer, sample.target)
        if isinstance(score, Score):
            return score
        with span("scorer", f"{EXTRA}{self.extra}" if self.extra else type(self.scorer).__name__) as current:
            score = await score
            current.outputs = {"value": score.value, "explanation": score.explanation}
            return score


def describe_answered(record: Record, tags: Mapping[str, str] = _NO_TAGS) -> AnsweredSample:
    """Return what a scorer may read of a record: of the final state the named inputs and outputs."""
    inputs, outputs = record.state.get(INPUTS), record.state.get(OUTPUTS)
    return AnsweredSample(
        record.question,
        record.answer,
        record.target or "",
        inputs if isinstance(inputs, Mapping) else {},
        outputs if isinstance(outputs, Mapping) else {},
        tags,
    )
