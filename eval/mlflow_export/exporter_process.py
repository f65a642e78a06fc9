"""A process that sends one run to MLflow while the run goes on, from its command line to its exit code.

    os._exit(follow("exporter", sys.argv[1:], sys.stdin, exported))

Its standard input is its tie to the run (`eval.mlflow_export.exporter_launcher`): where MLflow is and what is secret,
then the word that
the run is over, or nothing more when the run's process has died. Its log is `logs/mlflow.log`.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from eval.mlflow_export.pipe import ExportRequest, RunEnd

LOCK_SECONDS = 60.0  # for the process of an earlier session, which may be sending its last batch

Send = Callable[[Path, ExportRequest, RunEnd, Any], bool]  # folder, …, log → whether everything is in MLflow


def follow(name: str, arguments: Sequence[str], source: TextIO, send: Send) -> int:
    """To be ended with `os._exit`: an ordinary exit would wait for the thread that reads `source`.

    Returns:
        The exit code: 0 everything is in MLflow · 3 not everything, or nothing.
    """
    folder = Path(arguments[0]).absolute()
    handover = ExportRequest(**json.loads(source.readline()))
    end = RunEnd(source)
    from eval.runs.logs import open_log

    log, file = open_log(folder, "mlflow", handover.secrets)
    try:
        return 0 if _sent_alone(folder, handover, end, log, send) else 3
    except Exception:  # the boundary of a process that has nobody to raise to
        log.error(f"the {name} failed", exc_info=True)
        return 3
    finally:
        file.close()


def _sent_alone(folder: Path, handover: ExportRequest, end: RunEnd, log: Any, send: Send) -> bool:
    from eval.runs.folder import RunLock
    from eval.runs.mlflow_state import STATE

    lock = RunLock(folder / STATE)
    lock.take(LOCK_SECONDS)
    try:
        return send(folder, handover, end, log)
    finally:
        lock.release()


def in_words(error: BaseException) -> str:
    """One line, for the log and for `mlflow.json`."""
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0][:200]}"


POLL_SECONDS = 1.0
BEAT_SECONDS = 10.0
MAX_PAUSE_SECONDS = 30.0  # between attempts while the run goes on
PATIENCE_SECONDS = 10.0  # with an MLflow that fails and fails, once the run is over
_NICENESS = 10  # questions come first
_UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "NewConnectionError")  # of requests and urllib3
_REFUSALS = 3  # of one batch by an MLflow that works; then its records are sent one by one


class Exporter:
    """Follows one session of a run to its end. Raises nothing of MLflow's."""

    def __init__(self, export: Any, end: RunEnd, wait_seconds: float, log: Any, live: bool = True) -> None:
        """`live`: the run goes on, so MLflow shows it as running; else it is only completed there."""
        self.export, self.end, self.wait_seconds, self.log, self.live = export, end, wait_seconds, log, live
        self._begun = False
        self._worked = False  # in this session, ever
        self._last_success = self._last_beat = time.monotonic()
        self._refusals = 0
        self._failure: str | None = None  # the last one, as a sentence

    def run(self) -> Any:
        """Until the run is over and everything is sent, or the time for it is up.

        Returns:
            The state as written to `mlflow.json`.
        """
        from eval.runs.mlflow_state import write_state

        while not self.end.over.is_set():
            self._persistently(self._follow, while_running=True)
            self.end.over.wait(POLL_SECONDS)
        _step_forward()
        if self.end.died:
            self.log.warning("the run's process has died")
        state = self._completed()
        cpu_seconds = time.process_time()
        state = replace(state, cpu_seconds=cpu_seconds, seconds_after_the_end=self.end.seconds_since)
        self.log.info("export ended", complete=state.complete, counts=state.counts, cpu_seconds=cpu_seconds)
        write_state(self.export.folder, state)
        return state

    def _follow(self) -> None:
        """Bring MLflow up to what the store has now."""
        self._begin()
        while self._send_batch() and not self.end.over.is_set():
            self._beat_if_due()
        self._beat_if_due()

    def _begin(self) -> None:
        """Once; what is only shown must not keep the traces from being sent, and comes again at the end."""
        from eval.mlflow_export.sending import close_dead_runs
        from eval.runs.mlflow_state import write_state

        if self._begun:
            return
        if self.live:
            self.export.begin()
        self.log.info("run found or made in MLflow", mlflow_run=self.export.run.run_id)
        self._succeeded()
        self._begun = True
        try:
            if closed := close_dead_runs(self.export.run):
                self.log.warning("runs closed whose processes had died", mlflow_runs=closed)
            if self.live:
                write_state(self.export.folder, self.export.state)
                self.export.show()
        except Exception as error:  # noqa: BLE001 - see above
            self._note(error)

    def _send_batch(self) -> int:
        try:
            sent: int = self.export.send_one_by_one() if self._refusals >= _REFUSALS else self.export.send_new()
        except Exception:
            if self._works():  # then it is these records that it does not take
                self._refusals += 1
            raise
        self._refusals = 0
        self._succeeded()
        return sent

    def _works(self) -> bool:
        """Whether MLflow can be written at all."""
        try:
            self.export.beat()
        except Exception:  # noqa: BLE001 - whatever it raises: that is the answer
            return False
        self._succeeded()
        return True

    def _succeeded(self) -> None:
        self._worked, self._last_success = True, time.monotonic()

    def _beat_if_due(self) -> None:
        if self.live and time.monotonic() - self._last_beat >= BEAT_SECONDS:
            self.export.begin()  # another may have closed it, after a silence
            self._last_beat = time.monotonic()
            self._succeeded()

    def _completed(self) -> Any:
        """Everything that only the end can bring, as far as there is time and MLflow takes it."""
        steps = (self._rest, self.export.end, self._count)
        if done := all(self._persistently(step) for step in steps):
            reachable = True
        elif reachable := self.export.is_open and self._works():
            self._close_all_the_same()
        state = self.export.state
        state = state if done and state.complete else self._incomplete(state.counts)
        if reachable:
            self._say_on_the_page(state.warning)
        return state

    def _say_on_the_page(self, warning: str | None) -> None:
        """Whoever sees its numbers there must know whether all of the run is behind them."""
        try:
            self.export.say(warning)
        except Exception as error:  # noqa: BLE001 - the same is in `mlflow.json`
            self._note(error)

    def _close_all_the_same(self) -> None:
        """No time was left for everything, or MLflow takes only some of it: at least the run's status is right."""
        for step in (self.export.end, self.export.close_run):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the run is told to be incomplete in any case
                self._note(error)
            else:
                return

    def _incomplete(self, counts: Any) -> Any:
        """The state, with a warning that says what is missing."""
        from eval.mlflow_export.completeness import describe_shortfall

        sent = self.export.read.traces - len(self.export.refused) - self.export.unsent
        counts = counts or {"traces": {"store": self.export.records_in_store(), "mlflow": sent}}
        missing = describe_shortfall(counts) if self.export.is_open else "nothing of this run"
        why = f" ({self._failure})" if self._failure else ""
        sentence = (
            f"MLflow has {missing or 'not been counted'}{why}; complete it with: {sync_command(self.export.folder)}"
        )
        return replace(self.export.state, counts=counts, complete=False, warning=sentence)

    def _rest(self) -> None:
        self._begin()
        while self._send_batch():
            if self.end.seconds_since > self.wait_seconds:
                raise TimeoutError(f"the {self.wait_seconds:g} s of tracking.wait_seconds were over")

    def _count(self) -> None:
        """Once more with everything sent again, if something is missing: a crash leaves traces without their spans."""
        from eval.mlflow_export.completeness import describe_shortfall

        counts = self.export.count()
        self._keep(counts)
        if describe_shortfall(
            {name: each for name, each in counts.items() if name in ("traces", "spans", "assessments")}
        ):
            self.log.warning("counts differ; everything is sent again", counts=counts)
            self.export.send_all_again()
            self._rest()
            self._keep(self.export.count())

    def _keep(self, counts: Any) -> None:
        from eval.mlflow_export.completeness import describe_shortfall

        self.export.state = replace(self.export.state, counts=counts, complete=describe_shortfall(counts) is None)

    def _persistently(self, step: Callable[[], Any], while_running: bool = False) -> bool:
        """Do a step, again and again if it fails.

        Returns:
            Whether it was done at last.
        """
        from tenacity import RetryCallState, RetryError, Retrying, wait_random_exponential

        def told(attempt: RetryCallState) -> None:
            error = attempt.outcome.exception() if attempt.outcome else None
            self._note(error)

        def give_up(attempt: RetryCallState) -> bool:
            return self.end.over.is_set() if while_running else not self._time_is_left()

        def pause(seconds: float) -> None:
            if while_running:
                self.end.over.wait(seconds)
            else:
                time.sleep(min(seconds, self.wait_seconds, 3.0))

        retrying = Retrying(
            wait=wait_random_exponential(multiplier=1, max=MAX_PAUSE_SECONDS), stop=give_up, sleep=pause, after=told
        )
        try:
            retrying(step)
        except RetryError:
            return False
        return True

    def _time_is_left(self) -> bool:
        """While MLflow works: `wait_seconds`; while it does not, a moment, and not even that if it never did."""
        silent = min(time.monotonic() - self._last_success, self.end.seconds_since)
        patience = PATIENCE_SECONDS if self._worked else 0.0
        return self.end.seconds_since <= self.wait_seconds and silent <= patience

    def _note(self, error: BaseException | None) -> None:
        if error is None:
            return
        self._failure = self.export.redact(_in_words(error, self.export.settings.shown_uri))
        self.log.warning("MLflow did not take it", error=self._failure)


def _in_words(error: BaseException, uri: str) -> str:
    """Short; what the network's libraries say about a server that is down fills half a screen."""
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in _UNREACHABLE:
            return f"{uri} cannot be reached"
        cause = cause.__cause__ or cause.__context__
    return in_words(error)


def sync_command(folder: Path) -> str:
    import shlex

    from eval.cli.paths import OUTPUTS, shown

    return f"python eval/sync.py {shlex.quote(folder.name if folder.parent == OUTPUTS / 'eval' else shown(folder))}"


def _step_back() -> None:
    """Questions come first: on Linux this process gets what no other wants, until the run is over."""
    os.nice(_NICENESS)
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _step_forward() -> None:
    """Somebody is waiting now."""
    if sys.platform == "linux":
        with suppress(OSError):  # not every system lets a process back
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def exported(folder: Path, handover: ExportRequest, end: RunEnd, log: Any) -> bool:
    """Whether MLflow has everything."""
    from eval.mlflow_export.export import Export

    settings = handover.settings()
    export = Export(folder, settings, handover.redact)
    try:
        return bool(Exporter(export, end, settings.wait_seconds, log).run().complete)
    finally:
        export.close()


if __name__ == "__main__":
    _step_back()
    os._exit(follow("exporter", sys.argv[1:], sys.stdin, exported))
