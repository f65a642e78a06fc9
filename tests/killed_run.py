"""A run of the real command that is killed with `kill -9`, resumed, killed again, and looked into each time.

with fault_server(latency_seconds=0.05) as server:
    run = KilledRun(folder, options, environment, server)
    run.session(Moment(requests=7, then_seconds=0.02))     # None: killed after 7 more requests and 20 ms
    run.session()                                          # 2: it ended by itself, with that exit code
"""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.cli.paths import PROJECT_ROOT
from eval.runs.run_info import RunInfo
from eval.runs.store import AttemptKey, RunStore, StoreError
from tests.eval.command_line import SCRIPT
from tests.servers.faults import FaultServer

SESSION_SECONDS = 240.0  # a session that takes longer hangs
ALL_DONE = re.compile(rb"\b(\d+)/\1 done")


@dataclass(frozen=True)
class Moment:
    """When a session is killed: so many seconds after its start, its requests, or its last answer."""

    then_seconds: float
    requests: int | None = None  # that the server has had of this session
    after_the_last_answer: bool = False  # while the run's files are made


def moments(seed: int, number: int, max_requests: int, latency_seconds: float) -> list[Moment]:
    """A fifth of them while the command starts, the others in the middle of the questions."""
    draw = random.Random(seed)
    return [
        Moment(draw.uniform(0.1, 2.5))
        if draw.random() < 0.2
        else Moment(draw.uniform(0.0, 2 * latency_seconds), requests=draw.randint(1, max_requests))
        for _ in range(number)
    ]


@dataclass
class KilledRun:
    """One run's folder, and the command that works on it."""

    folder: Path
    options: Sequence[str]
    environment: dict[str, str]
    server: FaultServer
    wrapper: Sequence[str] = ()  # put before the command
    printed: Path | None = None  # where what it prints goes; None: beside the folder

    def session(self, moment: Moment | None = None) -> int | None:
        """Start the run or go on with it; the exit code, or None if it was killed at that moment.

        Asserts that what it acknowledged, and what was there before, is in the store when it is over.
        """
        before, output = self.lines(), self._output
        requests_before = len(self.server.requests())
        until_it_ends, held = os.pipe()  # by the command, which may be the wrapper's child: nobody else waits for it
        with output.open("wb") as file, os.fdopen(until_it_ends, "rb") as end:
            process = subprocess.Popen(
                [*self.wrapper, sys.executable, str(SCRIPT), *self._arguments()],
                env={**self.environment, "PYTHONPATH": str(PROJECT_ROOT)},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[held],
            )
            os.close(held)
            try:
                self._wait(process, moment, requests_before, output)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                end.read()  # a killed process that is writing keeps the run's lock until the disk has answered
                for name in (f"faketime_shm_{process.pid}", f"sem.faketime_sem_{process.pid}"):
                    Path("/dev/shm", name).unlink(missing_ok=True)  # else the wrapper fails where this number returns
        self._check(before, output.read_bytes())
        return None if process.returncode == -signal.SIGKILL else process.returncode

    @property
    def _output(self) -> Path:
        return self.printed or self.folder.with_suffix(".out")

    def output(self) -> str:
        """What the newest session printed."""
        return self._output.read_text("utf-8")

    def _arguments(self) -> list[str]:
        if self.info().command is not None:
            return [f"run.resume={self.folder}"]
        return [*self.options, "tracking=off", f"run.dir={self.folder}"]

    def _wait(self, process: "subprocess.Popen[bytes]", moment: Moment | None, before: int, output: Path) -> None:
        """Until the moment has come or the process has ended."""
        over = time.monotonic() + SESSION_SECONDS
        while process.poll() is None and (moment is None or not self._has_come(moment, before, output)):
            assert time.monotonic() < over, output.read_text("utf-8")
            time.sleep(0.005)
        if moment is not None and process.poll() is None:
            time.sleep(moment.then_seconds)

    def _has_come(self, moment: Moment, before: int, output: Path) -> bool:
        if moment.after_the_last_answer:
            return ALL_DONE.search(output.read_bytes()) is not None
        return moment.requests is None or len(self.server.requests()) - before >= moment.requests

    def _check(self, before: list[str], output: bytes) -> None:
        """Rows only come on top, each once, and all that was said to be finished is among them."""
        after = self.lines()
        assert after[: len(before)] == before
        assert b"Traceback" not in output, output.decode()
        if after:
            with RunStore(self.folder / "run.db", read_only=True) as store:
                keys = store.list_finished_keys()
            assert len(keys) == len(after)
            assert self.acknowledged() <= keys
        shown = [int(count) for count in re.findall(rb"^(\d+)/\d+ done", output, re.MULTILINE)]
        assert len(after) - len(before) >= max(shown, default=0)

    def acknowledged(self) -> set[AttemptKey]:
        """The answers that the log calls finished."""
        log = self.folder / "logs" / "entry_point.log"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("}")]  # a kill may cut off the last of a session
        finished = [each for each in entries if each["event"] == "question finished"]
        return {(each["task_id"], each["epoch"], each["attempt"]) for each in finished}

    def lines(self) -> list[str]:
        """A digest of each row, in the order in which they were written."""
        return [hashlib.sha256(line.encode()).hexdigest() for line in self.records()]

    def records(self) -> list[str]:
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

    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads((self.folder / "summary.json").read_text("utf-8"))
        return summary
