"""Tuning with `optimize/run.py` beside plain dspy.GEPA, where the truth is known: the simulated worlds.

    python tests/bench/tuning_peer_gepa.py                         # two worlds, six seeds: 7 minutes on two idle cores
    python tests/bench/tuning_peer_gepa.py --longer                # the last arm as well: 26 minutes on two busy ones
    python tests/bench/tuning_peer_gepa.py --seeds 1 --sealed 200  # a look
    python tests/bench/tuning_peer_gepa.py --document              # updates docs/explanation/optimisation.md

| arm | what it is |
|---|---|
| ours | `optimize/run.py system=toy data=toy model=offline`, everything else as it comes |
| plain | `dspy.GEPA(metric).compile(program)` with DSPy's own settings and proposer; ships what it returns |
| plain, our settings | the same with those of `conf/optimizer/gepa.yaml` |
| plain, longer | plain, with as many requests as ours took in all, shortlist and sealed test included |

Plain's metric returns the score alone, so that the feedback is DSPy's own "This trajectory got a score of …". A request
is one call of the simulated model by system or reflection; the same request again is free, as DSPy's cache and our call
log have it. Ours runs first; plain stops after the first iteration in which it has made as many requests as the search
of ours, baseline included, and so makes a few more. Model, training and validation questions are the same. What each
ships is scored on other questions, which neither has seen, by the same model; in the null world, where prompts have no
effect, nothing is scored: whatever is shipped there is a mistake.
"""

import argparse
import contextlib
import io
import json
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.command import read_result

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(ROOT)

from mas.simulation import SimulatedModel  # noqa: E402
from mas.system import agent_names  # noqa: E402
from tests.bench.paid_model import PaidModel  # noqa: E402
from tests.bench.tables import Table  # noqa: E402

LONGER = "plain, longer"
ARMS = ("ours", "plain", "plain, our settings", LONGER)
WORLDS = ("normal", "null")
OTHER_QUESTIONS = 50_000  # added to the seed of the questions that what is shipped is scored on
THREADS = 16
DOCUMENT = ROOT / "docs" / "explanation" / "optimisation.md"
MARKS = ("<!-- tuning_peer_gepa: written by tests/bench/tuning_peer_gepa.py --document -->", "<!-- end of it -->")


@dataclass(frozen=True)
class Shipped:
    """What came of one arm."""

    what: str  # the candidate, or why there is none
    new: bool  # whether it is something else than the prompts it began with
    val_gain: float | None  # of what it ships, in its own eyes
    requests: int  # of the search, baseline and reflections included
    prompts: Any = field(repr=False)
    accuracy: float | None = None  # on the other questions
    gain: float | None = None


@dataclass(frozen=True)
class Result:
    world: str
    seed: int
    baseline: float | None
    arms: dict[str, Shipped]
    all_requests: int  # of ours
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        arms = {
            name: {key: value for key, value in vars(each).items() if key != "prompts"}
            for name, each in self.arms.items()
        }
        return {**asdict(replace(self, arms={})), "arms": arms}


@dataclass(frozen=True)
class Job:
    world: str
    seed: int
    n_sealed: int
    longer: bool
    extra: tuple[str, ...]  # overrides of optimize/run.py


def run(job: Job) -> Result:
    """One world and seed: every arm, and what it ships scored on other questions."""
    world, seed = job.world, job.seed
    logging.disable(logging.WARNING)
    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        ours, all_requests, parent, splits = _ours(world, seed, job.extra)
        arms = {"ours": ours}
        for name in ARMS[1:] if job.longer and world != "null" else ARMS[1:-1]:
            budget = all_requests if name == LONGER else ours.requests
            arms[name] = _plain(world, seed, parent, splits, budget, _settings(name))
        baseline = None
        if world != "null":  # where prompts have no effect, none is better or worse
            baseline, arms = _scored(world, seed, job.n_sealed, parent, arms)
    return Result(world, seed, baseline, arms, all_requests, time.monotonic() - began)


def _ours(world: str, seed: int, extra: Sequence[str]) -> tuple[Shipped, int, Any, Any]:
    """The whole command, in a folder of its own; the sealed set's openings are noted there, too."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from eval.cli.paths import OUTPUTS
    from mas.prompt_sets.prompt_set import read_prompt_set
    from optimize.gate import sealed_log
    from optimize.pipeline.tuning import tune
    from optimize.questions.splits import make_splits
    from optimize.session.config import read_config

    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder, shelf = Path(scratch, "run"), Path(scratch, "prompts")
        sealed_log.find_log = lambda: Path(scratch, "sealed_tests.jsonl")
        overrides = [
            *("system=toy", "data=toy", "model=offline", "optimizer=gepa", "tracking=off", "yes=true"),
            *(f"model.world='{world}'", f"model.seed={seed}", f"data.seed={seed}", f"seed={seed}", f"run.dir={folder}"),
            *extra,
        ]
        with initialize_config_dir(str(ROOT / "conf"), version_base=None):
            composed = compose("optimize", overrides)
        config = read_config(composed, overrides, shelf)
        config.check()
        parent = config.parent
        tune(config)
        verdict = read_result(folder, "verdict")
        splits = make_splits(config.base.data, config.splits)
        published, prompts, gain = verdict["published"], parent, None
        if published:
            system = config.base.system
            prompts = read_prompt_set(shelf / config.name, agent_names(system), system.name, ROOT)
            chosen = next(
                each
                for each in read_result(folder, "shortlist")
                if each["candidate_id"] == verdict["winner"]["candidate_id"]
            )
            gain = chosen["val_score"] - read_result(folder, "baseline")["val_score"]
        requests = _requests_of_search(folder, splits)
        return Shipped(_told(verdict), published, gain, requests, prompts), verdict["spend"]["lm_calls"], parent, splits


def _told(verdict: Any) -> str:
    """The candidate, or why none was published; then with what it had gained on the run's own sealed questions."""
    if verdict["published"]:
        return str(verdict["winner"]["candidate_id"])
    gain = verdict["gain"]
    return f"none, {verdict['finish_reason']}" + ("" if gain is None else f" (sealed gain {100 * gain:+.1f})")


def _requests_of_search(folder: Path, splits: Any) -> int:
    """Those of the first epoch and of the reflection; the shortlist's answers are of later ones."""
    from eval.execution.budget import REFLECTION
    from eval.runs.call_log import CallLog
    from mas.runtime.sample_context import SampleKey

    with contextlib.closing(CallLog(folder / "calls.db")) as log:
        samples = [REFLECTION, *(SampleKey(each.id, 1) for each in (*splits.train, *splits.val))]
        return sum(log.sum_paid(sample).lm_calls for sample in samples)


def _settings(arm: str) -> dict[str, Any]:
    """None for plain: DSPy's own."""
    if arm != "plain, our settings":
        return {}
    from optimize.search.optimizers.gepa_optimizer import GepaOptimizer

    ours = GepaOptimizer()
    return {
        "reflection_minibatch_size": ours.minibatch_size,
        "component_selector": ours.component_selector,
    }


def _plain(world: str, seed: int, parent: Any, splits: Any, budget: int, settings: dict[str, Any]) -> Shipped:
    """As the users of dspy.GEPA do it: compile, and take what it returns."""
    import dspy

    from eval.scorers.gaia import GaiaScorer
    from tests.bench.simulated_worlds import program_of, system_and_data

    scorer, model = GaiaScorer(), PaidModel(world=world, seed=seed)

    def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> float:
        return float(scorer(gold.question, pred.final_answer, gold.answer).value)

    def samples(part: Any) -> list[Any]:
        return [dspy.Example(question=each.question, answer=each.target).with_inputs("question") for each in part]

    system, _ = system_and_data("toy", "toy")
    program = program_of(system, parent, model)
    optimizer = dspy.GEPA(
        metric,
        max_metric_calls=10**9,
        reflection_lm=model.create_reflection_lm(),
        num_threads=THREADS,
        track_stats=True,
        seed=seed,
        gepa_kwargs={"stop_callbacks": [lambda state: model.paid.requests >= budget]},
        **settings,
    )
    best = optimizer.compile(program, trainset=samples(splits.train), valset=samples(splits.val))
    told = best.detailed_results
    scores, number = told.val_aggregate_scores, told.best_idx
    texts = {name: each.signature.instructions for name, each in best.named_predictors()}
    what = f"candidate {number} of {len(scores) - 1}" if number else f"none of {len(scores) - 1}"
    gain = scores[number] - scores[0] if number else None
    return Shipped(what, number != 0, gain, model.paid.requests, replace(parent, texts=texts))


def _scored(
    world: str, seed: int, n_sealed: int, parent: Any, arms: dict[str, Shipped]
) -> tuple[float, dict[str, Shipped]]:
    from eval.benchmarks.toy_set import ToyDataset
    from eval.scorers.gaia import GaiaScorer
    from tests.bench.simulated_worlds import program_of, score, system_and_data

    system, _ = system_and_data("toy", "toy")
    questions = ToyDataset(n_train=1, n_val=1, n_test=n_sealed, seed=OTHER_QUESTIONS + seed).load("test").samples
    model = SimulatedModel(world=world, seed=seed)

    def accuracy(prompts: Any) -> float:
        return score(program_of(system, prompts, model), questions, GaiaScorer())

    baseline = accuracy(parent)
    found = {}
    for name, arm in arms.items():
        reached = accuracy(arm.prompts) if arm.new else baseline
        found[name] = replace(arm, accuracy=reached, gain=reached - baseline)
    return baseline, found


# Tables


def tables(results: Sequence[Result], n_sealed: int) -> Iterator[Table]:
    titles = {"normal": "Prompts matter (world normal)", "null": "Prompts have no effect (world null)"}
    for world, title in titles.items():
        if found := sorted((each for each in results if each.world == world), key=lambda result: result.seed):
            yield _summary(f"{title}, {len(found)} seeds", found, n_sealed)
            yield _by_seed(found)


def _summary(title: str, results: Sequence[Result], n_sealed: int) -> Table:
    on = f"on {n_sealed:,} other questions (sd)"
    columns = ("arm", "shipped something new", f"accuracy {on}", f"gain {on}", "gain seen on validation", "requests")
    table = Table(title, columns)
    table.add(["baseline", "-", _mean_sd([each.baseline for each in results])])
    for name in results[0].arms:
        arms = [each.arms[name] for each in results]
        seen = [each.val_gain for each in arms if each.val_gain is not None]
        table.add(
            [
                *(name, f"{sum(each.new for each in arms)} of {len(arms)}"),
                _mean_sd([each.accuracy for each in arms]),
                _mean_sd([each.gain for each in arms], "+.1f", " points"),
                f"{100 * statistics.mean(seen):+.1f} points" if seen else "-",
                f"{statistics.mean(each.requests for each in arms):,.0f}",
            ]
        )
    spent = statistics.mean(each.all_requests for each in results)
    table.notes.append(f"Ours took {spent:,.0f} requests in all: shortlist and sealed test come after the search.")
    return table


def _by_seed(results: Sequence[Result]) -> Table:
    table = Table("What each shipped, and its gain in points where that was measured", ("seed", *results[0].arms))
    for each in results:
        table.add([each.seed, *(_with_gain(arm) for arm in each.arms.values())])
    return table


def _with_gain(arm: Shipped) -> str:
    return arm.what if arm.gain is None or not arm.new else f"{arm.what}: {100 * arm.gain:+.1f}"


def _mean_sd(values: Sequence[float | None], form: str = ".1f", unit: str = "%") -> str:
    known = [each for each in values if each is not None]
    if not known:
        return "-"
    spread = f" ({100 * statistics.stdev(known):.1f})" if len(known) > 1 else ""
    return f"{100 * statistics.mean(known):{form}}{unit}{spread}"


def _document(text: str) -> None:
    """Replace what stands between the two marks."""
    page = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    DOCUMENT.write_text(f"{before}{MARKS[0]}\n\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--sealed", type=int, default=1000, help="other questions that what is shipped is scored on")
    parser.add_argument("--longer", action="store_true")
    parser.add_argument("--worlds", nargs="*", choices=WORLDS, default=WORLDS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--document", action="store_true")
    parser.add_argument("extra", nargs="*", metavar="option=value", help="for optimize/run.py")
    chosen = parser.parse_args()
    os.environ["PYTHONHASHSEED"] = "0"  # one choice of GEPA's merge depends on it
    todo = [
        Job(world, seed, chosen.sealed, chosen.longer, tuple(chosen.extra))
        for world in chosen.worlds
        for seed in range(chosen.seeds)
    ]
    began, results = time.monotonic(), []
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        for result in pool.imap_unordered(run, todo):
            results.append(result)
            told = ", ".join(f"{name}: {arm.what}" for name, arm in result.arms.items())
            print(
                f"{len(results)}/{len(todo)} {result.world} {result.seed}: {told} ({result.seconds:.0f} s)", flush=True
            )
            if chosen.json:
                chosen.json.write_text(json.dumps([each.to_dict() for each in results], indent=1), encoding="utf-8")
    command = f"`python tests/bench/{Path(__file__).name}{' --longer' * chosen.longer}`"
    about = f"{command}, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores"
    minutes = f"{(time.monotonic() - began) / 60:.0f} minutes"
    text = "\n".join(
        [f"{about}, {minutes}.\n", *(table.markdown() for table in tables(results, chosen.sealed))]
    ).replace("### ", "#### ")
    print(f"\n{text}")
    if chosen.document:
        _document(text)


if __name__ == "__main__":
    main()
