"""Questions that a run got wrong, asked again with one agent corrected and, as a control, with none.

    proof = prove(read_request(find_run("latest"), agents=["expert"], limit=30, overrides=["run.epochs=3"]), Output())
    proof.agents[0].difference.difference       # 0.62: so many points more than the control, of 1

The control is what makes the numbers honest: a wrong answer asked once more is often right by chance. Corrected are the
agents that the record blames most; where it cannot tell an author from its critic, both. Every arm is a run of its own
under outputs/attribution/, which says that it was given the right answers. No other command compares, scores again,
resumes or sends it. What the model's server failed to answer, or what was not asked before a stop, is no measurement
and is left out; any other failure counts as wrong.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import dspy

from eval.analysis.attribution.agent_steps import DECISION, AgentSteps, find_answer_field, is_reasoning
from eval.analysis.attribution.broken_link import PAIR, attribute_run, build_matcher, read_with_steps
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.analysis.statistics.paired_tests import ALPHA, Pair, PairedResult, adjust_p_values, run_paired_test
from eval.benchmarks.dataset import Selection, select_samples
from eval.cli.command import read_option_name
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, LocalSettings, NoTracking, read_config
from eval.config.measured import OF_THE_SESSION, UNMEASURED
from eval.execution.console import KeptOutput, Output
from eval.execution.run_session import SessionRequest
from eval.reports.formats import format_percent
from eval.reports.run_report.page import write_reports
from eval.runs.find import get_run_name
from eval.runs.folder import DATABASE, check_empty, format_path, is_in_use, is_side, make_run_folder
from eval.runs.own_runs import is_own_run, refuse_unreadable
from eval.runs.record import NOT_RUN, Record
from eval.runs.run_info import CONTROL, NO_MEASUREMENT, RunInfo, describe_task
from eval.runs.store import RETRIED, RunStore, open_run, read_run_info
from eval.scorers.labels import LabelSet
from eval.workflows.estimate import format_estimate
from eval.workflows.evaluate import evaluate
from eval.workflows.resume import check_unchanged, read_original_arguments
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleKey, current_context
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE
from mas.system import Program, agent_names, read_program_digest

PROOF_FILE = "attribution.json"
MAX_BLAMED = 3  # agents that are tested because the record blames them
_OPTIONS = (  # that may be given
    *("run.dir", "run.name", "run.epochs"),
    *(each for each in UNMEASURED if each not in (*OF_THE_SESSION, "executor")),
)
Scores = Mapping[str, Sequence[float]]  # sample id → scores, 0 to 1, of its answers; without samples that have none

Kind = Literal["answer", "review", "approval"]
_WHAT: dict[Kind, str] = {
    "answer": "its answer is the right one",  # the field that holds the draft of the answer becomes the target
    "review": "it judges the answer rightly",  # a critic of that draft
    "approval": "it approves everything",  # a critic of other work: what its rejections cost shows
}
APPROVE, REJECT = "approve", "reject"
_FEEDBACK = {APPROVE: "It is right.", REJECT: "It is wrong; work it out again."}
_CHECKED = "The answer was worked out and checked."


@dataclass
class Correction:
    """Correction of one agent in the answers to some samples: it knows the target, the other agents do not."""

    agent: str  # name of its predictor
    kind: Kind
    matchers: Mapping[str, TargetMatcher]  # by sample id; other samples are left alone
    judged: str | None = None  # of a critic: the agent whose work it reviews
    _last: defaultdict[SampleKey, str] = field(default_factory=lambda: defaultdict(str))  # what `judged` said last

    def change_program(self, program: Program) -> None:
        """Correct the agent from now on, in this program alone."""
        for name, predictor in program.named_predictors():
            if name == self.agent:
                _surround(predictor, self._correct)
            elif name == self.judged:
                _surround(predictor, self._remember)

    def _correct(self, prediction: dspy.Prediction) -> None:
        key = _find_key()
        if (matcher := self.matchers.get(key.sample_id)) is None:
            return
        if self.kind == "answer":
            _write_answer(prediction, matcher.text)
        elif prediction.get(DECISION) is not None:
            is_right = matcher.is_contained_in(self._last[key])
            decision = APPROVE if self.kind == "approval" or is_right else REJECT
            if str(prediction[DECISION]) != decision:
                prediction[DECISION] = decision
                if "feedback" in prediction:
                    prediction["feedback"] = _FEEDBACK[decision]

    def _remember(self, prediction: dspy.Prediction) -> None:
        outputs = dict(prediction.items())
        if (name := find_answer_field(outputs)) is not None:
            self._last[_find_key()] = str(outputs[name])


def _write_answer(prediction: dspy.Prediction, target: str) -> None:
    name = find_answer_field(dict(prediction.items()))
    if name is None:  # a turn in which it calls tools
        return
    prediction[name] = target
    for other, value in prediction.items():
        if other != name and isinstance(value, str) and is_reasoning(other):
            prediction[other] = _CHECKED


def _find_key() -> SampleKey:
    """Return the key of the sample that is being answered."""
    context = current_context()
    return context.key if context is not None else SampleKey("")


def _surround(predictor: dspy.Predict, correct: Callable[[dspy.Prediction], None]) -> None:
    """Let a function change the prediction of every call, synchronous or not."""
    kind = type(predictor)  # DSPy warns of whoever reads `predictor.forward`
    forward, aforward = kind.forward.__get__(predictor), kind.aforward.__get__(predictor)

    def call(**inputs: object) -> dspy.Prediction:
        prediction = forward(**inputs)
        correct(prediction)
        return prediction

    async def acall(**inputs: object) -> dspy.Prediction:
        prediction = await aforward(**inputs)
        correct(prediction)
        return prediction

    predictor.forward, predictor.aforward = call, acall


@dataclass(frozen=True)
class Request:
    """Checked command line: what is asked again, and of whom the outputs are corrected."""

    original: Path
    config: EvalConfig  # of each arm
    prompts: PromptSet
    corrections: list[Correction]
    skipped: dict[str, str]  # agent → why it is not corrected


def read_request(original: Path, agents: Sequence[str], limit: int, overrides: Sequence[str]) -> Request:
    """Check what is to be proven.

    `agents`: to be corrected; none: those that the records blame most. `limit`: largest number of wrong samples, the
    first ones. `overrides`: options that leave what is measured as it is, and `run.epochs`. UserError: the run cannot
    be asked again as it was, nothing in it is wrong, or no agent can be corrected.
    """
    branches = tuple(f"{each}." for each in _OPTIONS)
    if other := next((name for name in map(read_option_name, overrides) if not f"{name}.".startswith(branches)), None):
        raise UserError(
            f"{other} cannot be changed here: the same program is asked again, in this process; give run.epochs=…, "
            "run.max_cost_usd=…, run.concurrency=… or run.name=…."
        )
    if is_in_use(original / DATABASE):
        raise UserError(f"{original} is still running; ask its wrong questions again when it has ended.")
    with refuse_unreadable(original):
        if not is_side(original) and not is_own_run(read_run_info(original).run_id, original):
            raise UserError(
                f"{format_path(original)} was made elsewhere, or moved since, so nothing was run; a proof runs the "
                "program of a run that was made here: move it back, or evaluate again."
            )
    arguments = read_original_arguments(str(original), [])
    config = replace(read_config(compose_config([*arguments, *overrides])), executor=LocalSettings())
    prompts = config.check()
    if config.run.dir:
        check_empty(Path(config.run.dir).absolute())
    if prompts is None:
        raise UserError(f"system={config.system.name} shows no agents whose outputs could be corrected.")
    samples = select_samples(config.data.load(config.split).samples, config.selection)
    kept = read_config(compose_config(arguments)).stored_config  # with the run's own epochs
    task = describe_task(samples, kept.get("scorer"))
    program = read_program_digest(config.system)
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
    arm = replace(config, selection=Selection(ids=ids), tracking=NoTracking())
    return Request(original, arm, prompts, corrections, skipped)


def find_suspects(
    config: EvalConfig, records: Sequence[Record], labels: LabelSet, blamed: Sequence[str], chosen: Sequence[str] = ()
) -> tuple[list[Correction], dict[str, str]]:
    """Return the corrections to be tested, and the agents that are not corrected, with the reason.

    `records`: of the wrong answers, with their steps. `labels`: that the targets are. `blamed`: agents that the records
    blame, the most frequent first; `chosen`: by the user, in their place.
    """
    judged = {spec.critic: spec.name for spec in config.system.agent_specs if spec.critic}
    steps = [AgentSteps.of(record) for record in records]
    earlier = set(list(judged.values())[:-1])  # their work looks like a draft where the question was given up
    authors = {each.draft.agent for each in steps if each.draft is not None} - earlier
    last = Counter(each.work[-1].agent for each in steps if each.work)
    finisher = max(last, key=lambda name: last[name], default=None)  # some answers ended before it
    matchers = {each.sample_id: build_matcher(each.target or "", labels) for each in records}
    names, found, skipped = agent_names(config.system), list[Correction](), dict[str, str]()
    for agent in dict.fromkeys(chosen or blamed):
        if agent not in names:
            skipped[agent] = f"it makes several calls of a model; name those to correct, of {', '.join(names)}"
        elif agent in judged:
            kind: Kind = "review" if judged[agent] in authors else "approval"
            found.append(Correction(agent, kind, matchers, judged[agent]))
        elif agent == finisher:
            skipped[agent] = "its output is the answer, which would always be right"
        elif agent not in authors:
            skipped[agent] = "its output is neither a draft of the answer nor a decision"
        else:
            found.append(Correction(agent, "answer", matchers))
    return found if chosen else found[:MAX_BLAMED], skipped


@dataclass(frozen=True)
class ProvenAgent:
    """Effect of one agent's correction."""

    agent: str
    kind: Kind
    recovered: float | None  # mean score with the correction, 0 to 1; None: no measurement
    difference: PairedResult | None  # with the correction, minus the control; None: no measurement
    p_holm: float | None = None  # of the difference, as one of all tested agents

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


def prove(request: Request, output: Output) -> Proof:
    """Evaluate the samples without any correction, then with each of them, and compare.

    UserError: the folder cannot be written, or a program cannot be built.
    """
    config, run, ids = request.config, request.config.run, request.config.selection.ids
    arms: dict[str, Correction | None] = {CONTROL: None, **{each.agent: each for each in request.corrections}}
    folder = make_run_folder("attribution", run.name or get_run_name(request.original), run.dir)
    if config.simulated:
        output.print(SIMULATED_NOTICE, style="bold yellow")
    elif config.needs_model:
        output.print(format_estimate(config, len(ids) * run.epochs * len(arms)))
    usd, seconds = (None if each is None else each / len(arms) for each in (run.max_cost_usd, run.max_seconds))
    scores, stopped = dict[str, Scores](), None
    for name, correction in arms.items():
        settings = replace(run, dir=str(folder / name), max_cost_usd=usd, max_seconds=seconds, fail_under=None)
        change = correction.change_program if correction else None
        asked = SessionRequest(config=replace(config, run=settings), prompts=request.prompts, change_program=change)
        ended = evaluate(asked, KeptOutput(progress=True), gold_informed=name)
        with open_run(folder / name) as store:
            summary = write_reports(folder / name, store)
        scores[name], stopped = read_scores(folder / name), stopped or summary.stopped
        if ended.is_interrupted:
            stopped = stopped or "interrupted"  # the last answers of its arm may still have come
            break
    control = scores.get(CONTROL, {})
    corrected = [scores.get(each.agent, {}) for each in request.corrections]
    proof = Proof(
        folder=folder,
        n_samples=len(ids),
        epochs=run.epochs,
        control=_mean(control.values()) if control else None,
        agents=judge_corrections(request.corrections, control, corrected),
        skipped=request.skipped,
        stopped=stopped,
        simulated=config.simulated,
    )
    facts = {**asdict(proof), "folder": folder.name}
    (folder / PROOF_FILE).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return proof


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
    effect = "points are lost here or before" if proven.kind == "answer" else "its reviews cost points"
    return (
        f"{proven.agent}: {format_percent(proven.recovered)}{over} where {_WHAT[proven.kind]}, {gained}"
        f": {effect if proven.is_proven else 'no effect is shown'}"
    )
