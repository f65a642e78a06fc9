"""Runs of the real commands that are killed with `kill -9`, resumed, killed again, and looked into each time.

with fault_server(latency_seconds=0.05) as server:
    run = KilledRun(folder, options, server)           # eval/run.py; tests/optimize/tuned.py has optimize/run.py
    run.session(Moment(requests=7, then_seconds=0.02))     # None: killed 20 ms after the server's 7th request
    killed(run, [Moment(2.0), Moment(requests=20)])        # 2: so often
    run.session()                                          # 2: it ended by itself, with that exit code
"""

import hashlib
import json
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore, StoreError
from tests.command import RunFolder
from tests.patience import PATIENCE_SECONDS
from tests.process import SCRIPT, Running, started
from tests.servers.faults import FaultServer

ALL_DONE = re.compile(r"\b(\d+)/\1 done")


@dataclass(frozen=True)
class Moment:
    """When a session is killed: so many seconds after all of the others have come."""

    then_seconds: float = 0.0
    requests: int | None = None  # that the server has had, of all sessions
    phase: str | None = None  # of a tuning run
    after_the_last_answer: bool = False  # while the run's files are made


@dataclass
class KilledRun(RunFolder):
    """One run's folder, and the command that works on it."""

    folder: Path
    options: Sequence[str]
    server: FaultServer
    wrapper: Sequence[str] = ()  # put before the command
    printed: list[str] = field(default_factory=list)  # by each session

    def session(self, moment: Moment | None = None, *more: str, dies: str | None = None) -> int | None:
        """Start the run or go on with it; return the exit code, or None if it was killed at that moment.

        Args:
            moment: None: it is left alone.
            more: options of this session.
            dies: a place in a tuning run at which it kills itself.
        """
        with self.started(*more, dies=dies) as running:
            if moment is not None and running.wait_until(lambda: self.has_come(moment, running)):
                time.sleep(moment.then_seconds)
                running.process.kill()
            code = running.end().code
        return None if code == -signal.SIGKILL else code

    @contextmanager
    def started(self, *more: str, dies: str | None = None) -> Iterator[Running]:
        """The command at work; waited for at the end, with what it prints in `printed`."""
        before = self.rows()
        with started(self.folder, *self.arguments(dies), *more, wrapper=self.wrapper, **self.how(dies)) as running:
            yield running
            running.process.wait(PATIENCE_SECONDS)
            self.printed.append(running.out + running.err)
        for name in (f"faketime_shm_{running.process.pid}", f"sem.faketime_sem_{running.process.pid}"):
            Path("/dev/shm", name).unlink(missing_ok=True)  # else the wrapper fails where this number returns
        assert "Traceback" not in self.printed[-1], self.printed[-1]
        self.check(before)

    def has_come(self, moment: Moment, running: Running) -> bool:
        return (
            (moment.requests is None or self.server.asked >= moment.requests)
            and (moment.phase is None or self.phase == moment.phase)
            and (not moment.after_the_last_answer or ALL_DONE.search(running.out) is not None)
        )

    def arguments(self, dies: str | None) -> list[str]:
        if self.info().command is not None:
            return [f"run.resume={self.folder}"]
        return [*self.options, "tracking=off"]

    def how(self, dies: str | None) -> Mapping[str, object]:
        return {"script": SCRIPT}

    def check(self, before: list[str]) -> None:
        """Rows only come on top, each once, and all that was said to be finished is among them."""
        after = self.rows()
        assert after[: len(before)] == before
        if after:
            with RunStore(self.folder / "run.db", read_only=True) as store:
                keys = {(each["task_id"], each["epoch"], each["attempt"]) for each in store.correlation_ids()}
            assert len(keys) == len(after)
            assert self.acknowledged() <= keys
        shown = [int(count) for count in re.findall(r"^(\d+)/\d+ done", self.printed[-1], re.MULTILINE)]
        assert len(after) - len(before) >= max(shown, default=0)

    def acknowledged(self) -> set[tuple[str, int, int]]:
        """The answers that the log calls finished."""
        log = self.folder / "logs" / "entry_point.log"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("}")]  # a kill may cut off the last of a session
        finished = [each for each in entries if each["event"] == "question finished"]
        return {(each["task_id"], each["epoch"], each["attempt"]) for each in finished}

    def rows(self) -> list[str]:
        """A digest of each record, in the order in which they were written."""
        return [hashlib.sha256(line.encode()).hexdigest() for line in self.stored()]

    def stored(self) -> list[str]:
        try:
            with RunStore(self.folder / "run.db", read_only=True) as store:
                return list(store.lines())
        except StoreError:
            return []

    def info(self) -> RunInfo:
        try:
            with RunStore(self.folder / "run.db", read_only=True) as store:
                return store.read_info()
        except StoreError:
            return RunInfo()


def killed(run: KilledRun, moments: Iterable[Moment]) -> int:
    """Kill a run at each of the moments; return how often it had not ended before."""
    return [run.session(moment) for moment in moments].count(None)
