"""Folder of a tuning run, `outputs/optimize/<time>_<name>/`: what its phases have found, and the resuming of a run.

Its files are described in docs/reference/run-folder.md. `run.db` holds the result of each phase by name: `splits`,
`baseline`, `search`, `proposal ID`, `prompts ID` with their SHA-256, `shortlist`, `leaks`, `sealed` (the test's
level), `looks`, and `verdict`, written last.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import EvalConfig
from eval.config.measured import find_changes
from eval.runs.find import find_run
from eval.runs.folder import DATABASE, PROMPTS_FOLDER, VERDICT, format_path, read_kept_prompts
from eval.runs.own_runs import is_own_run
from eval.runs.run_info import RunInfo, RunState, TuningTask
from eval.runs.store import PROPOSAL, RunStore, open_run
from eval.scorers.score import read_scorer_digest
from eval.workflows.resume import read_stored_command
from mas.prompt_sets.prompt_set import PromptSet, digest, find_set_folder, read_set_folder
from mas.prompt_sets.provenance import TunedOn
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import write_atomically
from mas.runtime.security.redaction import redact_value
from mas.runtime.text import to_jsonable
from mas.system import read_program_digest
from optimize.gate.gate import JsonObject
from optimize.search.optimizer import PARENT, Proposal

PROMPTS = "prompts "  # begins the names of results that are a candidate's prompts
RESUME = "resume"
# Options, or whole branches of them, that may change between the sessions of a run, like all that is not measured.
OF_THE_SESSION = (RESUME, "yes", "name", "run", "budget", "reflection_model")


def find_tuning_run(run: str) -> Path:
    """Return the folder of a tuning run, or raise a UserError: no run, or more than one, has that name."""
    return find_run(run, kind="optimize")


def find_set(name: str, root: Path = PROJECT_ROOT) -> PromptSet:
    """Read a prompt set of any system, or raise a UserError: there is no such set, or it cannot be read.

    `name`: of a set under `prompts/`, path of its folder, or RUN:ID for a candidate of a tuning run.
    """
    run, colon, candidate_id = name.rpartition(":")
    if colon and run and candidate_id and not Path(name).exists():
        return read_tuning(find_tuning_run(run)).get_prompts(candidate_id)
    return read_set_folder(find_set_folder(name, root))


def read_parent(folder: Path, info: RunInfo) -> PromptSet:
    """Return the prompts that a run started from; UserError: somebody has changed them since the run wrote them."""
    kept = read_kept_prompts(folder)
    if kept is None or digest(kept) != info.prompts_sha256:
        place = format_path(folder / PROMPTS_FOLDER)
        raise UserError(f"{place} was changed since the run wrote it: restore it, or start a new tuning run.")
    return replace(kept, name=PARENT)


@dataclass(frozen=True)
class TuningSnapshot:
    """A tuning run as its folder has it at one moment: the source of its page, of exports and of what MLflow gets.

    What a phase has not written yet is empty. The run has written its results without secrets.
    """

    folder: Path
    info: RunInfo
    task: TuningTask
    state: RunState
    results: Mapping[str, Any]

    def read_part(self, name: str) -> JsonObject:
        """Return a result, such as `baseline`; empty if there is none yet."""
        return self.results.get(name) or {}

    @cached_property
    def proposals(self) -> list[Proposal]:
        """The proposals in the order of the search."""
        found = [Proposal(**row) for name, row in self.results.items() if name.startswith(PROPOSAL)]
        return sorted(found, key=lambda each: (len(each.candidate_id), each.candidate_id))

    @property
    def verdict(self) -> JsonObject:
        return self.read_part("verdict")

    @property
    def val_scores(self) -> dict[str, float]:
        """Candidate → score of those that were scored on all validation questions."""
        scored = {each.candidate_id: each.val_score for each in self.proposals if each.decision != "cut_off"}
        return {name: score for name, score in scored.items() if score is not None}

    @property
    def shortlist(self) -> dict[str, JsonObject]:
        """Candidate → its fresh scores; PARENT may be among them."""
        return {str(row["candidate_id"]): row for row in self.results.get("shortlist") or []}

    @property
    def published(self) -> bool:
        return self.verdict.get("published") is True

    @property
    def winner(self) -> str | None:
        """The candidate that was tested."""
        return (self.verdict.get("winner") or {}).get("candidate_id")

    @property
    def is_own(self) -> bool:
        """True if the run was made on this machine, and its folder was not moved since."""
        return is_own_run(self.info.run_id, self.folder)

    @property
    def sealed_opened(self) -> bool:
        """True if any candidate was tested on sealed questions, even on a part of them."""
        return bool(self.results.get("sealed"))

    @property
    def name(self) -> str:
        """The name of the set; a simulation is marked, since lists of runs show nothing else of it."""
        name = self.task.name or self.folder.name
        return f"{name} (simulated)" if self.info.simulated else name

    def get_prompts(self, candidate_id: str) -> PromptSet:
        """Return a candidate's prompts; UserError: there is no such candidate, or somebody has changed its prompts."""
        parent = read_parent(self.folder, self.info)
        if candidate_id == PARENT:
            return parent
        kept = self.results.get(f"{PROMPTS}{candidate_id}")
        if kept is None:
            choice = ", ".join([*(each.candidate_id for each in self.proposals), PARENT])
            raise UserError(f"{self.folder.name} has no candidate {candidate_id}; choose one of: {choice}.")
        marks = self.read_part("splits").get("tuned_on")  # this run's questions
        tuned_on = TunedOn.from_dict(marks) | parent.tuned_on if marks else parent.tuned_on
        own = {"texts": kept["texts"], "demos": kept["demos"], "tuned_on": tuned_on}
        prompts = replace(parent, name=candidate_id, edited=(), provenance={}, **own)
        if digest(prompts) != kept["sha256"]:
            raise UserError(
                f"the prompts of {candidate_id} were changed since the run wrote them: restore {DATABASE}, or start a "
                "new tuning run."
            )
        return prompts


def read_tuning(folder: Path) -> TuningSnapshot:
    """Read a tuning run, or raise a UserError: the folder holds none, or it cannot be read."""
    with open_run(folder) as store:
        return take_snapshot(store)


def take_snapshot(store: RunStore) -> TuningSnapshot:
    """Return everything that a run has kept so far."""
    info, folder = store.read_info(), store.path.parent
    if info.tuning is None:
        raise UserError(f"{folder.name} holds no tuning run: its {DATABASE} names none.")
    return TuningSnapshot(folder, info, info.tuning, store.read_state(), store.read_results(""))


def write_file(store: RunStore, name: str, content: object) -> None:
    """Write a file for people into the run's folder, without secrets."""
    with write_atomically(store.path.parent / name) as file:
        file.write(json.dumps(redact_value(to_jsonable(content), store.redact), indent=2, ensure_ascii=False) + "\n")


def write_verdict(store: RunStore, verdict: Mapping[str, object]) -> None:
    """Write a copy to read, and the verdict: a run that has it is not resumed, so the copy comes first."""
    write_file(store, VERDICT, verdict)
    store.write_results({"verdict": verdict})


def add_proposal(store: RunStore, proposal: Proposal) -> None:
    """Write a proposal with its prompts; one that was cut off replaces none that an earlier session scored.

    A resumed search repeats those of earlier sessions, or, if a budget ends it before, keeps the rest of them.
    """
    candidate_id, given = proposal.candidate_id, proposal.prompts
    assert given is not None, "of a search"
    if proposal.decision == "cut_off" and candidate_id in take_snapshot(store).val_scores:
        return
    # A server may have repeated a secret: the digest is that of the texts as they are kept.
    texts, demos = redact_value(to_jsonable((given.texts, given.demos)), store.redact)
    kept = {"texts": texts, "demos": demos, "sha256": digest(replace(given, texts=texts, demos=demos))}
    row = replace(proposal, prompts=None)
    store.write_results({f"{PROMPTS}{candidate_id}": kept, f"{PROPOSAL}{candidate_id}": row})


def read_original_arguments(run: str, arguments: Sequence[str]) -> list[str]:
    """Return the overrides that a run was started with: see `eval.workflows.resume.read_original_arguments`."""
    return read_stored_command(find_tuning_run(run), arguments, f"{RESUME}={run}", format_command("run.py"))


def check_sources(before: RunInfo, base: EvalConfig) -> None:
    """Check that program and scorer are those that the run was started with, or raise a UserError."""
    assert before.tuning is not None, "of a tuning run"
    for what, old, new in (
        ("program", before.program_sha256, read_program_digest(base.system)),
        ("scorer", before.tuning.scorer_sha256, read_scorer_digest(base.scorer)),
    ):
        if old != new:
            raise UserError(
                f"the {what}'s source, or that of a module of its project, has changed since the tuning run began "
                f"({old[:12]} → {new[:12]}): restore it, or start a new tuning run."
            )


def check_unchanged(before: RunInfo, base: EvalConfig, now: Mapping[str, object]) -> None:
    """Check that configuration, program and scorer are those that the run was started with, or raise a UserError."""
    check_sources(before, base)
    changes = find_changes(before.config, now)
    if found := [f"{key}: {changes[key]}" for key in changes if key.partition(".")[0] not in OF_THE_SESSION]:
        listed = "; ".join(found[:10])
        raise UserError(f"the tuning run has other options ({listed}); resume it with its own, or start a new run.")


def describe_resume(folder: Path, *options: str) -> str:
    """Return a sentence with the command that resumes the run."""
    name = folder.name if folder.parent == OUTPUTS / "optimize" else format_path(folder)
    return f"continue with: {format_command('run.py')} {shlex.join([f'resume={name}', *options])}"


def format_command(script: str) -> str:
    """Return a command of `optimize/` as it is typed in the current folder."""
    return f"python {shlex.quote(format_path(PROJECT_ROOT / 'optimize' / script))}"
