"""Read several runs, compare each with the first, and judge a new one for a build: `eval/compare.py`.

    result = compare_read_runs(read_runs([find_run("baseline"), find_run("careful")]))
    result.comparisons[0].p_holm, result.comparisons[0].notes
    judge_new_run(result, margin=0.02, alpha=0.05).verdict         # "pass", "fail" or "inconclusive"

Pass: the lower bound is above −margin, so the change is no worse than allowed (non-inferiority). Fail: the upper bound
is below −margin, and the difference is one that two runs of the same program would show in at most 1 of 100
comparisons. Anything else is inconclusive. Each bound is wrong with probability alpha at most.
"""

import hashlib
import json
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from eval.analysis.comparison.comparison import Answers, Comparison, compare_answers, find_obstacle, read_answers
from eval.analysis.statistics.paired_tests import PairedResult, adjust_p_values
from eval.analysis.summary.rare_numbers import measure_overlap
from eval.config.measured import find_changes
from eval.runs.folder import format_path, format_resume_hint, read_kept_prompts
from eval.runs.run_info import RunInfo
from eval.runs.store import open_run
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE

LABELS = string.ascii_uppercase
_DIGEST_CHARS = 12
_NOTHING = "none"
Verdict = Literal["pass", "fail", "inconclusive"]
SAME_PROGRAM = 0.005  # level at which equal programs must differ to fail: half of 1 %, since intervals are approximate


@dataclass(frozen=True, kw_only=True)
class ReadRun:
    """A run to be compared, as it was read."""

    label: str
    name: str
    path: Path
    info: RunInfo
    answers: Answers
    prompts: PromptSet | None  # that it kept

    def __str__(self) -> str:
        return f"{self.label} ({self.name})"

    def to_dict(self) -> dict[str, object]:
        info = self.info
        return {
            "label": self.label,
            "name": self.name,
            "folder": format_path(self.path),
            "run_id": info.run_id,
            "system": info.system or str(info.part("system").get("name", "")),
            "model": info.model or str(info.part("model").get("name", "")),
            "prompts": self.info.prompts_name or (self.info.prompts_sha256 and self.name),
            "epochs": self.answers.epochs,
            "simulated": info.simulated,
        }


@dataclass(frozen=True)
class RunComparison:
    """A run compared with another, by their labels."""

    run: str
    against: str
    comparison: Comparison
    n_tuned_on: int  # samples that prompts were tuned on; left out, unless all were
    is_optimistic: bool  # all were: the difference says nothing of other samples
    differs: dict[str, str]  # prompt, tools of an agent, or option → "of the first → of the second"
    notes: tuple[str, ...]  # facts without which the numbers cannot be read
    p_holm: float = 1.0  # p, adjusted for the number of comparisons

    def to_dict(self) -> dict[str, object]:
        own = {name: value for name, value in vars(self).items() if name != "comparison"}
        return {**own, **self.comparison.to_dict()}


@dataclass(frozen=True)
class ComparisonResult:
    """All runs, each but the first compared with the first."""

    runs: Sequence[ReadRun]
    comparisons: Sequence[RunComparison]

    @property
    def notice(self) -> str | None:
        return SIMULATED_NOTICE if any(run.info.simulated for run in self.runs) else None

    def to_dict(self) -> dict[str, object]:
        return {
            "runs": [run.to_dict() for run in self.runs],
            "comparisons": [each.to_dict() for each in self.comparisons],
            "notice": self.notice,
        }


@dataclass(frozen=True)
class GateResult:
    """The verdict on a build."""

    verdict: Verdict
    margin: float  # loss that is allowed
    alpha: float  # probability of a wrong verdict
    lower: float  # bounds of new − base
    upper: float
    by_chance: bool  # worse than the margin, but equal programs would differ so much too often


def read_runs(folders: Sequence[Path]) -> list[ReadRun]:
    """Read two runs or more; raise UserError if one is named twice, or cannot be read or compared."""
    if len(folders) < 2:
        raise UserError("one run alone cannot be compared; name two or more.")
    if len(folders) > len(LABELS):
        raise UserError(f"{len(folders)} runs are too many for one table; name {len(LABELS)} at most.")
    real = [folder.resolve() for folder in folders]
    if twice := next((folder for folder in folders if real.count(folder.resolve()) > 1), None):
        raise UserError(f"{format_path(twice)} is named twice; a run is compared with others.")
    return [read_run(label, folder) for label, folder in zip(LABELS, folders, strict=False)]


def read_run(label: str, folder: Path) -> ReadRun:
    with open_run(folder) as store:
        info, answers = store.read_info(), read_answers(store)
    if why := info.describe_gold():
        raise UserError(f"{format_path(folder)} cannot be compared: {why}.")
    kept = read_kept_prompts(folder)
    return ReadRun(label=label, name=folder.name, path=folder, info=info, answers=answers, prompts=kept)


def compare_read_runs(runs: Sequence[ReadRun]) -> ComparisonResult:
    """Compare each run with the first; raise UserError if two cannot be compared."""
    pairs = [_compare_pair(runs[0], other) for other in runs[1:]]
    p_values = adjust_p_values([pair.comparison.score.p for pair in pairs])
    return ComparisonResult(runs, [replace(pair, p_holm=p) for pair, p in zip(pairs, p_values, strict=True)])


def judge_new_run(result: ComparisonResult, margin: float, alpha: float) -> GateResult:
    """Judge the second run against the first, on the questions that the prompts of neither were tuned on.

    Raise UserError if there are too few.
    """
    (pair,) = result.comparisons
    n_questions = 0 if pair.is_optimistic else len(pair.comparison.differences)
    if n_questions < 2:  # there is no interval
        left_out = f" ({pair.n_tuned_on} were used to tune the prompts)" if pair.n_tuned_on else ""
        raise UserError(f"{format_count(n_questions, 'question')}{left_out} cannot decide; 2 are needed at least.")
    return judge_difference(pair.comparison.score, margin, alpha)


def judge_difference(result: PairedResult, margin: float, alpha: float) -> GateResult:
    """Return the verdict on a difference of two questions at least."""
    lower, upper = result.compute_interval(2 * alpha) or (-1.0, 1.0)
    strict = result.compute_interval(2 * min(alpha, SAME_PROGRAM)) or (-1.0, 1.0)
    is_below = upper < -margin
    differs = is_below and strict[1] < 0
    verdict: Verdict = "pass" if lower > -margin else "fail" if differs else "inconclusive"
    return GateResult(verdict, margin, alpha, lower, upper, is_below and not differs)


def _compare_pair(first: ReadRun, second: ReadRun) -> RunComparison:
    questions = list(first.answers.questions)
    if reason := find_obstacle(first.answers, second.answers):
        raise UserError(_explain_refusal(first, second, reason))
    known = {id for run in (first, second) if (use := run.info.tuning_use) for id in use.ids}
    ids = [each for each in questions if each not in known]  # that the prompts of neither were tuned on
    comparison = compare_answers(first.answers, second.answers, ids or questions)
    return RunComparison(
        run=second.label,
        against=first.label,
        comparison=comparison,
        n_tuned_on=len(questions) - len(ids),
        is_optimistic=not ids,
        differs=_compare_values(_describe_differing(first), _describe_differing(second))
        | {f"option {name}": change for name, change in find_changes(first.info.config, second.info.config).items()},
        notes=(
            *_list_tuning_notes(first, second, questions, ids),
            *_list_pair_notes(first, second, comparison),
            *(note for run in (first, second) for note in _list_run_notes(run, questions)),
        ),
    )


def _describe_differing(run: ReadRun) -> dict[str, str]:
    """Return the digest of each agent's text and demos, and its tools."""
    found = {}
    if run.prompts:
        texts, demos = run.prompts.texts, run.prompts.demos
        for agent, text in texts.items():
            content = json.dumps([text, demos.get(agent, [])]).encode("ascii")
            found[f"prompt {agent}"] = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]
    elif run.info.prompts_sha256:  # a side of a sealed test, whose texts are the candidate's
        found["prompts"] = run.info.prompts_sha256[:_DIGEST_CHARS]
    tools = (run.info.tools or {}).items()
    return found | {f"tools of {agent}": ", ".join(names) or _NOTHING for agent, names in tools}


def _compare_values(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    pairs = {key: (before.get(key, _NOTHING), now.get(key, _NOTHING)) for key in {**before, **now}}
    return {key: f"{old} → {new}" for key, (old, new) in pairs.items() if old != new}


def _explain_refusal(first: ReadRun, second: ReadRun, reason: str) -> str:
    """Return the sentence that two runs cannot be compared for a reason of `find_obstacle`, and what to do."""
    unfinished = [run for run in (first, second) if run.answers.n_missing]
    if unfinished and reason.endswith("missing"):
        return f"{first} and {second} cannot be compared yet: {reason}; {format_resume_hint(unfinished[0].path)}."
    again, (ours, others) = "", (run.answers.questions for run in (first, second))
    if first.answers.scorer != second.answers.scorer:
        again = ", or score one again with python eval/rescore.py RUN scorer=…"
    elif ours.keys() != others.keys() and all(ours[id] == others[id] for id in ours.keys() & others):
        # A resumed run keeps its answers to these: to other texts, they would be compared as if given to the new ones.
        again = ", or resume one on the questions of the other with run.allow_config_change=true"
    return f"{first} and {second} had different tasks: {reason}; choose other runs{again}."


def _list_tuning_notes(
    first: ReadRun, second: ReadRun, questions: Sequence[str], untouched: Sequence[str]
) -> Iterator[str]:
    uses = {run.label: run.info.tuning_use for run in (first, second)}
    used = {label: measure_overlap(use, questions) for label, use in uses.items() if use}
    sets = " and ".join(f"of {label}, {each.describe_sets()}" for label, each in used.items() if each.n_questions)
    n, n_tuned_on = len(questions), len(questions) - len(untouched)
    if n_tuned_on == n:
        too_high = "nothing is known of new questions, and p and the difference are too optimistic"
        yield f"warning: all {n} questions were used to tune the prompts {sets}: {too_high}"
    elif n_tuned_on:
        yield f"{n_tuned_on} of the {n} questions were used to tune the prompts {sets}; these are left out here"


def _list_pair_notes(first: ReadRun, second: ReadRun, comparison: Comparison) -> Iterator[str]:
    if first.answers.epochs != second.answers.epochs:
        times = f"{first.answers.epochs} and {second.answers.epochs}"
        yield f"each question was answered {times} times; the means of each question are compared"
    known, n = comparison.cost_usd.n_questions if comparison.cost_usd else 0, comparison.score.n_questions
    if known < n:
        yield f"the cost of {n - known} of {n} questions is unknown to one of them; they are not in its difference"


def _list_run_notes(run: ReadRun, ids: Sequence[str]) -> Iterator[str]:
    use = run.info.tuning_use
    if use and (unknown := measure_overlap(use, ids).describe_unknown()):
        yield f"warning: {run.label}: {unknown}"
    if n_leaked := sum(any(each.leaks for each in run.answers.list_given(id)) for id in ids):
        met = f"{format_count(n_leaked, 'question')} met pages that give the answer away (its report lists them)"
        yield f"{run.label}: {met}; right answers to these prove little"
    if run.info.rescored_from:
        yield f"{run.label} holds the answers of {run.info.rescored_from}, scored again"
