"""A tuning run as its folder has it at one moment: the source of its page and of what goes to MLflow.

    tuning = read_tuning(outputs / "optimize" / "2026-11-21_10-00-00_tuned")
    tuning.verdict["published"], len(tuning.proposals)     # False, 43
    tuning.read_prompts("c004").texts["planner"]                # "You are …"

What a phase has not written yet is empty. The run has written its files without secrets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from eval.cli.paths import PROJECT_ROOT
from eval.mlflow_export.tracked_run import to_ms
from eval.runs.folder import REPORT
from eval.runs.own_runs import is_own_run
from eval.runs.run_info import TUNING_FILE, TuningInfo, read_tuning_info
from mas.prompt_sets.prompt_set import SET_FILE, PromptSet, read_set_folder
from mas.runtime.errors import UserError
from optimize.session.run_files import PROPOSALS, RunFiles

SOURCES = (TUNING_FILE, "verdict.json", PROPOSALS, "shortlist.json", "splits.json", "leaks.json", REPORT)

JsonObject = dict[str, Any]


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
    proposals: list[ProposalRow]  # in their order
    verdict: JsonObject  # empty: there is none yet
    shortlist: dict[str, JsonObject]  # candidate → its fresh scores; PARENT may be among them

    @property
    def published(self) -> bool:
        return self.verdict.get("published") is True

    @property
    def winner(self) -> str | None:
        """The candidate that was tested."""
        return (self.verdict.get("winner") or {}).get("candidate_id")

    @property
    def is_final(self) -> bool:
        """True if no later session can change the verdict: only then may a page show the sealed questions' targets."""
        return bool(self.verdict) and not self.verdict.get("resumable")

    @property
    def is_own(self) -> bool:
        """True if the run was made on this machine, and its folder was not moved since."""
        return is_own_run(self.info.run_id, self.folder)

    @property
    def sealed_opened(self) -> bool:
        """True if any candidate was tested on sealed questions, even on a part of them."""
        opened = self.info.state.sealed_opened_at is not None
        return bool(self.verdict.get("sealed")) or (self.folder / "sealed").is_dir() or opened

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
        return f"{name} (simulated)" if self.info.simulated else name

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

    def read_part(self, name: str) -> JsonObject:
        """Return the content of `<name>.json`, such as `baseline`; empty if it is not written yet.

        Raises:
            UserError: it is damaged.
        """
        return RunFiles(self.folder).read(name) or {}

    def read_flips(self) -> list[JsonObject]:
        """Return the sealed questions on which one side was better, with targets; none before the verdict is final."""
        return (RunFiles(self.folder).read("flips") or []) if self.is_final else []

    def read_prompts(self, candidate_id: str) -> PromptSet | None:
        """Return a candidate's prompts; None if the folder does not have the whole set, or not yet."""
        folder = self.folder / "candidates" / candidate_id
        if Path(candidate_id).name != candidate_id or not (folder / SET_FILE).is_file():
            return None
        return replace(read_set_folder(folder), name=candidate_id)


def read_tuning(folder: Path) -> TuningSnapshot:
    """Read a tuning run.

    Raises:
        UserError: it holds no tuning run, or one of its files cannot be read.
    """
    info, files = read_tuning_info(folder), RunFiles(folder)
    if info is None:
        raise UserError(f"{folder.name} holds no tuning run: it has no {TUNING_FILE}.")
    names = {each.name for each in fields(ProposalRow)}
    lines: Sequence[Mapping[str, Any]] = files.read_proposals()
    proposals = [ProposalRow(**{name: line[name] for name in names & line.keys()}) for line in lines]
    shortlist = {str(row["candidate_id"]): row for row in files.read("shortlist") or []}
    return TuningSnapshot(folder, info, proposals, files.read("verdict") or {}, shortlist)


def read_file_states(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return a value that differs after a file has been written."""
    stats = [(name, (folder / name).stat()) for name in SOURCES if (folder / name).exists()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
