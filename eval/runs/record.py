"""Record of one sample: the row that the store holds and from which everything else is made.

The second half is the form on the disk: rows of the database, and lines of `records.jsonl`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval.benchmarks.dataset import Sample
from eval.scorers.score import read_value
from mas.runtime.sample_context import SampleKey
from mas.runtime.text import to_jsonable


@dataclass(slots=True)
class Usage:
    """Cost of answering. `cost_usd` is None if the cost of any call is unknown."""

    lm_calls: int = 0  # requests: retries, replayed ones and those of interrupted sessions included
    retries: int = 0  # of which: requests sent again after a failure, those after an unreadable reply included
    misshapen_replies: int = 0  # of which: not in the form asked for, and could be read
    replayed_calls: int = 0  # of which: answered from the run's own call log; paid for before the run was interrupted
    tool_calls: int = 0  # those that were not made again included
    replayed_tool_calls: int = 0  # of which: answered by what this run's own tools had returned before
    input_tokens: int = 0
    cached_input_tokens: int = 0  # of which: read from the provider's own cache, at its lower price
    output_tokens: int = 0
    cost_usd: float | None = None
    known_cost_usd: float = 0.0  # of the calls whose cost is known
    unknown_cost_calls: int = 0  # those whose cost is not: there is no price, or they were cut off before the reply

    @property
    def at_least_usd(self) -> float:
        return self.known_cost_usd if self.cost_usd is None else self.cost_usd


@dataclass
class ErrorDetails:
    """Everything that explains an error besides its message."""

    type: str | None = None  # of the exception; None: there was none, such as at a deadline
    stack: str = ""  # see `mas.runtime.errors.format_stack`
    agent: str | None = None  # that was running
    step: str | None = None  # of the system's workflow
    retry_counts: dict[str, int] = field(default_factory=dict)  # agent → rejections of its work up to then


@dataclass
class ExtraScore:
    """Verdict of a scorer that does not decide."""

    value: float | None  # 0 to 1; None: it could not be scored, which counts as 0
    explanation: str = ""
    error: str | None = None  # why it could not be


@dataclass(frozen=True)
class HumanVerdict:
    """Label of a person on the question or on the answer: see `eval.analysis.human_review.labels`."""

    id: str
    label: str
    who: str
    when: str  # UTC, ISO 8601
    run: str  # in which the person saw the answer
    note: str = ""
    target: str | None = None  # the corrected one
    target_before: str | None = None
    score_before: float | None = None  # the scorer's verdict
    is_of_question: bool = False  # not of this answer


@dataclass(slots=True)
class Record:
    """One attempt at a sample: (run, sample, epoch, attempt). Records in error have no score and count as wrong."""

    run_id: str
    sample_id: str
    epoch: int  # from 1
    attempt: int  # from 1
    thread_id: str  # correlation id, also of the logs
    question: str
    file: str | None  # bare name
    level: str | None
    target: str | None  # None: unscored
    answer: str | None = None
    reasoning_trace: str = ""
    score: float | None = None  # None: unscored, or in error
    explanation: str = ""  # of the score
    parts: dict[str, float] = field(default_factory=dict)  # diagnostics in addition to the score
    extra_scores: dict[str, ExtraScore] = field(default_factory=dict)  # by name of the scorer; not of answers in error
    error: str | None = None  # one sentence
    error_class: str | None = None
    error_component: str | None = None  # agent, tool or part of the harness that failed
    error_details: ErrorDetails | None = None
    limit: str | None = None  # the limit that ended the question
    usage: Usage = field(default_factory=Usage)
    scorer_usage: Usage = field(default_factory=Usage)  # what judging cost; never part of `usage`
    started_at: str = ""  # UTC, ISO 8601
    wall_seconds: float = 0.0
    waited_seconds: float = 0.0  # of which: for a rate limit, a free slot or a retry; the rest is working time
    seconds_by_agent: dict[str, float] = field(default_factory=dict)
    calls_by_tool: dict[str, int] = field(default_factory=dict)
    tool_errors: dict[str, int] = field(default_factory=dict)  # of which: tool → how many failed
    first_tool_errors: dict[str, str] = field(default_factory=dict)  # tool → message of its first failure
    leaks: list[dict[str, str]] = field(default_factory=list)  # web results that leak the answer: tool, source
    human: list[HumanVerdict] = field(default_factory=list)  # labels of people; stored by rescoring only
    variant: str = ""  # of a tuning run: SHA-256 of the prompts that gave the answer
    state: dict[str, Any] = field(default_factory=dict)  # the system's final state
    trajectory: list[dict[str, Any]] = field(default_factory=list)  # mas.runtime.trace.Span, as dictionaries

    @property
    def value(self) -> float:
        """Share of a point that the answer adds to the metric, 0 to 1; in error it is 0."""
        return read_value(self.score)

    @property
    def key(self) -> SampleKey:
        return SampleKey(self.sample_id, self.epoch, self.attempt, self.variant)

    @property
    def correct(self) -> bool:
        return self.value == 1.0

    @property
    def scored(self) -> bool:
        """True if the sample has a target and so counts in the accuracy, in error or not."""
        return self.target is not None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Record":
        """Build a record from its stored form; fields that only an earlier version had are left out."""
        usages = {key: Usage(**data.get(key, {})) for key in ("usage", "scorer_usage")}
        details = data.get("error_details")
        extra = {name: ExtraScore(**each) for name, each in (data.get("extra_scores") or {}).items()}
        human = [HumanVerdict(**each) for each in data.get("human") or ()]
        parts = {"extra_scores": extra, "error_details": details and ErrorDetails(**details), "human": human}
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        return cls(**{**known, **usages, **parts})


NOT_RUN = "not_run"  # error class


@dataclass(frozen=True)
class PlannedQuestion:
    """Sample of a run's plan, without its attachment: the file stays with the dataset."""

    id: str
    question: str
    file: str | None = None  # bare name
    target: str | None = None  # None: unscored
    level: str | None = None
    tags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, sample: Sample) -> "PlannedQuestion":
        name = sample.file.name if sample.file else None
        return cls(sample.id, sample.question, name, sample.target, sample.level, dict(sample.tags))


def build_blank_record(run_id: str, sample: Sample | PlannedQuestion, sample_key: SampleKey, thread_id: str) -> Record:
    """Return the record of a sample before anything is known of its answer."""
    return Record(
        run_id=run_id,
        sample_id=sample.id,
        epoch=sample_key.epoch,
        attempt=sample_key.attempt,
        thread_id=thread_id,
        question=sample.question,
        file=Path(sample.file).name if sample.file else None,
        level=sample.level,
        target=sample.target,
        started_at=datetime.now(UTC).isoformat(),
        variant=sample_key.variant,
    )


def build_missing_record(run_id: str, planned: PlannedQuestion, epoch: int) -> Record:
    """Return the record, in error, that a sample counts as if the run stopped before it; it is never stored."""
    record = build_blank_record(run_id, planned, SampleKey(planned.id, epoch), thread_id="")
    record.error = "the run stopped before this question was answered"
    record.error_class, record.error_component = NOT_RUN, "run"
    return record


PAID = (  # fields of `Usage` that a request is charged for
    *("lm_calls", "input_tokens", "cached_input_tokens", "output_tokens"),
    *("known_cost_usd", "unknown_cost_calls"),
)
_DETAILS = ("state", "trajectory")  # the last fields of a record
Row = tuple[Any, ...]  # of the store: columns in the order of its table


def _json(value: dict[str, object]) -> str:
    """Return JSON; most states are plain already, and `to_jsonable` takes longer than all the rest of a write."""
    try:
        return json.dumps(value, default=to_jsonable, allow_nan=False)
    except (ValueError, TypeError, RecursionError):  # not a number, a key that is no text, a loop
        return json.dumps(to_jsonable(value))


def join_line(data: str, details: str) -> str:
    """Return the whole record as one line of JSON; nothing is parsed for it."""
    return f"{data[:-1]}, {details[1:]}"


def build_row(record: Record, number: int, finished_at: str) -> tuple[Row, str]:
    """Return a record as its row in `records`, and the whole of it as one line of JSON, of plain ASCII."""
    values = {name: getattr(record, name) for name in Record.__slots__}
    data = _json({key: value for key, value in values.items() if key not in _DETAILS})
    details = _json({key: values[key] for key in _DETAILS})
    cost_usd = float(record.usage.at_least_usd + record.scorer_usage.at_least_usd)
    error_class = record.error_class or (None if record.error is None else "unknown")
    sample = (record.variant, escape(record.sample_id), record.epoch, record.attempt, escape(record.thread_id))
    return (number, *sample, error_class, cost_usd, finished_at, data, details), join_line(data, details)


def name_sample(key: SampleKey) -> str:
    """Return the name of an attempt at a sample in the tables of calls."""
    own = [key.variant] if key.variant else []
    return json.dumps([key.sample_id, key.epoch, key.attempt, *own])


def escape(text: str) -> str:
    """Escape a text for a column: SQLite refuses lone surrogates, and its own functions stop at a NUL."""
    return json.dumps(text)[1:-1]


def unescape(text: str) -> str:
    return str(json.loads(f'"{text}"'))
