"""Logs of a run: JSON lines in `logs/`."""

import json
import os
import resource
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet, digest, name_prompt_file
from mas.runtime.errors import format_stack
from mas.runtime.sample_context import SampleKey
from mas.runtime.security.redaction import build_redactor, redact_value, sort_secrets
from mas.runtime.terminal import print_line
from mas.runtime.text import to_jsonable
from mas.runtime.trace import Level, Listener
from mas.system import Program

DIGEST_CHARS = 12  # of the prompts of a trial, in its lines
_MAX_FIELD_CHARS = 500
_MAX_STACK_CHARS = 20_000  # of the fields `exception` and `stack`
_OWN_FIELDS = ("timestamp", "level", "event", "message", "run_id", "correlation_id", "task_id", "epoch", "attempt")
_IN_MESSAGE = ("component", "error", *_OWN_FIELDS[:6])
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40}


class Log:
    """Log of a component in a run's folder: a line of JSON for each event, without secrets, its fields cut.

    Any thread may write, and any process: each line is appended whole.
    """

    def __init__(
        self,
        folder: Path,
        component: str,
        secrets: Collection[str] = (),
        level: str = "info",
        is_shown: bool = False,
        stop: Callable[[str], None] = lambda reason: None,
    ) -> None:
        """`level`: the least that is written; `is_shown`: on standard error, too; `stop`: see `RunLogs`."""
        path = folder / "logs" / f"{component}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if (size := os.fstat(self._file).st_size) and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")  # ends the line that a kill cut off
        self._lock = threading.Lock()
        self._fields = {"component": component, "run_id": folder.name, "correlation_id": folder.name}
        self.redact = build_redactor(tuple(sort_secrets([*secrets])))
        self._least, self._is_shown, self._stop = _LEVELS[level.lower()], is_shown, stop

    def write(self, level: str, event: str, /, **fields: object) -> None:
        """Add a line; an exception among the fields is written as its stack."""
        if _LEVELS[level] < self._least:
            return
        now = datetime.now(UTC)
        line: dict[str, object] = {**self._fields, **fields, "event": event}
        line["timestamp"] = f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}"
        line["level"] = "WARN" if level == "warning" else level.upper()
        line["message"] = ": ".join(str(each) for each in (line["component"], event, line.get("error")) if each)
        line = {name: self._shorten(name, value) for name, value in line.items()}
        if self._is_shown:
            others = (f"{name}={value!r}" for name, value in line.items() if name not in _IN_MESSAGE)
            print_line(" ".join([f"{line['timestamp']} [{line['level']}] {line['message']}", *others]), error=True)
        rest = f"{json.dumps(line)}\n".encode()
        try:
            with self._lock:
                while rest and self._file >= 0:  # a cancelled answer may end a little later
                    rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self._stop(f"the run's logs cannot be written ({error}): check that the disk has room")

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _shorten(self, name: str, value: object) -> object:
        """Replace secrets, then cut: half a secret would no longer be found."""
        if value is None or type(value) in (bool, int):
            return value
        if isinstance(value, BaseException):
            value = format_stack(value)
        if isinstance(value, str):
            return _cut(self.redact(value), _MAX_STACK_CHARS if name in ("exception", "stack") else _MAX_FIELD_CHARS)
        value = redact_value(to_jsonable(value), self.redact)
        text = self.redact(json.dumps(value))  # names and numbers too; without a number it may be no JSON
        with suppress(ValueError):
            return json.loads(text) if len(text) <= _MAX_FIELD_CHARS else _cut(text, _MAX_FIELD_CHARS)
        return text


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


class RunLogs:
    """Logs of one run, opened for appending: a resumed run continues in the same files. Any thread may write."""

    def __init__(
        self,
        folder: Path,
        secrets: Collection[str] = (),
        level: str = "info",
        stop: Callable[[str], None] = lambda reason: None,
        is_shown: bool = False,
    ) -> None:
        """Open the files of the run's folder. `secrets` are written as `***`.

        `stop` is called with the reason if a line cannot be written: that ends the session, never a sample.
        """
        self.entry_point = Log(folder, "entry_point", secrets, level, is_shown, stop)
        self._system = Log(folder, "multi_agent_system", secrets, level, is_shown, stop)

    def note(self, event: str, **fields: object) -> None:
        self.entry_point.write("info", event, **fields)

    def begin(self, thread_id: str, sample_key: SampleKey, **labels: str) -> Listener:
        """Log the beginning of an answer; return the listener of its trace, whose lines have the labels as well."""
        names = _name_answer(thread_id, sample_key, labels)
        self.note("question started", **names)

        def listen(level: Level, event: str, fields: Mapping[str, object]) -> None:
            # A field of the system must not replace one that every line has.
            named = {f"{name}_" if name in _OWN_FIELDS else name: value for name, value in fields.items()}
            self._system.write(level, event, **{**names, **named})

        return listen

    def finish(self, record: Record, **labels: str) -> None:
        """Log the end of an answer, with everything that explains an error."""
        fields: dict[str, object] = {**_name_answer(record.thread_id, record.key, labels)}
        fields |= {"seconds": round(record.wall_seconds, 3), "error": record.error}
        if record.error is not None:
            details = asdict(record.error_details) if record.error_details else {}
            fields |= {f"error_{name}" if name == "type" else name: value for name, value in details.items() if value}
            fields |= {"error_class": record.error_class, "error_component": record.error_component}
        self.entry_point.write("info" if record.error is None else "error", "question finished", **fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            self.entry_point.write("error", "application failed", error=str(error), exception=error)
        self.entry_point.close()
        self._system.close()


def _name_answer(thread_id: str, key: SampleKey, labels: Mapping[str, str]) -> dict[str, str | int]:
    names: dict[str, str | int] = {"task_id": key.sample_id, "epoch": key.epoch, "attempt": key.attempt}
    return {"correlation_id": thread_id, **names, **labels}


def log_parts(log: Log, system: str, config: Mapping[str, Any], prompts: PromptSet | None, program: Program) -> None:
    """Log what a session is made of; its configuration has no secrets."""
    parts = {name: value for name, value in config.items() if isinstance(value, Mapping)}
    chosen = {name: part["name"] for name, part in parts.items() if isinstance(part.get("name"), str)}
    log.write("info", "application started")
    log.write("info", "configuration loaded", **{**chosen, "system": system})
    for name, part in parts.items():
        log.write("debug", "configuration", part=name, values=part)
    if prompts is not None:
        folder = f"{prompts.folder.parent.name}/{prompts.folder.name}"  # MLflow gets the log: nothing of this machine
        log.write("info", "loading prompts", folder=folder)
        for agent, text in prompts.texts.items():
            path = f"{folder}/{name_prompt_file(agent)}"
            log.write("debug", "prompt loaded", agent=agent, path=path, characters=len(text))
        names = list(prompts.texts)
        log.write("info", "prompts loaded", prompts=prompts.name, agents=names, sha256=digest(prompts))
    tools = {agent: list(toolbox.tools) for agent, toolbox in program.toolboxes.items()}
    log.write("info", "program built", agents=[name for name, _ in program.named_predictors()], tools=tools)


def measure_peak_memory_mb() -> float:
    """Return the most memory that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)
