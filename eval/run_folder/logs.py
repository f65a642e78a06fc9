"""A run's two logs, as JSON lines (architecture document, section 7.3).

| File                          | Lines about                                                            |
|-------------------------------|------------------------------------------------------------------------|
| `logs/entry_point.log`        | the command: start, questions begun and ended, end                     |
| `logs/multi_agent_system.log` | the system under test: every step, retry and rejection                 |

Every line of a log has `timestamp` (UTC), `level`, `event`, `component` and `correlation_id`: the question's thread id,
or the name of the run's folder where a line is about no single question. The list of all correlation ids is made from
the store (`eval.reporting.files`).

    with RunLogs(folder, redact=[api_key]) as logs:
        logs.entry_point.info("run started", questions=66)
        trace = Trace(thread_id, listener=logs.listener(thread_id, task_id))
"""

import json
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog
from structlog.types import EventDict, FilteringBoundLogger

from eval.plain import plain
from eval.run_folder.log_file import LogFile
from mas.tracing.trace import Level, Listener

MAX_FIELD_CHARS = 500
_MAX_TRACEBACK_CHARS = 20_000
_ENTRY_POINT, _SYSTEM = "entry_point", "multi_agent_system"
_OWN_FIELDS = ("timestamp", "level", "event", "correlation_id", "task_id", "epoch", "attempt", "exc_info", "self")


def open_log(folder: Path, name: str, redact: Collection[str] = ()) -> tuple[FilteringBoundLogger, LogFile]:
    """A log of its own for another process that works on the run; the file is to be closed.

    Raises:
        OSError: the folder cannot be written.
    """
    (folder / "logs").mkdir(exist_ok=True)
    file = LogFile(folder / "logs" / f"{name}.log")
    return _logger(file, _Shorten(redact), name).bind(correlation_id=folder.name), file


class RunLogs:
    """Opened for appending, so that a resumed run goes on in the same files. Any thread may write."""

    def __init__(self, folder: Path, redact: Collection[str] = ()) -> None:
        """`redact`: secret values, written as `***` wherever they occur in a line.

        Raises:
            OSError: the folder cannot be written.
        """
        logs = folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        paths = logs / f"{_ENTRY_POINT}.log", logs / f"{_SYSTEM}.log"
        self._files = [LogFile(path) for path in paths]
        shorten = _Shorten(redact)
        self.entry_point = _logger(self._files[0], shorten, _ENTRY_POINT).bind(correlation_id=folder.name)
        self._system = _logger(self._files[1], shorten, _SYSTEM)

    def listener(self, thread_id: str, task_id: str, epoch: int = 1, attempt: int = 1) -> Listener:
        """What turns the trace of one question into lines of the system's log."""
        log = self._system.bind(correlation_id=thread_id, task_id=task_id, epoch=epoch, attempt=attempt)

        def listen(level: Level, event: str, fields: dict[str, Any]) -> None:
            log.log(_NUMBERS[level], event, **{_field_name(name): value for name, value in fields.items()})

        return listen

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_NUMBERS: dict[Level, int] = {"info": 20, "warning": 30, "error": 40}


def _field_name(name: str) -> str:
    """A system's own field must not replace one that every line has."""
    return f"{name}_" if name in _OWN_FIELDS else name


def _logger(file: Any, shorten: "_Shorten", component: str) -> FilteringBoundLogger:
    """Configured on its own: structlog's global configuration stays the application's."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            shorten,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_NUMBERS["info"]),
        context_class=dict,
        cache_logger_on_first_use=True,
    ).bind(component=component)
    return logger


_AS_THEY_ARE = (bool, int, type(None))


class _Shorten:
    """The structlog processor that makes each field JSON, without secrets, and short."""

    def __init__(self, redact: Collection[str]) -> None:
        self._secrets = sorted(filter(None, redact), key=len, reverse=True)  # a secret may contain a shorter one

    def __call__(self, logger: Any, method: str, event_dict: EventDict) -> EventDict:
        return {
            name: value if type(value) in _AS_THEY_ARE else self._field(name, value)
            for name, value in event_dict.items()
        }

    def _field(self, name: str, value: Any) -> Any:
        value = self._redacted(value if isinstance(value, str) else plain(value))
        if isinstance(value, str):
            return _cut(value, _MAX_TRACEBACK_CHARS if name == "exception" else MAX_FIELD_CHARS)
        if isinstance(value, dict | list) and len(text := json.dumps(value)) > MAX_FIELD_CHARS:
            return _cut(text, MAX_FIELD_CHARS)
        return value

    def _redacted(self, value: Any) -> Any:
        """Before anything is cut: half a secret would no longer be found."""
        if isinstance(value, dict):
            return {self._redacted(key): self._redacted(element) for key, element in value.items()}
        if isinstance(value, list):
            return [self._redacted(element) for element in value]
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, "***")
        return value


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
