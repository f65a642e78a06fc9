"""Imputation of sealed answers that the model's server fails each time, for a verdict without them.

Such answers say nothing about the prompts, so they count against the new ones (worst-case imputation): the winner's
as wrong, the parent's as right. The true gain is at least the one computed this way. Failures of both sides on the same
question are paired and count as wrong for both.

If the server failed too many answers, there is no verdict: it would say more about the server than about the prompts.

    imputed = impute_failures(parent_records, winner_records)
    imputed.questions                                     # ["q7"]: the gateway refuses its attachment
    compare_answers(*map(build_answers, (imputed.parent, imputed.winner)))
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eval.execution.termination import is_server_failure
from eval.runs.record import Record
from optimize.gate.verdict import Verdict

HALT, AGAINST = "halt", "against"  # the choices of run.failed_answers
COUNTED_AS_RIGHT = "(failed by the model's server, counted as right)"  # in place of the answer
# Share of both sides' answers. Failures of one side reduce the gain: a tenth can cost twenty points, and with more
# hardly any gain could be shown. The scorer may fail as many (gate.max_metric_error_share).
MAX_FAILED_SHARE = 0.1
_MAX_SHOWN = 5  # ids in a sentence


@dataclass(frozen=True)
class ImputedAnswers:
    """Answers of both sides with imputed scores, and counts of the failures."""

    parent: list[Record]
    winner: list[Record]
    n_failed: dict[str, int]  # "parent", "winner", "as_right" (the part of the parent's that counts as right)
    questions: list[str]  # ids of questions with a failed answer


def impute_failures(parent: Sequence[Record], winner: Sequence[Record]) -> ImputedAnswers:
    """Return both sides' answers with imputed scores, one per question and epoch."""
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
    """Return whether too many of both sides' answers failed for a verdict."""
    return n_failed > MAX_FAILED_SHARE * n_answers


def max_failing_questions(n_questions: int) -> int:
    """Return the number of questions that the server may fail each time, for one side only, below the limit."""
    return int(2 * MAX_FAILED_SHARE * n_questions)


def format_ids(questions: Sequence[str]) -> str:
    """Return ids as "q7, q9 and 3 more"."""
    more = f" and {len(questions) - _MAX_SHOWN} more" if len(questions) > _MAX_SHOWN else ""
    return f"{', '.join(questions[:_MAX_SHOWN])}{more}"


def describe_failures(verdict: Verdict) -> str | None:
    """Return a sentence about the failed answers of a verdict; None if there were none."""
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
    """Set the cost to unknown: a failure must not make prompts cheaper."""
    return replace(record, usage=replace(record.usage, cost_usd=None))


def _as_right(record: Record) -> Record:
    """Score a copy of the record as right; the store keeps the failure."""
    return replace(_unpriced(record), score=1.0, error=None, error_class=None, answer=COUNTED_AS_RIGHT)
