"""Score the answers of a run again, into a run of its own.

    rescore_run(find_run("latest"), ["scorer=numeric"], gold=None)
    rescore_run(find_run("night"), [], Path("outputs/gold"))       # what people said of its answers

The new records are the same but for score, explanation, parts, target and the labels of people. Without another scorer
only answers to questions with a corrected target are scored again.
"""

import asyncio
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import cast

from omegaconf import OmegaConf

from eval.analysis.human_review.labels import LabelBook, list_verdicts, overrule_score, read_labels
from eval.cli.command import STOPPED
from eval.cli.hydra_compat import MISTAKES, compose_config
from eval.config.evaluation import RunSettings, build_part
from eval.contamination.web_results import find_web_leaks
from eval.execution.console import Console
from eval.execution.scoring import SCORER, Scoring
from eval.reports.files import write_files
from eval.reports.summary_table import choose_exit_code, print_report_path, print_summary
from eval.runs.find import get_run_name
from eval.runs.folder import DATABASE, PROMPTS_FOLDER, format_path, is_in_use, make_run_folder
from eval.runs.own_runs import is_own_run, note_run, refuse_unreadable
from eval.runs.record import Record, Usage
from eval.runs.run_info import RunInfo, dump_config
from eval.runs.store import RunStore, StoreError, check_free, read_run_info
from eval.scorers.gaia import GaiaScorer
from eval.scorers.labels import find_labels
from eval.scorers.score import Scorer
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.terminal import print_line
from mas.runtime.text import format_count

_AT_ONCE = 16  # verdicts of a function that waits


def rescore_run(original: Path, overrides: Sequence[str], gold: Path | None) -> int:
    """Score the answers of a run again, into a new run, and show its results; return the exit code.

    `overrides`: `scorer=…` and its options, `run.dir`, `run.name`. `gold`: the folder of people's labels. UserError:
    the run is still running or cannot be opened, the scorer calls a model, or there are no labels.
    """
    try:
        with refuse_unreadable(original):
            folder = _rescore(original, overrides, gold)
            with RunStore(folder / DATABASE) as store:
                summary = write_files(folder, store)
    except MISTAKES:  # some of Hydra's are OSErrors
        raise
    except (StoreError, OSError) as error:
        print_line(f"stopped: {error}", error=True)
        return STOPPED
    console = Console()
    print_summary(summary, console)
    print_line(f"scored again from: {format_path(original)}")
    print_line(f"results: {format_path(folder)}")
    print_report_path(folder, console)
    return choose_exit_code(summary, None, console)


def _rescore(original: Path, overrides: Sequence[str], gold: Path | None) -> Path:
    """Return the folder of the new run; StoreError: it cannot be written."""
    if is_in_use(original / DATABASE):
        raise UserError(f"{original} is still running; score it again when it has ended.")
    info, chosen, labels = read_run_info(original), compose_config(overrides), _read_label_book(gold)
    if why := info.describe_gold():
        raise UserError(f"{format_path(original)} is not scored again: {why}.")
    if gold and info.rescored_from:
        raise UserError(f"{original.name} was scored again from {info.rescored_from}; apply the labels to that run.")
    config, is_own = dict(info.config), is_own_run(info.run_id, original)
    is_named = any(override.startswith("scorer=") for override in overrides)
    if is_named:
        config["scorer"] = OmegaConf.to_container(chosen.scorer, resolve=True)
    elif not is_own:
        raise UserError(
            f"{format_path(original)} was made elsewhere, or moved since, so its scorer is not used; name one: "
            "scorer=…."
        )
    extra = cast(dict[str, dict[str, object]], config.get("extra_scorers") or {}) if is_own else {}
    config["extra_scorers"] = {name: node for name, node in extra.items() if "judge" not in node}
    is_judged = not is_named and "judge" in cast(Mapping[str, object], config.get("scorer") or {})
    scorers: dict[str | None, Scorer] = {
        None: GaiaScorer() if is_judged else _build_scorer(config.get("scorer"), "scorer"),  # no judge again
        **{name: _build_scorer(node, f"extra_scorers.{name}") for name, node in config["extra_scorers"].items()},
    }
    scorings = [Scoring(scorer, RunSettings().deadline_seconds, str, name) for name, scorer in scorers.items()]
    with RunStore(original / DATABASE, read_only=True) as source:
        found = {each.id: labels.find(each, info.task.file_sha256.get(each.id)) for each in source.read_plan()}
        targets = {name: each.corrected_target for name, each in found.items() if each.corrected_target is not None}
        if chosen.run.dir:
            check_free(Path(chosen.run.dir))
        folder = make_run_folder("eval", chosen.run.name or f"{get_run_name(original)}_rescored", chosen.run.dir)
        config["run"] = {**(config.get("run") or {}), "name": chosen.run.name}
        (folder / "config.yaml").write_text(dump_config(config), encoding="utf-8")
        info = replace(
            info,
            run_id=uuid.uuid4().hex[:12],
            started_at=datetime.now(UTC).isoformat(),
            config=config,
            command=None,
            sweep=None,
            rescored_from=original.name,
            task=replace(info.task, task_version=""),
        )
        if (original / PROMPTS_FOLDER).is_dir():
            shutil.copytree(original / PROMPTS_FOLDER, folder / PROMPTS_FOLDER)
        if is_own:  # else its configuration is somebody else's
            note_run(info.run_id, folder)
        with RunStore(folder / DATABASE) as target:
            run_blocking(_copy(source, target, info, scorings, targets, labels, scores_all=is_named))
    return folder


def _read_label_book(gold: Path | None) -> LabelBook:
    """Return the labels in a folder; lines that are no label are reported."""
    if gold is None:
        return LabelBook()
    book = read_labels(gold)
    if book.unreadable:
        lines = f"{format_count(len(book.unreadable), 'line')} of {format_path(gold)} cannot be read"
        print_line(f"warning: {lines} and count as no label: {', '.join(book.unreadable[:5])}", error=True)
    if not book.labels:
        raise UserError(f"gold={format_path(gold)} has no labels yet; review answers with python eval/view.py.")
    return book


def _build_scorer(node: object, key: str) -> Scorer:
    if not isinstance(node, Mapping):
        raise UserError("the run does not say how it was scored; give scorer=….")
    if "judge" in node:
        raise UserError(
            "scorer=graded calls a model, and rescoring calls none; give another scorer, such as scorer=gaia, or "
            "start a new run."
        )
    scorer = build_part(OmegaConf.create(dict(node)), key)
    scorer.check()
    return scorer  # type: ignore[no-any-return]


async def _copy(
    source: RunStore,
    target: RunStore,
    info: RunInfo,
    scorings: Sequence[Scoring],
    targets: Mapping[str, str],
    labels: LabelBook,
    *,
    scores_all: bool,
) -> None:
    """Copy the whole run with new scores, a few records in memory at a time.

    Without `scores_all` an answer without another target keeps its score.
    """
    files = info.task.file_sha256
    planned = [replace(each, target=targets.get(each.id, each.target)) for each in source.read_plan()]
    target.write_plan(planned)
    names, tags = find_labels(planned), {each.id: each.tags for each in planned}
    if targets:  # other targets are other data
        info = replace(info, task=replace(info.task, dataset_sha256="", labels=list(names.names)))
    target.write_info(info)
    target.write_state(source.read_state())
    records = source.records()
    while some := list(islice(records, _AT_ONCE)):
        found = [labels.find(record, files.get(record.sample_id)) for record in some]
        again = [record for record in some if scores_all or record.sample_id in targets]
        for record, labelled in zip(some, found, strict=True):
            of_question = [each for each in record.human if each.is_of_question]  # of a run that was scored again
            record.human = list_verdicts(record, labelled) or of_question
            record.run_id, record.target = info.run_id, targets.get(record.sample_id, record.target)
            if record in again:
                _forget_score(record)
            if record.sample_id in targets:
                is_label = names.find(record.target) is not None
                record.leaks = find_web_leaks(record.question, record.target, record.trajectory, is_label)
        for scoring in scorings:
            await asyncio.gather(*(scoring.score(record, tags.get(record.sample_id, {})) for record in again))
        for record, labelled in zip(some, found, strict=True):
            overrule_score(record, labelled)
            target.write(record)


def _forget_score(record: Record) -> None:
    """Remove the score, and an error of the scorer (a judge's key or quota included): the answer can be scored now."""
    record.score, record.explanation, record.parts, record.scorer_usage = None, "", {}, Usage()
    record.extra_scores = {}
    if record.error is not None and record.error_component == SCORER:
        record.error = record.error_class = record.error_component = None
        if record.limit == "deadline_seconds":  # the scorer's own
            record.limit = None
        record.state = {key: value for key, value in record.state.items() if key not in ("error", "error_component")}
