"""Resuming a run: its own command line, the check that it still is the same run, and the samples that are missing.

read_original_arguments("latest", ["run.resume=latest"])   # ["model=offline", "data=sample"]
"""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from eval.analysis.summary.summary import read_summary
from eval.cli.command import read_option_name
from eval.config.evaluation import EvalConfig
from eval.config.measured import RESUME, find_changes
from eval.runs.find import LATEST, find_run, list_runs
from eval.runs.folder import format_path, is_side
from eval.runs.own_runs import read_command, refuse_unreadable
from eval.runs.run_info import RunInfo, select_run_overrides
from eval.runs.store import list_pending, open_run, read_run_info
from mas.agents.targets import list_in_memory
from mas.prompt_sets.prompt_set import digest
from mas.runtime.errors import UserError
from mas.runtime.terminal import shorten_line

_SHOWN = 10  # differences in one sentence
_MAX_CHARS = 2_000  # of a command line from elsewhere


def read_original_arguments(run: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line that a run was started with, as far as a later session takes it over."""
    folder = find_run_to_resume(run)
    with refuse_unreadable(folder):
        info = read_run_info(folder)
    if original_run := info.rescored_from:
        raise UserError(
            f"{RESUME}={run}: that run holds the answers of {original_run}, scored again, and has run nothing "
            f"itself; continue with {RESUME}={shlex.quote(original_run)}, then score that one again."
        )
    if why := info.describe_gold():
        raise UserError(f"{RESUME}={run}: {why}; start the proof again.")
    with refuse_unreadable(folder):
        return read_stored_command(folder, arguments, f"{RESUME}={run}", "python eval/run.py")


def read_stored_command(folder: Path, arguments: Sequence[str], option: str, program: str) -> list[str]:
    """Return the command line that a run, also a tuning run, was started with.

    `arguments`: given now. `option`: that names the run, as typed. `program`: that the user started.
    """
    info = read_run_info(folder)
    if parts := list_in_memory(info.config):
        raise UserError(
            f"{option}: that run was started in Python, and only its memory held its {' and '.join(parts)}; start it "
            "again there, or put them into files, so that the next one can be resumed."
        )
    if info.command is None and not info.tuning:
        raise UserError(f"{option}: that run ended before it began; start a new one.")
    if (own := read_command(info.run_id, folder)) is not None:
        return select_run_overrides(own)
    command, typed = select_run_overrides(info.command or ()), select_run_overrides(arguments)
    if not typed or not set(map(read_option_name, command)) <= set(map(read_option_name, typed)):
        shown = shorten_line(shlex.join(command), _MAX_CHARS) or "(no options)"
        raise UserError(
            f"{format_path(folder)} was made elsewhere, or moved since, so nothing was run. It was started with "
            f"{program} {shown}; to resume it, type {'these options again' if command else 'an option of yours'} next "
            "to the one that names the run."
        )
    return []


def find_run_to_resume(run: str) -> Path:
    """Return the folder of a run as `find_run` does, but the latest is the latest that can be resumed."""
    for folder in list_runs() if run == LATEST else ():
        with suppress(UserError):  # it cannot be read: reported when it is opened
            if read_run_info(folder).rescored_from:
                continue
        return find_run(folder)
    folder = find_run(run)
    if is_side(folder):
        raise UserError(
            f"{RESUME}={run}: a side of a tuning run's sealed test is no run of its own; resume the whole run with "
            f"python optimize/run.py {shlex.quote(f'resume={format_path(folder.parent)}')}, or evaluate its prompts "
            "with python eval/run.py prompts=NAME."
        )
    return folder


def check_unchanged(before: RunInfo, config: Mapping[str, object], info: RunInfo, allow: bool) -> dict[str, str]:
    """Return the differences from the run that is resumed; UserError: they are not allowed.

    `before`: the run as its earlier sessions left it. `config`, `info`: of this session, the first as it is stored; a
    digest that is empty is not compared. `allow`: `run.allow_config_change`, which never allows other prompts.
    """
    found = find_changes(before.config, config)
    source = f"source of {'system.target' if 'target' in before.part('system') else f'system={before.system}'}"
    program, dataset = before.program_sha256, before.task.dataset_sha256
    for name, old, new in (
        ("prompts_sha256", before.prompts_sha256, info.prompts_sha256),
        (source, program, program and (info.program_sha256 or program)),
        ("dataset_sha256", dataset, info.task.dataset_sha256 or dataset),
    ):
        if old != new:
            found[name] = f"{old[:12]} → {new[:12]}"
    has_other_prompts = before.prompts_sha256 != info.prompts_sha256
    if found and (has_other_prompts or not allow):
        listed = "; ".join(f"{key}: {change}" for key, change in list(found.items())[:_SHOWN])
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        mixed = "" if has_other_prompts else ", or mix both in one with run.allow_config_change=true"
        raise UserError(f"the run was started otherwise ({listed}{more}); start a new run{mixed}.")
    return found


def show_finished_run(config: EvalConfig) -> int | None:
    """Show the run that `run.resume` names and return its exit code; None: something is left to run or to write.

    Nothing heavy is loaded for it, and neither key nor data are needed.
    """
    folder, prompts = find_run_to_resume(str(config.run.resume)), config.read_prompts()
    try:
        summary = read_summary(folder / "summary.json")
    except (OSError, ValueError):
        return None
    with open_run(folder) as store:
        info = RunInfo(prompts_sha256=digest(prompts) if prompts else "")
        changed = check_unchanged(store.read_info(), config.stored_config, info, config.run.allow_config_change)
        ids = [planned.id for planned in store.read_plan()]
        left = list_pending(ids, config.run.epochs, store.read_last_attempts(), config.run.retry_errors)
        is_finished = store.read_state().finished and not (changed or left or summary.stopped or store.is_restored)
    if not is_finished:
        return None
    from eval.execution.console import Console
    from eval.reports.summary_table import choose_exit_code, print_last_lines, print_results

    console = Console()
    console.print(f"{folder.name} is finished; nothing is left to run.", markup=False, highlight=False)
    print_results(summary, folder, console)
    print_last_lines(summary, folder, console)
    return choose_exit_code(summary, config.run.fail_under, console)
