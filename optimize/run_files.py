"""What a tuning run keeps in its folder, `outputs/optimize/<time>_<name>/`, and how it is read again.

    tuning.json        what the run is: model, optimiser, seed, phase, spend; rewritten after each phase
    command.json       the overrides it was started with
    config.yaml        its configuration, without secrets
    splits.json        ids of the questions of each split
    baseline.json  search.json  shortlist.json  leaks.json  verdict.json       what each phase found; written at its end
    proposals.jsonl    one line a proposal of the search, in order
    candidates/<id>/   their prompts, each a prompt set; `parent` is what the search began with
    calls.db           every reply that was paid for, and what it cost
    trials.db          every answer of the search with its score
    sealed/<arm>/      the sealed test's answers, each a run that eval's commands can read
    rejected/          the candidate that was tested and not published

A file that is there is whole: each is written beside its place and then moved there.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mas.prompts import SET_FILE, PromptSet, read_prompt_set, write_prompt_set
from optimize.candidate import Candidate, Proposal

MARKER = "tuning.json"  # a folder with it is a tuning run's


class RunFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> Any:
        """What is in `<name>.json`; None: it was not written yet."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text("utf-8")) if path.is_file() else None

    def write(self, name: str, content: Any) -> None:
        self.write_text(f"{name}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        path, unfinished = self.folder / name, self.folder / f".{name}.part"
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)

    def update(self, **changes: Any) -> None:
        """Of tuning.json."""
        self.write("tuning", {**(self.read("tuning") or {}), **changes})

    def keep(self, candidate: Candidate) -> None:
        """Its prompts; again, if a search that is resumed proposes it again."""
        folder = self.folder / "candidates" / candidate.id
        if not (folder / SET_FILE).is_file():
            write_prompt_set(folder, candidate.prompts)

    def candidate(self, candidate_id: str, agents: Sequence[str], system: str) -> PromptSet:
        return read_prompt_set(self.folder / "candidates" / candidate_id, agents, system, self.folder)

    def forget_proposals(self) -> None:
        """Before a search that begins anew, and comes to the same."""
        (self.folder / "proposals.jsonl").unlink(missing_ok=True)

    def propose(self, proposal: Proposal) -> None:
        self.keep(proposal.candidate)
        line = json.dumps(as_line(proposal), ensure_ascii=False)
        with (self.folder / "proposals.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def proposals(self) -> list[dict[str, Any]]:
        path = self.folder / "proposals.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def as_line(proposal: Proposal) -> Mapping[str, Any]:
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
