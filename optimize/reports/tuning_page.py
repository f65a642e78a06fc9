"""`report.html` of a tuning run: whether its prompts are better and how sure that is, on one page that loads nothing.

    write_tuning_page(folder)         # at the end of a run, and when it was stopped

Made from the run's files alone, and read by no command. It holds no question and no target.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from markupsafe import Markup

from eval.execution.console import Console, format_duration
from eval.reports.formats import format_interval, format_percent, format_points
from eval.reports.html.page import CHARTS, Chart, Point, Tone, load_scripts, load_template
from eval.reports.summary_table import print_report_path
from eval.runs.find import check_entries
from eval.runs.folder import REPORT
from eval.runs.own_runs import refuse_unreadable
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls, print_line
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.gate import Verdict, compute_exit_code
from optimize.publishing.prompt_diff import build_lines, compare_sets
from optimize.reports.outcome import describe_outcome, format_cost, show_verdict
from optimize.search.optimizer import PARENT, Proposal
from optimize.session.tuning_store import RESUME, TuningSnapshot, find_tuning_run, read_tuning

_TEMPLATE = Path(__file__).with_name("tuning.html.jinja")


def write_tuning_page(folder: Path, redact: Callable[[str], str] = str) -> Path:
    """Write the page of a run, also while it is going on; a reader sees the old one or the whole new one.

    UserError: the folder holds no tuning run, or one of its files cannot be read. OSError: the page cannot be written;
    one that is already there stays as it was.
    """
    check_entries(folder)
    tuning = read_tuning(folder)
    with refuse_unreadable(folder, is_own=lambda _: tuning.is_own):
        page = load_template(_TEMPLATE).render(_build_page(tuning))
    path = folder / REPORT
    with write_atomically(path) as file:
        file.write(redact(escape_controls(page)))
    return path


def show_finished_run(run: str, given: Sequence[str] = ()) -> int | None:
    """Print the verdict of a finished run again, and return its exit code; None if the run is not finished.

    `given`: the command line as typed, without the overrides that the run was started with.
    """
    tuning = read_tuning(find_tuning_run(run))
    if not tuning.is_final:
        return None
    show_verdict(tuning)
    if not (tuning.folder / REPORT).is_file():  # the process ended between the verdict and its page
        write_tuning_page(tuning.folder)
    print_report_path(tuning.folder, Console())
    if any(not each.startswith(f"{RESUME}=") for each in given):
        print_line("this run is over: the options given now change nothing", error=True)
    return compute_exit_code(cast(Verdict, tuning.verdict))


def _build_page(tuning: TuningSnapshot) -> dict[str, object]:
    return {
        "title": f"Tuning of {tuning.info.system}: {tuning.name}",
        "outcome": describe_outcome(tuning),
        "notice": SIMULATED_NOTICE if tuning.info.simulated else "",
        "own": tuning.is_own,
        "tiles": list(_list_tiles(tuning)),
        "test_charts": list(_draw_test(tuning)),
        "shortlist": _draw_shortlist(tuning),
        "candidates": list(_list_candidates(tuning)),
        "n_proposals": len(tuning.proposals),
        "winner": tuning.winner,
        "difference": _render_difference(tuning, PARENT, tuning.winner) if tuning.winner else None,
        "parent_set": tuning.info.prompts_name,
        "leaks": tuning.read_part("leaks"),
        "facts": list(_list_facts(tuning)),
        "diff_styles": Markup(load_template(_TEMPLATE.with_name("diff.css.jinja")).render()),
        "scripts": load_scripts(*CHARTS),
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
            difference = _render_difference(tuning, next(iter(row.parent_ids), PARENT), row.candidate_id)
        yield {"row": row, "marks": marks, "difference": difference}


def _render_difference(tuning: TuningSnapshot, before: str, after: str) -> Markup | None:
    """Return how the prompts of two candidates differ; None if the run does not have both, or they were changed."""
    try:
        diffs = compare_sets(tuning.get_prompts(before), tuning.get_prompts(after))
    except UserError:
        return None
    part = load_template(_TEMPLATE.with_name("diff_agents.html.jinja")).render(
        names=[before, after],
        changed=[each for each in diffs if each.changed],
        unchanged=[each.agent for each in diffs if not each.changed],
        lines=build_lines,
    )
    return Markup(part)


def _list_tiles(tuning: TuningSnapshot) -> Iterator[tuple[str, str, str]]:
    verdict = tuning.verdict
    if tuning.winner:
        sealed, metric = verdict["sealed"], verdict["metric"]
        before, after = (format_percent(verdict[side]["score"]) for side in ("baseline", "winner"))
        interval = f"95% interval {format_interval(verdict['gain_ci95'], format_points)}"
        yield format_points(verdict["gain"]), f"points gained in {metric}", interval
        yield f"{before} → {after}", f"{metric} before → after", ""
        yield f"{verdict['p']:.3g}", "p value", f"at most {sealed['look_level']:.3g} required"
        flipped = f"{sealed['wins']}/{sealed['losses']}/{sealed['ties']}"
        stopped = f"; look {sealed['look']} of {sealed['looks']}" if sealed["looks"] > 1 else ""
        answers = f"{format_count(sealed['epochs'], 'answer')} each, both sides{stopped}"
        yield flipped, "questions better / worse / same", answers
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


def _draw_test(tuning: TuningSnapshot) -> Iterator[Chart]:
    verdict = tuning.verdict
    if not tuning.winner:
        return
    metric, sealed, gain = verdict["metric"], verdict["sealed"], verdict["gain"]
    before, after = verdict["baseline"], verdict["winner"]
    scores = [
        _draw_interval(
            "starting prompts", before["score"], before["score_ci95"], "quiet", format_percent(before["score"])
        ),
        _draw_interval(tuning.winner, after["score"], after["score_ci95"], "accent", format_percent(after["score"])),
    ]
    title = f"{metric} on the sealed questions"
    yield Chart("dots", title, scores, x_label=metric, x_format="percent", x_domain=(0, 1))
    tone: Tone = "right" if tuning.published else "wrong"
    label, deciding = f"{100 * (1 - sealed['level']):.4g}% interval (decides)", sealed["gain_interval"]
    gains = [
        _draw_interval("95% interval", gain, verdict["gain_ci95"], tone, format_points(gain)),
        _draw_interval(label, gain, deciding, tone, format_interval(deciding, format_points)),
    ]
    adjusted = "; intervals adjusted for the looks" if sealed["looks"] > 1 else ""
    yield Chart("dots", f"gain, in points{adjusted}", gains, x_label="points", x_format="points", x_mark=0.0)


def _draw_interval(label: str, x: float, bounds: Sequence[float] | None, tone: Tone, note: str) -> Point:
    low, high = bounds or (None, None)
    return Point(label, x, low=low, high=high, tone=tone, note=note)


def _draw_shortlist(tuning: TuningSnapshot) -> Chart | None:
    if not tuning.shortlist:
        return None
    points = []
    for name, row in tuning.shortlist.items():
        tone: Tone = "quiet" if name == PARENT else "accent" if name == tuning.winner else ""
        label = "starting prompts" if name == PARENT else f"{name} (tested)" if name == tuning.winner else name
        note = f"{format_percent(row['fresh_score'])}; {format_percent(row['val_score'])} in the search"
        points.append(_draw_interval(label, row["fresh_score"], row["fresh_ci95"], tone, note))
    start = (tuning.shortlist.get(PARENT) or {}).get("fresh_score")
    title = "score of new answers to the validation questions, 95% intervals"
    return Chart("dots", title, points, x_label="score", x_format="percent", x_domain=(0, 1), x_mark=start)


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
        ("began", _format_time(info.started_at)),
        ("ended", _format_time(tuning.state.last_session.ended_at or "")),
        ("command", " ".join(["python optimize/run.py", *(info.command or ())])),
        ("folder", tuning.place),
        ("run", info.run_id),
    )
    return ((name, value) for name, value in facts if value)


def _format_time(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M} UTC" if moment else ""
