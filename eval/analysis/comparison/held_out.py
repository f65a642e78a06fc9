"""Two runs compared on the questions that the prompts of neither were tuned on, to stand beside the comparison on all.

untuned(first, second, ids, {"A": None, "B": used})["without"]["difference"]      # second - first, on the others
"""

from collections.abc import Mapping, Sequence
from typing import Any

from eval.analysis.comparison.pairing import Answers, pair_scores
from eval.analysis.statistics.paired_tests import run_paired_test
from eval.analysis.tuned_on import UsedToTune


def compare_held_out(
    first: Answers, second: Answers, ids: Sequence[str], used: Mapping[str, UsedToTune | None]
) -> dict[str, Any] | None:
    """None: none of the questions is known to have been used.

    Args:
        first: what is compared with.
        second: has no `obstacle` against the first on these questions.
        ids: of the questions that are compared.
        used: of each run, by its label: the questions that its prompts were tuned on.

    Returns:
        `sets` (label → set and counts, in words), `n_questions` that were used, `n_without`; on these `accuracies` of
        both and `without`, as `PairedResult.to_dict` has it; both null if none is left.
    """
    found = {label: each.among(ids) for label, each in used.items() if each is not None}
    sets = {label: each.told for label, each in found.items() if each.ids}
    if not sets:
        return None
    known = frozenset().union(*(each.ids for each in found.values()))
    scores = pair_scores(first, second, [each for each in ids if each not in known])
    sides = [[sum(pair[side]) / len(pair[side]) for pair in scores] for side in (0, 1)]
    return {
        "sets": sets,
        "n_questions": len(known),
        "n_without": len(scores),
        "accuracies": [sum(each) / len(each) for each in sides] if scores else None,
        "without": run_paired_test(scores).to_dict() if scores else None,
    }
