"""Rules of a user's own that fail, and metrics: `FunctionScorer("tests.optimize.scorer_rules:gives_feedback")`."""

import dspy

from tests.optimize.planted_runs import LATE, WRONG


def wrong_answers_break_it(question: str, answer: str | None, target: str) -> bool:
    if answer == WRONG:
        raise ZeroDivisionError("no rule for this")
    return answer == target


def sealed_answers_break_it(question: str, answer: str | None, target: str) -> bool:
    if answer == LATE:
        raise ZeroDivisionError("no rule for this")
    return answer == target


def always_right(question: str, answer: str | None, target: str) -> bool:
    return True


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


def breaks_on_feedback(
    gold: dspy.Example, pred: dspy.Prediction, trace: object, pred_name: str | None, pred_trace: object
) -> float:
    if pred_name:
        raise KeyError(gold.answer)
    return 0.0
