"""The numbers of a run as typed fields; `summary.json` is their JSON.

    summary = read_summary(folder / "summary.json")
    summary.accuracy, summary.by_level["1"].n_error, summary.usage.cost_usd

Accuracy divides by every answer whose sample has a target, answers in error included; its interval is clustered by
sample. While answers are missing they count as wrong: the accuracy is then a floor, without an interval. Per (sample,
epoch) the last attempt counts; usage and the agents' seconds add up over all attempts, since all were paid for.
"""

import json
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from eval.analysis.attribution import CriticNumbers
from eval.analysis.statistics.intervals import Estimate, Interval
from eval.runs.record import NOT_RUN, Usage
from eval.runs.run_info import SessionInfo
from eval.scorers.score import ACCURACY

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from eval.analysis.summary import rare_numbers as rare

SUMMARY_VERSION = 5  # increased whenever a field changes its name or its meaning

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Answers of a run, or of one level."""

    n: int
    n_scored: int  # with a target
    n_correct: int
    n_wrong: int  # answered, and wrongly
    accuracy: float | None
    accuracy_ci95: Interval | None
    score: float | None = None  # mean value of the answers: the metric; where all are right or wrong, the accuracy
    score_ci95: Interval | None = None
    n_error: int
    n_not_run: int  # of the errors


@dataclass(frozen=True, kw_only=True)
class LostPoints:
    """Points of the metric that were lost at one link (`eval.analysis.attribution`)."""

    kind: str  # agent, tool, limit, format, error
    name: str
    points: Estimate  # 0 to 1: what the metric would gain if none had been lost there; `n`: answers that lost some

    @property
    def title(self) -> str:
        return name_link(self.kind, self.name)


def name_link(kind: str, name: str) -> str:
    """Return a link's name where links of all kinds are listed: an agent's alone, others with their kind."""
    if kind == "agent":
        return name
    return "not run" if name == NOT_RUN else f"{kind} {name}"


@dataclass(frozen=True, kw_only=True)
class Summary(Counts):
    """The numbers of a run; None for what it did not record."""

    run_id: str
    folder: str | None = None  # name
    system: str | None
    model: str | None
    data: str | None
    split: str | None
    prompts: str | None
    scorer: str | None
    simulated: bool
    notice: str | None
    no_measurement: str  # why the run measures no system (`eval/attribute.py`); empty: it does
    stopped: str | None = None  # why the run ended before all its samples did
    incomplete: bool  # True: the accuracies are floors, without intervals
    version: int = SUMMARY_VERSION
    wall_seconds: float  # of all sessions
    bad_rows: tuple[str, ...]  # of the dataset, that were skipped
    command: tuple[str, ...]  # overrides as typed
    sessions: tuple[SessionInfo, ...]
    unfinished: Usage | None  # of samples that were interrupted; outside `usage` until they have a record
    metric: str = ACCURACY  # name of what `score` is: see `eval.scorers.score`
    n_unscored: int
    n_questions: int
    epochs: int  # as planned
    by_level: dict[str, Counts]
    errors_by_class: dict[str, int]
    first_errors: dict[str, str]  # class → message of the first error of that class
    limits: dict[str, int]
    n_retried: int  # answers that were asked again after an error
    format_loss: int
    leaks: "rare.Leaks | None" = None  # None: no web result gives a sample away
    usage: Usage
    scorer_usage: Usage
    by_agent: dict[str, float]  # wall seconds
    calls_by_tool: dict[str, int]
    agents_without_calls: tuple[str, ...]  # that have tools and worked, if no tool was called in the whole run
    tool_errors: dict[str, int]  # of the calls
    first_tool_errors: dict[str, str]  # message of each tool's first failure
    waited_seconds: float  # of all samples
    peak_memory_mb: float | None  # of the process, the highest of all sessions; None: unknown
    by_epochs: "rare.EpochNumbers | None" = None  # None: one epoch, no target, or incomplete
    used_to_tune: "rare.TuningOverlap | None" = None  # None: no sample has a target, or it is unknown
    labels: "rare.LabelSummary | None" = None  # None: the targets are answers
    by_tag: dict[str, dict[str, Counts]] = field(default_factory=dict)  # tag → value → counts; tags with several values
    tags: tuple[str, ...] = ()  # that `data.tags` names
    extra_scorers: "dict[str, rare.ExtraNumbers]" = field(default_factory=dict)  # by name
    # Of the score, by name, over the answers that should have it, those in error too; empty: it has one or none.
    parts: dict[str, Estimate] = field(default_factory=dict)
    human_review: "rare.HumanReview | None" = None  # None: nobody has labelled an answer of the run
    attribution: tuple[LostPoints, ...] | None = None  # the most points first; None: not computed
    critics: dict[str, CriticNumbers] = field(default_factory=dict)  # by name

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def read_summary(path: Path) -> Summary:
    """Read `summary.json`; raise ValueError if it is none of this version, and OSError if it cannot be read."""
    data = json.loads(path.read_text("utf-8"))
    if not isinstance(data, dict) or data.get("version") != SUMMARY_VERSION:
        raise ValueError(f"{path} is not a summary of version {SUMMARY_VERSION}")
    return build_from_json(Summary, data)


def build_from_json(kind: type[T], data: object) -> T:
    """Build a dataclass, also with dataclasses in its fields, from JSON; unknown keys are left out.

    Raise ValueError if a field is missing, or has another type.
    """
    found: T = _make_adapter(kind).validate_python(data)  # type: ignore[arg-type]  # classes are hashable
    return found


@cache
def _make_adapter(kind: type) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # not for an evaluation, which reads no summary

    from eval.analysis.summary import rare_numbers as rare  # noqa: F401  pydantic finds the types of fields here

    return TypeAdapter(kind)
