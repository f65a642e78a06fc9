"""Logs of a run: JSON lines in `logs/`.

with RunLogs(folder, config.secrets(), config.log) as logs:
    logs.entry_point.info("run started", questions=66)
    answers = AnswerLog(logs, stop.stop_now)
    listen = answers.begin(thread_id, sample_key)      # of the sample's trace
    answers.finish(record)
"""

import json
import os
import resource
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Protocol, Self

from eval.config.evaluation import LogSettings
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet, digest, name_prompt_file
from mas.runtime.sample_context import SampleKey
from mas.runtime.security.redaction import build_redactor, redact_value, sort_secrets
from mas.runtime.stack_trace import format_stack
from mas.runtime.terminal import print_line
from mas.runtime.text import to_jsonable
from mas.runtime.trace import Level, Listener
from mas.system import Program

DIGEST_CHARS = 12  # of the prompts of a trial, in its lines


class LogSink(Protocol):
    def write(self, text: str) -> None: ...

    def close(self) -> None: ...


class LogFile:
    """File opened for appending. Any thread may write, and any process: each call appends whole lines."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if (size := os.fstat(self._descriptor).st_size) and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # ends the line that a kill cut off
        self._lock = threading.Lock()
        self._is_closed = False

    def write(self, text: str) -> None:
        """Add lines; nothing once the file is closed, since a cancelled answer may end a little later."""
        rest = text.encode()
        with self._lock:
            while rest and not self._is_closed:
                rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._descriptor)


MAX_FIELD_CHARS = 500
_MAX_STACK_CHARS = 20_000
_STACKS = ("exception", "stack")  # fields that may be longer than the others
_ENTRY_POINT, _SYSTEM = "entry_point", "multi_agent_system"
_OWN_FIELDS = ("timestamp", "level", "event", "message", "run_id", "correlation_id", "task_id", "epoch", "attempt")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40}
_AS_THEY_ARE = (bool, int, type(None))


class Log:
    """One log: a line for each event, without secrets, its fields cut. Any thread may write."""

    def __init__(
        self, sink: LogSink, component: str, run_id: str, secrets: Collection[str], settings: LogSettings
    ) -> None:
        self.sink, self._shows = sink, settings.terminal
        self._fields = {"component": component, "run_id": run_id, "correlation_id": run_id}
        self._redact = build_redactor(tuple(sort_secrets([*secrets])))
        self._least = _LEVELS[settings.level.lower()]

    def debug(self, event: str, **fields: object) -> None:
        self.write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self.write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self.write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self.write("error", event, fields)

    def write(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        """Add a line; an exception among the fields is written as its stack."""
        if _LEVELS[level] < self._least:
            return
        now = datetime.now(UTC)
        line: dict[str, object] = {**self._fields, **fields, "event": event}
        line["timestamp"] = f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}"
        line["level"] = "WARN" if level == "warning" else level.upper()
        line.setdefault("message", describe_line(line))
        line = {name: self._shorten(name, value) for name, value in line.items()}
        if self._shows:
            shown = " ".join(f"{name}={value!r}" for name, value in line.items() if name not in _OWN_FIELDS[:3])
            print_line(f"{line['timestamp']} [{line['level']}] {event} {shown}", error=True)
        self.sink.write(f"{json.dumps(line)}\n")

    def close(self) -> None:
        self.sink.close()

    def _shorten(self, name: str, value: object) -> object:
        """Replace secrets, then cut: half a secret would no longer be found."""
        if type(value) in _AS_THEY_ARE:
            return value
        if isinstance(value, BaseException):
            value = format_stack(value)
        if isinstance(value, str):
            return _cut(self._redact(value), _MAX_STACK_CHARS if name in _STACKS else MAX_FIELD_CHARS)
        value = redact_value(to_jsonable(value), self._redact)
        text = self._redact(json.dumps(value))  # names and numbers too; without a number it may be no JSON
        with suppress(ValueError):
            return json.loads(text) if len(text) <= MAX_FIELD_CHARS else _cut(text, MAX_FIELD_CHARS)
        return text


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def open_log(folder: Path, name: str, secrets: Collection[str] = ()) -> Log:
    """Return a log for another process that works on the run; it is to be closed."""
    (folder / "logs").mkdir(exist_ok=True)
    return Log(LogFile(folder / "logs" / f"{name}.log"), name, folder.name, secrets, LogSettings())


class RunLogs:
    """Logs of one run, opened for appending: a resumed run continues in the same files. Any thread may write."""

    def __init__(
        self,
        folder: Path,
        secrets: Collection[str] = (),
        settings: LogSettings | None = None,
        open_sink: Callable[[Path], LogSink] = LogFile,
    ) -> None:
        """Open the files of the run's folder; `secrets` are written as `***` wherever they occur in a line."""
        logs = folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = {
            name: Log(open_sink(logs / f"{name}.log"), name, folder.name, secrets, settings or LogSettings())
            for name in (_ENTRY_POINT, _SYSTEM)
        }
        self.entry_point = self._logs[_ENTRY_POINT]

    def listener(self, thread_id: str, labels: Mapping[str, str | int]) -> Listener:
        """Return a listener that writes the trace of one sample to the system's log, each line with the labels."""
        log, own = self._logs[_SYSTEM], {"correlation_id": thread_id, **labels}

        def listen(level: Level, event: str, fields: Mapping[str, object]) -> None:
            # A field of the system must not replace one that every line has.
            named = {f"{name}_" if name in _OWN_FIELDS else name: value for name, value in fields.items()}
            log.write(level, event, {**own, **named})

        return listen

    def write(self, name: str, text: str) -> None:
        """Add lines that a worker has made to one of the logs."""
        self._logs[name].sink.write(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            self.entry_point.error("application failed", error=str(error), exception=error)
        for log in self._logs.values():
            log.close()


@dataclass(frozen=True)
class AnswerLog:
    """Lines of a session's answers. A log that cannot be written ends the session, never a sample."""

    logs: RunLogs
    stop: Callable[[str], None]

    @contextmanager
    def _stop_at_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.stop(f"the run's logs cannot be written ({error}): check that the disk has room")

    def note(self, event: str, **fields: object) -> None:
        with self._stop_at_error():
            self.logs.entry_point.info(event, **fields)

    def write(self, name: str, text: str) -> None:
        with self._stop_at_error():
            self.logs.write(name, text)

    def begin(self, thread_id: str, sample_key: SampleKey, **labels: str) -> Listener:
        """Log the beginning of an answer; return the listener of its trace, whose lines have the labels as well."""
        names = _name_sample(sample_key.sample_id, sample_key.epoch, sample_key.attempt)
        self.note("question started", correlation_id=thread_id, **names, **labels)
        listen = self.logs.listener(thread_id, {**names, **labels})

        def listen_safely(level: Level, event: str, fields: dict[str, Any]) -> None:
            with self._stop_at_error():
                listen(level, event, fields)

        return listen_safely

    def finish(self, record: Record, **labels: str) -> None:
        """Log the end of an answer, with everything that explains an error."""
        names = _name_sample(record.sample_id, record.epoch, record.attempt)
        fields: dict[str, object] = {"correlation_id": record.thread_id, **names, **labels}
        fields |= {"seconds": round(record.wall_seconds, 3), "error": record.error}
        if record.error is not None:
            details = asdict(record.error_details) if record.error_details else {}
            fields |= {f"error_{name}" if name == "type" else name: value for name, value in details.items() if value}
            fields |= {"error_class": record.error_class, "error_component": record.error_component}
        with self._stop_at_error():
            self.logs.entry_point.write("info" if record.error is None else "error", "question finished", fields)


def _name_sample(sample_id: str, epoch: int, attempt: int) -> dict[str, str | int]:
    return {"task_id": sample_id, "epoch": epoch, "attempt": attempt}


def log_parts(log: Log, system: str, config: Mapping[str, Any], prompts: PromptSet | None, program: Program) -> None:
    """Log what a session is made of; its configuration has no secrets."""
    parts = {name: value for name, value in config.items() if isinstance(value, Mapping)}
    chosen = {name: part["name"] for name, part in parts.items() if isinstance(part.get("name"), str)}
    log.info("application started")
    log.info("configuration loaded", **{**chosen, "system": system}, agents=len(list(program.named_predictors())))
    for name, part in parts.items():
        log.debug("configuration", part=name, values=part)
    if prompts is not None:
        folder = f"{prompts.folder.parent.name}/{prompts.folder.name}"  # MLflow gets the log: nothing of this machine
        log.info("loading prompts", folder=folder)
        for agent, text in prompts.texts.items():
            log.debug("prompt loaded", agent=agent, path=f"{folder}/{name_prompt_file(agent)}", characters=len(text))
        names = list(prompts.texts)
        log.info("prompts loaded", prompts=prompts.name, number=len(names), agents=names, sha256=digest(prompts))
    tools = {agent: list(toolbox.tools) for agent, toolbox in program.toolboxes.items()}
    log.info("program built", agents=[name for name, _ in program.named_predictors()], tools=tools)


def measure_peak_memory_mb() -> float:
    """Return the most memory that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


_EVENTS = {  # event of a line → its message, with fields of the line in braces; {Agent}: the agent's name as a title
    "input interface started": "Input interface starting execution",
    "input interface completed": "Input interface completed successfully",
    "orchestrator started": "Orchestrator starting execution. Current step: {step}",
    "orchestrator finished": "Orchestrator completed successfully. Next step: {step}",
    "agent started": "{Agent} starting execution",
    "agent finished": "{Agent} completed successfully",
    "agent ended in failure": "{Agent} failed",
    "message": "Agent message stored successfully",
    "tool calls": "{Agent} tool calls: {calls}",
    "approved": "{Agent} approved.",
    "rejected": "{Agent} rejected. Retry count: {retry_count}",
    "retries exhausted": "Graceful Failure: Retry limit exceeded for {agent}",
    "application started": "Application started",
    "configuration loaded": "Created {agents} agent configurations",
    "loading prompts": "Loading prompts from directory: {folder}",
    "prompt loaded": "Successfully loaded prompt from: {path}",
    "prompts loaded": "Successfully loaded {number} prompts",
    "program built": "Graph created successfully!",
    "run started": "Starting to process {questions} questions",
    "question started": "Processing question: {task_id}",
    "question finished": "Completed question: {task_id}",
    "files written": "Successfully wrote {answers} items to: {path}",
    "run ended": "Application finished successfully",
    "application failed": "Application failed: {error}",
}
_TOOLS = {  # tool → messages of its beginning and its end, with its arguments in braces
    "youtube_transcript_tool": (
        "YouTube transcript tool processing URL: {url}",
        "YouTube transcript tool completed successfully",
    ),
    "wikipedia_tool": ("Wikipedia tool searching for: {query}", ""),
    "tavily_tool": ("Tavily tool searching for: {query}", ""),
    "unit_converter": ("Unit converter converting {quantity} to {to_unit}", "Unit converter result: {observation}"),
    "calculator": ("Calculator evaluating expression: {expression}", "Calculator result: {observation}"),
    "python_repl_tool": ("Executing the following python code: {code}", ""),
}
_FILE_KINDS = {".xlsx": "Excel", ".xls": "Excel", ".pptx": "PowerPoint", ".ppt": "PowerPoint", ".pdf": "PDF"}
_FILE_KINDS |= dict.fromkeys((".txt", ".csv", ".tsv", ".json", ".jsonl", ".md", ".py", ".xml", ".html"), "text")
_NO_TRANSCRIPT = "No transcript found"


def describe_line(line: Mapping[str, object]) -> str:
    """Return the message of a line for people: that of the design, else its event.

    describe_line({"event": "agent started", "component": "planner"})       # "Planner starting execution"
    """
    event, component = str(line.get("event") or ""), str(line.get("component") or "")
    arguments, agent = line.get("arguments"), str(line.get("agent") or component)
    fields: defaultdict[str, object] = defaultdict(str, line)  # what a line lacks is left out of its message
    if event in ("tool started", "tool finished", "tool failed"):
        if _NO_TRANSCRIPT in str(line.get("error")):
            return "No transcript found for YouTube video"
        fields |= arguments if isinstance(arguments, Mapping) else {}
        if component == "read_file" and event == "tool started":
            kind = _FILE_KINDS.get(PurePath(str(fields["file"])).suffix.lower())
            return f"Loading {f'{kind} ' if kind else ''}file: {fields['file']}"
        started, finished = _TOOLS.get(component, ("", ""))
        template = {"tool started": started, "tool finished": finished}.get(event, "")
        return template.format_map(fields) or event
    if component.startswith("critic") and event in ("agent started", "agent finished"):
        is_end = event == "agent finished"
        return "Critic completed successfully" if is_end else f"Critic starting execution - {component}"
    if event == "agent finished" and line.get("status") == "failed":
        event = "agent ended in failure"
    fields["Agent"], fields["step"] = agent.replace("_", " ").capitalize(), line.get("step") or "input"
    return _EVENTS[event].format_map(fields) if event in _EVENTS else event  # which may have braces
