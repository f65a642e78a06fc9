"""Log of all sealed tests, and the level that each has: alpha is spent over the tests with the same questions.

    questions = list_fingerprints(splits.sealed)
    find_allowance(questions, simulated=False).check()          # before a run spends anything
    allowance = begin_test(SealedTestStart(run_id, run_id, digest(winner), simulated=False), questions)
    record_judgement(run_id, Judgement(p=0.004, answers_sha256="9f86…", n_opened=27))  # before anybody sees the verdict

Each search on the same sealed questions is one more chance to pass the gate by luck. So the k-th test that shares a
question with earlier ones has the two-sided level 0.03/k², and never more than what these have left of 0.05: the levels
of all tests that have ever used a question add up to 0.05 at most, and so does the probability of a false publication
(Bonferroni's inequality). Weights that fall with each test and add up to 1 at most are the alpha-spending rule of
D. P. Foster and R. A. Stine (J. Royal Statistical Society B 70, 2008) and of J. Tian and A. Ramdas, "Online control of
the familywise error rate" (Statistical Methods in Medical Research 30, 2021).

The log is `$XDG_STATE_HOME/mas-harness/sealed_tests.jsonl`: no folder of outputs holds it. It recognises questions by
their text, in any split, dataset, run and checkout. A test is a line that is on the disk before its first question is
answered, and another line for its judgement. A damaged log is refused; that somebody has edited it is not noticed.
Tests with a simulated model are counted separately: they are no evidence of a real one.

A test that stops early has not opened all of its questions. The first line lists them in the order in which they are
asked, the judgement says how many were: the others are as fresh as before. A test that was never judged may have opened
all of them, or may still do so, and counts with all.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_fingerprint
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import find_state_folder

ALPHA = 0.05  # two-sided; the levels of all tests with the same questions add up to it at most
FIRST_LEVEL = 0.03  # of the first test; 0.03 · (1 + 1/4 + 1/9 + …) = 0.0493
MIN_LEVEL = 0.0001  # a test with less could hardly show anything
LOCK_SECONDS = 30.0  # to wait for another process, which needs an instant


@dataclass(frozen=True)
class SealedTestStart:
    """A sealed test that is to begin, or to continue."""

    draw: str  # id of the test: that of the run; tests of earlier versions, which are in the same log, have their own
    run: str  # id
    winner_sha256: str  # of the prompts that are tested
    simulated: bool


@dataclass(frozen=True)
class Judgement:
    """The result of a sealed test."""

    p: float  # of its comparison
    answers_sha256: str  # of the scores of all its answers
    n_opened: int | None = None  # questions that were asked, the first of those listed; None: all


@dataclass(frozen=True)
class LoggedTest:
    """A sealed test in the log."""

    start: SealedTestStart
    level: float
    questions: tuple[str, ...]  # fingerprint of each one's text, in the order in which they are asked
    judgement: Judgement | None = None  # None: not yet

    @property
    def used(self) -> tuple[str, ...]:
        """The questions that were opened, or may be."""
        return self.questions[: self.judgement.n_opened] if self.judgement else self.questions


@dataclass(frozen=True)
class Allowance:
    """Level of a sealed test, after earlier ones with the same questions."""

    level: float = FIRST_LEVEL  # two-sided: the largest p that passes
    n_earlier: int = 0  # tests with any of the questions
    n_questions_used: int = 0  # of the set's, by these
    left: float = ALPHA - FIRST_LEVEL  # of ALPHA, for later tests
    size: int = 0  # of the set

    def check(self) -> None:
        """Check that a test could show anything.

        Raises:
            UserError: earlier tests have left too little.
        """
        if self.level < MIN_LEVEL:
            raise UserError(
                f"{describe_earlier_tests(self.n_questions_used, self.size, self.n_earlier)}: together they have used "
                f"up the {ALPHA:g} of false publications that the gate allows on the same questions, so another test "
                "could show nothing; seal questions that no test has used."
            )


def compute_level(n_earlier: int, spent: float) -> float:
    """Return the two-sided level of a test, 0 if nothing is left.

    Args:
        n_earlier: tests that used any of its questions.
        spent: sum of their levels.
    """
    return max(min(FIRST_LEVEL / (n_earlier + 1) ** 2, ALPHA - spent), 0.0)


def list_fingerprints(samples: Sequence[Sample]) -> list[str]:
    """Return the fingerprint of each question's text; attachments do not count."""
    return [compute_fingerprint(each.question) for each in samples]


def find_allowance(questions: Sequence[str], simulated: bool, file: Path | None = None) -> Allowance:
    """Return the allowance of a test that would begin now.

    Raises:
        UserError: the log cannot be read or written, or is damaged.
    """
    with _open_log(file or find_log()) as log:
        log.check_writable()
        return _compute_allowance(questions, simulated, log.tests)


def begin_test(
    start: SealedTestStart, questions: Sequence[str], file: Path | None = None, has_begun: bool = False
) -> Allowance:
    """Record a test before its first question is answered, and return its allowance; a known draw keeps its own.

    Args:
        start: of the test.
        questions: their fingerprints, in the order in which they are asked.
        file: the log; None: the user's.
        has_begun: an earlier session has recorded it.

    Raises:
        UserError: the log cannot be read or written or is damaged, does not have the test, the draw is another test's,
            or nothing is left: the test must not begin.
    """
    with _open_log(file or find_log()) as log:
        known = next((each for each in log.tests if each.start.draw == start.draw), None)
        if known is not None and (known.start, known.questions) != (start, tuple(questions)):
            raise UserError(
                "this sealed test was begun with other prompts or questions, or these in another order: start a new "
                "tuning run, whose test counts as another one."
            )
        if known is None and has_begun:
            _refuse_missing_test(log.path)
        allowance = _compute_allowance(questions, start.simulated, log.before.get(start.draw, log.tests))
        if start.draw not in log.before:
            allowance.check()
            log.append({"begun": asdict(start), "level": allowance.level, "questions": list(questions)})
        return allowance


def record_judgement(draw: str, judgement: Judgement, file: Path | None = None) -> None:
    """Record the result of a test, before anybody sees it.

    Raises:
        UserError: the log cannot be written, is damaged or does not have the test, or the same draw was judged with
            other answers.
    """
    with _open_log(file or find_log()) as log:
        test = next((each for each in log.tests if each.start.draw == draw), None)
        if test is None:
            _refuse_missing_test(log.path)
        if test.judgement is None:
            log.append({"judged": draw, **asdict(judgement)})
        elif test.judgement.answers_sha256 != judgement.answers_sha256:
            raise UserError(
                f"this sealed test was judged before, with other answers (p = {test.judgement.p:.3g}), and a second "
                "draw is another test: start a new tuning run."
            )


def _refuse_missing_test(log: Path) -> NoReturn:
    raise UserError(
        f"{log} does not have the sealed test that this run has begun: an earlier state of it was put back, or the "
        "test was begun on another machine; restore the newest log, or start a new tuning run."
    )


def describe_earlier_tests(questions: int, size: int, tests: int) -> str | None:
    """Return a phrase about earlier sealed tests with `questions` of the `size` questions; None if there were none."""
    if not tests:
        return None
    number = "1 earlier sealed test" if tests == 1 else f"{tests} earlier sealed tests"
    which = f"All {size} sealed questions" if questions == size else f"{questions} of the {size} sealed questions"
    return f"{which} were used in {number}"


def describe_level(level: float, left: float, looks: int = 1) -> str:
    """Return a sentence about the level of a test, with so many looks, and what it leaves to later ones."""
    later = f"{max(left, 0.0):.3g} of {ALPHA:g} is left for later tests with these questions"
    if left < MIN_LEVEL:
        later = "nothing is left for later tests: seal other questions for them"
    if looks > 1:
        return f"the gate's level is {level:.3g} (two-sided), spent over {looks} looks; {later}"
    return f"the gate requires p of at most {level:.3g} (two-sided); {later}"


def find_log() -> Path:
    """Return the path of the log."""
    return find_state_folder() / "sealed_tests.jsonl"


def _compute_allowance(questions: Sequence[str], simulated: bool, tests: Sequence[LoggedTest]) -> Allowance:
    own = set(questions)
    found = [each for each in tests if each.start.simulated == simulated and not own.isdisjoint(each.used)]
    seen = {fingerprint for each in found for fingerprint in each.used}
    spent = sum(each.level for each in found)
    level = compute_level(len(found), spent)
    n_used = sum(each in seen for each in questions)
    return Allowance(level, len(found), n_used, max(ALPHA - spent - level, 0.0), len(questions))


class _Log:
    """The log's content; to append, its lock must be held."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: list[LoggedTest] = []
        self.before: dict[str, list[LoggedTest]] = {}  # draw → the tests as they were when it began
        self._size = 0  # bytes of its complete lines

    def append(self, entry: dict[str, object]) -> None:
        """Write an entry to the disk; a line that a crash cut off is overwritten: nothing came after it."""
        entry = {**entry, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        line = json.dumps(entry, separators=(",", ":"))
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.truncate(self._size)
            file.seek(self._size)
            file.write(f"{line}\n".encode("ascii"))
            file.flush()
            os.fsync(file.fileno())

    def check_writable(self) -> None:
        """Check that an entry could be written, before a run spends anything."""
        self.path.open("ab").close()

    def add(self, line: bytes) -> None:
        """Take over a line of the file.

        Raises:
            ValueError, LookupError, TypeError: it is damaged, or not in its place.
        """
        entry = json.loads(line)
        if "begun" in entry:
            start = SealedTestStart(**entry["begun"])
            self.before[start.draw] = list(self.tests)
            self.tests.append(LoggedTest(start, entry["level"], tuple(entry["questions"])))
        else:
            place = next(place for place, each in enumerate(self.tests) if each.start.draw == entry["judged"])
            judgement = Judgement(entry["p"], entry["answers_sha256"], entry.get("n_opened"))
            self.tests[place] = replace(self.tests[place], judgement=judgement)
        self._size += len(line) + 1


@contextmanager
def _open_log(path: Path) -> Iterator[_Log]:
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=LOCK_SECONDS, fallback_to_soft=False):
            yield _read_log(path)
    except (OSError, Timeout) as error:
        raise UserError(
            f"{path} cannot be written ({error}), and no sealed test runs unrecorded; check the folder, then resume."
        ) from error


def _read_log(path: Path) -> _Log:
    log = _Log(path)
    try:
        *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error}); check its permissions.") from error
    for number, line in enumerate(lines, start=1):
        try:
            log.add(line)
        except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError) as error:
            raise UserError(
                f"{path}: line {number} is damaged, so nobody knows which questions were tested before: restore the "
                "file."
            ) from error
    return log
