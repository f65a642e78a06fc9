"""Contracts of scoring: the verdict on one answer, the rule that reaches it, and the metric, the mean of its values.

Search, gate, comparison and summary all use the same metric, of the deciding scorer's values; an answer in error or
missing counts 0. Where every value is 0 or 1 it is the accuracy; otherwise it never has that name.
"""

import hashlib
import math
import re
from abc import abstractmethod
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from mas.agents.source_digest import digest_program

ACCURACY, MEAN_SCORE = "accuracy", "mean score"
JUDGE = "graded"  # scorer whose verdicts are opinions of a model
GRADED_SCORERS = {"token_f1": "mean token F1", "expected": MEAN_SCORE}  # give parts of a point by their nature
_OUR_SCORERS = "eval.scorers."


@dataclass(frozen=True)
class Score:
    """The verdict on one answer. Accuracy is made of `value`; `parts` are diagnostics that never enter it."""

    value: float  # 0 to 1; an answer counts as correct from 1 on
    explanation: str  # in words and without the target: an optimizer reads it
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class AnsweredSample:
    """A sample with everything that its program returned."""

    question: str
    answer: str | None
    target: str
    inputs: Mapping[str, object] = field(default_factory=dict)  # named fields; empty: the question alone
    outputs: Mapping[str, object] = field(default_factory=dict)  # all output fields; empty: the answer alone
    tags: Mapping[str, str] = field(default_factory=dict)  # further columns of the data


class ScorerError(Exception):
    """No verdict could be reached; the message is half a sentence."""


@runtime_checkable
class Scorer(Protocol):
    """A rule that compares an answer with the target; the fields of an implementation are its keys in `conf/scorer/`.

    An exception puts the sample in error and is never a score.
    """

    def check(self) -> None:
        """Raise UserError if a setting is wrong, before anything is spent."""
        return

    @abstractmethod
    def __call__(self, question: str, answer: str | None, target: str) -> Score | Awaitable[Score]:
        """Score one answer; None if the system gave none."""


@runtime_checkable
class SampleScorer(Scorer, Protocol):
    """A scorer that reads named inputs and outputs, and may give feedback of its own."""

    def __call__(self, question: str, answer: str | None, target: str) -> Score | Awaitable[Score]:
        return self.score_sample(AnsweredSample(question, answer, target))

    def reads_outputs(self) -> bool:
        """Return True if an answer alone cannot be scored."""
        return True

    @abstractmethod
    def score_sample(self, sample: AnsweredSample) -> Score | Awaitable[Score]:
        """Score one answer."""

    def give_feedback(self, sample: AnsweredSample, predictor: str, trace: object, own_trace: object) -> str | None:
        """Return the user's feedback for one predictor, which may quote the target; None if there is none.

        `trace` is of the whole program, as `dspy.settings.trace` holds it; `own_trace` of the predictor.
        """
        return None


def read_scorer_digest(scorer: Scorer) -> str:
    """Return the digest of a scorer's source; of a user's function also that of its module and its project's."""
    own = digest_program(type(scorer).__module__)
    users = str(getattr(scorer, "source_sha256", ""))
    return hashlib.sha256(f"{own} {users}".encode()).hexdigest()


def read_value(score: float | None) -> float:
    """Return what one answer counts, 0 to 1, by its score; None and what is not finite count 0."""
    return min(max(score, 0.0), 1.0) if score is not None and math.isfinite(score) else 0.0


def name_metric(scorer: str | None, values: Iterable[float]) -> str:
    """Return the name of the mean of some values, 0 to 1; `scorer`: as `read_scorer_name` returns it."""
    if scorer in GRADED_SCORERS:
        return GRADED_SCORERS[scorer]
    return MEAN_SCORE if any(0 < value < 1 for value in values) else ACCURACY


def join_metrics(names: Iterable[str]) -> str:
    """Return one name for several runs: theirs, or `mean score` where these differ; `accuracy` without any."""
    found = set(names) or {ACCURACY}
    return found.pop() if len(found) == 1 else MEAN_SCORE


def read_scorer_name(scorer: object) -> str | None:
    """Return the word of the command line, such as `gaia`, for a scorer in a run's configuration; else its target."""
    target = str(scorer.get("_target_") or "") if isinstance(scorer, Mapping) else ""
    if target.startswith(_OUR_SCORERS):
        words = re.findall(r"[A-Z][a-z0-9]*", target.rpartition(".")[2].removesuffix("Scorer"))
        target = "_".join(words).lower() or target
    return target or None


def normalise_answer(answer: str) -> str:
    """Return one text for answers that differ in case, spacing or the spelling of one number, as GAIA reads it."""
    text = " ".join(answer.casefold().split())
    try:
        number = float(re.sub("[$%,]", "", text))
    except ValueError:
        return text
    return repr(number + 0.0) if math.isfinite(number) else text  # + 0.0: -0 is 0


# Of "expected a because" the letter goes, of "expected a number" it stays.
_NO_ARTICLE = r"(?! (?!because|since|while|which|with|instead|then|than|from|that|when|where)[a-z]{4})"


def remove_target(explanation: str, target: str) -> str:
    """Remove the target: optimizers read explanations, and neither a judge nor an error message always spares it."""
    pattern, flags = rf"(?<!\w){re.escape(target)}(?!\w)", re.IGNORECASE
    if target.lower() in ("a", "i"):  # the letter of an option is no article and no pronoun
        pattern, flags = pattern + (_NO_ARTICLE if target == "a" else ""), re.NOFLAG
    return re.sub(pattern, "[the reference answer]", explanation, flags=flags)
