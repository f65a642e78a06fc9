"""Pair two runs' answers to the same samples, or say why they cannot be compared.

first, second = read_answers(store), read_answers(other)
find_obstacle(first, second)                    # None, or "their scorers differ"
pair_scores(first, second)                      # one Pair for each sample with a target
common = find_common(first, second)             # if there is an obstacle: the samples that both answered
pair_scores(first, second, common.ids)
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.analysis.comparison.answers import Answers
from eval.analysis.statistics.paired_tests import Pair
from mas.runtime.text import format_count

ONE_ONLY, OTHER_CONTENT = "with a gold answer in one run alone", "with another text, gold answer or file"
UNANSWERED = "not answered yet by one of the runs"
_REASONS = (ONE_ONLY, OTHER_CONTENT, UNANSWERED)


@dataclass(frozen=True)
class CommonSamples:
    """The samples that two runs can be compared on."""

    ids: Sequence[str]
    left_out: Mapping[str, int]  # reason → number of other samples


def find_obstacle(first: Answers, second: Answers) -> str | None:
    """Return why the two runs cannot be compared as wholes; None if they can."""
    if first.question_ids != second.question_ids:
        both, either = first.question_ids & second.question_ids, first.question_ids | second.question_ids
        return f"their questions differ: {len(both)} of {len(either)} are in both"
    if not have_same_scorer(first, second):
        return "their scorers differ"
    if first.questions_sha256 != second.questions_sha256:
        return "their questions, gold answers or attached files differ"
    if missing := first.n_missing + second.n_missing:
        return f"{format_count(missing, 'answer')} {'is' if missing == 1 else 'are'} still missing"
    return None if first.questions else "no question has a gold answer"


def have_same_scorer(first: Answers, second: Answers) -> bool:
    """Return whether both were scored by the same rule with the same settings."""
    written = [json.dumps(each.scorer, sort_keys=True, default=str) for each in (first, second)]
    return written[0] == written[1]


def pair_scores(
    first: Answers, second: Answers, ids: Sequence[str] | None = None, extra: str | None = None
) -> list[Pair]:
    """Return the scores of two runs without an obstacle, or of the samples that they have in common.

    Args:
        first: one run.
        second: the other.
        ids: of the samples; None: all.
        extra: name of the extra scorer whose scores are meant; None: those of the deciding one.
    """
    with_missing = ids is None
    chosen = list(first.questions) if ids is None else ids
    return [
        Pair(first.list_scores(each, with_missing, extra), second.list_scores(each, with_missing, extra))
        for each in chosen
    ]


def find_common(first: Answers, second: Answers) -> CommonSamples:
    """Return the samples with the same text, target and attachment that both runs have answered."""
    ids, left_out = [], dict.fromkeys(_REASONS, 0)
    for sample_id in {**first.questions, **second.questions}:
        if reason := _find_difference(sample_id, first, second):
            left_out[reason] += 1
        else:
            ids.append(sample_id)
    return CommonSamples(ids, {reason: count for reason, count in left_out.items() if count})


def _find_difference(sample_id: str, first: Answers, second: Answers) -> str | None:
    one, other = first.questions.get(sample_id), second.questions.get(sample_id)
    if one is None or other is None:
        return ONE_ONLY
    same_file = first.files.get(sample_id) == second.files.get(sample_id)
    if (one.question, one.target) != (other.question, other.target) or not same_file:
        return OTHER_CONTENT
    answered = first.list_given(sample_id) and second.list_given(sample_id)
    return None if answered else UNANSWERED
