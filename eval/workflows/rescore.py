"""Score the answers of runs again, each into a run of its own.

    folder = rescore_run(find_run("latest"), ["scorer=numeric"], gold=None)
    rescore_all(list_runs(), [], Path("outputs/gold"), command=[])       # what people said of their answers

The new records are the same but for score, explanation, parts, target and the labels of people. By such labels only
the answers are scored again that they concern.
"""

import asyncio
import re
import shutil
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from eval.analysis.human_review.labels import (
    LabelBook,
    is_dataset_digest,
    list_verdicts,
    overrule_score,
    read_labels,
)
from eval.benchmarks.columns import GAIA_COLUMNS
from eval.benchmarks.files import read_metadata
from eval.benchmarks.rows import Attachments, Row, read_rows
from eval.cli.command import FINISHED, STOPPED, USER_ERROR, WORST_FIRST
from eval.cli.hydra_compat import MISTAKES, compose_config
from eval.cli.mistakes import describe_mistake
from eval.config.evaluation import RunSettings, build_part
from eval.contamination.web_results import find_web_leaks
from eval.execution.console import Console
from eval.execution.scoring import SCORER, Scoring
from eval.reports.files import write_files
from eval.reports.formats import format_percent
from eval.reports.rare_notes import describe_changes
from eval.reports.summary_table import choose_exit_code, print_report_path, print_summary
from eval.runs.find import get_run_name, list_runs
from eval.runs.folder import DATABASE, format_path, is_in_use, make_run_folder, read_kept_prompts
from eval.runs.own_runs import is_own_run, note_run, refuse_unreadable
from eval.runs.record import PlannedQuestion, Record, Usage
from eval.runs.run_info import RunInfo, dump_config
from eval.runs.store import RunStore, StoreError, check_free, open_run, read_run_info
from eval.scorers.gaia import question_scorer
from eval.scorers.labels import find_labels
from eval.scorers.score import Score, Scorer
from eval.workflows.sync import send_labels
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.terminal import print_line
from mas.runtime.text import format_count

_AT_ONCE = 16  # verdicts of a function that waits
TUNING_NOTE = "note: the verdicts of tuning runs stay: no sealed test is repeated with corrected targets"
_SHOWN_LINES = 5
_NO_TARGETS: dict[str, Any] = {"dataset_sha256": "", "labels": []}  # of a TaskInfo whose targets are others now
_ID, _QUESTION, _ANSWER = (str(GAIA_COLUMNS[key]) for key in ("id", "question", "answer"))


def rescore_all(originals: Sequence[Path], overrides: Sequence[str], gold: Path | None, command: Sequence[str]) -> int:
    """Rescore several runs, with a line for each; return the worst exit code.

    By labels of people, runs without a label on them are left out, and those that were scored again by the same labels.
    """
    codes, rescored = list[int](), list[Path]()
    labels = _read_label_book(gold) if gold and _is_of_labels(gold) else None
    known = _list_rescored(originals) if labels else {}
    n_without = n_done = 0
    for original in originals:
        try:
            if is_in_use(original / DATABASE):
                print_line(f"{original.name}: it is still running; score it again when it has ended", error=True)
                continue
            ids = set[str]() if labels is None else _list_applying(original, labels)
            if labels is not None and (not ids or ids in known.get(original.name, ())):
                n_without, n_done = n_without + (not ids), n_done + bool(ids)
                continue
            codes.append(rescore_and_report(original, overrides, gold, command, is_one_of_many=True))
            rescored.append(original)
        except MISTAKES as error:
            print_line(f"error: {original.name}: {describe_mistake(error)}", error=True)
            codes.append(USER_ERROR)
    done = f", {n_done} were already, by the same labels" if n_done else ""
    without = f", {n_without} without a labelled answer" if n_without else ""
    print_line(f"{format_count(len(codes) - codes.count(USER_ERROR), 'run')} scored again{done}{without}")
    if labels is not None and gold:
        send_labels(rescored, gold)
    return next((code for code in WORST_FIRST if code in codes), FINISHED)


def _list_rescored(originals: Sequence[Path]) -> dict[str, list[set[str]]]:
    """Return, by the name of the original run, the ids of the labels in each run that was made of it."""
    found: dict[str, list[set[str]]] = {}
    for folder in (each for parent in {each.parent for each in originals} for each in list_runs(parent)):
        with suppress(UserError, ValueError, TypeError), open_run(folder) as store:  # one from elsewhere: anything
            if name := store.read_info().rescored_from:
                records = store.records(without_trajectory=True)
                found.setdefault(name, []).append({each.id for record in records for each in record.human})
    return found


def _list_applying(original: Path, labels: LabelBook) -> set[str]:
    """Return the ids of the labels that hold for the answers of a run; none for one that was itself scored again."""
    with refuse_unreadable(original), open_run(original) as store:
        info = store.read_info()
        records = () if info.rescored_from else store.records(without_trajectory=True)
        found = (labels.find(record, info.task.file_sha256.get(record.sample_id)) for record in records)
        return {each.id for one in found for each in one.all}


def rescore_and_report(
    original: Path, overrides: Sequence[str], gold: Path | None, command: Sequence[str], is_one_of_many: bool = False
) -> int:
    """Rescore a run as `rescore_run` does, write the new one's files and show its results; return the exit code.

    With `is_one_of_many` the new run is made in the folder of the old one, and shown in one line.
    """
    try:
        with refuse_unreadable(original):
            folder = rescore_run(original, overrides, gold, command, parent=original.parent if is_one_of_many else None)
            with RunStore(folder / DATABASE) as store:
                summary = write_files(folder, store)
                is_tuned = store.read_info().tuning_use is not None and summary.human_review is not None
    except MISTAKES:  # some of Hydra's are OSErrors
        raise
    except (StoreError, OSError) as error:
        print_line(f"stopped: {error}", error=True)
        return STOPPED
    if is_tuned:
        print_line(TUNING_NOTE, error=True)
    if is_one_of_many:
        before = summary.human_review.score_before if summary.human_review else None
        shares = f"{format_percent(before)} → " if before is not None else ""
        changes = f" ({describe_changes(summary.human_review)})" if summary.human_review else ""
        line = f"{original.name}: {summary.metric} {shares}{format_percent(summary.score)}{changes}, in {folder.name}"
        print_line(line)
        return choose_exit_code(summary, None, Console(quiet=True))
    console = Console()
    print_summary(summary, console)
    print_line(f"scored again from: {format_path(original)}")
    print_line(f"results: {format_path(folder)}")
    print_report_path(folder, console)
    if gold and _is_of_labels(gold):
        send_labels([original], gold)
    return choose_exit_code(summary, None, console)


def rescore_run(
    original: Path,
    overrides: Sequence[str],
    gold: Path | None,
    command: Sequence[str] = (),
    parent: Path | None = None,
) -> Path:
    """Return the folder of a new run that has the answers of another one, scored again.

    Args:
        original: the run's folder; nothing in it changes.
        overrides: `scorer=…` and its options, `run.dir`, `run.name`; without `scorer=…` the run's own scorer.
        gold: a file of targets that replace those of the run; or a folder of people's labels, or one file of it.
        command: as typed, to be kept.
        parent: folder of the new run's folder; None: outputs/eval.

    Raises:
        UserError: the run is still running or cannot be opened, the scorer calls a model, or the targets are not for
            this run.
        StoreError: the new run cannot be written.
    """
    if is_in_use(original / DATABASE):
        raise UserError(f"{original} is still running; score it again when it has ended.")
    info, chosen = read_run_info(original), compose_config(overrides)
    if why := info.describe_gold():
        raise UserError(f"{format_path(original)} is not scored again: {why}.")
    by_labels = gold is not None and _is_of_labels(gold)
    if by_labels and info.rescored_from:
        raise UserError(f"{original.name} was scored again from {info.rescored_from}; apply the labels to that run.")
    config, is_own = dict(info.config), is_own_run(info.run_id, original)
    is_named = any(override.startswith(("scorer=", "scorer.")) for override in overrides)
    if is_named:
        config["scorer"] = _choose_scorer(config, OmegaConf.to_container(chosen.scorer, resolve=True))
    elif not is_own:
        raise UserError(
            f"{format_path(original)} was made elsewhere, or moved since, so its scorer is not used; name one: "
            "scorer=…."
        )
    only_labelled = by_labels and not is_named
    is_judged = only_labelled and "judge" in cast(Mapping[str, object], config.get("scorer") or {})
    extra = cast(dict[str, dict[str, object]], config.get("extra_scorers") or {}) if is_own else {}
    config["extra_scorers"] = {name: node for name, node in extra.items() if "judge" not in node}
    with RunStore(original / DATABASE, read_only=True) as source:
        changes = _read_changes(gold, source.read_plan(), info.task.file_sha256, only_labelled)
        scorers: dict[str | None, Scorer] = {
            None: CorrectedRule() if is_judged else _build_scorer(config.get("scorer"), "scorer"),
            **{name: _build_scorer(node, f"extra_scorers.{name}") for name, node in config["extra_scorers"].items()},
        }
        scorings = [Scoring(scorer, RunSettings().deadline_seconds, str, name) for name, scorer in scorers.items()]
        if chosen.run.dir:
            check_free(Path(chosen.run.dir))
        name = chosen.run.name or f"{get_run_name(original)}_rescored"
        folder = make_run_folder("eval", name, chosen.run.dir, parent)
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
            task=replace(info.task, task_version="", **(_NO_TARGETS if changes.targets else {})),
        )
        for place in read_kept_prompts(original, info.prompts):
            shutil.copytree(original / place, folder / place)
        if is_own:  # else its configuration is somebody else's
            note_run(info.run_id, folder)
        with RunStore(folder / DATABASE) as target:
            run_blocking(_copy(source, target, scorings, changes, info))
    return folder


def _read_changes(
    gold: Path | None, plan: Sequence[PlannedQuestion], files: Mapping[str, str], only_labelled: bool
) -> "_Changes":
    """Return what a file of targets, or people's labels, change in a run with this plan and these attachments."""
    if gold is None:
        return _Changes()
    if not _is_of_labels(gold):
        return _Changes(_read_targets(gold, {each.id for each in plan}))
    labels = _read_label_book(gold)
    corrected = {each.id: labels.find(each, files.get(each.id)).corrected_target for each in plan}
    targets = {sample_id: target for sample_id, target in corrected.items() if target is not None}
    return _Changes(targets, labels, only_labelled)


def _is_of_labels(gold: Path) -> bool:
    return gold.is_dir() or is_dataset_digest(gold.stem)


def _read_label_book(place: Path) -> LabelBook:
    """Return the labels in a folder or a file; lines that are none are reported."""
    book = read_labels(place)
    if book.unreadable:
        lines, shown = format_count(len(book.unreadable), "line"), ", ".join(book.unreadable[:_SHOWN_LINES])
        what = f"{lines} of {format_path(place)} cannot be read and count as no label"
        print_line(f"warning: {what}: {shown}", error=True)
    if not book.labels:
        raise UserError(f"gold={format_path(place)} has no labels yet; review answers with python eval/view.py.")
    return book


@dataclass(frozen=True)
class _Changes:
    """Differences from the original run besides the scorer."""

    targets: Mapping[str, str | None] = field(default_factory=dict)  # by sample id; None: unscored
    labels: LabelBook = field(default_factory=LabelBook)
    only_labelled: bool = False  # all other answers keep their scores


class CorrectedRule(Scorer):
    """Rule for answers that a judge has scored and whose target a person corrected: no model is called for them."""

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        value = float(question_scorer(answer, target))
        return Score(value, "by GAIA's rule and the corrected target; the judge was not asked again")


def _choose_scorer(config: Mapping[str, object], scorer: Any) -> dict[str, object]:
    """Return the scorer that was named; the target of a DSPy metric keeps the name that it has in the run's data.

    The run may be from elsewhere: a name that is more than a text would be resolved, or imported.
    """
    data = config.get("data")
    name = data.get("target_column") if isinstance(data, Mapping) else None
    if scorer.get("target_field", "") is None and isinstance(name, str) and name != "???" and "${" not in name:
        scorer["target_field"] = name
    return cast(dict[str, object], scorer)


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


def _read_targets(file: Path, ids: Collection[str]) -> dict[str, str | None]:
    """Return the targets by sample id, read as those of a dataset are: 4.0 and "4" mean the same here and there."""
    if not file.is_file():
        raise UserError(
            f"gold={file} is not a file under {Path.cwd()}, nor a folder of labels; give the path of one that exists."
        )
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


async def _copy(
    source: RunStore, target: RunStore, scorings: Sequence[Scoring], changes: _Changes, info: RunInfo
) -> None:
    """Copy the whole run with new scores, a few records in memory at a time."""
    gold, files = changes.targets, info.task.file_sha256
    planned = [replace(each, target=gold.get(each.id, each.target)) for each in source.read_plan()]
    target.write_plan(planned)
    labels, tags = find_labels(planned), {each.id: each.tags for each in planned}
    if gold:
        info = replace(info, task=replace(info.task, labels=list(labels.names)))
    target.write_info(info)
    target.write_state(source.read_state())
    records = source.records()
    while some := list(islice(records, _AT_ONCE)):
        found = [changes.labels.find(record, files.get(record.sample_id)) for record in some]
        again = [record for record in some if not changes.only_labelled or record.sample_id in gold]
        for record, labelled in zip(some, found, strict=True):
            of_question = [each for each in record.human if each.is_of_question]  # of a run that was scored again
            record.human = list_verdicts(record, labelled, is_applied=True) or of_question
            record.run_id, record.target = info.run_id, gold.get(record.sample_id, record.target)
            if record in again:
                _forget_score(record)
            if record.sample_id in gold:
                is_label = labels.find(record.target) is not None
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
