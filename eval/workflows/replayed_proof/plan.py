"""Plan of a replayed proof: which questions are asked again, and of which agents the outputs are corrected.

    request = read_request(find_run("latest"), agents=[], limit=30, overrides=["run.epochs=3"])
    request.corrections[0].agent, request.skipped       # "expert", {"finalizer": "its output is the answer, …"}

Everything is checked here, before anything is spent.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from omegaconf import OmegaConf

from eval.analysis.attribution.broken_link import BrokenLink
from eval.analysis.attribution.run_attribution import attribute_run, read_with_steps
from eval.benchmarks.dataset import Sample
from eval.benchmarks.selection import select_samples
from eval.cli.command import read_option_name
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, LocalSettings, read_config
from eval.config.measured import RESUME, UNMEASURED
from eval.runs.folder import DATABASE, check_empty, format_path, is_in_use, is_side
from eval.runs.own_runs import is_own_run, refuse_unreadable
from eval.runs.run_info import RunInfo, describe_task
from eval.runs.store import open_run, read_run_info
from eval.scorers.labels import LabelSet
from eval.workflows.replayed_proof.correction import Correction
from eval.workflows.replayed_proof.suspects import find_suspects
from eval.workflows.resume import check_unchanged, read_original_arguments
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.system import agent_names, read_program_digest

_EPOCHS = "run.epochs"
_OTHER_OPTIONS = ("run.dir", "run.name", _EPOCHS)


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
    links: dict[str, str]  # sample id → name of its first broken link, by its record
    info: RunInfo  # of the original run


def read_request(original: Path, agents: Sequence[str], limit: int, overrides: Sequence[str]) -> Request:
    """Check what is to be proven before anything is spent.

    Args:
        original: folder of the run.
        agents: to be corrected; none: those that the records blame most, and critics that decide without looking.
        limit: largest number of wrong samples, the first ones.
        overrides: options that leave what is measured as it is, and `run.epochs`.

    Raises:
        UserError: the run cannot be asked again as it was, nothing in it is wrong, or no agent can be corrected.
    """
    _check_overrides(overrides)
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
    arguments = read_original_arguments(str(original), [])
    unchanged = _compose(arguments)
    prompts = unchanged[0].check()
    if prompts is None:
        raise UserError(f"system={unchanged[0].system.name} shows no agents whose outputs could be corrected.")
    with refuse_unreadable(original), open_run(original) as store:
        info = store.read_info()
        if info.gold_informed:
            raise UserError(f"{original.name} was itself given the right answers; name the run that it was made of.")
        samples = select_samples(unchanged[0].data.load(unchanged[0].split).samples, unchanged[0].selection)
        kept = unchanged[0].redact_tree(unchanged[1])
        task = describe_task(samples, kept.get("scorer"), getattr(unchanged[0].data, "revision", None))
        present = RunInfo(
            prompts_sha256=digest(prompts), program_sha256=read_program_digest(unchanged[0].system), task=task
        )
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
    config, stored = _compose([*arguments, *overrides])
    config.check()
    if config.run.dir:
        _check_place(Path(config.run.dir).absolute())
    if unknown := [each for each in agents if each not in agent_names(config.system)]:
        known = ", ".join(agent_names(config.system))
        raise UserError(f"--agents names {', '.join(unknown)}; the agents of {config.system.name} are {known}.")
    blamed = Counter(
        name for link in links.values() if link.kind in ("agent", "format") for name in link.pair or (link.name,)
    )
    labels = LabelSet(tuple(info.task.labels))
    suspects = find_suspects(config, records, labels, [name for name, _ in blamed.most_common()], agents)
    if not suspects.tested:
        reasons = "; ".join(f"{agent}: {why}" for agent, why in suspects.skipped.items())
        raise UserError(f"no agent can be corrected{f' ({reasons})' if reasons else ''}; name some with --agents.")
    chosen = [each for each in samples if each.id in ids]
    names = {sample_id: link.name for sample_id, link in links.items()}
    return Request(original, config, stored, prompts, chosen, suspects.tested, suspects.skipped, names, info)


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
