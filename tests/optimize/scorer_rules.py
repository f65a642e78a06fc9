"""Rules of a user's own that fail, and metrics: `FunctionScorer("tests.optimize.scorer_rules:gives_feedback")`."""

import hashlib
import re

import dspy

from eval.scorers.gaia import GaiaScorer
from tests.optimize.planted_runs import LATE, WRONG


def wrong_answers_break_it(question: str, answer: str | None, target: str) -> bool:
    if answer == WRONG:
        raise ZeroDivisionError("no rule for this")
    return answer == target


def sealed_answers_break_it(question: str, answer: str | None, target: str) -> bool:
    if answer == LATE:
        raise ZeroDivisionError("no rule for this")
    return answer == target


def gives_feedback(
    gold: dspy.Example,
    pred: dspy.Prediction,
    trace: object = None,
    pred_name: str | None = None,
    pred_trace: object = None,
) -> dspy.Prediction:
    """A metric as it is written for `dspy.GEPA`: it quotes whatever it likes."""
    right = gold.answer == pred.answer
    advice = f"{pred_name} was asked {len(gold.inputs())} thing.\nRead the first line."
    advice += f" It is {gold.answer}, not {pred.answer}."
    return dspy.Prediction(score=float(right), feedback=advice)


ADVICE = {
    "solve": "mind the arithmetic, every calculation",
    "finalize": "no unit, no prose around it, mind the rounding",
}
SCORED: dict[str, str] = {}  # question → gold answer, of all that `quotes_other_answers` has scored in this process


def quotes_other_answers(
    gold: dspy.Example,
    pred: dspy.Prediction,
    trace: object = None,
    pred_name: str | None = None,
    pred_trace: object = None,
) -> dspy.Prediction:
    """A metric that remembers: its feedback on one question quotes the answers of others, validation ones included.

    The harness removes the question's own answer from the feedback; it does not know which others a metric may quote.
    """
    SCORED[gold.question] = str(gold.answer)
    score = GaiaScorer()(gold.question, pred.answer, str(gold.answer))
    advice = "It was right" if score.value else f"It was wrong: {ADVICE.get(pred_name or '', 'read it again')}"
    others = sorted(set(SCORED) - {gold.question}, key=lambda each: hash_text(gold.question + each))
    quoted = [f"the correct answer to another question: {_begin(each)} = {SCORED[each]}" for each in others[:3]]
    return dspy.Prediction(score=score.value, feedback="; ".join([advice, *quoted]))


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _begin(question: str) -> str:
    """Its first six words, without what the feedback is parted by."""
    return " ".join(re.findall(r"\w+", question)[:6])
