"""The accuracy without some of the questions, to stand beside that over all.

accuracy_without(final, {"q1", "q7"})["accuracy_without"]      # 0.3611
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.analysis.summary.epochs import count_correct, group_by_sample
from eval.analysis.summary.row import Row
from eval.analysis.tuned_on import UsedToTune


def accuracy_without(final: Sequence[Row], questions: Collection[str]) -> dict[str, Any]:
    """`accuracy_without`, `accuracy_without_ci95` (both null if none is left out, or all are), `n_without` answers.

    Args:
        final: the last attempt at each (question, epoch).
        questions: ids of those to leave out.
    """
    others = [each for each in final if each.scored and each.sample_id not in questions]
    interval = (
        compute_clustered_interval([count_correct(rows) for rows in group_by_sample(others)]) if questions else None
    )
    return {
        "accuracy_without": sum(each.correct for each in others) / len(others) if questions and others else None,
        "accuracy_without_ci95": list(interval) if interval else None,
        "n_without": len(others),
    }


def summarise_leaks(final: Sequence[Row]) -> dict[str, Any]:
    """`results` in the order of the answers; a question that met one in any epoch is left out of `accuracy_without`.

    Args:
        final: the last attempt at each (question, epoch).
    """
    met = [each for each in final if each.leaks]
    questions = {each.sample_id for each in met}
    return {
        "n_questions": len(questions),
        "results": [
            {"sample_id": each.sample_id, "epoch": each.epoch, "tool": tool, "source": source}
            for each in met
            for tool, source in each.leaks
        ],
        **accuracy_without(final, questions),
    }


def summarise_blocked(attempts: Iterable[Row]) -> dict[str, Any]:
    """Of all attempts: each block counts."""
    hosts: Counter[str] = Counter()
    for each in attempts:
        hosts.update(dict(each.blocked_pages))
    return {"n": hosts.total(), "hosts": dict(hosts.most_common())}


def tuned_on_of(final: Sequence[Row], used: UsedToTune | None) -> dict[str, Any] | None:
    """Of the questions with a gold answer: no other is in the accuracy. Null: there is none, or of the run's prompts it
    is not known.

    Args:
        final: the last attempt at each (question, epoch).
        used: the questions that its prompts were tuned on.
    """
    questions = {each.sample_id for each in final if each.scored}
    if used is None or not questions:
        return None
    there = used.among(questions)
    return {
        "prompts": there.prompts,
        "n_questions": len(there.ids) or (None if there.edited else 0),  # null: it is not known of how many
        "n_all": len(questions),
        "n_unscored": len({each.sample_id for each in final} - questions),  # beside these
        "edited": list(there.edited),  # sets whose tuned_on.json was edited or removed
        "n_learnt_from": len(there.learnt_from),
        "n_picked_by": len(there.picked_by),
        **accuracy_without(final, there.ids),
    }
