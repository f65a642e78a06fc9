"""Choice of the runs that `eval/list_runs.py clean` deletes, and of those that it keeps whatever is asked.

    plan = plan_cleaning(found.runs, read_protection(PROJECT_ROOT / "prompts", OUTPUTS / "gold"), OUTPUTS)
    plan.chosen, plan.kept[0].why               # [RunEntry(…)], "prompts/tuned was published by it"

Kept are runs that go on, tuning runs that have published a prompt set, runs in which a person has labelled an answer,
and what is not inside of outputs/ or has a link in it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from eval.analysis.human_review.labels import read_labels
from eval.analysis.run_list.read_runs import REFUSED, RUNNING, RunEntry
from eval.runs.deletion import check_place
from eval.runs.folder import check_entries, get_run_name
from mas.runtime.errors import UserError

_PROVENANCE = "provenance.yaml"
_MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class KeptRun:
    run: RunEntry
    why: str


@dataclass(frozen=True)
class CleaningPlan:
    chosen: list[RunEntry] = field(default_factory=list)
    kept: list[KeptRun] = field(default_factory=list)  # that fitted the filters, too

    @property
    def n_bytes(self) -> int:
        return sum(run.size_bytes for run in self.chosen)


def read_protection(prompts: Path, gold: Path) -> dict[str, str]:
    """Return name or id of each run that must stay → the reason.

    Raises:
        UserError: a file that may name such runs cannot be read.
    """
    names: dict[str, str] = {}
    for path in sorted(prompts.glob(f"*/{_PROVENANCE}")):
        place = f"{prompts.name}/{path.parent.name}"
        for name in _read_runs(path):
            names[name] = f"{place} was published by it"
    book = read_labels(gold)
    if book.unreadable:
        raise UserError(f"{book.unreadable[0]} is no label, and may name a run that must stay; repair the file first.")
    return names | {label.run: "a person has labelled an answer of it" for label in (*book.labels, *book.withdrawn)}


def plan_cleaning(runs: Iterable[RunEntry], protection: Mapping[str, str], outputs: Path) -> CleaningPlan:
    """Return which of the runs may be deleted, and why the others stay."""
    plan = CleaningPlan()
    for run in runs:
        if why := _find_reason(run, protection, outputs):
            plan.kept.append(KeptRun(run, why))
        else:
            plan.chosen.append(run)
    return plan


def _find_reason(run: RunEntry, protection: Mapping[str, str], outputs: Path) -> str | None:
    if run.state == RUNNING:
        return "it is running"
    for name in (run.name, get_run_name(run.folder), run.run_id):
        if name and (why := protection.get(name)):
            return why
    try:
        check_place(run.folder, outputs)
        if run.state == REFUSED:  # of an earlier version, or damaged; or it has a link
            check_entries(run.folder)
    except UserError as error:
        return str(error)
    return None


def _read_runs(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError("too large")
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"{path} cannot be read ({why}), and may name a run that must stay; repair it.") from error
    run = content.get("run") if isinstance(content, dict) else None
    return [run] if isinstance(run, str) and run else []
