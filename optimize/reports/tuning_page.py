"""Results of a tuning run for people: its outcome in words, for the terminal and MLflow, and `report.html`.

The page is made from the run's files alone, loads nothing and is read by no command. It holds no question and target.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from eval.execution.console import Console, format_duration
from eval.reports.formats import format_interval, format_percent, format_points, format_share, format_usd
from eval.reports.html.page import write_page
from eval.reports.summary_table import print_report_path
from eval.runs.find import check_entries
from eval.runs.folder import REPORT, format_path
from eval.runs.own_runs import refuse_unreadable
from mas.runtime.errors import UserError
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.gate import HOPELESS, JsonObject, Verdict, compute_exit_code
from optimize.gate.sealed_log import Allowance
from optimize.publishing.prompt_diff import AgentDiff, compare_sets
from optimize.publishing.publish import describe_published
from optimize.search.optimizer import PARENT, Proposal
from optimize.session.tuning_store import TuningSnapshot, find_tuning_run, format_command, read_tuning

_TEMPLATE = Path(__file__).with_name("tuning.html.jinja")


def show_verdict(tuning: TuningSnapshot, console: Console) -> None:
    """Print the verdict of a run."""
    if tuning.info.simulated:
        console.print(SIMULATED_NOTICE, style="bold yellow")
    for line in _format_verdict(tuning):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _format_verdict(tuning: TuningSnapshot) -> Iterator[str]:
    verdict = tuning.verdict
    if "winner" in verdict:
        yield f"sealed test: {_describe_test(verdict)}"
    yield from (f"  {note}" for note in _list_test_notes(verdict))
    if verdict["published"]:
        yield describe_published(verdict["set"], tuning.read_part("splits"))
    else:
        yield f"not published: {verdict['finish_reason']}"
    yield from (f"  {line}" for line in (*_list_checks(verdict), *_list_notes(verdict)))
    if not verdict["published"] and (winner := verdict.get("winner")):
        run, chosen = shlex.quote(str(format_path(tuning.folder))), winner["candidate_id"]
        command = f"{format_command('export.py')} {run} --candidate {chosen} --name {shlex.quote(tuning.task.name)}"
        yield f"  to publish it all the same, ungated: {command}"
    spend = verdict["spend"]
    yield (
        f"spent: {spend['lm_calls']:,} requests ({spend['reflection_calls']:,} by the reflection model), "
        f"{spend['input_tokens'] + spend['output_tokens']:,} tokens, {format_cost(spend)}, {spend['seconds']:,.0f} s"
    )


@dataclass(frozen=True)
class Outcome:
    label: str  # published | not published | no verdict
    tone: str  # class of the page's styles
    sentence: str
    notes: Sequence[str] = ()


def describe_outcome(tuning: TuningSnapshot) -> Outcome:
    """Return whether the run has published prompts, and why."""
    opened = "" if tuning.sealed_opened else " The sealed questions were not used."
    if not tuning.verdict:
        state = tuning.state
        how = f"Stopped: {state.last_session.stopped}." if state.last_session.stopped else "It goes on, or was killed."
        far = "What is below is how far it came, and no result."
        return Outcome("no verdict", "error", f"{how} Its last phase is {state.phase}.{opened} {far}")
    verdict = tuning.verdict
    notes = [*_list_test_notes(verdict), *_list_notes(verdict)]
    if "winner" not in verdict:
        return Outcome("not published", "wrong", f"{'; '.join(verdict['reasons'])}.{opened}", notes)
    notes, test = [*_list_checks(verdict), *notes], f"Sealed test: {_describe_test(verdict)}."
    if tuning.published:
        return Outcome("published", "right", f"As {verdict['set']}. {test}", notes)
    return Outcome("not published", "wrong", test, notes)


# The sentences


def _list_checks(verdict: Verdict) -> list[str]:
    """Return the gate's checks, each with its result; the reasons, if the run did not come to the gate."""
    return list(verdict["gate"]["checks"] if "gate" in verdict else verdict["reasons"])


def _describe_test(verdict: Verdict) -> str:
    """Return both sides' results in the sealed test, and the gain."""
    sealed, before, after, bounds = verdict["sealed"], verdict["baseline"], verdict["winner"], verdict["gain_ci95"]
    interval = f" (95% interval {format_interval((bounds[0], bounds[1]), format_points)})" if bounds else ""
    return (
        f"{verdict['metric']} {before['score']:.1%} → {after['score']:.1%} with {after['candidate_id']}: "
        f"{format_points(verdict['gain'] or 0.0)} points{interval}, p = {verdict['p']:.3g} ({sealed['test']}; "
        f"{format_count(sealed['n_questions'], 'question')}, {format_count(sealed['epochs'], 'answer')} each)"
    )


def _list_test_notes(verdict: Verdict) -> Iterator[str]:
    """Yield what else is to be known about the sealed test; nothing if it was not begun."""
    sealed = verdict.get("sealed") or {}
    if "winner" in verdict:
        winner, failed = verdict["winner"]["candidate_id"], sealed.get("failed_answers") or {}
        yield f"{format_count(sealed['wins'], 'question')} better, {sealed['losses']} worse, {sealed['ties']} the same"
        if sealed["looks"] > 1:
            yield f"{_describe_stop(sealed)}; the intervals are adjusted for the looks"
        n_before, n_after = (sum(verdict[side]["errors"].values()) for side in ("baseline", "winner"))
        if n_before or n_after:
            yield f"answers in error, which count as wrong: {n_before} before, {n_after} with {winner}"
        if any(failed.values()):
            counted = f"{failed['parent']} before, which count as right, and {failed['winner']} with {winner}"
            yield f"answers that the server failed each time: {counted}, which count as wrong"
    if n_earlier := sealed.get("opened_before"):
        yield Allowance(sealed["level"], n_earlier, sealed["level_left"]).describe(sealed["looks"])
    if known := sealed.get("known_to_parent"):
        used = f"{known} of the sealed questions were used to tune the prompts that the run began with"
        yield f"{used}: both scores are biased upwards"


def _list_notes(verdict: Verdict) -> Iterator[str]:
    """Yield what else is to be known about the gain, the search and the labels."""
    if (best := verdict["best_val"]) and best["val_gain"] > 0:
        gain = format_points(best["val_gain"])
        yield f"picking on validation alone would have shipped {best['candidate_id']} ({gain} points there)"
    if (null_gain := verdict["null_gain"]) is not None:
        gained = f"an unchanged copy of the starting prompts gained {format_points(null_gain)} points"
        yield f"null control: {gained} when the validation questions were answered again, by chance alone"


def _describe_stop(sealed: JsonObject) -> str:
    """Return where a test with looks stopped, and what that saved."""
    if sealed["look"] == sealed["looks"]:
        return f"all {sealed['looks']} looks were taken"
    why = "a gain at the end had become improbable" if sealed["stopped"] == HOPELESS else "a gain was shown"
    saved, n_all = sealed["n_answers_saved"], sealed["n_answers_saved"] + sealed["n_answers"]
    place = (
        f"look {sealed['look']} of {sealed['looks']}, after {sealed['n_questions']} of {sealed['n_sealed']} questions"
    )
    return f"stopped at {place}: {why}; {saved:,} of {n_all:,} answers were saved"


def format_cost(spend: Mapping[str, float]) -> str:
    """Return what was paid, as much of it as is known."""
    known = format_usd(spend.get("cost_usd", 0.0))
    if not spend.get("unknown_cost_calls"):
        return known
    return f"at least {known}" if spend.get("cost_usd") else "cost n/a"


# The page


def write_tuning_page(folder: Path) -> Path:
    """Write the page of a run, also while it is going on; OSError: it cannot be written, and an older one stays."""
    check_entries(folder)
    tuning = read_tuning(folder)
    with refuse_unreadable(folder):
        write_page(folder / REPORT, _TEMPLATE, (), _build_page(tuning))
    return folder / REPORT


def show_finished_run(run: str) -> int | None:
    """Print the verdict of a finished run again, and return its exit code; None if the run is not finished."""
    tuning = read_tuning(find_tuning_run(run))
    if not tuning.verdict:
        return None
    show_verdict(tuning, Console())
    if not (tuning.folder / REPORT).is_file():  # the process ended between the verdict and its page
        write_tuning_page(tuning.folder)
    print_report_path(tuning.folder, Console())
    return compute_exit_code(tuning.verdict)


def _build_page(tuning: TuningSnapshot) -> dict[str, object]:
    return {
        "title": f"Tuning of {tuning.info.system}: {tuning.name}",
        "outcome": describe_outcome(tuning),
        "notice": SIMULATED_NOTICE if tuning.info.simulated else "",
        "own": tuning.is_own,
        "tiles": list(_list_tiles(tuning)),
        "shortlist": list(_list_shortlist(tuning)),
        "candidates": list(_list_candidates(tuning)),
        "n_proposals": len(tuning.proposals),
        "winner": tuning.winner,
        "winner_difference": _compare(tuning, PARENT, tuning.winner) if tuning.winner else None,
        "parent_set": tuning.info.prompts_name,
        "leaks": tuning.read_part("leaks"),
        "facts": list(_list_facts(tuning)),
        "percent": format_percent,
    }


def _list_candidates(tuning: TuningSnapshot) -> Iterator[dict[str, Any]]:
    """Yield the parent and the proposals in their order, with the difference of those that were kept."""
    score = tuning.read_part("baseline").get("val_score")
    yield {"row": Proposal(PARENT, None, "accepted", parent_ids=(), val_score=score), "marks": [], "difference": None}
    for row in tuning.proposals:
        marks, difference = [], None
        if row.candidate_id == tuning.winner:
            marks.append("published" if tuning.published else "tested")
        if row.candidate_id in tuning.shortlist:
            marks.append("shortlist")
        if marks or row.decision == "accepted":
            difference = _compare(tuning, next(iter(row.parent_ids), PARENT), row.candidate_id)
        yield {"row": row, "marks": marks, "difference": difference}


def _compare(tuning: TuningSnapshot, before: str, after: str) -> list[AgentDiff] | None:
    """Return how the prompts of two candidates differ; None if the run does not have both, or they were changed."""
    try:
        return compare_sets(tuning.get_prompts(before), tuning.get_prompts(after))
    except UserError:
        return None


def _list_tiles(tuning: TuningSnapshot) -> Iterator[tuple[str, str, str]]:
    """Yield value, name and remark of the figures at the head of the page."""
    verdict = tuning.verdict
    if tuning.winner:
        interval = f"95% interval {format_interval(verdict['gain_ci95'], format_points)}"
        yield format_points(verdict["gain"]), f"points gained in {verdict['metric']}", interval
        for side, name in (("baseline", "starting prompts"), ("winner", tuning.winner)):
            interval = f"95% interval {format_interval(verdict[side]['score_ci95'])}"
            yield format_percent(verdict[side]["score"]), f"{name} on sealed questions", interval
    elif baseline := tuning.read_part("baseline"):
        interval = f"95% interval {format_interval(baseline['ci95'])}"
        yield format_percent(baseline["val_score"]), "starting prompts on validation", interval
    n_accepted = sum(each.decision == "accepted" for each in tuning.proposals)
    n_fresh = len(tuning.shortlist.keys() - {PARENT})
    yield f"{len(tuning.proposals):,}", "proposals", f"{n_accepted} accepted, {n_fresh} re-evaluated"
    if spend := verdict.get("spend") or tuning.state.spend:
        tokens = spend.get("input_tokens", 0) + spend.get("output_tokens", 0)
        paid = "nothing paid" if tuning.info.simulated else format_cost(spend)
        remark = f"{paid}, {tokens:,} tokens, {format_duration(spend.get('seconds', 0.0))}"
        yield f"{spend.get('lm_calls', 0):,}", "requests", remark


def _list_shortlist(tuning: TuningSnapshot) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the candidates that answered the validation questions again."""
    for name, row in tuning.shortlist.items():
        label = "starting prompts" if name == PARENT else f"{name} (tested)" if name == tuning.winner else name
        fresh = format_share(row["fresh_score"], row["fresh_ci95"])
        yield label, format_percent(row["val_score"]), fresh


def _list_facts(tuning: TuningSnapshot) -> Iterator[tuple[str, str]]:
    info, task, splits = tuning.info, tuning.task, tuning.read_part("splits")
    parts = {"train": "training", "val": "validation", "sealed": "sealed test"}
    sizes = [f"{len(splits[part])} {name}" for part, name in parts.items() if splits.get(part)]
    facts = (
        ("system", info.system),
        ("model", f"{info.model} (simulated)" if info.simulated else info.model),
        ("reflection model", task.reflection_model if task.reflection_model != info.model else ""),
        ("data", str(info.part("data").get("name") or "")),
        ("questions", ", ".join(sizes)),
        ("optimizer", f"{task.optimizer}, seed {task.seed}"),
        ("starting prompts", info.prompts_name or ""),
        ("began", info.started_at and f"{datetime.fromisoformat(info.started_at):%Y-%m-%d %H:%M} UTC"),
        ("command", " ".join(["python optimize/run.py", *(info.command or ())])),
        ("run", f"{tuning.folder.name} (id {info.run_id})"),
    )
    return ((name, value) for name, value in facts if value)
