"""A tuning run as its folder has it at one moment: all that MLflow is told comes from here, with secrets taken out.

    tuning = read_tuning(outputs / "optimize" / "2026-11-21_10-00-00_tuned", redact=config.redact)
    tuning.verdict["published"], len(tuning.proposals)     # False, 43
    tuning.prompts("c004").texts["planner"]                # "You are …"

What a phase has yet to write is empty here; a half-written last line of `proposals.jsonl` is none yet.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from eval.cli.paths import PROJECT_ROOT
from eval.config.tracking import remove_passwords
from mas.prompt_sets.prompt_set import SET_FILE, SUFFIX, PromptSet, read_prompt_set
from mas.runtime.errors import UserError
from optimize.search.candidate import PARENT
from optimize.session.run_files import MARKER as FACTS

CONFIG, VERDICT = "config.yaml", "verdict.json"
PROPOSALS, SHORTLIST = "proposals.jsonl", "shortlist.json"
SOURCES = (FACTS, CONFIG, VERDICT, PROPOSALS, SHORTLIST, "splits.json", "leaks.json", "report.md")
DECIDED = ("accepted", "rejected")  # decisions that stand, also when the search is replayed

Redact = Callable[[str], str]


@dataclass(frozen=True)
class TuningSnapshot:
    folder: Path
    facts: dict[str, Any]  # tuning.json
    config: dict[str, Any]
    proposals: list[dict[str, Any]]  # in their order, each candidate once
    verdict: dict[str, Any]  # empty: there is none yet
    shortlist: dict[str, dict[str, Any]]  # candidate → its fresh scores; PARENT may be among them
    redact: Redact

    @property
    def run_id(self) -> str:
        return str(self.facts["run_id"])

    @property
    def simulated(self) -> bool:
        return bool(self.facts.get("simulated"))

    @property
    def published(self) -> bool:
        return self.verdict.get("published") is True

    @property
    def sealed_opened(self) -> bool:
        """Whether any candidate was tried on the sealed questions, be it a part of them."""
        return bool(self.verdict.get("sealed")) or (self.folder / "sealed").is_dir() or bool(self._opened_at)

    @property
    def opened_ms(self) -> int | None:
        """When they were opened, since 1970; None: they were not. An older run has noted only when it began."""
        if not self.sealed_opened:
            return None
        return _ms(self._opened_at) if self._opened_at else self.start_ms

    @property
    def _opened_at(self) -> str:
        return str(self.facts.get("sealed_opened_at") or "")

    @property
    def place(self) -> str:
        """Of the folder in the project: no path of a machine."""
        inside = self.folder.is_relative_to(PROJECT_ROOT)
        return self.folder.relative_to(PROJECT_ROOT).as_posix() if inside else self.folder.name

    @property
    def name(self) -> str:
        return self.shown_name(str(self.facts.get("name") or self.folder.name))

    def shown_name(self, name: str) -> str:
        """As lists of runs show it, where nothing else says that it is a simulation."""
        return f"{name} (simulated)" if self.simulated else name

    @property
    def start_ms(self) -> int:
        return _ms(str(self.facts["started_at"]))

    @property
    def end_ms(self) -> int:
        """Since 1970; of a run that was killed, when it last wrote anything."""
        if ended := self.facts.get("ended_at"):
            return _ms(str(ended))
        written = [(self.folder / name).stat().st_mtime for name in (FACTS, PROPOSALS) if (self.folder / name).exists()]
        return round(max(written) * 1000)

    def prompts(self, candidate_id: str) -> PromptSet | None:
        """None: the folder has no such set, or not yet the whole of it."""
        folder = self.folder / "candidates" / candidate_id
        if not (folder / SET_FILE).is_file():
            return None
        system = str(yaml.safe_load((folder / SET_FILE).read_text("utf-8"))["system"])
        agents = [path.name.removesuffix(SUFFIX) for path in sorted(folder.glob(f"*{SUFFIX}"))]
        found = read_prompt_set(folder.absolute(), agents, system, folder)
        texts = {agent: self.redact(text) for agent, text in found.texts.items()}
        return replace(found, name=candidate_id, texts=texts, demos=_redacted(found.demos, self.redact))

    def parent_prompts(self, proposal: Mapping[str, Any]) -> PromptSet | None:
        """Of the candidate that the proposal was made from; of several, the first."""
        return self.prompts(next(iter(proposal.get("parent_ids") or ()), PARENT))


def read_tuning(folder: Path, redact: Redact = str) -> TuningSnapshot:
    """
    Args:
        folder: of the tuning run.
        redact: takes secrets out of a text.

    Raises:
        UserError: it holds no tuning run, or one of its files cannot be read; it may just be being written.
    """
    facts = _json(folder / FACTS, redact)
    if not facts or "run_id" not in facts or "started_at" not in facts:
        raise UserError(f"{folder.name} holds no tuning run: it has no {FACTS} with run_id and started_at in it.")
    shortlist = _json(folder / SHORTLIST, redact) or []
    return TuningSnapshot(
        folder=folder,
        facts=facts,
        config=_config(folder / CONFIG, redact),
        proposals=_proposals(folder / PROPOSALS, redact),
        verdict=_json(folder / VERDICT, redact) or {},
        shortlist={str(row["candidate_id"]): row for row in shortlist},
        redact=redact,
    )


def read_file_states(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Differs when a file has been written since."""
    found = [(name, (folder / name).stat()) for name in SOURCES if (folder / name).exists()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def _proposals(file: Path, redact: Redact) -> list[dict[str, Any]]:
    """A resumed search writes a proposal again; one whose scoring was cut off may have been decided since."""
    found: dict[str, dict[str, Any]] = {}
    *lines, _ = _text(file).split("\n")
    for line in lines:
        row = _redacted(_parsed(line, file), redact)
        known = found.get(row["candidate_id"])
        if known is None or known["decision"] not in DECIDED:
            found[row["candidate_id"]] = row
    return list(found.values())


def _config(file: Path, redact: Redact) -> dict[str, Any]:
    try:
        found = yaml.safe_load(remove_passwords(_text(file)))
    except yaml.YAMLError as error:
        raise UserError(f"{file.parent.name}/{file.name} is no YAML; the run was to write it as such.") from error
    return _redacted(found, redact) if isinstance(found, dict) else {}


def _json(file: Path, redact: Redact) -> Any:
    text = _text(file)
    return _redacted(_parsed(text, file), redact) if text else None


def _parsed(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"{file.parent.name}/{file.name} is not whole: {error}; let the run end first.") from error


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read ({error}); check its permissions.") from error


def _redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(str(key)): _redacted(item, redact) for key, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, list) else value


def _ms(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
