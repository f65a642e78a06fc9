"""Counts of the sealed test's answers: planned, missing, and the questions that were asked so far.

count_test_answers(run)             # 480: of both sides, if no look stops the test
count_remaining_answers(run)        # (31, 29): missing ones of parent and winner
count_asked_questions(run)          # 17
"""

from pathlib import Path

from eval.runs.folder import DATABASE
from eval.runs.store import RETRIED, UNFINISHED, RunStore, StoreError
from optimize.gate.looks import LookLine
from optimize.gate.sequential import CONTINUE
from optimize.session.tuning_run import TuningRun

PARENT_ARM, WINNER_ARM = "parent", "winner"
SEALED = "sealed"  # folder of both arms' runs, and the key under which their requests are paid
JUDGED = f"{SEALED}/judged"  # in the folder of the arms, so that it is removed with them
LOOKS = f"{SEALED}/looks"  # that were taken


def count_test_answers(run: TuningRun) -> int:
    """Return the number of answers of both sides, if no look stops the test."""
    return 2 * run.config.gate.epochs * len(run.splits.sealed)


def count_remaining_answers(run: TuningRun) -> tuple[int, int]:
    """Return the number of missing answers of parent and winner, if no look stops the test."""
    lines: list[LookLine] = run.files.read(LOOKS) or []
    if is_judged(run) or (lines and lines[-1]["decision"] != CONTINUE):
        return 0, 0
    n_side, folder = count_test_answers(run) // 2, run.files.folder / SEALED
    return n_side - _count_answered(folder / PARENT_ARM), n_side - _count_answered(folder / WINNER_ARM)


def count_asked_questions(run: TuningRun) -> int:
    """Return the number of sealed questions that either side has answered, or has failed to."""
    folder = run.files.folder / SEALED
    return len({sample_id for arm in (PARENT_ARM, WINNER_ARM) for sample_id, _ in _read_attempts(folder / arm)})


def is_judged(run: TuningRun) -> bool:
    """Return whether an earlier session has judged the answers, but could not write the set."""
    return run.files.read(JUDGED) is not None


def _count_answered(folder: Path) -> int:
    return sum(error_class not in (*UNFINISHED, *RETRIED) for error_class in _read_attempts(folder).values())


def _read_attempts(folder: Path) -> dict[tuple[str, int], str | None]:
    """Return (sample id, epoch) → error class of the last attempt, of an arm."""
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            return {key: error_class for key, (_, error_class) in store.read_last_attempts().items()}
    except StoreError:  # it does not exist, or is empty
        return {}
