"""How often a sealed set has been opened: each opening is one more chance for a set of prompts to pass by luck.

    before = opened_before(splits.sealed_digest, besides=run_id)
    note_opening(splits.sealed_digest, run_id, winner)
    warning(before)      # "this sealed set has been opened 3 times before: each opening makes …", None for the first

One line of JSON an opening, appended to `outputs/optimize/sealed_sets.jsonl` under a lock and on the disk when
`note_opening` returns. A run that opens the same set again, because it is resumed, counts once.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from eval.paths import OUTPUTS
from mas.errors import UserError
from mas.prompts import PromptSet, digest

SEALED_SETS = OUTPUTS / "optimize" / "sealed_sets.jsonl"
WAIT_SECONDS = 30.0  # a holder needs an instant


@dataclass(frozen=True)
class Opening:
    sealed_digest: str
    run: str  # id
    opened_at: str  # UTC, ISO 8601
    prompts_sha256: str  # of the set that was tested


def opened_before(sealed_digest: str, besides: str | None = None, file: Path | None = None) -> list[Opening]:
    """The openings of this set, the first first.

    Args:
        sealed_digest: of `optimize.splits.Splits`.
        besides: id of a run that does not count: the one that asks.
        file: None: SEALED_SETS.

    Raises:
        UserError: the file is there and cannot be read.
    """
    found = _openings(file or SEALED_SETS)
    return [each for each in found if each.sealed_digest == sealed_digest and each.run != besides]


def note_opening(sealed_digest: str, run: str, prompts: PromptSet, file: Path | None = None) -> None:
    """Before the first sealed question is asked.

    Raises:
        UserError: the file cannot be locked or written; the set must not be opened then.
    """
    from filelock import FileLock, Timeout

    path = file or SEALED_SETS
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=WAIT_SECONDS, fallback_to_soft=False):
            if not any((each.sealed_digest, each.run) == (sealed_digest, run) for each in _openings(path)):
                now = datetime.now(UTC).isoformat(timespec="seconds")
                _append(path, json.dumps(asdict(Opening(sealed_digest, run, now, digest(prompts)))))
    except (OSError, Timeout) as error:
        raise UserError(
            f"{path} cannot be written ({error}), and no sealed set is opened unnoted; check the folder, then resume."
        ) from error


def warning(before: Sequence[Opening]) -> str | None:
    """What is to be said with a verdict; None: it was the first opening."""
    if not before:
        return None
    times = "once" if len(before) == 1 else f"{len(before)} times"
    return f"this sealed set has been opened {times} before: each opening makes a lucky pass likelier"


def _openings(path: Path) -> list[Opening]:
    """One a set and run. A line that was cut off by a crash is no opening: nothing had been asked yet."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines() if path.is_file() else []
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error}); check its permissions.") from error
    found: dict[tuple[str, str], Opening] = {}
    for line in lines:
        if opening := _opening(line):
            found.setdefault((opening.sealed_digest, opening.run), opening)
    return list(found.values())


def _opening(line: str) -> Opening | None:
    try:
        data = json.loads(line)
        return Opening(**{each.name: str(data[each.name]) for each in fields(Opening)})
    except (ValueError, KeyError, TypeError):
        return None


def _append(path: Path, line: str) -> None:
    with path.open("a+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"  # the end of a line that a crash cut off
        file.write(f"{line}\n".encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
