"""Sealed answers that the model's server fails each time, and how they count where a verdict is wanted all the same.

They say nothing about the prompts, so they are held against the new ones (worst-case imputation): those of the winner
count as wrong, those of the parent as right. Whatever they would have been, the gain is no larger than with them. But
as many as the server failed of both, to the same question, are wrong for both: that could be asked of neither.

Where the server failed `exceeds_failure_limit` there is no such verdict: a no would say more of the server than of the prompts.

    counted = held_against(parent_records, winner_records)
    counted.questions                                     # ["q7"]: the gateway refuses its attachment
    comparison(*map(answers_from, (counted.parent, counted.winner)))
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval.runs.record import Record
from optimize.search.server_failures import is_server_failure

HALT, AGAINST = "halt", "against"  # the choices of run.failed_answers
COUNTED_AS_RIGHT = "(failed by the model's server, counted as right)"  # stands for the answer
# Of the test's answers, both sides' together. Those that failed on one side alone come off the gain: a tenth can take
# twenty points, and with more hardly any gain could be seen. The scorer may fail as many (gate.max_metric_error_share).
MAX_FAILED_SHARE = 0.1
_SHOWN = 5  # ids in a sentence


@dataclass(frozen=True)
class ImputedAnswers:
    parent: list[Record]
    winner: list[Record]
    n_failed: dict[str, int]  # of the parent, of the winner; "as_right": of the parent's those that count as right
    questions: list[str]  # ids of those with a failed answer


def impute_failures(parent: Sequence[Record], winner: Sequence[Record]) -> ImputedAnswers:
    """Both sides' answers, one a question and epoch, as they count."""
    of_parent, of_winner = (
        Counter(record.sample_id for record in side if is_server_failure(record)) for side in (parent, winner)
    )
    as_right = of_parent - of_winner  # question → answers of the parent
    return ImputedAnswers(
        parent=list(_with_some_right(parent, as_right)),
        winner=[_unpriced(record) if is_server_failure(record) else record for record in winner],
        n_failed={"parent": of_parent.total(), "winner": of_winner.total(), "as_right": as_right.total()},
        questions=list(of_parent | of_winner),
    )


def exceeds_failure_limit(n_failed: int, n_answers: int) -> bool:
    """For a verdict, of both sides' answers. A side without any answer has failed half of them."""
    return n_failed > MAX_FAILED_SHARE * n_answers


def max_failing_questions(n_questions: int) -> int:
    """Questions that the server may fail each time, if only for one side, and not fail too many."""
    return int(2 * MAX_FAILED_SHARE * n_questions)


def format_ids(questions: Sequence[str]) -> str:
    """ "q7, q9 and 3 more"."""
    more = f" and {len(questions) - _SHOWN} more" if len(questions) > _SHOWN else ""
    return f"{', '.join(questions[:_SHOWN])}{more}"


def describe_failures(verdict: Mapping[str, Any]) -> str | None:
    """What `verdict.json` says of them, in words; None: there were none."""
    if not (questions := verdict.get("failed_questions")):
        return None
    failed, winner = verdict["sealed"]["failed_answers"], verdict["winner"]["candidate_id"]
    as_right = f"{failed['as_right']} of before count as right, the others as wrong"
    return (
        f"answers that the server failed each time: {failed['parent']} before, {failed['winner']} with {winner} (to "
        f"{format_ids(questions)}); {as_right if failed['as_right'] else 'all count as wrong'}"
    )


def _with_some_right(parent: Sequence[Record], as_right: Counter[str]) -> Iterator[Record]:
    left = Counter(as_right)
    for record in parent:
        if not is_server_failure(record):
            yield record
        elif left[record.sample_id]:
            left[record.sample_id] -= 1
            yield _as_right(record)
        else:
            yield _unpriced(record)


def _unpriced(record: Record) -> Record:
    """What an answer would have cost is not known: that it failed must not make prompts cheaper."""
    return replace(record, usage=replace(record.usage, cost_usd=None))


def _as_right(record: Record) -> Record:
    """For the comparison alone: the store keeps what happened."""
    return replace(_unpriced(record), score=1.0, error=None, error_class=None, answer=COUNTED_AS_RIGHT)
