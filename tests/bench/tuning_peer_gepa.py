"""Tuning with `optimize/run.py` beside plain dspy.GEPA, where the truth is known: the simulated worlds.

    python tests/bench/tuning_peer_gepa.py                         # two worlds, six seeds: 7 minutes on two idle cores
    python tests/bench/tuning_peer_gepa.py --longer                # the last arm as well: 26 minutes on two busy ones
    python tests/bench/tuning_peer_gepa.py --seeds 1 --sealed 200  # a look

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
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from eval.execution.budget import REFLECTION_KEY
from eval.runs.call_log import CallLog
from eval.runs.store import RunStore
from eval.scorers.gaia import GaiaScorer
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import SampleKey
from mas.simulation import SimulatedModel
from optimize.search.optimizers.gepa_optimizer import GepaOptimizer
from optimize.session.config import TuneConfig
from tests.bench.simulated_worlds import DRAWN, build_toy, measure_accuracy, read_toy_set
from tests.bench.tables import Table
from tests.command import tuning_command

LONGER = "plain, longer"
ARMS = ("plain", "plain, our settings", LONGER)  # beside ours
WORLDS = {"normal": "Prompts matter (world normal)", "null": "Prompts have no effect (world null)"}
OTHER_QUESTIONS = 50_000  # added to the seed of the questions that what is shipped is scored on
THREADS = 16


@dataclass
class Paid:
    """Requests that were paid for: the same one again is answered from memory. Copies of a program share it."""

    requests: int = 0
    replies: dict[str, Any] = field(default_factory=dict)

    def __deepcopy__(self, memo: Any) -> "Paid":
        return self


@dataclass
class PaidModel(SimulatedModel):
    paid: Paid = field(default_factory=Paid)

    def _create_lm(self, reply: Any, temperature: float | None) -> Any:
        def pay_once(request: Any) -> Any:
            key = repr(request)
            if key not in self.paid.replies:
                self.paid.requests += 1
                self.paid.replies[key] = reply(request)
            return self.paid.replies[key]

        return super()._create_lm(pay_once, temperature)


@dataclass(frozen=True)
class Shipped:
    """What came of one arm."""

    what: str  # the candidate, or why there is none
    new: bool  # whether it is something else than the prompts it began with
    val_gain: float | None  # of what it ships, in its own eyes
    requests: int  # of the search, baseline and reflections included
    prompts: PromptSet = field(repr=False)
    accuracy: float | None = None  # on the other questions
    gain: float | None = None


@dataclass(frozen=True)
class Result:
    world: str
    seed: int
    baseline: float | None
    arms: dict[str, Shipped]
    all_requests: int  # of ours


@dataclass(frozen=True)
class Job:
    world: str
    seed: int
    n_sealed: int
    longer: bool
    extra: tuple[str, ...]  # overrides of optimize/run.py


def run(job: Job) -> Result:
    """Run every arm on one world and seed, and score what it ships on other questions."""
    logging.disable(logging.WARNING)
    ours, all_requests, train, val = _run_ours(job)
    arms = {"ours": ours}
    for name in ARMS if job.longer and job.world != "null" else ARMS[:-1]:
        budget = all_requests if name == LONGER else ours.requests
        arms[name] = _run_plain(job, train, val, budget, name)
    if job.world == "null":  # where prompts have no effect, none is better or worse
        return Result(job.world, job.seed, None, arms, all_requests)

    def measure(prompts: PromptSet) -> float:
        model = SimulatedModel(world=job.world, seed=job.seed)
        return measure_accuracy(prompts, model, job.n_sealed, OTHER_QUESTIONS + job.seed)

    baseline = measure(read_toy_set("toy_baseline"))
    for name, arm in arms.items():
        reached = measure(arm.prompts) if arm.new else baseline
        arms[name] = replace(arm, accuracy=reached, gain=reached - baseline)
    return Result(job.world, job.seed, baseline, arms, all_requests)


def _run_ours(job: Job) -> tuple[Shipped, int, list[Any], list[Any]]:
    """Run the whole command; return what it shipped, all its requests, the training and the validation questions."""
    known: dict[str, Any] = {}

    def remember(config: TuneConfig) -> None:
        for split in ("train", "val", "test"):
            known.update({each.id: each for each in config.base.data.load(split).samples})

    options = ("system=toy", "data=toy", DRAWN, "model=offline", "optimizer=gepa", f"model.world='{job.world}'")
    seeds = (f"{name}={job.seed}" for name in ("model.seed", "+data.seed", "seed"))
    with tempfile.TemporaryDirectory() as place:
        tuned = tuning_command(Path(place), *options, *seeds, *job.extra, change=remember)
        verdict, splits = tuned.verdict, tuned.read("splits")
        train, val = ([known[each] for each in splits[part]] for part in ("train", "val"))
        with RunStore(tuned.folder / "run.db", read_only=True) as store:  # the shortlist's are of later epochs
            samples = [REFLECTION_KEY, *(SampleKey(each.id, 1) for each in (*train, *val))]
            requests = sum(CallLog(store).sum_paid(sample).lm_calls for sample in samples)
        if verdict["published"]:
            what, prompts = verdict["winner"]["candidate_id"], tuned.kept
            (chosen,) = [each for each in tuned.read("shortlist") if each["candidate_id"] == what]
            gain = chosen["val_score"] - tuned.read("baseline")["val_score"]
        else:
            sealed = "" if verdict["gain"] is None else f" (sealed gain {100 * verdict['gain']:+.1f})"
            what, prompts, gain = f"none, {verdict['finish_reason']}{sealed}", read_toy_set("toy_baseline"), None
        shipped = Shipped(what, verdict["published"], gain, requests, prompts)
        return shipped, verdict["spend"]["lm_calls"], train, val


def _run_plain(job: Job, train: list[Any], val: list[Any], budget: int, arm: str) -> Shipped:
    """As the users of dspy.GEPA do it: compile, and take what it returns."""
    import dspy

    scorer, model, ours = GaiaScorer(), PaidModel(world=job.world, seed=job.seed), GepaOptimizer()
    settings: dict[str, Any] = {
        "reflection_minibatch_size": ours.minibatch_size,
        "component_selector": ours.component_selector,
    }

    def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> float:
        return float(scorer(gold.question, pred.final_answer, gold.answer).value)

    def samples(part: Sequence[Any]) -> list[Any]:
        return [dspy.Example(question=each.question, answer=each.target).with_inputs("question") for each in part]

    parent = read_toy_set("toy_baseline")
    optimizer = dspy.GEPA(
        metric,
        max_metric_calls=10**9,
        reflection_lm=model.create_reflection_lm(),
        num_threads=THREADS,
        track_stats=True,
        seed=job.seed,
        gepa_kwargs={"stop_callbacks": [lambda state: model.paid.requests >= budget]},
        **(settings if arm == "plain, our settings" else {}),
    )
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        best = optimizer.compile(build_toy(parent, model), trainset=samples(train), valset=samples(val))
    scores, number = best.detailed_results.val_aggregate_scores, best.detailed_results.best_idx
    texts = {name: each.signature.instructions for name, each in best.named_predictors()}
    what = f"candidate {number} of {len(scores) - 1}" if number else f"none of {len(scores) - 1}"
    gain = scores[number] - scores[0] if number else None
    return Shipped(what, number != 0, gain, model.paid.requests, replace(parent, texts=texts))


def tabulate(results: Sequence[Result], n_sealed: int) -> Iterator[Table]:
    for world, title in WORLDS.items():
        if found := sorted((each for each in results if each.world == world), key=lambda result: result.seed):
            yield _summarise(f"{title}, {len(found)} seeds", found, n_sealed)
            by_seed = Table("What each shipped, and its gain in points if measured", ("seed", *found[0].arms))
            for each in found:
                by_seed.add([each.seed, *(_write_gain(arm) for arm in each.arms.values())])
            yield by_seed


def _summarise(title: str, results: Sequence[Result], n_sealed: int) -> Table:
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


def _write_gain(arm: Shipped) -> str:
    return arm.what if arm.gain is None or not arm.new else f"{arm.what}: {100 * arm.gain:+.1f}"


def _mean_sd(values: Sequence[float | None], form: str = ".1f", unit: str = "%") -> str:
    known = [each for each in values if each is not None]
    if not known:
        return "-"
    spread = f" ({100 * statistics.stdev(known):.1f})" if len(known) > 1 else ""
    return f"{100 * statistics.mean(known):{form}}{unit}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--sealed", type=int, default=1000, help="other questions that what is shipped is scored on")
    parser.add_argument("--longer", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("extra", nargs="*", metavar="option=value", help="for optimize/run.py")
    chosen = parser.parse_args()
    os.environ["PYTHONHASHSEED"] = "0"  # one choice of GEPA's merge depends on it
    each_job = [(world, seed) for world in WORLDS for seed in range(chosen.seeds)]
    todo = [Job(world, seed, chosen.sealed, chosen.longer, tuple(chosen.extra)) for world, seed in each_job]
    began, results = time.monotonic(), []
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        for result in pool.imap_unordered(run, todo):
            results.append(result)
            told = ", ".join(f"{name}: {arm.what}" for name, arm in result.arms.items())
            print(f"{len(results)}/{len(todo)} {result.world} {result.seed}: {told}", flush=True)
    minutes = (time.monotonic() - began) / 60
    command = f"`python tests/bench/{Path(__file__).name}{' --longer' * chosen.longer}`"
    print(f"\n{command}, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {minutes:.0f} minutes.\n")
    for table in tabulate(results, chosen.sealed):
        print(table.markdown().replace("### ", "#### "))


if __name__ == "__main__":
    main()
