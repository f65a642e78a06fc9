"""Scorer: a language model as judge, with a rubric, for answers that no rule can compare.

The judge has its own model profile. Its calls are counted apart from those of the system, and its failures put the
sample in error. The parts `rule` (GAIA's) and `exact` hold the verdicts of rules, so that a run shows how far the judge
agrees with them. An empty answer is wrong without a call.

    python eval/run.py scorer=graded model@scorer.judge=gpt-4o
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval.scorers.exact import ExactScorer
from eval.scorers.gaia import question_scorer
from eval.scorers.score import Score, Scorer
from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel

if TYPE_CHECKING:
    from eval.scorers.judging import AnswerJudge

RUBRIC = (
    "The answer is correct if it says the same as the reference answer, however it is worded. Another value, a missing "
    "element, or several candidates to choose from make it incorrect."
)


@dataclass
class GradedScorer(Scorer):
    """The keys of `conf/scorer/graded.yaml`."""

    rubric: str = RUBRIC
    judge: Any = None  # a model profile (`mas/llm/profiles/model.py`)

    def __post_init__(self) -> None:
        self._judge: AnswerJudge | None = None  # built at the first answer

    def check(self) -> None:
        """Check that the judge can be called, before anything is spent.

        Raises:
            UserError: no rubric, no judge, one without its key, or the simulated model, which cannot judge.
        """
        if not self.rubric.strip():
            raise UserError("scorer.rubric is empty; say what makes an answer correct.")
        if self.judge is None:
            raise UserError("scorer.judge is missing; name a model with model@scorer.judge=gpt-4o-mini.")
        if isinstance(self.judge, SimulatedModel):
            raise UserError(
                "the simulated model cannot judge answers; name a real one with model@scorer.judge=…, or score by a "
                "rule, such as scorer=gaia."
            )
        try:
            self.judge.check()
        except UserError as error:
            raise UserError(f"the judge (scorer.judge) cannot be used: {error}") from error

    async def __call__(self, question: str, answer: str | None, target: str) -> Score:
        """Score one answer.

        Raises:
            LMError: the judge could not be asked, after its retries.
            AdapterParseError: its reply could not be read, by the fallback adapter neither.
        """
        parts = {"rule": float(question_scorer(answer, target)), "exact": ExactScorer()(question, answer, target).value}
        if answer is None or not answer.strip():
            return Score(0.0, "there is no answer", parts)
        verdict, explanation = await self._ask_judge(question, answer, target)
        return Score(float(verdict == "correct"), explanation, parts)

    async def _ask_judge(self, question: str, answer: str, target: str) -> tuple[str, str]:
        from eval.scorers.judging import AnswerJudge  # loads DSPy

        if self._judge is None:
            self._judge = AnswerJudge(self.judge, self.rubric)
        return await self._judge.judge(question, answer, target)
