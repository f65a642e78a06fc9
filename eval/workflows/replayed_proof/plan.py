"""Plan of a replayed proof: which questions are asked again, and which agents are corrected. Nothing is spent here.

Tested are the agents that the record blames most; where it cannot tell an author from its critic, both.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.broken_link import PAIR, BrokenLink, build_matcher
from eval.analysis.attribution.run_attribution import attribute_run, read_with_steps
from eval.benchmarks.dataset import Sample
from eval.benchmarks.selection import select_samples
from eval.cli.command import read_option_name
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, LocalSettings, read_config
from eval.config.measured import OF_THE_SESSION, RESUME, UNMEASURED
from eval.runs.folder import DATABASE, check_empty, format_path, is_in_use, is_side
from eval.runs.own_runs import is_own_run, refuse_unreadable
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, describe_task
from eval.runs.store import open_run, read_run_info
from eval.scorers.labels import LabelSet
from eval.workflows.replayed_proof.correction import Correction, Kind
from eval.workflows.resume import check_unchanged, read_original_arguments
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.system import agent_names, read_program_digest

MAX_BLAMED = 3  # agents that are tested because the record blames them
_OTHER_OPTIONS = ("run.dir", "run.name", "run.epochs")


@dataclass(frozen=True)
class Request:
    """Checked command line: what is asked again, and of whom the outputs are corrected."""

    original: Path
    config: EvalConfig
    prompts: PromptSet
    samples: list[Sample]
    corrections: list[Correction]
    skipped: dict[str, str]  # agent → why it is not corrected
    links: dict[str, str]  # sample id → name of its first broken link, by its record
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
    task = describe_task(samples, kept.get("scorer"), getattr(before.data, "revision", None))
    program = read_program_digest(before.system)
    with refuse_unreadable(original), open_run(original) as store:
        info = store.read_info()
        present = RunInfo(prompts_sha256=digest(prompts), program_sha256=program, task=task)
        check_unchanged(info, kept, present, allow=False)
        wrong = [each for each in store.final_records() if each.target is not None and not each.correct]
        ids = list(dict.fromkeys(each.sample_id for each in wrong))[:limit]
        if not ids:
            raise UserError(f"{original.name} has no wrong answer with a known target: nothing can be proven.")
        links: dict[str, BrokenLink] = {}
        for (sample_id, _), link in sorted(attribute_run(store).links.items()):
            if sample_id in ids:
                links.setdefault(sample_id, link)
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
    blamed = Counter(
        name for link in links.values() if link.kind in ("agent", "format") for name in link.name.split(PAIR)
    )
    labels, most = LabelSet(tuple(info.task.labels)), [name for name, _ in blamed.most_common()]
    corrections, skipped = find_suspects(config, records, labels, most, agents)
    if not corrections:
        reasons = "; ".join(f"{agent}: {why}" for agent, why in skipped.items())
        raise UserError(f"no agent can be corrected{f' ({reasons})' if reasons else ''}; name some with --agents.")
    chosen = [each for each in samples if each.id in ids]
    names = {sample_id: link.name for sample_id, link in links.items()}
    return Request(original, config, prompts, chosen, corrections, skipped, names, info)


def _check_overrides(overrides: Sequence[str]) -> None:
    for name in map(read_option_name, overrides):
        kept = name in _OTHER_OPTIONS or any(f"{name}.".startswith(f"{each}.") for each in UNMEASURED)
        if name == "executor" or name.startswith("executor."):
            raise UserError(f"{name} is not supported here: an agent is corrected in this process alone; leave it out.")
        if not kept or (name in OF_THE_SESSION and name not in _OTHER_OPTIONS):
            raise UserError(
                f"{name} cannot be changed here: the same program is asked again; give run.epochs=…, "
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


# Whom to correct


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
