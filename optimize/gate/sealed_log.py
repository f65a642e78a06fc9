"""How often sealed questions have been opened: each opening is one more chance for a set of prompts to pass by luck.

    sealed = SealedSet.of(splits)
    before = opened_before(sealed, besides=run_id)
    warning(before.questions, sealed.size, before.runs)     # "12 of these 53 questions have been opened before, …"
    note_opening(sealed, run_id, winner)

One line of JSON an opening, appended to `outputs/optimize/sealed_sets.jsonl` under a lock and on the disk when
`record_use` returns. A run that opens the same set again, because it is resumed, counts once. Each line holds a mark
of each question (`eval/benchmarks/fingerprint.py`), so that the same questions in another split are known again.
"""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from eval.benchmarks.fingerprint import compute_fingerprint
from eval.cli.paths import OUTPUTS
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from optimize.questions.splits import Splits

SEALED_SETS = OUTPUTS / "optimize" / "sealed_sets.jsonl"
WAIT_SECONDS = 30.0  # a holder needs an instant


@dataclass(frozen=True)
class SealedSet:
    """The sealed questions as the log knows them."""

    digest: str  # of `optimize.questions.splits.Splits`
    marks: tuple[str, ...]  # of each question; the same words with another attachment count as the same question

    @staticmethod
    def of(splits: Splits) -> "SealedSet":
        return SealedSet(splits.sealed_digest, tuple(compute_fingerprint(each.question) for each in splits.sealed))

    @property
    def size(self) -> int:
        return len(self.marks)


@dataclass(frozen=True)
class SealedUse:
    """One line; older ones have no marks."""

    sealed_digest: str
    run: str  # id
    opened_at: str  # UTC, ISO 8601
    prompts_sha256: str  # of the set that was tested
    questions: tuple[str, ...] = ()  # `SealedSet.marks`


@dataclass(frozen=True)
class EarlierUses:
    """What has been opened of a set already."""

    openings: tuple[SealedUse, ...]  # that share a question with it, the first first
    questions: int  # of the set, that any of them has opened

    @property
    def runs(self) -> int:
        return len({each.run for each in self.openings})


def find_earlier_uses(sealed: SealedSet, besides: str | None = None, file: Path | None = None) -> EarlierUses:
    """
    Args:
        sealed: that is to be opened.
        besides: id of the run that asks; if it has opened the set itself, what came later does not count.
        file: None: SEALED_SETS.

    Raises:
        UserError: the file is there and cannot be read.
    """
    earlier = takewhile(lambda each: each.run != besides, _openings(file or SEALED_SETS))
    found = tuple(each for each in earlier if _shared(sealed, each))
    if any(each.sealed_digest == sealed.digest for each in found):
        return EarlierUses(found, sealed.size)
    seen = {mark for each in found for mark in each.questions}
    return EarlierUses(found, sum(mark in seen for mark in sealed.marks))


def describe_earlier_uses(questions: int, size: int, runs: int, have: str = "have") -> str | None:
    """What is to be said of a set; None: none of it had been opened.

    Args:
        questions: of it, that were opened before.
        size: of the set.
        runs: that opened them.
        have: "had", once it has been opened again.
    """
    if not runs:
        return None
    times = "1 run" if runs == 1 else f"{runs} runs"
    opened = f"{questions} of these {size} questions {have} been opened before, in {times}"
    return f"{opened}: each opening makes a lucky pass likelier"


def record_use(sealed: SealedSet, run: str, prompts: PromptSet, file: Path | None = None) -> None:
    """Before the first sealed question is asked.

    Raises:
        UserError: the file cannot be locked or written; the set must not be opened then.
    """
    from filelock import FileLock, Timeout

    path = file or SEALED_SETS
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=WAIT_SECONDS, fallback_to_soft=False):
            if not any((each.sealed_digest, each.run) == (sealed.digest, run) for each in _openings(path)):
                now = datetime.now(UTC).isoformat(timespec="seconds")
                _append(path, _line(SealedUse(sealed.digest, run, now, digest(prompts), sealed.marks)))
    except (OSError, Timeout) as error:
        raise UserError(
            f"{path} cannot be written ({error}), and no sealed set is opened unnoted; check the folder, then resume."
        ) from error


def _shared(sealed: SealedSet, opening: SealedUse) -> bool:
    return opening.sealed_digest == sealed.digest or not set(sealed.marks).isdisjoint(opening.questions)


def _openings(path: Path) -> list[SealedUse]:
    """One a set and run. A line that was cut off by a crash is no opening: nothing had been asked yet."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines() if path.is_file() else []
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error}); check its permissions.") from error
    found: dict[tuple[str, str], SealedUse] = {}
    for line in lines:
        if opening := _opening(line):
            found.setdefault((opening.sealed_digest, opening.run), opening)
    return list(found.values())


def _opening(line: str) -> SealedUse | None:
    try:
        data = json.loads(line)
        told = {name: str(data[name]) for name in ("sealed_digest", "run", "opened_at", "prompts_sha256")}
        return SealedUse(**told, questions=tuple(map(str, data.get("questions", ()))))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _line(opening: SealedUse) -> str:
    return json.dumps(vars(opening), separators=(",", ":"))


def _append(path: Path, line: str) -> None:
    with path.open("a+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"  # the end of a line that a crash cut off
        file.write(f"{line}\n".encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
