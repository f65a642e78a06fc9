"""The accuracy without some of the questions, to stand beside that over all.

accuracy_without(final, {"q1", "q7"})["accuracy_without"]      # 0.3611
"""

from collections.abc import Collection, Sequence
from typing import Any

from eval.intervals import clustered_interval
from eval.reporting.epochs import by_question, tally
from eval.reporting.row import Row


def accuracy_without(final: Sequence[Row], questions: Collection[str]) -> dict[str, Any]:
    """`accuracy_without`, `accuracy_without_ci95` (both null if none is left out, or all are), `n_without` answers.

    Args:
        final: the last attempt at each (question, epoch).
        questions: ids of those to leave out.
    """
    others = [each for each in final if each.scored and each.example_id not in questions]
    interval = clustered_interval([tally(rows) for rows in by_question(others)]) if questions else None
    return {
        "accuracy_without": sum(each.correct for each in others) / len(others) if questions and others else None,
        "accuracy_without_ci95": list(interval) if interval else None,
        "n_without": len(others),
    }
