"""Read several runs and compare each with the first, for `eval/compare.py`.

result = compare_read_runs(read_runs([find_run("baseline"), find_run("careful")]), intersection=False)
result.comparisons[0].p_holm, result.comparisons[0].notes
"""

import hashlib
import json
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eval.analysis.comparison.answers import (
    Answers,
    CommonSamples,
    GivenAnswer,
    find_common,
    find_obstacle,
    have_same_scorer,
    read_answers,
)
from eval.analysis.comparison.comparison import Comparison, Flip, HeldOut, compare_answers, compare_held_out
from eval.analysis.statistics.paired_tests import adjust_p_values
from eval.analysis.tuned_on import UsedToTune, describe_unknown, read_tuning_use
from eval.config.measured import find_changes
from eval.runs.folder import format_path, format_resume_hint, read_kept_prompts
from eval.runs.record import NOT_RUN
from eval.runs.store import open_run
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE

_LABELS = string.ascii_uppercase
MAX_RUNS = len(_LABELS)
_DIGEST_CHARS = 12
_NOTHING = "none"
_NOT_SHOWN = ("path", "config", "prompt_set", "n_prompt_sets", "answers", "used")  # fields of a run
_ASK = "--intersection compares the questions that both have in common and have answered"


@dataclass(frozen=True, kw_only=True)
class ReadRun:
    """A run to be compared, as it was read."""

    label: str
    name: str
    folder: str
    run_id: str
    system: str
    model: str
    prompts: str | None
    tools: dict[str, list[str]]  # agent → names
    epochs: int
    n_missing: int
    task_version: str
    simulated: bool
    rescored_from: str | None
    path: Path
    config: Mapping[str, object]
    prompt_set: PromptSet | None  # used last; None: none was kept
    n_prompt_sets: int  # more than one: it was resumed with others
    answers: Answers
    used: UsedToTune | None  # samples that its prompts were tuned on; None: unknown

    def __str__(self) -> str:
        return f"{self.label} ({self.name})"

    def to_dict(self) -> dict[str, object]:
        """Return what the result says of it."""
        return {name: value for name, value in vars(self).items() if name not in _NOT_SHOWN}


@dataclass(frozen=True)
class Differences:
    """Options, prompts and tools that differ: name → "of the first → of the second"."""

    options: dict[str, str]
    prompts: dict[str, str]
    tools: dict[str, str]


@dataclass(frozen=True)
class RunComparison:
    """A run compared with another, by their labels."""

    run: str
    against: str
    comparison: Comparison
    used_to_tune: HeldOut | None  # None: no sample is known to have been used to tune the prompts of either
    left_out: dict[str, int]  # reason → samples
    differs: Differences
    notes: tuple[str, ...]  # facts without which the numbers cannot be read
    p_holm: float = 1.0  # p, adjusted for the number of comparisons

    def to_dict(self) -> dict[str, object]:
        return {
            "run": self.run,
            "against": self.against,
            **self.comparison.to_dict(),
            "used_to_tune": self.used_to_tune.to_dict() if self.used_to_tune else None,
            "left_out": self.left_out,
            "differs": asdict(self.differs),
            "notes": self.notes,
            "p_holm": self.p_holm,
        }


@dataclass(frozen=True)
class ComparisonResult:
    """All runs, each but the first compared with the first."""

    runs: Sequence[ReadRun]
    comparisons: Sequence[RunComparison]

    @property
    def notice(self) -> str | None:
        return SIMULATED_NOTICE if any(run.simulated for run in self.runs) else None

    def to_dict(self) -> dict[str, object]:
        return {
            "runs": [run.to_dict() for run in self.runs],
            "comparisons": [each.to_dict() for each in self.comparisons],
            "simulated": self.notice is not None,
            "notice": self.notice,
        }


def read_runs(folders: Sequence[Path]) -> list[ReadRun]:
    """Read two runs or more.

    Raises:
        UserError: there are too few or too many, one is named twice, or a store cannot be read.
    """
    _check(folders)
    return [_read_run(label, folder) for label, folder in zip(_LABELS, folders, strict=False)]


def compare_read_runs(runs: Sequence[ReadRun], intersection: bool) -> ComparisonResult:
    """Compare each run with the first.

    Args:
        runs: two at least; the first is the one that the others are compared with.
        intersection: compare the samples that two runs have in common, if they have not answered the same samples.

    Raises:
        UserError: two runs cannot be compared.
    """
    pairs = [_compare_pair(runs[0], other, intersection) for other in runs[1:]]
    p_values = adjust_p_values([pair.comparison.score.p for pair in pairs])
    return ComparisonResult(
        runs,
        [replace(pair, p_holm=p) for pair, p in zip(pairs, p_values, strict=True)],
    )


def _check(folders: Sequence[Path]) -> None:
    if len(folders) < 2:
        raise UserError("one run alone cannot be compared; name two or more.")
    if len(folders) > MAX_RUNS:
        raise UserError(f"{len(folders)} runs are too many for one table; name {MAX_RUNS} at most.")
    real = [folder.resolve() for folder in folders]
    if twice := next((folder for folder in folders if real.count(folder.resolve()) > 1), None):
        raise UserError(f"{format_path(twice)} is named twice; a run is compared with others.")


def _read_run(label: str, folder: Path) -> ReadRun:
    with open_run(folder) as store:
        info, answers = store.read_info(), read_answers(store)
    if why := info.describe_gold():
        raise UserError(f"{format_path(folder)} cannot be compared: {why}.")
    kept = list(read_kept_prompts(folder, info.prompts).values())
    return ReadRun(
        label=label,
        name=folder.name,
        folder=format_path(folder),
        run_id=info.run_id,
        system=info.system or str(info.part("system").get("name", "")),
        model=info.model or str(info.part("model").get("name", "")),
        prompts=kept[-1].name if kept else None,
        tools=info.tools or {},
        epochs=answers.epochs,
        n_missing=answers.n_missing,
        task_version=answers.task_version,
        simulated=info.simulated,
        rescored_from=info.rescored_from or None,
        path=folder,
        config=info.config,
        prompt_set=kept[-1] if kept else None,
        n_prompt_sets=len(kept),
        answers=answers,
        used=read_tuning_use(info),
    )


def _compare_pair(first: ReadRun, second: ReadRun, intersection: bool) -> RunComparison:
    common = None
    if reason := find_obstacle(first.answers, second.answers):
        if not intersection:
            raise UserError(explain_refusal(first, second, reason))
        common = find_common(first.answers, second.answers)
        if not common.ids:
            raise UserError(
                f"{first} and {second} have no question in common that both have answered; nothing can be compared."
            )
    comparison = compare_answers(first.answers, second.answers, common.ids if common else None)
    ids = common.ids if common else list(first.answers.questions)
    used = {run.label: run.used for run in (first, second)}
    return RunComparison(
        run=second.label,
        against=first.label,
        comparison=comparison,
        used_to_tune=compare_held_out(first.answers, second.answers, ids, used),
        left_out=dict(common.left_out) if common else {},
        differs=Differences(
            options=find_changes(first.config, second.config),
            prompts=_compare_values(_describe_prompts(first.prompt_set), _describe_prompts(second.prompt_set)),
            tools=_compare_values(_join_tools(first), _join_tools(second)),
        ),
        notes=(
            *_list_pair_notes(first, second, common),
            *_list_price_notes(first, second, comparison),
            *(note for run in (first, second) for note in _list_run_notes(run, ids)),
        ),
    )


def _compare_values(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    pairs = {key: (before.get(key, _NOTHING), now.get(key, _NOTHING)) for key in {**before, **now}}
    return {key: f"{old} → {new}" for key, (old, new) in pairs.items() if old != new}


def _describe_prompts(prompts: PromptSet | None) -> dict[str, str]:
    """Return agent → digest of its text and its demos."""
    if prompts is None:
        return {}
    contents = {agent: json.dumps([text, prompts.demos.get(agent, [])]) for agent, text in prompts.texts.items()}
    return {agent: hashlib.sha256(each.encode("ascii")).hexdigest()[:_DIGEST_CHARS] for agent, each in contents.items()}


def _join_tools(run: ReadRun) -> dict[str, str]:
    return {agent: ", ".join(names) or _NOTHING for agent, names in run.tools.items()}


def explain_refusal(first: ReadRun, second: ReadRun, reason: str, intersection_hint: bool = True) -> str:
    """Return the sentence that two runs cannot be compared, and what to do.

    Args:
        first: one run.
        second: the other.
        reason: found by `find_obstacle`.
        intersection_hint: False where a part of the questions is not enough.
    """
    ask, choose = (
        (f", or add --intersection ({_ASK})", f"add --intersection ({_ASK}), or ") if intersection_hint else ("", "")
    )
    unfinished = [run for run in (first, second) if run.answers.n_missing]
    if unfinished and reason.endswith("missing"):
        hint = format_resume_hint(unfinished[0].path)
        return f"{first} and {second} cannot be compared yet: {reason}; {hint}{ask}."
    return f"{first} and {second} had different tasks: {reason}; {choose}choose other runs."


def _list_pair_notes(first: ReadRun, second: ReadRun, common: CommonSamples | None) -> Iterator[str]:
    both = f"{first.label} and {second.label}"
    if common:
        n = sum(common.left_out.values())
        reasons = "; ".join(f"{count} {reason}" for reason, count in common.left_out.items())
        left_out = f"{n} left out" + (f" ({reasons})" if reasons else "")
        yield f"only what {both} have in common: {format_count(len(common.ids), 'question')}; {left_out}"
        if missing := first.answers.n_missing + second.answers.n_missing:
            are, they = ("is", "it is") if missing == 1 else ("are", "they are")
            yield f"{format_count(missing, 'answer')} {are} still missing; here {they} left out, not counted as wrong"
    if not have_same_scorer(first.answers, second.answers):
        yield f"{both} were scored by different rules: a difference may be that of the rules"
    if first.answers.epochs != second.answers.epochs:
        times = f"{first.answers.epochs} and {second.answers.epochs}"
        yield f"each question was answered {times} times; the means of each question are compared"


def _list_price_notes(first: ReadRun, second: ReadRun, comparison: Comparison) -> Iterator[str]:
    known, n = comparison.cost_usd.n_questions if comparison.cost_usd else 0, comparison.score.n_questions
    if known < n:
        yield f"the cost of {n - known} of {n} questions is unknown to one of them; they are not in its difference"
    for run, side in ((first, comparison.first), (second, comparison.second)):
        if side.cached_calls:
            yield f"{side.cached_calls:,} calls of {run.label} cost nothing: another run had paid for them (cache.lm)"
        if n_cached := side.cached_tool_calls:
            yield f"{n_cached:,} tool calls of {run.label} were not made: another run had made them (cache.tools)"


def _list_run_notes(run: ReadRun, ids: Sequence[str]) -> Iterator[str]:
    if run.used and (unknown := describe_unknown(run.used.edited)):
        yield f"warning: {run.label}: {unknown}"
    if n_leaked := run.answers.count_leaked(ids):
        met = "question met a page that gives it" if n_leaked == 1 else "questions met pages that give them"
        yield f"{run.label}: {n_leaked} {met} away (its report lists them); right answers to these prove little"
    if run.rescored_from:
        yield f"{run.label} holds the answers of {run.rescored_from}, scored again"
    if run.n_prompt_sets > 1:
        yield f"{run.label} was resumed with other prompts; those used last are shown"


def describe_answers(flip: Flip) -> tuple[list[str], list[str]]:
    """Return both sides' answers by epoch: "✓ 17", "✗ 18", "◐ 17 or 18", "! malformed", "! not_run"."""
    return list(map(_describe_answer, flip.first)), list(map(_describe_answer, flip.second))


def _describe_answer(answer: GivenAnswer | None) -> str:
    if answer is None:
        return f"! {NOT_RUN}"
    if answer.error_class:
        return f"! {answer.error_class}"
    mark = "✓" if answer.correct else "✗" if answer.value == 0 else "◐"
    return f"{mark} {answer.text}"
