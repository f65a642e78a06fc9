"""A run's answers, scored again into a run of their own: the same records but for score, explanation, parts and target.

folder = rescored(find_run("latest"), ["scorer=numeric"], gold=None)
RunStore(folder / "run.db", read_only=True).read_info().rescored_from      # "2026-11-21_08-30-31_gaia_offline_sample"
"""

import asyncio
import shutil
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from eval.benchmarks.columns import GAIA_COLUMNS
from eval.benchmarks.jsonl import read_metadata
from eval.benchmarks.rows import Attachments, Row, read_rows
from eval.cli.hydra_compat import composed
from eval.config.evaluation import RunSettings, build_part
from eval.contamination.web_results import find_web_leaks
from eval.execution.scoring import SCORER, Scoring
from eval.runs.folder import DATABASE, in_use, make_run_folder, read_kept_prompts, run_name
from eval.runs.record import Record, Usage
from eval.runs.run_info import RunInfo, dump_config
from eval.runs.store import RunStore, StoreError
from eval.scorers.score import Scorer
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking

_AT_ONCE = 16  # verdicts of a function that waits
_ID, _QUESTION, _ANSWER = (str(GAIA_COLUMNS[key]) for key in ("id", "question", "answer"))
Gold = Mapping[str, str | None]  # sample id → gold answer; None: unscored


def rescored(original: Path, overrides: Sequence[str], gold: Path | None, command: Sequence[str] = ()) -> Path:
    """The new run's folder, with its database and configuration.

    Args:
        original: the run's folder; nothing in it changes.
        overrides: `scorer=…` and its options, `run.dir`, `run.name`; without `scorer=…` the run's own scorer.
        gold: a file of gold answers that replace the run's.
        command: as typed, to be kept.

    Raises:
        UserError: the run is going on or cannot be opened, the scorer asks a model, or the gold answers are not for
            this run.
        StoreError: the new run cannot be written.
    """
    if in_use(original / DATABASE):
        raise UserError(f"{original} is still going on; score it anew when it has ended.")
    try:
        source = RunStore(original / DATABASE, read_only=True)
    except StoreError as error:
        raise UserError(f"{error}.") from error
    with source:
        chosen = composed(overrides)
        info = source.read_info()
        config = dict(info.config)
        if any(override.startswith("scorer") for override in overrides):
            config["scorer"] = OmegaConf.to_container(chosen.scorer, resolve=True)
        scorer = _scorer(config)
        answers = _gold_answers(gold, {each.id for each in source.planned()}) if gold else {}
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
            task=replace(info.task, task_version="", dataset_sha256="" if answers else info.task.dataset_sha256),
        )
        for place in read_kept_prompts(original, info.prompts):
            shutil.copytree(original / place, folder / place)
        with RunStore(folder / DATABASE) as target:
            run_blocking(_copied(source, target, scorer, answers, info))
    return folder


def _scorer(config: dict[str, Any]) -> Scorer:
    if "scorer" not in config:
        raise UserError("the run does not say how it was scored; give scorer=….")
    node = OmegaConf.create({"scorer": config["scorer"]})
    if "judge" in node.scorer:
        raise UserError(
            "scorer=graded asks a model, and scoring anew asks none; give another scorer, such as scorer=gaia, or "
            "start a new run."
        )
    scorer = build_part(node.scorer, "scorer")
    scorer.check()
    return scorer  # type: ignore[no-any-return]


def _new_folder(original: Path, chosen: DictConfig) -> Path:
    given = chosen.run.dir
    if given and (Path(given) / DATABASE).exists():
        raise UserError(f"run.dir={given} already holds a run; name a new folder.")
    return make_run_folder("eval", chosen.run.name or f"{run_name(original)}_rescored", given)


def _gold_answers(file: Path, ids: Collection[str]) -> dict[str, str | None]:
    """Read as a dataset's own gold answers are, so that 4.0 and "4" mean here what they mean there."""
    if not file.is_file():
        raise UserError(f"gold={file} is not a file under {Path.cwd()}; give the path of one that exists.")
    rows = [_gold_row(row, ids) for row in read_metadata(file)]
    try:
        return {sample.id: sample.target for sample in read_rows(rows, Attachments(file.parent)).samples}
    except UserError as error:
        problem = str(error).partition("; mend the row")[0].rstrip(".")
        raise UserError(f"{problem}; mend the file of gold answers.") from error


def _gold_row(row: Row, ids: Collection[str]) -> Row:
    """With a question, which every dataset's row must have, and without whatever else it holds."""
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


async def _copied(source: RunStore, target: RunStore, scorer: Scorer, gold: Gold, info: RunInfo) -> None:
    """The whole run with new scores; a few records in memory at a time."""
    planned = [replace(each, target=gold.get(each.id, each.target)) for each in source.planned()]
    target.plan(planned)
    target.write_info(info)
    target.write_state(source.read_state())
    scoring = Scoring(scorer, RunSettings().deadline_seconds, redact=str)
    records = source.records()
    while some := list(islice(records, _AT_ONCE)):
        for record in some:
            record.run_id, record.target = info.run_id, gold.get(record.sample_id, record.target)
            _forget_score(record)
            if record.sample_id in gold:
                record.leaks = find_web_leaks(record.question, record.target, record.trajectory)
        await asyncio.gather(*map(scoring.score, some))
        for record in some:
            target.write(record)


def _forget_score(record: Record) -> None:
    """Errors stay, but for those in scoring, a judge's key or quota among them: the answer can be scored now."""
    record.score, record.explanation, record.parts, record.scorer_usage = None, "", {}, Usage()
    if record.error is not None and record.error_component == SCORER:
        record.error = record.error_class = record.error_component = None
        if record.limit == "deadline_seconds":  # the scorer's own
            record.limit = None
        record.state = {key: value for key, value in record.state.items() if key not in ("error", "error_component")}
