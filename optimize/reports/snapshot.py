"""A tuning run as its folder has it at one moment: the source of its page and of what goes to MLflow, without secrets.

    tuning = read_tuning(outputs / "optimize" / "2026-11-21_10-00-00_tuned", redact=config.redact)
    tuning.verdict["published"], len(tuning.proposals)     # False, 43
    tuning.read_prompts("c004").texts["planner"]                # "You are …"

What a phase has not written yet is empty; a half-written last line of `proposals.jsonl` is ignored.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from eval.cli.paths import PROJECT_ROOT
from eval.mlflow_export.tracked_run import to_ms
from eval.runs.folder import REPORT
from eval.runs.own_runs import is_own_run
from eval.runs.run_info import TUNING_FILE, TuningInfo, read_tuning_info
from mas.prompt_sets.prompt_set import SET_FILE, PromptSet, read_set_folder
from mas.runtime.errors import UserError
from optimize.search.candidate import PARENT

CONFIG, VERDICT = "config.yaml", "verdict.json"
PROPOSALS, SHORTLIST, FLIPS = "proposals.jsonl", "shortlist.json", "flips"
SOURCES = (TUNING_FILE, VERDICT, PROPOSALS, SHORTLIST, "splits.json", "leaks.json", "report.md", REPORT)
DECIDED = ("accepted", "rejected")  # decisions that stay, also when the search is replayed

Redact = Callable[[str], str]

Json = Any  # what json.loads returns
JsonObject = dict[str, Any]
Tree = TypeVar("Tree")


class AnswerLine(TypedDict, total=False):
    """An answer of the sealed test, as flips.json has it."""

    value: float
    text: str
    error_class: str | None
    format_lost: bool


class FlipLine(TypedDict):
    """A sealed question on which one side was better."""

    id: str
    level: str | None
    question: str
    target: str
    difference: float
    first: list[AnswerLine | None]  # of the parent, by epoch
    second: list[AnswerLine | None]  # of the winner


class BaselineLine(TypedDict, total=False):
    """The parent on the validation questions, with the means of one answer."""

    val_score: float
    ci95: list[float] | None
    n_questions: int
    lm_calls: float
    cost_usd: float | None


class RewriteLine(TypedDict, total=False):
    """A rewrite of the starting prompts that the headroom preflight tried."""

    name: str
    gain: float
    p: float


class HeadroomLine(TypedDict, total=False):
    """The headroom preflight's result."""

    worth_it: bool
    n_questions: int
    n_answers: int
    parent_score: float
    rewrites: list[RewriteLine]
    smallest_gain: float | None
    reflection_failed: bool


class SplitIds(TypedDict, total=False):
    """Ids of the questions of each split."""

    train: list[str]
    val: list[str]
    sealed: list[str]


@dataclass(frozen=True)
class ProposalRow:
    """A line of `proposals.jsonl`: a candidate and its fate in the search (`optimize.search.candidate.Proposal`)."""

    candidate_id: str
    decision: str  # accepted, rejected or cut_off
    parent_ids: Sequence[str] = ()
    agents: Sequence[str] = ()
    origin: str = ""
    reason: str = ""
    iteration: int | None = None
    minibatch_before: float | None = None
    minibatch_after: float | None = None
    val_score: float | None = None
    spend: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class TuningSnapshot:
    """A tuning run's files, as they were read."""

    folder: Path
    info: TuningInfo
    proposals: list[ProposalRow]  # in their order, each candidate once
    verdict: JsonObject  # empty: there is none yet
    shortlist: dict[str, JsonObject]  # candidate → its fresh scores; PARENT may be among them
    redact: Redact

    @property
    def run_id(self) -> str:
        return self.info.run_id

    @property
    def simulated(self) -> bool:
        return self.info.simulated

    @property
    def published(self) -> bool:
        return self.verdict.get("published") is True

    @property
    def is_final(self) -> bool:
        """True if no later session can change the verdict: only then may a page show the sealed questions' targets."""
        return bool(self.verdict) and not self.verdict.get("resumable")

    @property
    def is_own(self) -> bool:
        """True if the run was made on this machine, and its folder was not moved since."""
        return is_own_run(self.run_id, self.folder)

    @property
    def sealed_opened(self) -> bool:
        """True if any candidate was tested on sealed questions, even on a part of them."""
        opened = self.info.state.sealed_opened_at is not None
        return bool(self.verdict.get("sealed")) or (self.folder / "sealed").is_dir() or opened

    @property
    def opened_ms(self) -> int | None:
        """Time at which they were opened, or else the run's start, in ms since 1970; None: they were not opened."""
        if not self.sealed_opened:
            return None
        opened_at = self.info.state.sealed_opened_at
        return to_ms(opened_at) if opened_at else self.start_ms

    @property
    def place(self) -> str:
        """The folder's path in the project, which names no machine."""
        inside = self.folder.is_relative_to(PROJECT_ROOT)
        return self.folder.relative_to(PROJECT_ROOT).as_posix() if inside else self.folder.name

    @property
    def name(self) -> str:
        return self.mark_simulated(self.info.name or self.folder.name)

    def mark_simulated(self, name: str) -> str:
        """Mark the name of a simulation: lists of runs show nothing else of it."""
        return f"{name} (simulated)" if self.simulated else name

    @property
    def start_ms(self) -> int:
        return to_ms(self.info.started_at)

    @property
    def end_ms(self) -> int:
        """In milliseconds since 1970; for a run that was killed, when it last wrote anything."""
        if ended_at := self.info.state.ended_at:
            return to_ms(ended_at)
        files = [path for name in (TUNING_FILE, PROPOSALS) if (path := self.folder / name).exists()]
        return round(max(path.stat().st_mtime for path in files) * 1000)

    def read_part(self, name: str, default: Tree) -> Tree:
        """Return the content of `<name>.json`, such as `baseline`; the default if it is not written yet.

        Raises:
            UserError: it cannot be read.
        """
        return _read_json(self.folder / f"{name}.json", default, self.redact)

    def read_flips(self) -> "list[FlipLine]":
        """Return the sealed questions on which one side was better, with targets; none before the verdict is final."""
        none: list[FlipLine] = []
        return self.read_part(FLIPS, none) if self.is_final else none

    def read_prompts(self, candidate_id: str) -> PromptSet | None:
        """Return a candidate's prompts; None if the folder does not have the whole set, or not yet."""
        folder = self.folder / "candidates" / candidate_id
        if Path(candidate_id).name != candidate_id or not (folder / SET_FILE).is_file():
            return None
        found = read_set_folder(folder)
        texts = {agent: self.redact(text) for agent, text in found.texts.items()}
        demos = {agent: _redact_tree(turns, self.redact) for agent, turns in found.demos.items()}
        return replace(found, name=candidate_id, texts=texts, demos=demos)

    def read_parent_prompts(self, proposal: ProposalRow) -> PromptSet | None:
        """Return the prompts of the first parent of a proposal."""
        return self.read_prompts(next(iter(proposal.parent_ids), PARENT))


def read_tuning(folder: Path, redact: Redact = str) -> TuningSnapshot:
    """Read a tuning run.

    Args:
        folder: of the tuning run.
        redact: takes secrets out of a text.

    Raises:
        UserError: it holds no tuning run, or one of its files cannot be read; it may just be being written.
    """
    info = read_tuning_info(folder)
    if info is None:
        raise UserError(f"{folder.name} holds no tuning run: it has no {TUNING_FILE}.")
    shortlist: list[JsonObject] = _read_json(folder / SHORTLIST, [], redact)
    return TuningSnapshot(
        folder=folder,
        info=TuningInfo.from_json(json.dumps(_redact_tree(asdict(info), redact))),
        proposals=_read_proposals(folder / PROPOSALS, redact),
        verdict=_read_json(folder / VERDICT, {}, redact),
        shortlist={str(row["candidate_id"]): row for row in shortlist},
        redact=redact,
    )


def read_file_states(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return a value that differs after a file has been written."""
    found = [(name, (folder / name).stat()) for name in SOURCES if (folder / name).exists()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def _read_proposals(file: Path, redact: Redact) -> list[ProposalRow]:
    """Read each candidate once: a resumed search writes a proposal again, and may decide one that was cut off."""
    found: dict[str, ProposalRow] = {}
    *lines, _ = _read_text(file).split("\n")
    names = [each.name for each in fields(ProposalRow)]
    for line in lines:
        row: JsonObject = _redact_tree(_parse(line, file), redact)
        if row.get("decision") == "cut_off":  # earlier versions wrote the mean of the answers that there were
            row["val_score"] = None
        proposal = ProposalRow(**{name: row[name] for name in names if row.get(name) is not None})
        known = found.get(proposal.candidate_id)
        if known is None or known.decision not in DECIDED:
            found[proposal.candidate_id] = proposal
    return list(found.values())


def _read_json(file: Path, default: Tree, redact: Redact) -> Tree:
    text = _read_text(file)
    found: Tree = _redact_tree(_parse(text, file), redact) if text else default
    return found or default


def _parse(text: str, file: Path) -> Json:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"{file.parent.name}/{file.name} is not complete: {error}; let the run end first.") from error


def _read_text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read ({error}); check its permissions.") from error


def _redact_tree(value: Json, redact: Redact) -> Json:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(str(key)): _redact_tree(item, redact) for key, item in value.items()}
    return [_redact_tree(item, redact) for item in value] if isinstance(value, list) else value
