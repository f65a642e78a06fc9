"""Score the answers of a run again, into a run of its own.

    folder = rescore_run(find_run("latest"), ["scorer=numeric"], gold=None)
    read_run_info(folder).rescored_from      # "2026-11-21_08-30-31_gaia_offline_sample"

The new records are the same but for score, explanation, parts and target.
"""

import asyncio
import re
import shutil
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from eval.benchmarks.columns import GAIA_COLUMNS
from eval.benchmarks.jsonl import read_metadata
from eval.benchmarks.rows import Attachments, Row, read_rows
from eval.cli.command import STOPPED
from eval.cli.hydra_compat import MISTAKES, compose_config
from eval.config.evaluation import RunSettings, build_part
from eval.contamination.web_results import find_web_leaks
from eval.execution.console import Console
from eval.execution.scoring import SCORER, Scoring
from eval.reports.files import write_reports
from eval.reports.summary_table import choose_exit_code, print_summary
from eval.runs.folder import DATABASE, format_path, get_run_name, is_in_use, make_run_folder, read_kept_prompts
from eval.runs.foreign_run import refuse_unreadable
from eval.runs.record import Record, Usage
from eval.runs.run_info import RunInfo, TaskInfo, dump_config
from eval.runs.store import RunStore, StoreError, check_free
from eval.scorers.labels import find_labels
from eval.scorers.score import Scorer
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.terminal import print_line

_AT_ONCE = 16  # verdicts of a function that waits
_TARGET_FIELD = "target_field"  # of a function that is a DSPy metric
_ID, _QUESTION, _ANSWER = (str(GAIA_COLUMNS[key]) for key in ("id", "question", "answer"))
Gold = Mapping[str, str | None]  # sample id → gold answer; None: unscored


def rescore_and_report(original: Path, overrides: Sequence[str], gold: Path | None, command: Sequence[str]) -> int:
    """Rescore a run, write the files of the new one and show its results; return the exit code.

    Raises:
        UserError: as `rescore_run`.
    """
    try:
        with refuse_unreadable(original):
            folder = rescore_run(original, overrides, gold, command)
            with RunStore(folder / DATABASE) as store:
                summary = write_reports(folder, store)
    except MISTAKES:  # some of Hydra's are OSErrors
        raise
    except (StoreError, OSError) as error:
        print_line(f"stopped: {error}", error=True)
        return STOPPED
    console = Console()
    print_summary(summary, console)
    for name, path in (("scored again from", original), ("results", folder)):
        console.print(f"{name}: {format_path(path)}", markup=False, highlight=False, soft_wrap=True)
    return choose_exit_code(summary, None, console)


def rescore_run(original: Path, overrides: Sequence[str], gold: Path | None, command: Sequence[str] = ()) -> Path:
    """Return the folder of a new run that has the answers of another one, scored again.

    Args:
        original: the run's folder; nothing in it changes.
        overrides: `scorer=…` and its options, `run.dir`, `run.name`; without `scorer=…` the run's own scorer.
        gold: a file of targets that replace those of the run.
        command: as typed, to be kept.

    Raises:
        UserError: the run is still running or cannot be opened, the scorer calls a model, or the targets are not for
            this run.
        StoreError: the new run cannot be written.
    """
    if is_in_use(original / DATABASE):
        raise UserError(f"{original} is still running; score it again when it has ended.")
    try:
        source = RunStore(original / DATABASE, read_only=True)
    except StoreError as error:
        raise UserError(f"{error}.") from error
    with source:
        chosen = compose_config(overrides)
        info = source.read_info()
        config = dict(info.config)
        if any(override.startswith(("scorer=", "scorer.")) for override in overrides):
            config["scorer"] = _choose_scorer(config, chosen)
        elif not source.is_signed():
            raise UserError(
                f"{format_path(original)} was made elsewhere, or changed since, so its scorer is not used; name one: "
                "scorer=…."
            )
        extra_scorers = _choose_extra_scorers(config, chosen, overrides, source.is_signed())
        scorer = _build_scorer(config)
        answers = _read_targets(gold, {each.id for each in source.read_plan()}) if gold else {}
        folder = _new_folder(original, chosen)
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
            rescored_by=list(command),
            task=_forget_targets(info.task) if answers else replace(info.task, task_version=""),
        )
        for place in read_kept_prompts(original, info.prompts):
            shutil.copytree(original / place, folder / place)
        with RunStore(folder / DATABASE) as target:
            run_blocking(_copy(source, target, [(None, scorer), *extra_scorers.items()], answers, info))
    return folder


def _choose_extra_scorers(
    config: dict[str, object], chosen: DictConfig, overrides: Sequence[str], is_signed: bool
) -> dict[str, Scorer]:
    """Put the extra scorers of the new run into its configuration, and return them.

    Those of the original are kept if it is ours, without the ones that call a model.
    """
    nodes = cast(dict[str, dict[str, object]], OmegaConf.to_container(chosen.extra_scorers, resolve=True))
    if any("extra_scorers" in override.partition("=")[0] for override in overrides):
        for name, node in nodes.items():
            if "judge" in node:
                raise UserError(f"extra_scorers.{name} calls a model, and rescoring calls none; leave it out.")
    else:
        kept = cast(dict[str, dict[str, object]], config.get("extra_scorers") or {}) if is_signed else {}
        nodes = {name: node for name, node in kept.items() if "judge" not in node}
    config["extra_scorers"] = nodes
    found: dict[str, Scorer] = {
        name: build_part(OmegaConf.create(node), f"extra_scorers.{name}") for name, node in nodes.items()
    }
    for scorer in found.values():
        scorer.check()
    return found


def _choose_scorer(config: Mapping[str, object], chosen: DictConfig) -> dict[str, object]:
    """Return the scorer that was named; the target keeps the name that it has in the run's data.

    The run may be from elsewhere: a name that is more than a text would be resolved, or imported.
    """
    scorer = cast(dict[str, object], OmegaConf.to_container(chosen.scorer, resolve=True))
    data = config.get("data")
    name = data.get("target_column") if isinstance(data, Mapping) else None
    if scorer.get(_TARGET_FIELD, "") is None and isinstance(name, str) and name != "???" and "${" not in name:
        scorer[_TARGET_FIELD] = name
    return scorer


def _build_scorer(config: Mapping[str, object]) -> Scorer:
    if "scorer" not in config:
        raise UserError("the run does not say how it was scored; give scorer=….")
    node = OmegaConf.create({"scorer": config["scorer"]})
    if "judge" in node.scorer:
        raise UserError(
            "scorer=graded calls a model, and rescoring calls none; give another scorer, such as scorer=gaia, or "
            "start a new run."
        )
    scorer = build_part(node.scorer, "scorer")
    scorer.check()
    return scorer  # type: ignore[no-any-return]


def _new_folder(original: Path, chosen: DictConfig) -> Path:
    given = chosen.run.dir
    if given:
        check_free(Path(given))
    return make_run_folder("eval", chosen.run.name or f"{get_run_name(original)}_rescored", given)


def _read_targets(file: Path, ids: Collection[str]) -> dict[str, str | None]:
    """Return the targets by sample id, read as those of a dataset are: 4.0 and "4" mean the same here and there."""
    if not file.is_file():
        raise UserError(f"gold={file} is not a file under {Path.cwd()}; give the path of one that exists.")
    rows = [_check_row(row, ids) for row in read_metadata(file)]
    try:
        return {sample.id: sample.target for sample in read_rows(rows, Attachments(file.parent)).samples}
    except UserError as error:
        problem = re.split("; [a-z]+ the row", str(error))[0].rstrip(".")
        raise UserError(f"{problem}; correct the file of targets.") from error


def _check_row(row: Row, ids: Collection[str]) -> Row:
    """Return a row with a question, which every row of a dataset must have, and without whatever else it holds."""
    if row.problem or not isinstance(row.content, Mapping):
        return row
    sample_id, answer = row.content.get(_ID), row.content.get(_ANSWER)
    known = isinstance(sample_id, str | int) and str(sample_id).strip() in ids
    if sample_id is not None and not known:
        return Row(row.place, problem=f"the run has no question with the {_ID} {sample_id!r}")
    if answer is None or not str(answer).strip():
        return Row(row.place, problem=f'{_ANSWER!r} is missing or empty ("?" leaves the question unscored)')
    named = {} if sample_id is None else {_ID: sample_id}
    return Row(row.place, {**named, _QUESTION: "?", _ANSWER: answer})


Scorers = Sequence[tuple[str | None, Scorer]]  # name among the extra ones; None: the one that decides


async def _copy(source: RunStore, target: RunStore, scorers: Scorers, gold: Gold, info: RunInfo) -> None:
    """Copy the whole run with new scores, a few records in memory at a time."""
    planned = [replace(each, target=gold.get(each.id, each.target)) for each in source.read_plan()]
    target.write_plan(planned)
    labels, tags = find_labels(planned), {each.id: each.tags for each in planned}
    if gold:
        info = replace(info, task=replace(info.task, labels=list(labels.names)))
    target.write_info(info, signed=source.is_signed())  # its configuration is that of the other run
    target.write_state(source.read_state())
    scorings = [Scoring(scorer, RunSettings().deadline_seconds, str, name) for name, scorer in scorers]
    records = source.records()
    while some := list(islice(records, _AT_ONCE)):
        for record in some:
            record.run_id, record.target = info.run_id, gold.get(record.sample_id, record.target)
            _forget_score(record)
            if record.sample_id in gold:
                is_label = labels.find(record.target) is not None
                record.leaks = find_web_leaks(record.question, record.target, record.trajectory, is_label)
        for scoring in scorings:
            await asyncio.gather(*(scoring.score(record, tags.get(record.sample_id, {})) for record in some))
        for record in some:
            target.write(record)


def _forget_targets(task: TaskInfo) -> TaskInfo:
    return replace(task, task_version="", dataset_sha256="", labels=[])


def _forget_score(record: Record) -> None:
    """Remove the score, and an error of the scorer (a judge's key or quota included): the answer can be scored now."""
    record.score, record.explanation, record.parts, record.scorer_usage = None, "", {}, Usage()
    record.extra_scores = {}
    if record.error is not None and record.error_component == SCORER:
        record.error = record.error_class = record.error_component = None
        if record.limit == "deadline_seconds":  # the scorer's own
            record.limit = None
        record.state = {key: value for key, value in record.state.items() if key not in ("error", "error_component")}
