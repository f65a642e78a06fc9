"""How a run scored on the questions that its prompts were not tuned on, in its summary.

tuned_on_of(final, used)["accuracy_without"]      # 0.45: over the others
"""

from collections.abc import Sequence
from typing import Any

from eval.reporting.leaving_out import accuracy_without
from eval.reporting.row import Row
from eval.tuned_on import UsedToTune


def tuned_on_of(final: Sequence[Row], used: UsedToTune | None) -> dict[str, Any] | None:
    """Null: of the run's prompts it is not known.

    Args:
        final: the last attempt at each (question, epoch).
        used: the questions that its prompts were tuned on.
    """
    if used is None:
        return None
    questions = {each.example_id for each in final}
    there = used.among(questions)
    return {
        "prompts": there.prompts,
        "n_questions": len(there.ids),
        "n_all": len(questions),
        "n_learnt_from": len(there.learnt_from),
        "n_picked_by": len(there.picked_by),
        **accuracy_without(final, there.ids),
    }
