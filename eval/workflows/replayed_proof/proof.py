"""Questions that a run got wrong, asked again with one agent corrected and, as a control, with none.

    proof = prove(read_request(find_run("latest"), agents=["expert"], limit=30, overrides=["run.epochs=3"]), Output())
    proof.agents[0].difference.difference       # 0.62: so many points more than the control, of 1
    proof.named["q17"]                          # "critic_expert": the responsible link, with what the proof has shown

The control is what makes the numbers honest: a wrong answer asked once more is often right by chance. Every arm is a
run of its own under outputs/attribution/, which says that it was given the right answers. No other command compares,
scores again, resumes or sends it. What the model's server failed to answer, or what was not asked before a stop, is no
measurement and is left out; any other failure counts as wrong.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eval.analysis.statistics.paired_tests import ALPHA, Pair, PairedResult, adjust_p_values, run_paired_test
from eval.benchmarks.dataset import read_labels
from eval.execution.console import Output, RunProgress, open_resources, print_notes
from eval.execution.run_session import Session, SessionRequest, run_to_end
from eval.execution.termination import StopController
from eval.reports.formats import format_percent
from eval.reports.run_report.page import write_reports
from eval.runs.find import get_run_name
from eval.runs.folder import DATABASE, format_path, make_run_folder
from eval.runs.record import NOT_RUN
from eval.runs.run_info import CONTROL, NO_MEASUREMENT, RunInfo, describe_task
from eval.runs.store import RETRIED, RunStore, list_pending
from eval.scorers.labels import find_labels
from eval.workflows.estimate import format_estimate
from eval.workflows.replayed_proof.correction import Correction, Kind
from eval.workflows.replayed_proof.plan import Request
from mas.prompt_sets.prompt_set import digest
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE

PROOF_FILE = "attribution.json"
Scores = Mapping[str, Sequence[float]]  # sample id → scores, 0 to 1, of its answers; without samples that have none


@dataclass(frozen=True)
class ProvenAgent:
    """Effect of one agent's correction."""

    agent: str
    kind: Kind
    recovered: float | None  # mean score with the correction, 0 to 1; None: no measurement
    difference: PairedResult | None  # with the correction, minus the control; None: no measurement
    p_holm: float | None = None  # of the difference, as one of all tested agents

    @property
    def is_critic(self) -> bool:
        return self.kind in ("review", "approval")

    @property
    def is_proven(self) -> bool:
        """True if the correction gained points."""
        gain = self.difference.difference if self.difference else 0.0
        return gain > 0 and self.p_holm is not None and self.p_holm <= ALPHA


@dataclass(frozen=True)
class Proof:
    folder: Path
    n_samples: int
    epochs: int
    control: float | None  # mean score of the same samples, asked again uncorrected; None: no measurement
    agents: list[ProvenAgent]
    skipped: dict[str, str]
    blamed: dict[str, str]  # sample id → first broken link, by its record
    named: dict[str, str]  # sample id → responsible link, with what the proof has shown
    stopped: str | None  # why it ended early; None: every answer is there
    simulated: bool

    def to_dict(self) -> dict[str, object]:
        agents = [{**asdict(each), "difference": each.difference and each.difference.to_dict()} for each in self.agents]
        return {**asdict(self), "folder": self.folder.name, "agents": agents}


def prove(request: Request, output: Output) -> Proof:
    """Ask the samples again with each correction and without any, and compare.

    The arms are answered at the same time, so that whatever happens to the model's server happens to all of them.

    Raises:
        UserError: the folder cannot be written, or a program cannot be built.
    """
    corrections: dict[str, Correction | None] = {CONTROL: None, **{each.agent: each for each in request.corrections}}
    limits, n_arms = request.config.run, len(corrections)
    n_answers = len(request.samples) * limits.epochs * n_arms
    folder = make_run_folder("attribution", limits.name or get_run_name(request.original), limits.dir)
    if request.config.simulated:
        output.print(SIMULATED_NOTICE, style="bold yellow")
    elif request.config.needs_model:
        output.print(format_estimate(request.config, n_answers))
    at_once = request.config.limit_concurrency(limits.concurrency, n_arms)
    budget = None if limits.max_cost_usd is None else limits.max_cost_usd / n_arms
    config = replace(request.config, run=replace(limits, concurrency=at_once, max_cost_usd=budget))
    stop = StopController(limits.drain_seconds, limits.max_errors, limits.max_seconds)
    info, samples = _build_info(request), {each.id: each for each in request.samples}
    keys = list_pending(list(samples), limits.epochs, {}, retry_errors=False)
    pending = [(samples[key.sample_id], key) for key in keys]
    asked = SessionRequest(config=config, prompts=request.prompts)
    with ExitStack() as stack:
        resources, notes = stack.enter_context(open_resources(config))
        print_notes(notes, output.print)
        bar = RunProgress(n_answers, output.console, at_once=at_once * n_arms, list_traffic=config.list_traffic)
        progress = stack.enter_context(bar)
        work, sessions = [], []
        for name, correction in corrections.items():
            store = stack.enter_context(RunStore(folder / name / DATABASE))
            program = config.system.build(config.model, request.prompts, resources)
            if correction is not None:
                correction.change_program(program)
            sessions.append(Session(asked, program, store, stop, output, stack))
            sessions[-1].begin(replace(info, gold_informed=name), request.samples)
            work.append(functools.partial(sessions[-1].execute, pending, progress.update))
        stopped = run_to_end(work, stop)
        for session in sessions:
            session.end(stopped)
    for name in corrections:
        with RunStore(folder / name / DATABASE, read_only=True) as store:
            write_reports(folder / name, store)
    proof = _judge(request, folder, stopped)
    (folder / PROOF_FILE).write_text(json.dumps(proof.to_dict(), indent=2, ensure_ascii=False) + "\n", "utf-8")
    return proof


def _build_info(request: Request) -> RunInfo:
    config, kept = request.config, request.config.stored_config
    labels = find_labels(request.samples, given=read_labels(config.data)).names or tuple(request.info.task.labels)
    return replace(
        request.info,
        run_id="",
        started_at="",
        config=kept,
        command=[],
        epochs=config.run.epochs,
        prompts_sha256=digest(request.prompts),
        sweep=None,
        simulated=config.simulated,
        task=describe_task(request.samples, kept.get("scorer"), getattr(config.data, "revision", None), labels),
    )


def _judge(request: Request, folder: Path, stopped: str | None) -> Proof:
    control = read_scores(folder / CONTROL)
    corrected = [read_scores(folder / each.agent) for each in request.corrections]
    agents = judge_corrections(request.corrections, control, corrected)
    return Proof(
        folder=folder,
        n_samples=len(request.samples),
        epochs=request.config.run.epochs,
        control=_mean(control.values()) if control else None,
        agents=agents,
        skipped=request.skipped,
        blamed=request.links,
        named=name_responsible(request.links, control, zip(agents, corrected, strict=True)),
        stopped=stopped,
        simulated=request.config.simulated,
    )


def judge_corrections(
    corrections: Sequence[Correction], control: Scores, corrected: Sequence[Scores]
) -> list[ProvenAgent]:
    """Return the effect of each correction on the samples that have an answer with it and without."""
    found = list[ProvenAgent]()
    for correction, scores in zip(corrections, corrected, strict=True):
        both = [sample_id for sample_id in control if sample_id in scores]
        result = run_paired_test([Pair(control[each], scores[each]) for each in both]) if both else None
        recovered = _mean(scores[each] for each in both) if both else None
        found.append(ProvenAgent(correction.agent, correction.kind, recovered, result))
    adjusted = iter(adjust_p_values([each.difference.p for each in found if each.difference]))
    return [replace(each, p_holm=next(adjusted)) if each.difference else each for each in found]


def name_responsible(
    blamed: Mapping[str, str], control: Scores, agents: Iterable[tuple[ProvenAgent, Scores]]
) -> dict[str, str]:
    """Return the responsible link of each sample: a critic if the proof shows it, and else what the record blames.

    A critic is shown for a sample if its correction gains points over all samples, and made this one better than the
    control. The correction of any other agent repairs earlier faults, too, and names nobody.
    """
    critics = [(each.agent, scores) for each, scores in agents if each.is_critic and each.is_proven]
    found = dict(blamed)
    for sample_id in blamed:
        gains = [
            (_mean([scores[sample_id]]) - _mean([control[sample_id]]), critic)
            for critic, scores in critics
            if sample_id in scores and sample_id in control
        ]
        gain, best = max(gains, key=lambda each: each[0], default=(0.0, ""))
        if gain > 0:
            found[sample_id] = best
    return found


def read_scores(arm: Path) -> Scores:
    """Return the scores of an arm's answers; nothing was measured if all of them failed."""
    found: dict[str, list[float]] = {}
    with RunStore(arm / DATABASE, read_only=True) as store:
        measured = [each for each in store.final_records() if each.error_class not in (NOT_RUN, *RETRIED)]
    if all(each.error is not None for each in measured):
        return {}
    for record in measured:
        found.setdefault(record.sample_id, []).append(float(record.score or 0.0) if record.error is None else 0.0)
    return found


def _mean(values: Iterable[Sequence[float]]) -> float:
    means = [sum(each) / len(each) for each in values]
    return sum(means) / len(means)


_WHAT: dict[Kind, str] = {
    "answer": "its answer is the right one",
    "review": "it judges the answer rightly",
    "approval": "it approves everything",
}


def print_proof(proof: Proof, output: Output) -> None:
    times = f", {proof.epochs} times each" if proof.epochs > 1 else ""
    control = NO_MEASUREMENT if proof.control is None else f"{format_percent(proof.control)} of the points"
    output.print(
        f"{format_count(proof.n_samples, 'wrong question')} asked again{times}: without a correction {control}"
    )
    for each in proof.agents:
        output.print(f"  {describe_agent(each, proof)}")
    for agent, why in proof.skipped.items():
        output.print(f"  {agent}: not corrected; {why}")
    if proof.stopped:
        output.print(f"stopped: {proof.stopped}; questions without an answer are left out", error=True)
    if proof.named != proof.blamed:
        output.print(f"by the record alone: {_count(proof.blamed)}; with this proof: {_count(proof.named)}")
    output.print("the corrected agent was given the right answers: these runs measure no system")
    output.print(f"results: {format_path(proof.folder)} ({PROOF_FILE}, and a report of each arm)")


def describe_agent(proven: ProvenAgent, proof: Proof) -> str:
    """Return one line: what was corrected, what it gained over the control, and what that says."""
    result = proven.difference
    if result is None or proven.recovered is None:
        return f"{proven.agent}: {NO_MEASUREMENT}; no question was answered both with its correction and without"
    interval = " ({:+.1f} to {:+.1f})".format(*(100 * bound for bound in result.ci95)) if result.ci95 else ""
    over = f" of {format_count(result.n_questions, 'question')}" if result.n_questions < proof.n_samples else ""
    gained = f"{100 * result.difference:+.1f}{interval} points more than without"
    effect = "its reviews cost points" if proven.is_critic else "points are lost here or before"
    return (
        f"{proven.agent}: {format_percent(proven.recovered)}{over} where {_WHAT[proven.kind]}, {gained}"
        f": {effect if proven.is_proven else 'no effect is shown'}"
    )


def _count(names: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in Counter(names.values()).most_common())
