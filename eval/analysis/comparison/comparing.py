"""Several runs read and each compared with the first: what `eval/compare.py` shows, as one dictionary of plain values.

result = compared([find_run("baseline"), find_run("careful")], intersection=False)
result["comparisons"][0]["p_holm"], result["notes"]
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.analysis.comparison.comparison import Comparison, compare_answers
from eval.analysis.comparison.differing import Setup, find_differences, read_setup
from eval.analysis.comparison.held_out import compare_held_out
from eval.analysis.comparison.pairing import (
    Answers,
    CommonSamples,
    find_common,
    find_obstacle,
    have_same_scorer,
    read_answers,
)
from eval.analysis.statistics.paired_tests import adjust_p_values
from eval.analysis.tuned_on import UsedToTune, describe_unknown, read_tuning_use
from eval.cli.paths import shown
from eval.runs.folder import DATABASE, format_resume_hint
from eval.runs.record import NOT_RUN
from eval.runs.store import RunStore, StoreError
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE

_LABELS = string.ascii_uppercase
_ASK = "--intersection compares the questions that both have in common and have answered"


@dataclass(frozen=True)
class ReadRun:
    label: str
    folder: Path
    run_id: str
    simulated: bool
    rescored_from: str | None
    answers: Answers
    setup: Setup
    used: UsedToTune | None  # questions that its prompts were tuned on; None: it is not known


def compare_runs(folders: Sequence[Path], intersection: bool) -> dict[str, Any]:
    """`runs`, `comparisons` (each run with the first), `simulated`, `notice`.

    Args:
        folders: of two runs at least; the first is what the others are compared with.
        intersection: compare what two runs have in common, where they have not answered the same questions.

    Raises:
        UserError: two runs cannot be compared, one is named twice, or a store cannot be read.
    """
    _check(folders)
    runs = [_read(label, folder) for label, folder in zip(_LABELS, folders, strict=False)]
    made = [_pair(runs[0], other, intersection) for other in runs[1:]]
    for each, p in zip(made, adjust_p_values([each["p"] for each in made]), strict=True):
        each["p_holm"] = p
    simulated = any(run.simulated for run in runs)
    return {
        "runs": [_described(run) for run in runs],
        "comparisons": made,
        "simulated": simulated,
        "notice": SIMULATED_NOTICE if simulated else None,
    }


def _check(folders: Sequence[Path]) -> None:
    if len(folders) < 2:
        raise UserError("one run alone cannot be compared; name two or more.")
    if len(folders) > len(_LABELS):
        raise UserError(f"{len(folders)} runs are too many for one table; name {len(_LABELS)} at most.")
    real = [folder.resolve() for folder in folders]
    if twice := next((folder for folder in folders if real.count(folder.resolve()) > 1), None):
        raise UserError(f"{shown(twice)} is named twice; a run is compared with others.")


def _read(label: str, folder: Path) -> ReadRun:
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            info, answers = store.read_info(), read_answers(store)
    except StoreError as error:
        raise UserError(f"{error}.") from error
    return ReadRun(
        label=label,
        folder=folder,
        run_id=info.run_id,
        simulated=info.simulated,
        rescored_from=info.rescored_from or None,
        answers=answers,
        setup=read_setup(folder, info),
        used=read_tuning_use(info),
    )


def _described(run: ReadRun) -> dict[str, Any]:
    setup = run.setup
    return {
        "label": run.label,
        "name": run.folder.name,
        "folder": shown(run.folder),
        "run_id": run.run_id,
        "system": setup.system,
        "model": setup.model,
        "prompts": setup.prompts.name if setup.prompts else None,
        "tools": {agent: list(names) for agent, names in setup.tools.items()},
        "tools_are_seen": setup.tools_are_seen,
        "epochs": run.answers.epochs,
        "n_missing": run.answers.n_missing,
        "task_version": run.answers.task_version,
        "simulated": run.simulated,
        "rescored_from": run.rescored_from,
    }


def _pair(first: ReadRun, second: ReadRun, intersection: bool) -> dict[str, Any]:
    common = None
    if reason := find_obstacle(first.answers, second.answers):
        if not intersection:
            raise UserError(_refusal(first, second, reason))
        common = find_common(first.answers, second.answers)
        if not common.ids:
            raise UserError(
                f"{_named(first)} and {_named(second)} have no question in common that both have answered; "
                "nothing can be compared."
            )
    made = compare_answers(first.answers, second.answers, common.ids if common else None)
    used = {run.label: run.used for run in (first, second)}
    return {
        "run": second.label,
        "against": first.label,
        **made.to_dict(),
        "used_to_tune": compare_held_out(first.answers, second.answers, _compared_ids(first, common), used),
        "left_out": dict(common.left_out) if common else {},
        "differs": find_differences(first.setup, second.setup),
        "notes": list(_notes(first, second, made, common)),
    }


def _compared_ids(first: ReadRun, common: CommonSamples | None) -> Sequence[str]:
    return common.ids if common else list(first.answers.questions)


def _refusal(first: ReadRun, second: ReadRun, reason: str) -> str:
    unfinished = [run for run in (first, second) if run.answers.n_missing]
    if unfinished and reason.endswith("missing"):
        return (
            f"{_named(first)} and {_named(second)} cannot be compared yet: {reason}; "
            f"{format_resume_hint(unfinished[0].folder)}, or add --intersection ({_ASK})."
        )
    return (
        f"{_named(first)} and {_named(second)} had different tasks: {reason}; add --intersection ({_ASK}), or choose "
        "other runs."
    )


def _named(run: ReadRun) -> str:
    return f"{run.label} ({run.folder.name})"


def _notes(first: ReadRun, second: ReadRun, made: Comparison, common: CommonSamples | None) -> Iterator[str]:
    """What has to be known to read the numbers."""
    runs, both = (first, second), f"{first.label} and {second.label}"
    if common:
        n = sum(common.left_out.values())
        reasons = "; ".join(f"{count} {reason}" for reason, count in common.left_out.items())
        yield f"only what {both} have in common: {len(common.ids)} questions; {n} left out" + (
            f" ({reasons})" if reasons else ""
        )
        if missing := first.answers.n_missing + second.answers.n_missing:
            yield f"{missing} answers are still missing; here they are left out, not counted as wrong"
        if common.n_files_by_name:
            yield f"{common.n_files_by_name} attached files could be compared by name alone: a run is older than that"
    if not have_same_scorer(first.answers, second.answers):
        yield f"{both} were scored by different rules: a difference may be that of the rules"
    if first.answers.epochs != second.answers.epochs:
        times = " and ".join(f"{run.answers.epochs}" for run in runs)
        yield f"each question was answered {times} times; the means of each question are compared"
    yield from _price_notes(first, second, made)
    ids = _compared_ids(first, common)
    for run in runs:
        if run.used and (unknown := describe_unknown(run.used.edited)):
            yield f"warning: {run.label}: {unknown}"
        if n_leaked := run.answers.n_leaked(ids):
            met = "question met a page that gives it" if n_leaked == 1 else "questions met pages that give them"
            yield f"{run.label}: {n_leaked} {met} away (its report lists them); right answers to these prove little"
        if run.rescored_from:
            yield f"{run.label} holds the answers of {run.rescored_from}, scored again"
        if run.setup.n_prompt_sets > 1:
            yield f"{run.label} was resumed with other prompts; those used last are shown"
        if not run.setup.tools_are_seen:
            yield f"{run.label} is older than the note of which tools were offered; those configured are shown"


def _price_notes(first: ReadRun, second: ReadRun, made: Comparison) -> Iterator[str]:
    known, n = made.cost_usd.n_questions if made.cost_usd else 0, made.accuracy.n_questions
    if known < n:
        yield f"the cost of {n - known} of {n} questions is unknown to one of them; they are not in its difference"
    for run, side in ((first, made.first), (second, made.second)):
        if side.cached_calls:
            yield f"{side.cached_calls:,} calls of {run.label} cost nothing: another run had paid for them (cache.lm)"
        if n := side.cached_tool_calls:
            yield f"{n:,} tool calls of {run.label} were not made: another run had made them (cache.tools)"


def describe_flips(made: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], list[str], list[str]]]:
    """Each flipped question with both sides' answers in words: "✓ 17", "✗ 18", "! malformed", "! not_run"."""
    for flip in made["flips"]:
        yield flip, [_said(each) for each in flip["first"]], [_said(each) for each in flip["second"]]


def _said(given: Mapping[str, Any] | None) -> str:
    if given is None:
        return f"! {NOT_RUN}"
    if given["error_class"]:
        return f"! {given['error_class']}"
    return f"{'✓' if given['correct'] else '✗'} {given['text']}"
