"""How a run scored on the questions that its prompts were not tuned on, in its summary.

tuned_on_of(final, used)["accuracy_without"]      # 0.45: over the others
"""

from collections.abc import Sequence
from typing import Any

from eval.reporting.leaving_out import accuracy_without
from eval.reporting.row import Row
from eval.tuned_on import UsedToTune


def tuned_on_of(final: Sequence[Row], used: UsedToTune | None) -> dict[str, Any] | None:
    """Of the questions with a gold answer: no other is in the accuracy. Null: there is none, or of the run's prompts it
    is not known.

    Args:
        final: the last attempt at each (question, epoch).
        used: the questions that its prompts were tuned on.
    """
    questions = {each.example_id for each in final if each.scored}
    if used is None or not questions:
        return None
    there = used.among(questions)
    return {
        "prompts": there.prompts,
        "n_questions": len(there.ids) or (None if there.edited else 0),  # null: it is not known of how many
        "n_all": len(questions),
        "n_unscored": len({each.example_id for each in final} - questions),  # beside these
        "edited": list(there.edited),  # sets whose tuned_on.json was edited or removed
        "n_learnt_from": len(there.learnt_from),
        "n_picked_by": len(there.picked_by),
        **accuracy_without(final, there.ids),
    }
