"""Take prompts out of a tuning run, as a prompt set or a DSPy state.

    python optimize/export.py latest --list                                what there is
    python optimize/export.py latest --candidate c004 --name by_hand       prompts/by_hand; the set says: ungated
    python optimize/export.py latest --dspy out.json                       as published, for program.load("out.json")

Exit codes: 0 done · 1 a mistake in the command, explained in one sentence.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, exit_now, run_cli
from eval.execution.console import Console
from eval.reports.formats import Table, format_percent
from eval.runs.folder import REPORT, format_path
from eval.runs.own_runs import refuse_unreadable
from mas.prompt_sets.shelf import check_name_is_free
from mas.runtime.errors import UserError
from mas.runtime.terminal import shorten_line
from mas.system import System, can_derive_prompts
from optimize.publishing.publish import build_provenance, describe_published, publish
from optimize.search.optimizer import PARENT
from optimize.session.config import SHELF
from optimize.session.tuning_store import TuningSnapshot, find_tuning_run, read_tuning

_ALLOWED = ({"list"}, {"candidate", "name"}, {"dspy"}, {"candidate", "dspy"})  # combinations of arguments
_CELL_CHARS = 200


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = UserErrorParser(
        usage="python optimize/export.py RUN (--list | --candidate ID --name NAME | --dspy FILE [--candidate ID])",
        description="Take prompts out of a tuning run.",
    )
    parser.add_argument(
        "run", metavar="RUN", help="latest, a name under outputs/optimize, or the path of a run's folder"
    )
    parser.add_argument("--list", action="store_true", help="show the run's candidates and what became of them")
    parser.add_argument("--candidate", metavar="ID", help="the candidate to publish, such as c004")
    parser.add_argument("--name", metavar="NAME", help="of the new set: prompts/NAME")
    parser.add_argument("--dspy", metavar="FILE", type=Path, help="write the state that program.load(FILE) reads")
    given = parser.parse_args(arguments)
    if {name for name, value in vars(given).items() if value and name != "run"} not in _ALLOWED:
        parser.error("with RUN give either --list, or both --candidate ID and --name NAME, or --dspy FILE")
    return given


def task(arguments: list[str], shelf: Path = SHELF) -> int:
    given = read_arguments(arguments)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    tuning = read_tuning(find_tuning_run(given.run))
    with refuse_unreadable(tuning.folder):
        if given.list:
            show_candidates(tuning, console)
        elif given.dspy:
            export_state(tuning, given.candidate, given.dspy, console)
        else:
            export(tuning, given.candidate, check_name_is_free(given.name, shelf), console)
    return FINISHED


def export(tuning: TuningSnapshot, candidate_id: str, folder: Path, console: Console) -> None:
    """Publish the candidate as `folder`, and warn of what it did not go through."""
    if candidate_id == PARENT:
        raise UserError(f"{PARENT} is the set that the run began with; choose a candidate, which --list shows.")
    prompts, parent = tuning.get_prompts(candidate_id), tuning.get_prompts(PARENT)
    leaks, splits = tuning.read_part("leaks").get(candidate_id), tuning.read_part("splits")
    provenance = build_provenance(
        tuning.info,
        tuning.verdict,
        leaks,
        run=tuning.folder.name,
        parent=parent,
        candidate_id=candidate_id,
        gated=False,
        labels=splits.get("labels") or [],
    )
    publish(prompts, folder, provenance)
    console.print(describe_published(f"{folder.parent.name}/{folder.name}", splits))
    tested = "not passed on" if provenance["scores"] else "not tested on"
    console.print(f"warning: {candidate_id} was {tested} sealed questions; the set says gated: false.")
    checked = "warning: it was not checked for leaked answers: only candidates of the shortlist are."
    if leaks is not None:
        checked = f"{'warning: it leaks: ' if leaks['blocked'] else 'leak check: '}{leaks['summary']}."
    console.print(checked)


def export_state(tuning: TuningSnapshot, candidate_id: str | None, path: Path, console: Console) -> None:
    """Write the program with the published or the chosen prompts as a state; UserError: there is no such one."""
    from omegaconf import OmegaConf

    from eval.config.evaluation import build_part

    if candidate_id is None and not (tuning.published and tuning.winner):
        raise UserError(
            f"{tuning.folder.name} has published nothing; choose a candidate with --candidate ID, which --list shows."
        )
    if not tuning.is_own:
        raise UserError(
            f"{tuning.folder.name} was made elsewhere, or moved since, so the program that it names is not imported; "
            "publish the candidate with --name, and give it to your program with mas_harness.apply_prompts."
        )
    system: System = build_part(OmegaConf.create({"system": tuning.info.config["system"]}).system, "system")
    if not can_derive_prompts(system):
        raise UserError(f"system={system.name} is no DSPy program of yours, so there is no state; choose a run of one.")
    system.save_state(tuning.get_prompts(candidate_id or str(tuning.winner)), path)
    console.print(f"written: {path} (load it: program.load({str(path)!r}))")
    if candidate_id is not None:
        console.print(f"warning: {candidate_id} is exported past the gate.")


def show_candidates(tuning: TuningSnapshot, console: Console) -> None:
    """Print one line per proposal."""
    rows = []
    for each in tuning.proposals:
        fresh = (tuning.shortlist.get(each.candidate_id) or {}).get("fresh_score")
        scores = (format_percent(score) for score in (each.val_score, fresh))
        rows.append((each.candidate_id, each.decision, *scores, shorten_line(each.reason, _CELL_CHARS)))
    table = Table(("candidate", "decision", "validation", "fresh", "reason"), rows, left=("decision", "reason"))
    console.print(table.build(title=f"{tuning.name}: {len(rows)} candidates", whole=4), soft_wrap=False)
    console.print(f"reasons in full: {format_path(tuning.folder / REPORT)}")


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
