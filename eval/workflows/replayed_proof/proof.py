"""Questions that a run got wrong, asked again with one agent corrected and, as a control, with none.

    proof = prove(read_request(find_run("latest"), agents=["expert"], limit=30, overrides=["run.epochs=3"]), Output())
    proof.agents[0].difference.difference       # 0.62: so many points more than the control, of 1

The control is what makes the numbers honest: a wrong answer asked once more is often right by chance. Corrected are the
agents that the record blames most; where it cannot tell an author from its critic, both. Every arm is a run of its own
under outputs/attribution/, which says that it was given the right answers. No other command compares, scores again,
resumes or sends it. What the model's server failed to answer, or what was not asked before a stop, is no measurement
and is left out; any other failure counts as wrong.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.broken_link import PAIR, attribute_run, build_matcher, read_with_steps
from eval.analysis.statistics.paired_tests import ALPHA, Pair, PairedResult, adjust_p_values, run_paired_test
from eval.benchmarks.dataset import Sample, select_samples
from eval.cli.command import read_option_name
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, LocalSettings, read_config
from eval.config.measured import OF_THE_SESSION, RESUME, UNMEASURED
from eval.execution.console import Output, RunProgress, open_resources, print_notes
from eval.execution.run_session import Session, SessionRequest, run_to_end
from eval.execution.termination import StopController
from eval.reports.formats import format_percent
from eval.reports.run_report.page import write_reports
from eval.runs.find import get_run_name
from eval.runs.folder import DATABASE, check_empty, format_path, is_in_use, is_side, make_run_folder
from eval.runs.own_runs import is_own_run, refuse_unreadable
from eval.runs.record import NOT_RUN, Record
from eval.runs.run_info import CONTROL, NO_MEASUREMENT, RunInfo, describe_task
from eval.runs.store import RETRIED, RunStore, list_pending, open_run, read_run_info
from eval.scorers.labels import LabelSet
from eval.workflows.estimate import format_estimate
from eval.workflows.replayed_proof.correction import Correction, Kind
from eval.workflows.resume import check_unchanged, read_original_arguments
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE
from mas.system import agent_names, read_program_digest

PROOF_FILE = "attribution.json"
MAX_BLAMED = 3  # agents that are tested because the record blames them
_OTHER_OPTIONS = ("run.dir", "run.name", "run.epochs")
Scores = Mapping[str, Sequence[float]]  # sample id → scores, 0 to 1, of its answers; without samples that have none


@dataclass(frozen=True)
class Request:
    """Checked command line: what is asked again, and of whom the outputs are corrected."""

    original: Path
    config: EvalConfig
    prompts: PromptSet
    samples: list[Sample]
    corrections: list[Correction]
    skipped: dict[str, str]  # agent → why it is not corrected
    info: RunInfo  # of the original run


def read_request(original: Path, agents: Sequence[str], limit: int, overrides: Sequence[str]) -> Request:
    """Check what is to be proven.

    Args:
        original: folder of the run.
        agents: to be corrected; none: those that the records blame most.
        limit: largest number of wrong samples, the first ones.
        overrides: options that leave what is measured as it is, and `run.epochs`.

    Raises:
        UserError: the run cannot be asked again as it was, nothing in it is wrong, or no agent can be corrected.
    """
    _check_overrides(overrides)
    _check_run(original)
    arguments = read_original_arguments(str(original), [])
    before = _read_config(arguments)
    prompts = before.check()
    if prompts is None:
        raise UserError(f"system={before.system.name} shows no agents whose outputs could be corrected.")
    samples, kept = select_samples(before.data.load(before.split).samples, before.selection), before.stored_config
    task = describe_task(samples, kept.get("scorer"))
    program = read_program_digest(before.system)
    with refuse_unreadable(original), open_run(original) as store:
        info = store.read_info()
        present = RunInfo(prompts_sha256=digest(prompts), program_sha256=program, task=task)
        check_unchanged(info, kept, present, allow=False)
        wrong = [each for each in store.final_records() if each.target is not None and not each.correct]
        ids = list(dict.fromkeys(each.sample_id for each in wrong))[:limit]
        if not ids:
            raise UserError(f"{original.name} has no wrong answer with a known target: nothing can be proven.")
        links = [link for key, link in sorted(attribute_run(store).links.items()) if key[0] in ids]
        keys = {(each.sample_id, each.epoch) for each in wrong if each.sample_id in ids}
        records = list(read_with_steps(store, keys.__contains__))
    config = _read_config([*arguments, *overrides])
    config.check()
    if config.run.dir:
        check_empty(Path(config.run.dir).absolute())
    known = agent_names(config.system)
    if unknown := [each for each in agents if each not in known]:
        raise UserError(
            f"--agents names {', '.join(unknown)}; the agents of {config.system.name} are {', '.join(known)}."
        )
    blamed = Counter(name for link in links if link.kind in ("agent", "format") for name in link.name.split(PAIR))
    labels, most = LabelSet(tuple(info.task.labels)), [name for name, _ in blamed.most_common()]
    corrections, skipped = find_suspects(config, records, labels, most, agents)
    if not corrections:
        reasons = "; ".join(f"{agent}: {why}" for agent, why in skipped.items())
        raise UserError(f"no agent can be corrected{f' ({reasons})' if reasons else ''}; name some with --agents.")
    chosen = [each for each in samples if each.id in ids]
    return Request(original, config, prompts, chosen, corrections, skipped, info)


def _check_overrides(overrides: Sequence[str]) -> None:
    for name in map(read_option_name, overrides):
        kept = name in _OTHER_OPTIONS or any(f"{name}.".startswith(f"{each}.") for each in UNMEASURED)
        is_refused = name.partition(".")[0] == "executor" or (name in OF_THE_SESSION and name not in _OTHER_OPTIONS)
        if is_refused or not kept:
            raise UserError(
                f"{name} cannot be changed here: the same program is asked again, in this process; give run.epochs=…, "
                "run.max_cost_usd=…, run.concurrency=… or run.name=…."
            )


def _check_run(original: Path) -> None:
    if is_in_use(original / DATABASE):
        raise UserError(f"{original} is still running; ask its wrong questions again when it has ended.")
    if is_side(original):
        raise UserError(
            f"{format_path(original)} is a side of a tuning run's sealed test, whose questions are not asked again; "
            "evaluate its prompts with python eval/run.py prompts=NAME, and name that run."
        )
    with refuse_unreadable(original):
        is_own = is_own_run(read_run_info(original).run_id, original)
    if not is_own:
        raise UserError(
            f"{format_path(original)} was made elsewhere, or moved since, and its command line is not used, so no "
            f"agent can be corrected; resume it first, with its options typed again: python eval/run.py {RESUME}=…."
        )


def _read_config(arguments: Sequence[str]) -> EvalConfig:
    return replace(read_config(compose_config(arguments)), executor=LocalSettings())


def find_suspects(
    config: EvalConfig, records: Sequence[Record], labels: LabelSet, blamed: Sequence[str], chosen: Sequence[str] = ()
) -> tuple[list[Correction], dict[str, str]]:
    """Return the corrections to be tested, and the agents that are not corrected, with the reason.

    Args:
        config: of the run.
        records: of the wrong answers, with their steps.
        labels: that the targets are, if they are.
        blamed: agents that the records blame, the most frequent first.
        chosen: by the user, in place of those.
    """
    judged = {spec.critic: spec.name for spec in config.system.agent_specs if spec.critic}
    steps = [AgentSteps.of(record) for record in records]
    earlier = set(list(judged.values())[:-1])  # their work looks like a draft where the question was given up
    authors = {each.draft.agent for each in steps if each.draft is not None} - earlier
    last = Counter(each.work[-1].agent for each in steps if each.work)
    finisher = max(last, key=lambda name: last[name], default=None)  # some answers ended before it
    matchers = {each.sample_id: build_matcher(each.target or "", labels) for each in records}
    names, tested, skipped = agent_names(config.system), list[str](), dict[str, str]()
    for agent in dict.fromkeys(chosen or blamed):
        if agent not in names:
            skipped[agent] = f"it makes several calls of a model; name those to correct, of {', '.join(names)}"
        elif agent == finisher and agent not in judged:
            skipped[agent] = "its output is the answer, which would always be right"
        elif agent not in judged and agent not in authors:
            skipped[agent] = "its output is neither a draft of the answer nor a decision"
        else:
            tested.append(agent)
    tested = tested if chosen else tested[:MAX_BLAMED]

    def choose_kind(agent: str) -> Kind:
        if agent in judged:
            return "review" if judged[agent] in authors else "approval"
        return "answer"

    return [Correction(each, choose_kind(each), matchers, judged.get(each)) for each in tested], skipped


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
    control = read_scores(folder / CONTROL)
    corrected = [read_scores(folder / each.agent) for each in request.corrections]
    proof = Proof(
        folder=folder,
        n_samples=len(samples),
        epochs=limits.epochs,
        control=_mean(control.values()) if control else None,
        agents=judge_corrections(request.corrections, control, corrected),
        skipped=request.skipped,
        stopped=stopped,
        simulated=config.simulated,
    )
    (folder / PROOF_FILE).write_text(json.dumps(proof.to_dict(), indent=2, ensure_ascii=False) + "\n", "utf-8")
    return proof


def _build_info(request: Request) -> RunInfo:
    config, kept, labels = request.config, request.config.stored_config, request.info.task.labels
    return replace(
        request.info,
        run_id="",
        started_at="",
        config=kept,
        command=[],
        epochs=config.run.epochs,
        sweep=None,
        simulated=config.simulated,
        task=describe_task(request.samples, kept.get("scorer"), labels),
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
