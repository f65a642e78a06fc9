"""Log of the sealed tests of all runs: each test with the same questions is one more chance to pass the gate by luck.

    sealed = SealedSet.of(splits)
    earlier = find_earlier_uses(sealed, besides=run_id)
    describe_earlier_uses(earlier.questions, sealed.size, earlier.runs)     # "12 of the 53 sealed questions were …"
    record_use(sealed, run_id, winner)

Each test is a line of JSON in `outputs/optimize/sealed_sets.jsonl`, appended under a lock and flushed to the disk. A
resumed run counts once. A line holds a fingerprint of each question (`eval/benchmarks/fingerprint.py`), so that the
same questions are recognized in another split.
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
LOCK_SECONDS = 30.0  # to wait for another process, which needs an instant


@dataclass(frozen=True)
class SealedSet:
    """The sealed questions of a run."""

    digest: str  # `Splits.sealed_digest`
    fingerprints: tuple[str, ...]  # fingerprint of each question's text; attachments do not count

    @staticmethod
    def of(splits: Splits) -> "SealedSet":
        return SealedSet(splits.sealed_digest, tuple(compute_fingerprint(each.question) for each in splits.sealed))

    @property
    def size(self) -> int:
        return len(self.fingerprints)


@dataclass(frozen=True)
class SealedUse:
    """A line of the log. Older lines have no fingerprints."""

    sealed_digest: str
    run: str  # id
    opened_at: str  # UTC, ISO 8601
    prompts_sha256: str  # of the set that was tested
    questions: tuple[str, ...] = ()  # `SealedSet.fingerprints`


@dataclass(frozen=True)
class EarlierUses:
    """Earlier sealed tests with questions of a set."""

    uses: tuple[SealedUse, ...]  # that share a question with the set, in order
    questions: int  # number of the set's questions that they used

    @property
    def runs(self) -> int:
        return len({each.run for each in self.uses})


def find_earlier_uses(sealed: SealedSet, besides: str | None = None, file: Path | None = None) -> EarlierUses:
    """Find earlier sealed tests with questions of a set.

    Args:
        sealed: the set.
        besides: id of the current run; if it is in the log itself, only lines before it count.
        file: None: SEALED_SETS.

    Raises:
        UserError: the file cannot be read.
    """
    earlier = takewhile(lambda each: each.run != besides, _read_uses(file or SEALED_SETS))
    found = tuple(each for each in earlier if _shared(sealed, each))
    if any(each.sealed_digest == sealed.digest for each in found):
        return EarlierUses(found, sealed.size)
    seen = {fingerprint for each in found for fingerprint in each.questions}
    return EarlierUses(found, sum(each in seen for each in sealed.fingerprints))


def describe_earlier_uses(questions: int, size: int, runs: int) -> str | None:
    """Return a sentence about `runs` earlier sealed tests with `questions` of the `size` questions; None if none."""
    if not runs:
        return None
    tests = "1 earlier sealed test" if runs == 1 else f"{runs} earlier sealed tests"
    which = f"All {size} sealed questions" if questions == size else f"{questions} of the {size} sealed questions"
    return f"{which} were used in {tests}: each test makes a lucky pass likelier"


def record_use(sealed: SealedSet, run: str, prompts: PromptSet, file: Path | None = None) -> None:
    """Append a sealed test to the log, before its first question is answered.

    Raises:
        UserError: the file cannot be locked or written; the test must not begin then.
    """
    from filelock import FileLock, Timeout

    path = file or SEALED_SETS
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=LOCK_SECONDS, fallback_to_soft=False):
            if not any((each.sealed_digest, each.run) == (sealed.digest, run) for each in _read_uses(path)):
                now = datetime.now(UTC).isoformat(timespec="seconds")
                _append(path, _line(SealedUse(sealed.digest, run, now, digest(prompts), sealed.fingerprints)))
    except (OSError, Timeout) as error:
        raise UserError(
            f"{path} cannot be written ({error}), and no sealed test runs unrecorded; check the folder, then resume."
        ) from error


def _shared(sealed: SealedSet, use: SealedUse) -> bool:
    return use.sealed_digest == sealed.digest or not set(sealed.fingerprints).isdisjoint(use.questions)


def _read_uses(path: Path) -> list[SealedUse]:
    """Return one use per set and run. A line that a crash cut off does not count: no question was answered yet."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines() if path.is_file() else []
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error}); check its permissions.") from error
    found: dict[tuple[str, str], SealedUse] = {}
    for line in lines:
        if use := _parse_use(line):
            found.setdefault((use.sealed_digest, use.run), use)
    return list(found.values())


def _parse_use(line: str) -> SealedUse | None:
    try:
        data = json.loads(line)
        facts = {name: str(data[name]) for name in ("sealed_digest", "run", "opened_at", "prompts_sha256")}
        return SealedUse(**facts, questions=tuple(map(str, data.get("questions", ()))))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _line(use: SealedUse) -> str:
    return json.dumps(vars(use), separators=(",", ":"))


def _append(path: Path, line: str) -> None:
    with path.open("a+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"  # ends a line that a crash cut off
        file.write(f"{line}\n".encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
