"""The result of a tuning run in words: its description in MLflow, and `report.md` with the proposals as a table.

Both are made from the run's files alone; the numbers are those of `verdict.json`.

    describe_tuning(tuning, openings=1)      # "Tuning of gaia with gepa: not published (not_significant). …"
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

from eval.scorers.score import ACCURACY
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.failed_answers import describe_failures
from optimize.gate.looks import describe_stop
from optimize.gate.sealed_log import describe_level
from optimize.gate.verdict import SealedNumbers, Verdict, list_checks
from optimize.reports.snapshot import JsonObject, TuningSnapshot

_COLUMNS = ("candidate", "from", "agents", "decision", "minibatch", "validation", "fresh", "reason")


def describe_tuning(tuning: TuningSnapshot, openings: int) -> str:
    """Return Markdown; `openings` is the number of earlier runs in this MLflow that used its sealed questions."""
    parts = [f"**{SIMULATED_NOTICE}**"] if tuning.simulated else []
    return "\n\n".join([*parts, *_paragraphs(tuning, openings)])


def build_report(tuning: TuningSnapshot, openings: int) -> str:
    """Return `describe_tuning` under a title, the gate's checks, and every proposal."""
    checks = list_checks(tuning.verdict) if tuning.verdict.get("gate") else ()
    parts = [f"# {tuning.name}", describe_tuning(tuning, openings)]
    if checks:
        parts.append("## Gate\n\n" + "\n".join(f"- {each}" for each in checks))
    if tuning.proposals:
        parts.append("## Proposals\n\n" + "\n".join(_table(tuning)))
    return "\n\n".join(parts) + "\n"


def build_notice(tuning: TuningSnapshot) -> str:
    """Return the notice of a simulation for a proposal's own page; empty for a real model."""
    return f"**{SIMULATED_NOTICE}**" if tuning.simulated else ""


def _paragraphs(tuning: TuningSnapshot, openings: int) -> Iterator[str]:
    yield f"Tuning of {tuning.info.system} with {tuning.info.optimizer}: {_outcome(tuning)}."
    if (verdict := tuning.verdict) and verdict.get("winner"):
        yield _result(verdict)
        if failed := describe_failures(cast(Verdict, verdict)):
            yield f"{failed[0].upper()}{failed[1:]}."
    if tuning.proposals:
        number = Counter(each.decision for each in tuning.proposals)
        yield (
            f"Proposals: {len(tuning.proposals)}, of which {number['accepted']} accepted, {number['rejected']} "
            f"rejected, {number['cut_off']} cut off; each is a run below this one."
        )
    yield from _sealed(tuning, openings)


def _outcome(tuning: TuningSnapshot) -> str:
    if tuning.published:
        return f"published as prompts/{tuning.info.name}"
    if tuning.verdict:
        return f"not published ({tuning.verdict.get('finish_reason')})"
    return f"no verdict yet, last seen in its phase {tuning.info.state.phase}"


def _result(verdict: JsonObject) -> str:
    sealed, baseline, winner = (verdict.get(name) or {} for name in ("sealed", "baseline", "winner"))
    # Verdicts of earlier versions hold the accuracy alone.
    score, bounds = ("score", "score_ci95") if "score" in winner else ("accuracy", "ci95")
    shrunken = verdict.get("gain_shrunken")
    likeliest = "" if shrunken is None else f", estimated true gain {_share(shrunken, '+')}"
    return (
        f"On {sealed.get('n_questions')} sealed questions, {sealed.get('epochs')} answers each: "
        f"{verdict.get('metric', ACCURACY)} {_share(baseline.get(score))} before{_within(baseline.get(bounds))}, "
        f"{_share(winner.get(score))} with {winner.get('candidate_id')}{_within(winner.get(bounds))}; "
        f"gain {_share(verdict.get('gain'), '+')}{_within(verdict.get('gain_ci95'))}, p = {_number(verdict.get('p'))}"
        f"{likeliest}; "
        f"{sealed.get('wins')} questions won, {sealed.get('losses')} lost, {sealed.get('ties')} tied."
        f"{_level(cast(SealedNumbers, sealed))}"
    )


def _level(sealed: SealedNumbers) -> str:
    if "level" not in sealed:  # of an earlier version
        return ""
    level = describe_level(sealed["level"], sealed.get("level_left") or 0.0, sealed.get("looks", 1))
    return "".join(f" {each[0].upper()}{each[1:]}." for each in (describe_stop(sealed), level) if each)


def _sealed(tuning: TuningSnapshot, openings: int) -> Iterator[str]:
    before = tuning.info.state.sealed_opened_before
    opened = "were opened by this run" if tuning.sealed_opened else "have not been opened by this run"
    yield (
        f"The sealed questions {opened}. Earlier openings: {before or 0} in this machine's own log, {openings} by "
        "tuning runs in this MLflow."
    )
    if not tuning.sealed_opened:
        return
    yield (
        f"The answers to them are ordinary runs in {tuning.place}/sealed/parent and {tuning.place}/sealed/winner; "
        f"`python eval/sync.py {tuning.place}/sealed/winner` brings one into MLflow."
    )


def _table(tuning: TuningSnapshot) -> Iterator[str]:
    yield _row(_COLUMNS)
    yield _row(["---"] * len(_COLUMNS))
    for each in tuning.proposals:
        fresh = (tuning.shortlist.get(each.candidate_id) or {}).get("fresh_score")
        minibatch = f"{_number(each.minibatch_before)} → {_number(each.minibatch_after)}"
        scores = (minibatch, _number(each.val_score), _number(fresh))
        names = (", ".join(each.parent_ids), ", ".join(each.agents))
        yield _row([each.candidate_id, *names, each.decision, *scores, each.reason])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


def _share(value: float | None, sign: str = "") -> str:
    return "unknown" if value is None else f"{100 * value:{sign}.1f} %"


def _within(bounds: Sequence[float] | None) -> str:
    return f" (95% interval {100 * bounds[0]:.1f} to {100 * bounds[1]:.1f})" if bounds else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
