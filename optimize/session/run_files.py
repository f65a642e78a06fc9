"""What a tuning run keeps in its folder, `outputs/optimize/<time>_<name>/`, and how it is read again.

    tuning.json        what the run is: model, optimiser, seed, phase, spend; rewritten after each phase
    command.json       the overrides it was started with
    config.yaml        its configuration, without secrets
    splits.json        ids of the questions of each split, and what a set tuned on them says of it
    (`mas/prompt_sets/tuned_on.py`)
    baseline.json  search.json  shortlist.json  leaks.json  verdict.json       what each phase found; written at its end
    proposals.jsonl    one line a proposal of the search, in order; after a resume those of before, until made again
    candidates/<id>/   their prompts, each a prompt set; `parent` is what the search began with
    calls.db           every reply that was paid for, and what it cost
    trials.db          every answer of the search with its score
    sealed/<arm>/      the sealed test's answers, each a run that eval's commands can read
    sealed/judged.json the gate has judged them: they are not asked again
    rejected/          the candidate that was tested and not published

A file that is there is whole: each is written beside its place and then moved there.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.runs.folder import find_run, write_atomically
from mas.prompt_sets.prompt_set import SET_FILE, PromptSet, digest, read_prompt_set, write_prompt_set
from mas.prompt_sets.tuned_on import TunedOn
from mas.runtime.errors import UserError
from optimize.publishing.publish import read_folder
from optimize.search.candidate import PARENT, Candidate, Proposal

CANDIDATES = "candidates"
MARKER = "tuning.json"  # a folder with it is a tuning run's


def find_tuning_run(run: str) -> Path:
    """
    Raises:
        UserError: there is none such, or more than one.
    """
    return find_run(run, OUTPUTS / "optimize", MARKER, "python optimize/run.py")


def find_set(name: str, root: Path = PROJECT_ROOT) -> PromptSet:
    """
    Args:
        name: of a set, path of its folder, or RUN:ID.
        root: the folder that `prompts/` is in.

    Raises:
        UserError: there is no such set, or it cannot be read.
    """
    run, colon, candidate_id = name.rpartition(":")
    if colon and run and candidate_id and not Path(name).exists():
        return read_candidate_set(find_tuning_run(run), candidate_id)
    path = Path(name).expanduser()
    places = [path, root / path] if "/" in name or path.is_absolute() else [root / "prompts" / name]
    folder = next((each for each in places if name and each.is_dir()), None)
    return (
        read_prompt_set(name, [], "", root) if folder is None else read_folder(folder)
    )  # the former says what is wrong


def read_candidate_set(run: Path, candidate_id: str) -> PromptSet:
    """
    Raises:
        UserError: the run has no such candidate.
    """
    known = sorted(each.parent.name for each in (run / CANDIDATES).glob(f"*/{SET_FILE}"))
    if candidate_id not in known:
        there = f"choose one of: {', '.join(known)}" if known else "it has none yet"
        raise UserError(f"{run.name} has no candidate {candidate_id}; {there}.")
    return replace(read_folder(run / CANDIDATES / candidate_id), name=candidate_id)


class RunFiles:
    def __init__(self, folder: Path, redact: Callable[[str], str] = str) -> None:
        """`redact`: takes secrets out of a text before it is written."""
        self.folder, self._redact = folder, redact
        self._told: list[Mapping[str, Any]] = []  # proposals of this session's search

    def read(self, name: str) -> Any:
        """What is in `<name>.json`; None: it was not written yet."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text("utf-8")) if path.is_file() else None

    def write(self, name: str, content: Any) -> None:
        self.write_text(f"{name}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        with write_atomically(self.folder / name) as file:
            file.write(self._redact(text))

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.json").unlink(missing_ok=True)

    def update(self, **changes: Any) -> None:
        """Of tuning.json."""
        self.write("tuning", {**(self.read("tuning") or {}), **changes})

    def keep(self, candidate: Candidate) -> None:
        """Its prompts, in place of others that a search which is resumed came to under the same id.

        It does after failures of the model's server: they are not kept, and what is asked again may be answered.
        """
        folder, unfinished = self.folder / CANDIDATES / candidate.id, self.folder / ".candidate.part"
        if self._is_kept(candidate):
            return
        for each in (folder, unfinished):
            shutil.rmtree(each, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        write_prompt_set(unfinished, self._tuned(candidate))
        unfinished.rename(folder)

    def _tuned(self, candidate: Candidate) -> PromptSet:
        """What is written of it: the parent was not tuned on this run's questions, and any other was on them, too."""
        prompts = self._without_secrets(candidate.prompts)
        marks = (self.read("splits") or {}).get("tuned_on")
        if candidate.id == PARENT or marks is None:
            return prompts
        return replace(prompts, tuned_on=TunedOn.from_dict(marks) | prompts.tuned_on)

    def _is_kept(self, candidate: Candidate) -> bool:
        prompts = candidate.prompts
        if not (self.folder / CANDIDATES / candidate.id / SET_FILE).is_file():
            return False
        try:
            kept = self.candidate(candidate.id, list(prompts.texts), prompts.system)
            return digest(kept) == digest(self._without_secrets(prompts))
        except UserError:
            return False

    def _without_secrets(self, prompts: PromptSet) -> PromptSet:
        """A reflection may have been shown one by a server that repeats it."""
        demos = json.dumps(prompts.demos, ensure_ascii=False)
        if self._redact(demos) != demos:
            prompts = replace(prompts, demos=json.loads(self._redact(demos)))
        return replace(prompts, texts={agent: self._redact(text) for agent, text in prompts.texts.items()})

    def candidate(self, candidate_id: str, agents: Sequence[str], system: str) -> PromptSet:
        return read_prompt_set(self.folder / CANDIDATES / candidate_id, agents, system, self.folder)

    def clear_proposals(self) -> None:
        """Before a search. One that is resumed comes to the same; until then, what was proposed before stays."""
        self._told = []

    def add_proposal(self, proposal: Proposal) -> None:
        self.keep(proposal.candidate)
        self._told.append(to_line(proposal))
        told = {line["candidate_id"] for line in self._told}
        self._write_proposals([*self._told, *(line for line in self.proposals() if line["candidate_id"] not in told)])

    def finish_proposals(self) -> None:
        """After a search that came to its end: those of this session are all there are."""
        self._write_proposals(self._told)

    def proposals(self) -> list[dict[str, Any]]:
        """A half line, as a full disk or a copy of a run that goes on may end with, is none."""
        path = self.folder / "proposals.jsonl"
        *lines, _ = path.read_text("utf-8").split("\n") if path.is_file() else [""]
        return [json.loads(line) for line in lines]

    def _write_proposals(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self.write_text("proposals.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def filter_fully_scored(proposals: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those lines whose score on validation means something: the scoring was not cut off."""
    return [line for line in proposals if line["val_score"] is not None and line["decision"] != "cut_off"]


def to_line(proposal: Proposal) -> Mapping[str, Any]:
    """A proposal without its prompts."""
    candidate = proposal.candidate
    return {
        "candidate_id": candidate.id,
        "parent_ids": list(candidate.parent_ids),
        "agents": list(candidate.agents),
        "origin": candidate.origin,
        **{name: value for name, value in asdict(proposal).items() if name not in ("candidate", "spend")},
        "spend": proposal.spend.to_dict(),
    }
