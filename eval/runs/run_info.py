"""Everything known of a run before its first sample, and what its sessions add: typed, versioned, one JSON value each.

Reports, comparisons, resuming and MLflow read these fields and nothing else of a run but its records. A tuning run is
described in the same way; what its phases have found is in the store as well (`RunStore.read_result`).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import yaml

from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_dataset_digest, compute_file_digest, compute_fingerprint
from eval.cli.command import read_option_name
from eval.config.measured import MAX_EPOCHS, OF_THE_SESSION
from eval.runs.record import PlannedQuestion
from mas.prompt_sets.prompt_set import PromptSet
from mas.prompt_sets.provenance import TUNED_ON_FILE, TunedOn
from mas.runtime.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

VERSION = 10  # of RunInfo and RunState
SILENT = "its process ended without notice"
NO_MEASUREMENT = "no measurement"  # in place of a score that says nothing about a system
CONTROL = "control"  # arm of a proof in which nobody is given the right answers
Config = dict[str, Any]  # nested plain values, as YAML and JSON have them


@dataclass(frozen=True)
class TaskInfo:
    """Digests of the questions and of the scorer: two runs with the same ones had the same task."""

    dataset_sha256: str = ""
    task_version: str = ""  # over questions, attachments and scorer
    file_sha256: dict[str, str] = field(default_factory=dict)  # sample id → SHA-256 of its attachment
    labels: list[str] = field(default_factory=list)  # that the targets are (`eval.scorers.labels`); empty: answers


@dataclass(frozen=True)
class SweepJob:
    id: str
    job: int  # from 0
    differs: list[str]  # overrides that other jobs have otherwise


@dataclass(frozen=True)
class TuningUse:
    """Ids of the run's samples that its prompts were tuned on."""

    prompts: str  # name of the set
    learnt_from: list[str]
    picked_by: list[str]
    is_edited: bool = False  # the set's list of tuning questions was edited or removed

    @property
    def ids(self) -> set[str]:
        return {*self.learnt_from, *self.picked_by}


@dataclass(frozen=True)
class TuningTask:
    """What a tuning run does, in addition to what is known of every run; its prompts are those that it starts from."""

    name: str  # of the set that it is to publish; a later session may change it
    optimizer: str
    reflection_model: str
    seed: int  # of the search
    split_digest: str
    sealed_digest: str
    scorer_sha256: str  # the scorer's source
    parent_gated: bool  # its prompts had passed the gate of an earlier run, and were unchanged


@dataclass(frozen=True)
class RunInfo:
    """Everything known of a run before its first sample. An empty field is unknown; a run without id never began."""

    version: int = VERSION
    run_id: str = ""
    started_at: str = ""  # of the first session: UTC, ISO 8601
    system: str = ""
    model: str = ""  # "none": the system calls no model of ours
    simulated: bool = False  # whether any model is, the judge included
    epochs: int = 1
    config: Config = field(default_factory=dict)  # resolved, without secrets
    command: list[str] | None = None  # the overrides as typed, without secrets; None: the run cannot be resumed
    task: TaskInfo = field(default_factory=TaskInfo)
    bad_rows: list[str] = field(default_factory=list)  # rows of the dataset that were skipped
    prompts_name: str | None = None  # of the set
    prompts_sha256: str = ""
    prompts_edited: list[str] = field(default_factory=list)  # files of the set that changed since it was published
    tuning_use: TuningUse | None = None  # None: nothing is known of it
    tools: dict[str, list[str]] | None = None  # agent → names of the tools it was offered
    critics: list[str] | None = None  # agents that review others' work; None: unknown
    origin: dict[str, str] = field(default_factory=dict)  # see `eval.runs.folder.read_origin`
    program_sha256: str = ""  # the program's source (`mas.agents.source_digest`); empty: it is elsewhere
    sweep: SweepJob | None = None
    rescored_from: str = ""  # name of the run whose answers these are
    gold_informed: str = ""  # agent that was given the right answers, or "control" (`eval/attribute.py`)
    tuning: TuningTask | None = None  # None: it is an evaluation

    def describe_gold(self) -> str:
        """Return why the run measures no system, for one that `eval/attribute.py` made; empty for any other."""
        if not self.gold_informed:
            return ""
        is_control = self.gold_informed == CONTROL
        part = "is the control of a proof" if is_control else f"gave {self.gold_informed} the right answers"
        return f"it {part}, on questions that an earlier run got wrong (eval/attribute.py), and measures no system"

    @property
    def has_begun(self) -> bool:
        return bool(self.run_id)

    def part(self, name: str) -> Config:
        """Return a part of the configuration such as `system`; empty if it is unknown or null."""
        found = self.config.get(name)
        return found if isinstance(found, dict) else {}

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        data = parse_versioned(text, cls)
        kinds = (("task", TaskInfo), ("sweep", SweepJob), ("tuning_use", TuningUse), ("tuning", TuningTask))
        for name, kind in kinds:
            data[name] = None if data[name] is None else kind(**data[name])
        labels = data["task"].labels if data["task"] else []
        if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels):
            raise ValueError(f"{cls.__name__} whose labels are no texts")
        if not 1 <= data["epochs"] <= MAX_EPOCHS:
            raise ValueError(f"{cls.__name__} with {data['epochs']} epochs, 1 to {MAX_EPOCHS:,} are possible")
        return cls(**data)


@dataclass(frozen=True)
class SessionInfo:
    started_at: str  # UTC, ISO 8601, as is `ended_at`
    ended_at: str | None = None  # None: it is still running, or was killed
    stopped: str | None = None  # why it ended early
    changes: dict[str, str] = field(default_factory=dict)  # option → "old → new", with run.allow_config_change
    peak_memory_mb: float | None = None  # of the process; None: it was killed


@dataclass(frozen=True)
class RunState:
    """The course of a run so far, session by session."""

    version: int = VERSION
    sessions: list[SessionInfo] = field(default_factory=list)
    wall_seconds: float = 0.0  # of all sessions that ended
    finished: bool | None = None  # None: no session began
    unfinished: dict[str, Any] | None = None  # usage that was paid for samples without a record
    phase: str = ""  # of a tuning run, as is the next
    spend: dict[str, float] = field(default_factory=dict)  # `eval.execution.budget.Spend`, of all sessions

    @property
    def last_session(self) -> SessionInfo:
        """The newest session; one that never started if there is none."""
        return self.sessions[-1] if self.sessions else SessionInfo("")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        data = parse_versioned(text, cls)
        return cls(**{**data, "sessions": [SessionInfo(**each) for each in data["sessions"]]})


def parse_versioned(text: str, kind: "type[DataclassInstance]") -> Config:
    """Return the fields of a JSON object that holds a `kind` of this version; ValueError: it is no such object."""
    data: Any = json.loads(text)
    version = data.get("version") if isinstance(data, dict) else None
    if version != VERSION or data.keys() != {each.name for each in fields(kind)}:
        raise ValueError(f"{kind.__name__} of version {version}, this program reads version {VERSION}")
    return dict(data)


def select_run_overrides(overrides: Iterable[str]) -> list[str]:
    """Return the part of a command line that a later session of the run takes over."""
    return [each for each in overrides if read_option_name(each) not in OF_THE_SESSION]


def dump_config(config: Mapping[str, object]) -> str:
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)


def describe_task(samples: Iterable[Sample], scorer: object, labels: Sequence[str] = ()) -> TaskInfo:
    """Return the digests of a task: all samples, and the scorer's configuration as the run's own has it."""
    kept = list(samples)
    try:
        files = {each.id: sha256 for each in kept if (sha256 := compute_file_digest(each)) is not None}
    except OSError as error:
        raise UserError(f"an attachment cannot be read ({error}); check the files of the dataset.") from error
    questions = digest_questions(map(PlannedQuestion.of, kept), files)
    return TaskInfo(compute_dataset_digest(kept), digest_task(questions, scorer), files, list(labels))


def digest_questions(questions: Iterable[PlannedQuestion], files: Mapping[str, str]) -> str:
    """Return one digest over id, text, target and attachment of each question, in any order."""
    lines = (json.dumps([each.id, each.question, each.target, files.get(each.id)]) for each in questions)
    return hashlib.sha256("\n".join(sorted(lines)).encode("ascii")).hexdigest()  # JSON escapes lone surrogates


def digest_task(questions: str, scorer: object) -> str:
    """Return the version of a task; `questions` is their digest."""
    return hashlib.sha256(json.dumps([questions, scorer], sort_keys=True, default=str).encode("ascii")).hexdigest()


def find_tuning_use(
    prompts: PromptSet | None, questions: Iterable[PlannedQuestion], files: Mapping[str, str]
) -> TuningUse | None:
    """Return which questions of a run its prompts were tuned on; None if nothing is known of the prompts."""
    if prompts is None or (prompts.tuned_on is None and TUNED_ON_FILE not in prompts.edited):
        return None
    tuned_on = prompts.tuned_on or TunedOn(frozenset(), frozenset())
    marks = {each.id: compute_fingerprint(each.question, files.get(each.id)) for each in questions}
    learnt_from = [id for id, mark in marks.items() if mark in tuned_on.learnt_from]
    picked_by = [id for id, mark in marks.items() if mark in tuned_on.picked_by - tuned_on.learnt_from]
    return TuningUse(prompts.name, learnt_from, picked_by, is_edited=TUNED_ON_FILE in prompts.edited)
