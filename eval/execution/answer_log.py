"""Log lines of a session: what it is made of, when each answer begins and ends, and the memory that it takes.

log_parts(logs.entry_point, info.config, prompts, program)
answers = AnswerLog(logs, stop_for_logs)
listen = answers.begin(thread_id, sample_key)      # of the sample's trace
answers.finish(record)
"""

import resource
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from structlog.types import FilteringBoundLogger

from eval.runs.logs import RunLogs
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.sample_context import SampleKey
from mas.runtime.trace import Level, Listener
from mas.system import Program

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class AnswerLog:
    """Lines of a session's answers. A log that cannot be written ends the session, never a sample."""

    logs: RunLogs
    stop: Callable[[OSError], None]

    def note(self, event: str, **fields: object) -> None:
        """Log an event of the session."""
        try:
            self.logs.entry_point.info(event, **fields)
        except OSError as error:
            self.stop(error)

    def begin(self, thread_id: str, sample_key: SampleKey, **labels: str) -> Listener:
        """Log the beginning of an answer; return the listener of its trace, whose lines have the labels as well."""
        names = _name_sample(sample_key.sample_id, sample_key.epoch, sample_key.attempt)
        try:
            self.logs.entry_point.info("question started", correlation_id=thread_id, **names, **labels)
            listen = self.logs.listener(thread_id, {**names, **labels})
        except OSError as error:
            self.stop(error)
            return lambda level, event, fields: None

        def listen_safely(level: Level, event: str, fields: dict[str, Any]) -> None:
            try:
                listen(level, event, fields)
            except OSError as error:
                self.stop(error)

        return listen_safely

    def finish(self, record: Record, **labels: str) -> None:
        """Log the end of an answer, with everything that explains an error."""
        failure: dict[str, object] = {}
        if record.error is not None:
            details = asdict(record.error_details) if record.error_details else {}
            failure = {f"error_{name}" if name == "type" else name: value for name, value in details.items() if value}
            failure |= {"error_class": record.error_class, "error_component": record.error_component}
        entry_point = self.logs.entry_point
        try:
            (entry_point.error if failure else entry_point.info)(
                "question finished",
                correlation_id=record.thread_id,
                **_name_sample(record.sample_id, record.epoch, record.attempt),
                **labels,
                seconds=round(record.wall_seconds, 3),
                memory_mb=measure_memory_mb(),
                error=record.error,
                **failure,
            )
        except OSError as error:
            self.stop(error)


def _name_sample(sample_id: str, epoch: int, attempt: int) -> dict[str, str | int]:
    return {"task_id": sample_id, "epoch": epoch, "attempt": attempt}


def log_parts(
    log: FilteringBoundLogger, config: Mapping[str, Any], prompts: PromptSet | None, program: Program
) -> None:
    """Log what a session is made of.

    Args:
        log: of the entry point.
        config: resolved, without secrets; each part is a line of the level `debug`.
        prompts: that the program has; None: none of ours.
        program: as built.
    """
    parts = {name: value for name, value in config.items() if isinstance(value, Mapping)}
    chosen = {name: part["name"] for name, part in parts.items() if isinstance(part.get("name"), str)}
    log.info("configuration loaded", **chosen)
    for name, part in parts.items():
        log.debug("configuration", part=name, values=part)
    if prompts is not None:
        log.info("prompts loaded", prompts=prompts.name, agents=list(prompts.texts), sha256=digest(prompts))
        for agent, text in prompts.texts.items():
            log.debug("prompt loaded", agent=agent, characters=len(text))
    tools = {agent: list(toolbox.tools) for agent, toolbox in program.toolboxes.items()}
    log.info("program built", agents=[name for name, _ in program.named_predictors()], tools=tools)


def measure_memory_mb() -> float:
    """Return the memory of this process now; where the system does not say it, the most that it has had."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        return measure_peak_memory_mb()
    return round(pages * resource.getpagesize() / 2**20, 1)


def measure_peak_memory_mb() -> float:
    """Return the most memory that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)
