"""Questions that a run got wrong, asked again with one agent corrected and, as a control, with none.

    request = read_request(find_run("latest"), agents=["expert"], limit=30, overrides=["run.epochs=3"])
    proof = prove(request, Output())
    proof.agents[0].difference.difference       # 0.62: so many points more than the control, of 1

The control is what makes the numbers honest: a wrong answer asked once more is often right by chance. Every arm is a
run of its own under outputs/attribution/, which says that it was given the right answers. No other command compares,
scores again, resumes or sends it.
"""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

from omegaconf import OmegaConf

from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.broken_link import build_matcher
from eval.analysis.attribution.run_attribution import attribute_run, read_with_steps
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test
from eval.benchmarks.columns import read_labels
from eval.benchmarks.dataset import Sample
from eval.benchmarks.selection import select_samples
from eval.cli.command import read_option_name
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, read_config
from eval.config.executor import LocalSettings
from eval.config.measured import UNMEASURED
from eval.execution.console import MissingServices, Output
from eval.execution.termination import StopController
from eval.runs.folder import DATABASE, check_empty, get_run_name, is_in_use, make_run_folder
from eval.runs.foreign_run import refuse_unreadable
from eval.runs.record import Record
from eval.runs.run_info import CONTROL, RunInfo, describe_task
from eval.runs.store import RunStore, StoreError
from eval.scorers.labels import LabelSet, find_labels
from eval.workflows.estimate import format_estimate
from eval.workflows.paired_evaluation import Arm, evaluate_pairs, read_arm_records
from eval.workflows.replayed_proof.correction import Correction, Kind
from eval.workflows.resume import check_unchanged, read_original_arguments
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from mas.system import agent_names, read_program_digest

PROOF_FILE = "attribution.json"
MAX_BLAMED = 3  # agents that are corrected if none is named
_EPOCHS = "run.epochs"
_OTHER_OPTIONS = ("run.dir", "run.name", "run.trust", _EPOCHS)


@dataclass(frozen=True)
class Request:
    """Checked command line: what is asked again, and of whom the outputs are corrected."""

    original: Path
    config: EvalConfig
    stored_config: dict[str, object]
    prompts: PromptSet
    samples: list[Sample]
    corrections: list[Correction]
    skipped: dict[str, str]  # agent → why it is not corrected
    info: RunInfo  # of the original run


@dataclass(frozen=True)
class ProvenAgent:
    """Effect of one agent's correction."""

    agent: str
    kind: Kind
    recovered: float  # mean score of the samples with the correction, 0 to 1
    n_given_away: int  # answers in which the hinted agent handed on the target itself; they prove nothing
    difference: PairedResult  # with the correction, minus the control


@dataclass(frozen=True)
class Proof:
    folder: Path
    n_samples: int
    epochs: int
    control: float  # mean score of the same samples, asked again without any correction
    agents: list[ProvenAgent]
    skipped: dict[str, str]
    stopped: str | None  # why it ended early; None: every answer is there
    simulated: bool

    def to_dict(self) -> dict[str, object]:
        agents = [{**asdict(each), "difference": each.difference.to_dict()} for each in self.agents]
        return {**asdict(self), "folder": self.folder.name, "agents": agents}


def read_request(original: Path, agents: Sequence[str], limit: int, overrides: Sequence[str]) -> Request:
    """Check what is to be proven before anything is spent.

    Args:
        original: folder of the run.
        agents: to be corrected; none: those that attribution blames most.
        limit: largest number of wrong samples, the first ones.
        overrides: options that leave what is measured as it is, and `run.epochs`.

    Raises:
        UserError: the run cannot be asked again as it was, nothing in it is wrong, or no agent can be corrected.
    """
    _check_overrides(overrides)
    if is_in_use(original / DATABASE):
        raise UserError(f"{original} is still running; ask its wrong questions again when it has ended.")
    arguments = read_original_arguments(str(original), overrides)
    unchanged = _compose(arguments)
    prompts = unchanged[0].check()
    if prompts is None:
        raise UserError(f"system={unchanged[0].system.name} shows no agents whose outputs could be corrected.")
    with refuse_unreadable(original), _open(original) as store:
        info = store.read_info()
        if info.gold_informed:
            raise UserError(f"{original.name} was itself given the right answers; name the run that it was made of.")
        samples = _load_samples(unchanged[0])
        _check_same(info, unchanged, prompts, samples)
        wrong = [each for each in store.final_records() if each.target is not None and not each.correct]
        ids = list(dict.fromkeys(each.sample_id for each in wrong))[:limit]
        if not ids:
            raise UserError(f"{original.name} has no wrong answer with a known target: nothing can be proven.")
        labels = LabelSet(tuple(info.task.labels))
        blamed = list(agents) or _list_blamed(store, set(ids))
        records = list(read_with_steps(store, lambda key: key[0] in ids))
    config, stored = _compose([*arguments, *overrides])
    config.check()
    if config.run.dir:
        _check_place(Path(config.run.dir).absolute())
    matchers = {each.id: build_matcher(each.target or "", labels) for each in samples if each.id in ids}
    if unknown := [each for each in agents if each not in agent_names(config.system)]:
        known = ", ".join(agent_names(config.system))
        raise UserError(f"--agents names {', '.join(unknown)}; the agents of {config.system.name} are {known}.")
    corrections, skipped = _plan_corrections(config, blamed, records, matchers)
    if not agents:
        corrections = corrections[:MAX_BLAMED]
    if not corrections:
        reasons = "; ".join(f"{agent}: {why}" for agent, why in skipped.items())
        raise UserError(f"no agent can be corrected{f' ({reasons})' if reasons else ''}; name some with --agents.")
    chosen = [each for each in samples if each.id in ids]
    return Request(original, config, stored, prompts, chosen, corrections, skipped, info)


def prove(request: Request, output: Output) -> Proof:
    """Ask the samples again with each correction and without any, and compare.

    Raises:
        UserError: the folder cannot be written, or a program cannot be built.
    """
    config = _share_budget(request.config, 1 + len(request.corrections))
    folder = make_run_folder("attribution", config.run.name or get_run_name(request.original), config.run.dir)
    n_answers = len(request.samples) * config.run.epochs * (1 + len(request.corrections))
    if config.simulated:
        output.print(SIMULATED_NOTICE, style="bold yellow")
    elif config.needs_model:
        output.print(format_estimate(config, n_answers))
    limits = config.run
    stop = StopController(limits.drain_seconds, limits.fail_fast, limits.max_errors, limits.max_seconds)
    missing = MissingServices(config.simulated)
    with ExitStack() as stack:
        resources = stack.enter_context(config.system.open_resources(config.tools, missing.note))
        missing.report(output.print)
        arms = [Arm(CONTROL, folder / CONTROL, request.prompts, resources, gold_informed=CONTROL)]
        for each in request.corrections:
            arms.append(
                Arm(
                    each.agent,
                    folder / each.agent,
                    request.prompts,
                    resources,
                    change_program=each.change_program,
                    gold_informed=each.agent,
                )
            )
        stopped = evaluate_pairs(arms, config, request.samples, _build_info(request), stop, output.console)
    proof = _judge(request, folder, arms, stopped)
    (folder / PROOF_FILE).write_text(json.dumps(proof.to_dict(), indent=2, ensure_ascii=False) + "\n", "utf-8")
    return proof


def _check_overrides(overrides: Sequence[str]) -> None:
    for override in overrides:
        name = read_option_name(override)
        kept = name in _OTHER_OPTIONS or any(name == each or name.startswith(f"{each}.") for each in UNMEASURED)
        if name == "executor" or name.startswith("executor."):
            raise UserError(f"{name} is not supported here: an agent is corrected in this process alone; leave it out.")
        if not kept or name in ("run.resume", "run.retry_errors", "run.allow_config_change"):
            raise UserError(
                f"{name} cannot be changed here: the same program is asked again; give {_EPOCHS}=…, "
                "run.max_cost_usd=…, run.concurrency=… or run.name=…."
            )


def _check_place(folder: Path) -> None:
    """Refuse a folder that has something in it, or is within a run: the arms are no part of any evaluation."""
    check_empty(folder)
    if within := next((each for each in folder.parents if (each / DATABASE).exists()), None):
        raise UserError(f"run.dir={folder} is within the run {within}; name a folder outside of runs.")


def _compose(arguments: Sequence[str]) -> tuple[EvalConfig, dict[str, object]]:
    composed = compose_config(arguments)
    config = replace(read_config(composed), executor=LocalSettings())
    return config, cast(dict[str, object], OmegaConf.to_container(composed, resolve=True))


def _open(folder: Path) -> RunStore:
    try:
        return RunStore(folder / DATABASE, read_only=True)
    except StoreError as error:
        raise UserError(f"{error}.") from error


def _load_samples(config: EvalConfig) -> list[Sample]:
    return list(select_samples(config.data.load(config.split).samples, config.selection))


def _check_same(
    info: RunInfo, now: tuple[EvalConfig, dict[str, object]], prompts: PromptSet | None, samples: Sequence[Sample]
) -> None:
    config, stored = now
    kept = config.redact_tree(stored)
    present = RunInfo(
        prompts_sha256=digest(prompts) if prompts else "",
        program_sha256=read_program_digest(config.system),
        task=describe_task(samples, kept.get("scorer"), getattr(config.data, "revision", None)),
    )
    check_unchanged(info, kept, present, allow=False)


def _list_blamed(store: RunStore, ids: set[str]) -> list[str]:
    """Return the agents that are the first broken link of most of the samples, the most frequent first."""
    counts: dict[str, int] = {}
    for (sample_id, _), link in attribute_run(store).links.items():
        if sample_id in ids and link.kind in ("agent", "format"):
            counts[link.name] = counts.get(link.name, 0) + 1
    return sorted(counts, key=lambda name: -counts[name])


def _plan_corrections(
    config: EvalConfig, agents: Sequence[str], records: Sequence[Record], matchers: dict[str, TargetMatcher]
) -> tuple[list[Correction], dict[str, str]]:
    names = agent_names(config.system)
    judged_by = {spec.critic: spec.name for spec in config.system.agent_specs if spec.critic}
    steps = [AgentSteps.of(record) for record in records]
    authors = {each.draft.agent for each in steps if each.draft is not None}
    last = Counter(each.work[-1].agent for each in steps if each.work)
    finisher = max(last, key=lambda name: last[name], default=None)  # some answers ended before it
    found, skipped = list[Correction](), dict[str, str]()
    for agent in dict.fromkeys(agents):
        kind: Kind = "hint"
        if agent not in names:
            skipped[agent] = f"it makes several calls of a model; name those to correct, of {', '.join(names)}"
            continue
        if agent in judged_by:
            kind = "review" if judged_by[agent] in authors else "approval"
        elif agent == finisher:
            skipped[agent] = "its output is the answer, which would always be right"
            continue
        elif agent in authors:
            kind = "answer"
        if kind == "hint" and config.simulated:
            skipped[agent] = "its correction is a hint in its prompt, which the simulated model does not read"
            continue
        found.append(Correction(agent, kind, matchers, judged_by.get(agent)))
    return found, skipped


def _share_budget(config: EvalConfig, n_arms: int) -> EvalConfig:
    if config.run.max_cost_usd is None:
        return config
    return replace(config, run=replace(config.run, max_cost_usd=config.run.max_cost_usd / n_arms))


def _build_info(request: Request) -> RunInfo:
    config = request.config
    labels = find_labels(request.samples, given=read_labels(config.data)).names or tuple(request.info.task.labels)
    kept = config.redact_tree(request.stored_config)
    return replace(
        request.info,
        run_id="",
        started_at="",
        config=kept,
        command=None,
        sweep=None,
        simulated=config.simulated,
        task=describe_task(request.samples, kept.get("scorer"), getattr(config.data, "revision", None), labels),
    )


def _judge(request: Request, folder: Path, arms: Sequence[Arm], stopped: str | None) -> Proof:
    scores = [_read_scores(arm, request) for arm in arms]
    found = []
    for arm, correction, values in zip(arms[1:], request.corrections, scores[1:], strict=True):
        pairs = [Pair(before, after) for before, after in zip(scores[0], values, strict=True)]
        n_given_away = _count_given_away(arm, correction) if correction.kind == "hint" else 0
        result = run_paired_test(pairs)
        found.append(ProvenAgent(correction.agent, correction.kind, _mean(values), n_given_away, result))
    return Proof(
        folder=folder,
        n_samples=len(request.samples),
        epochs=request.config.run.epochs,
        control=_mean(scores[0]),
        agents=found,
        skipped=request.skipped,
        stopped=stopped,
        simulated=request.config.simulated,
    )


def _read_scores(arm: Arm, request: Request) -> list[list[float]]:
    """Return the scores of each sample's answers; a failure, or an answer that is missing, is 0."""
    epochs = request.config.run.epochs
    found: dict[str, list[float]] = {each.id: [] for each in request.samples}
    for record in read_arm_records(arm):
        found[record.sample_id].append(float(record.score or 0.0) if record.error is None else 0.0)
    return [values + [0.0] * (epochs - len(values)) for values in found.values()]


def _count_given_away(arm: Arm, correction: Correction) -> int:
    """Count the answers in which the agent states the target that neither its request nor a tool gave it."""
    n = 0
    for record in read_arm_records(arm):
        matcher = correction.matchers[record.sample_id]
        own = [each for each in AgentSteps.of(record).steps if each.agent == correction.agent]
        n += any(matcher.is_within(each.said) and not matcher.is_within(each.seen) for each in own)
    return n


def _mean(values: Sequence[Sequence[float]]) -> float:
    return sum(sum(each) / len(each) for each in values) / len(values)
