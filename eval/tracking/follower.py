"""A process that sends one run to MLflow while the run goes on, from its command line to its exit code.

    os._exit(follow("exporter", sys.argv[1:], sys.stdin, exported))

Its standard input is its tie to the run (`eval.tracking.pipe`): where MLflow is and what is secret, then the word that
the run is over, or nothing more when the run's process has died. Its log is `logs/mlflow.log`.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from eval.tracking.pipe import Handover, RunEnd

LOCK_SECONDS = 60.0  # for the process of an earlier session, which may be sending its last batch

Send = Callable[[Path, Handover, RunEnd, Any], bool]  # folder, …, log → whether everything is in MLflow


def follow(name: str, arguments: Sequence[str], source: TextIO, send: Send) -> int:
    """To be ended with `os._exit`: an ordinary exit would wait for the thread that reads `source`.

    Returns:
        The exit code: 0 everything is in MLflow · 3 not everything, or nothing.
    """
    folder = Path(arguments[0]).absolute()
    handover = Handover(**json.loads(source.readline()))
    end = RunEnd(source)
    from eval.run_folder.logs import open_log

    log, file = open_log(folder, "mlflow", handover.secrets)
    try:
        return 0 if _sent_alone(folder, handover, end, log, send) else 3
    except Exception:  # the boundary of a process that has nobody to raise to
        log.error(f"the {name} failed", exc_info=True)
        return 3
    finally:
        file.close()


def _sent_alone(folder: Path, handover: Handover, end: RunEnd, log: Any, send: Send) -> bool:
    from eval.run_folder.lock import RunLock
    from eval.tracking.state import STATE

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
