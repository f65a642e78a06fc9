"""Log of all sealed tests, and the level that each has: alpha is spent over the tests with the same questions.

The k-th test that shares a question with earlier ones has the two-sided level 0.03/k², and never more than what these
have left of 0.05 (docs/explanation/optimisation.md). `$XDG_STATE_HOME/mas-harness/sealed_tests.jsonl` has a line
for a test's beginning, with the questions in the order in which they are asked, and one for its judgement, with how
many were; a test that was never judged counts with all. A damaged log is refused, an edited one is not noticed.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_fingerprint
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import find_state_folder, write_atomically
from mas.runtime.text import format_count

TOTAL_LEVEL = 0.05  # two-sided; the levels of all tests with the same questions add up to it at most
FIRST_LEVEL = 0.03  # of the first test; 0.03 · (1 + 1/4 + 1/9 + …) = 0.0493
MIN_LEVEL = 0.0001  # a test with less could hardly show anything
LOCK_SECONDS = 30.0  # to wait for another process, which needs an instant


@dataclass(frozen=True)
class Allowance:
    """Level of a sealed test, after earlier ones with the same questions."""

    level: float = FIRST_LEVEL  # two-sided: the largest p that passes
    n_earlier: int = 0  # tests with any of the questions
    left: float = TOTAL_LEVEL - FIRST_LEVEL  # of TOTAL_LEVEL, for later tests

    def check(self) -> None:
        """Check that a test could show anything; UserError: earlier tests have left too little."""
        if self.level < MIN_LEVEL:
            raise UserError(
                f"{self._describe_earlier()}: together they have used up the {TOTAL_LEVEL:g} of false publications "
                "that the gate allows on the same questions, so another test could show nothing; seal questions that "
                "no test has used."
            )

    def _describe_earlier(self) -> str:
        return f"{format_count(self.n_earlier, 'earlier sealed test')} used sealed questions of this run"

    def describe(self, looks: int) -> str:
        """Return a sentence about earlier tests, the level of one with so many looks, and what it leaves."""
        later = f"{max(self.left, 0.0):.3g} of {TOTAL_LEVEL:g} is left for later tests with these questions"
        if self.left < MIN_LEVEL:
            later = "nothing is left for later tests: seal other questions for them"
        level = f"the gate requires p of at most {self.level:.3g} (two-sided); {later}"
        if looks > 1:
            level = f"the gate's level is {self.level:.3g} (two-sided), spent over {looks} looks; {later}"
        return f"{self._describe_earlier()}: {level}" if self.n_earlier else level


def compute_level(n_earlier: int, spent: float) -> float:
    """Return the two-sided level of a test after earlier ones whose levels add up to `spent`; 0 if nothing is left."""
    return max(min(FIRST_LEVEL / (n_earlier + 1) ** 2, TOTAL_LEVEL - spent), 0.0)


def list_fingerprints(samples: Sequence[Sample]) -> list[str]:
    """Return the fingerprint of each question's text; attachments do not count."""
    return [compute_fingerprint(each.question) for each in samples]


def find_allowance(questions: Sequence[str], simulated: bool, file: Path | None = None) -> Allowance:
    """Return the allowance of a test that would begin now; UserError: the log cannot be read or written."""
    with _open_log(file) as log:
        log.path.open("ab").close()  # an entry could be written: checked before a run spends anything
        return log.compute_allowance(questions, simulated)


def begin_test(
    run_id: str, questions: Sequence[str], winner_sha256: str, simulated: bool, file: Path | None = None
) -> Allowance:
    """Record a run's test before its first question is answered, and return its allowance; a known test keeps its own.

    `questions`: their fingerprints, in the order in which they are asked. UserError: the test must not begin, since the
    log cannot be used, has it with other prompts or questions, or nothing is left.
    """
    begun = {"run": run_id, "winner_sha256": winner_sha256, "simulated": simulated}
    with _open_log(file) as log:
        if known := log.begun.get(run_id):
            if (known["begun"], known["questions"]) != (begun, list(questions)):
                raise UserError(
                    "this sealed test was begun with other prompts or questions, or these in another order: start a "
                    "new tuning run, whose test counts as another one."
                )
            return Allowance(**known["allowance"])
        allowance = log.compute_allowance(questions, simulated)
        allowance.check()
        log.append({"begun": begun, "questions": list(questions), "allowance": asdict(allowance)})
        return allowance


def record_judgement(run_id: str, p: float, n_opened: int, file: Path | None = None) -> None:
    """Record the result of a test, before anybody sees it; of a resumed run it is there already.

    `n_opened`: questions that were asked, the first of those listed. UserError: the log cannot be used.
    """
    with _open_log(file) as log:
        if run_id not in log.judged:
            log.append({"judged": run_id, "p": p, "n_opened": n_opened})


class _Log:
    """The log's content; its lock must be held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.begun: dict[str, dict[str, Any]] = {}  # run → its first line
        self.judged: dict[str, int] = {}  # run → questions that were asked
        *self._lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]  # a crash may cut the last one off
        for number, line in enumerate(self._lines, start=1):
            try:
                entry = json.loads(line)
                if "begun" in entry:
                    self.begun[entry["begun"]["run"]] = entry
                else:
                    self.judged[entry["judged"]] = entry["n_opened"]
            except (ValueError, LookupError, TypeError) as error:
                raise UserError(
                    f"{path}: line {number} is damaged, so nobody knows which questions were tested before: restore "
                    "the file."
                ) from error

    def compute_allowance(self, questions: Sequence[str], simulated: bool) -> Allowance:
        own, spent, n_tests = set(questions), 0.0, 0
        for run_id, test in self.begun.items():
            used = test["questions"][: self.judged.get(run_id)]
            if test["begun"]["simulated"] == simulated and not own.isdisjoint(used):
                spent, n_tests = spent + test["allowance"]["level"], n_tests + 1
        level = compute_level(n_tests, spent)
        return Allowance(level, n_tests, max(TOTAL_LEVEL - spent - level, 0.0))

    def append(self, entry: dict[str, Any]) -> None:
        """Write an entry to the disk, in place of a line that a crash cut off."""
        line = json.dumps({**entry, "at": datetime.now(UTC).isoformat(timespec="seconds")}, separators=(",", ":"))
        with write_atomically(self.path) as file:
            file.write("".join(f"{each.decode()}\n" for each in self._lines) + f"{line}\n")


@contextmanager
def _open_log(file: Path | None) -> Iterator[_Log]:
    from filelock import FileLock, Timeout

    path = file or find_state_folder() / "sealed_tests.jsonl"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=LOCK_SECONDS, fallback_to_soft=False):
            yield _Log(path)
    except (OSError, Timeout) as error:
        raise UserError(
            f"{path} cannot be read or written ({error}), and no sealed test runs unrecorded; check the folder, then "
            "resume."
        ) from error
