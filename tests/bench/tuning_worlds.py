"""What a tuning run publishes where the truth is known: the simulated worlds, many seeds, the whole command each time.

    python tests/bench/tuning_worlds.py                          # everything, about an hour on two cores
    python tests/bench/tuning_worlds.py --only null --seeds 20   # one part, fewer seeds
    python tests/bench/tuning_worlds.py --json outputs/tuning_worlds.json

| part | world | what is looked for | what must come out |
|---|---|---|---|
| null | prompts have no effect | by gepa and by bootstrap | at most 5 % published |
| planted | normal | nothing: one candidate is planted that is truly 15 points better | at least 80 % published |
| harmful | every clause of the reflection harms or does nothing | by gepa | none published |
| one in ten helps | but for one clause in ten: truly better prompts can be found | by gepa | none that is worse |
| leaky | the reflection copies answers | by gepa; the metric quotes those of others (`LEAKY`) | none holds one |
| leaky unchecked | the same, and nothing blocks a leak | the same | some do, so the check is tested |

Beside each stands what picking on the validation questions alone would have shipped: a candidate that scored above the
prompts it began with. Simulated model: the figures say something about the procedure, nothing about any LLM.
"""

import argparse
import contextlib
import io
import json
import logging
import multiprocessing
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from mas.system import agent_names

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # for the rules of `tests/`
SMALL = (
    *("system=toy", "data=toy", "model=offline", "tracking=off", "yes=true", "run.concurrency=8"),
    *("data.n_train=20", "data.n_val=20", "data.n_test=60", "gate.epochs=2", "budget.metric_calls=160"),
)
PARTS = ("null", "planted", "harmful", "one in ten helps", "leaky", "leaky unchecked")
# A metric whose feedback quotes the answers of other questions, those of validation included
LEAKY = ("scorer=function", "scorer.target=tests.optimize.scorer_rules:quotes_other_answers")
TESTED = {  # a sealed set that can show 15 points
    "planted": ("data.n_test=80", "gate.epochs=3"),
    "leaky": LEAKY,
    "leaky unchecked": LEAKY,
}
SEEDS = {"null": 100} | dict.fromkeys(PARTS[1:], 50)  # null: of each optimizer
WORLDS = {
    "planted": "normal",
    "one in ten helps": "harmful",
    "leaky unchecked": "leaky",
}  # the others are called like their world
PLANTED = {  # what the planted candidate's prompts say more; together worth 15 points (`true_gain` measures it)
    "solve": ("Use the calculator for every calculation, never your head.",),
    "finalize": ("Leave out units unless asked for.",),
}


@dataclass(frozen=True)
class Job:
    part: str
    world: str
    optimizer: str
    seed: int


@dataclass(frozen=True)
class Result:
    job: Job
    published: bool
    finish_reason: str
    gain: float | None  # on the sealed questions; None: they were not opened
    by_validation: bool  # whether picking on validation alone would have shipped one
    leaked: bool  # a published prompt holds an answer of a validation or sealed question
    true_gain: float | None  # of a published set, on 1,000 other questions
    seconds: float


def jobs(parts: Sequence[str], seeds: int | None) -> Iterator[Job]:
    for part in parts:
        for seed in range(seeds or SEEDS[part]):
            if part == "null":
                yield Job(part, "'null'", "gepa", seed)
                yield Job(part, "'null'", "bootstrap", seed)
            else:
                yield Job(part, WORLDS.get(part, part), "gepa", seed)


def run(job: Job) -> Result:
    from mas.simulation.worlds import WORLDS as RULES
    from optimize.publishing.leaks import LeakReport
    from tests.optimize.scorer_rules import SCORED

    SCORED.clear()
    RULES["harmful"] = replace(RULES["harmful"], helps=0.1 if job.part == "one in ten helps" else 0.0)
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from eval.cli.paths import OUTPUTS
    from optimize.gate import sealed_log
    from optimize.pipeline.tuning import tune
    from optimize.session.config import read_config

    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
        folder, shelf = Path(scratch, "run"), Path(scratch, "prompts")
        sealed_log.find_log = lambda: Path(scratch, "sealed_tests.jsonl")
        overrides = [
            *SMALL,
            *TESTED.get(job.part, ()),
            f"optimizer={job.optimizer}",
            f"model.world={job.world}",
            f"model.seed={job.seed}",
            f"data.seed={job.seed}",
            f"seed={job.seed}",
            f"run.dir={folder}",
        ]
        with initialize_config_dir(str(ROOT / "conf"), version_base=None):
            composed = compose("optimize", overrides)
        config = read_config(composed, overrides, shelf)
        if job.part == "planted":
            config.optimizer = Planted()
        config.check()
        unchecked = mock.patch.object(LeakReport, "blocked", False)
        with unchecked if job.part == "leaky unchecked" else contextlib.nullcontext():
            tune(config)
        return _result(job, folder, shelf, config.base.data, config.base.model, time.monotonic() - began)


def _result(job: Job, folder: Path, shelf: Path, data: Any, model: Any, seconds: float) -> Result:
    verdict = json.loads((folder / "verdict.json").read_text("utf-8"))
    best = verdict["best_val"]
    return Result(
        job,
        published=verdict["published"],
        finish_reason=verdict["finish_reason"],
        gain=verdict["gain"],
        by_validation=bool(best and best["val_gain"] > 0),
        leaked=verdict["published"] and _holds_an_answer(shelf / "tuned", ROOT / "prompts" / "toy_baseline", data),
        true_gain=_gain_elsewhere(shelf / "tuned", model) if verdict["published"] else None,
        seconds=seconds,
    )


def _gain_elsewhere(published: Path, model: Any) -> float:
    from eval.benchmarks.toy_set import ToyDataset
    from eval.scorers.gaia import GaiaScorer
    from mas.prompt_sets.prompt_set import read_prompt_set
    from tests.bench.simulated_worlds import program_of, score, system_and_data

    system, _ = system_and_data("toy", "toy")
    samples = ToyDataset(n_train=1, n_val=1, n_test=1000, seed=900_000 + model.seed).load("test").samples
    before, after = (
        score(
            program_of(system, read_prompt_set(name, agent_names(system), system.name, ROOT), model),
            samples,
            GaiaScorer(),
        )
        for name in (system.default_prompts, published)
    )
    return after - before


def _holds_an_answer(published: Path, parent: Path, data: Any) -> bool:
    """Without any code of the leak check: whether a new line has a gold answer of more than two characters in it."""
    answers = {each.target for split in ("val", "test") for each in data.load(split).samples if len(each.target) > 2}
    for file in published.glob("*_system_prompt.txt"):
        old = (parent / file.name).read_text("utf-8")
        new = [line for line in file.read_text("utf-8").splitlines() if line not in old]
        if any(re.search(rf"(?<![\w.]){re.escape(answer)}(?![\w.]*\w)", line) for line in new for answer in answers):
            return True
    return False


@dataclass
class Planted:
    """An optimizer that has found one candidate, of known worth."""

    name: str = "planted"
    needs_reflection: bool = False

    def check(self) -> None:
        """Nothing can be wrong."""

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> Any:
        from optimize.search.optimizer import SearchCost

        return SearchCost(2 * n_val, 0)

    def search(self, student: Any, objective: Any, context: Any, report: Any) -> Any:
        from optimize.search.optimizer import Proposal, SearchOutcome

        parent = student.initial_prompts
        texts = {agent: "\n\n".join([text, *PLANTED.get(agent, ())]) for agent, text in parent.texts.items()}
        prompts = replace(parent, texts=texts)
        report(Proposal("c001", prompts, "accepted", "planted", agents=tuple(PLANTED), val_score=1.0))
        return SearchOutcome()


def true_gain(n_seeds: int = 10) -> tuple[float, float]:
    """The planted candidate's gain in accuracy and its standard error, over 3,000 questions of other seeds."""
    from eval.benchmarks.toy_set import ToyDataset
    from eval.scorers.gaia import GaiaScorer
    from mas.prompt_sets.prompt_set import read_prompt_set
    from mas.simulation import SimulatedModel
    from tests.bench.simulated_worlds import program_of, score, system_and_data

    system, _ = system_and_data("toy", "toy")
    parent = read_prompt_set(system.default_prompts, agent_names(system), system.name, ROOT)
    texts = {agent: "\n\n".join([text, *PLANTED.get(agent, ())]) for agent, text in parent.texts.items()}
    gains = []
    for seed in range(1000, 1000 + n_seeds):
        samples = ToyDataset(n_train=1, n_val=1, n_test=300, seed=seed).load("test").samples
        model = SimulatedModel(seed=seed)
        before, after = (program_of(system, each, model) for each in (parent, replace(parent, texts=texts)))
        gains.append(score(after, samples, GaiaScorer()) - score(before, samples, GaiaScorer()))
    return statistics.mean(gains), statistics.stdev(gains) / len(gains) ** 0.5


def table(results: Sequence[Result]) -> str:
    """Markdown, one line a part and optimizer."""
    from eval.analysis.statistics.intervals import compute_share_interval

    lines = [
        "| part | optimizer | runs | published | share (95 %) | true gain of each | leaked "
        "| by validation | sealed gain | why not |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups = sorted({(each.job.part, each.job.optimizer) for each in results}, key=lambda pair: PARTS.index(pair[0]))
    for part, optimizer in groups:
        mine = [each for each in results if (each.job.part, each.job.optimizer) == (part, optimizer)]
        published = sum(each.published for each in mine)
        low, high = compute_share_interval(published / len(mine), len(mine), len(mine)) if mine else (0.0, 1.0)
        gains = [each.gain for each in mine if each.gain is not None]
        reasons = Counter(each.finish_reason for each in mine if not each.published)
        true = [f"{100 * each.true_gain:+.1f}" for each in mine if each.true_gain is not None and part != "planted"]
        cells = [
            *(part, "-" if part == "planted" else optimizer, len(mine), published),
            f"{published / len(mine):.1%} ({low:.1%} to {high:.1%})",
            ", ".join(true) or "-",
            sum(each.leaked for each in mine),
            "-" if part == "planted" else sum(each.by_validation for each in mine),
            f"{100 * statistics.mean(gains):+.1f} points ({len(gains)} tested)" if gains else "-",
            ", ".join(f"{name} {count}" for name, count in reasons.most_common()),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--seeds", type=int, help="of each part and optimizer")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    todo, began, results = list(jobs(chosen.only, chosen.seeds)), time.monotonic(), []
    context = multiprocessing.get_context("spawn")
    with context.Pool(chosen.processes, maxtasksperchild=25) as pool:
        for result in pool.imap_unordered(run, todo):
            results.append(result)
            print(
                f"{len(results)}/{len(todo)} {result.job}: {result.finish_reason}, {result.seconds:.1f} s", flush=True
            )
    print(f"\n{len(results)} runs in {time.monotonic() - began:.0f} s\n\n{table(results)}")
    if "planted" in chosen.only:
        gain, error = true_gain()
        print(f"\nThe planted candidate's true gain: {100 * gain:+.1f} points (standard error {100 * error:.1f}).")
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(each) for each in results], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
