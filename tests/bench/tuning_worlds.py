"""What a tuning run publishes where the truth is known: the simulated worlds, many seeds, the whole command each time.

    python tests/bench/tuning_worlds.py                          # everything, about an hour on two cores
    python tests/bench/tuning_worlds.py --only null --seeds 20   # one part, fewer seeds

| part | world | what is looked for | what must come out |
|---|---|---|---|
| null | prompts have no effect | by gepa and by bootstrap | at most 5 % published |
| planted | normal | nothing: one candidate is planted that is truly 15 points better | at least 80 % published |
| harmful | every clause of the reflection harms or does nothing | by gepa | none published |
| leaky | the reflection copies answers | by gepa; the metric quotes those of others | none holds one |

Beside each stands what picking on the validation questions alone would have shipped: a candidate that scored above the
prompts it began with. Simulated model: the figures say something about the procedure, nothing about any LLM. That some
prompts hold an answer where the leak check is off is a test: `tests/optimize/test_leaky_world.py`.
"""

import argparse
import logging
import multiprocessing
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from eval.analysis.statistics.intervals import compute_share_interval
from mas.prompt_sets.prompt_set import PromptSet
from mas.simulation import SimulatedModel
from optimize.session.config import TuneConfig
from tests.bench.simulated_worlds import DRAWN, measure_accuracy, read_toy_set
from tests.command import Finished, tuning_command
from tests.optimize.planted_runs import Planted
from tests.optimize.scorer_rules import SCORED

SMALL = (
    *("system=toy", "data=toy", DRAWN, "model=offline", "run.concurrency=8"),
    *("data.n_train=20", "data.n_val=20", "data.n_test=60", "gate.epochs=2", "budget.metric_calls=160"),
)
PARTS = {  # the world, and options of each run
    "null": ("'null'", ()),
    "planted": ("normal", ("data.n_test=80", "gate.epochs=3")),  # a sealed set that can show 15 points
    "harmful": ("harmful", ()),
    # A metric whose feedback quotes the answers of other questions, those of validation included
    "leaky": ("leaky", ("scorer=function", "scorer.target=tests.optimize.scorer_rules:quotes_other_answers")),
}
SEEDS = {"null": 100, "planted": 50, "harmful": 50, "leaky": 50}  # null: of each optimizer
PLANTED = {  # what the planted candidate's prompts say more; together worth 15 points
    "solve": "Use the calculator for every calculation, never your head.",
    "finalize": "Leave out units unless asked for.",
}
OTHER_SEED = 900_000  # added to a run's: of the questions on which a published set is measured


@dataclass(frozen=True)
class Job:
    part: str
    optimizer: str
    seed: int


@dataclass(frozen=True)
class Result:
    job: Job
    verdict: dict[str, Any]
    leaked: bool  # a published prompt holds an answer of a validation or sealed question
    true_gain: float | None  # of a published set, on 1,000 other questions

    @property
    def published(self) -> bool:
        return bool(self.verdict["published"])

    @property
    def by_validation(self) -> bool:
        """Whether picking on validation alone would have shipped one."""
        best = self.verdict["best_val"]
        return bool(best and best["val_gain"] > 0)


def jobs(parts: Sequence[str], seeds: int | None) -> Iterator[Job]:
    for part in parts:
        for seed in range(seeds or SEEDS[part]):
            yield Job(part, "gepa", seed)
            if part == "null":
                yield Job(part, "bootstrap", seed)


def run(job: Job) -> Result:
    logging.disable(logging.WARNING)
    SCORED.clear()
    world, options = PARTS[job.part]
    data: list[Any] = []

    def change(config: TuneConfig) -> None:
        data.append(config.base.data)
        if job.part == "planted":
            config.optimizer = Planted([PLANTED])

    names = ("model.seed", "+data.seed", "seed")
    given = (f"optimizer={job.optimizer}", f"model.world={world}", *(f"{name}={job.seed}" for name in names))
    with tempfile.TemporaryDirectory() as place:
        tuned = tuning_command(Path(place), *SMALL, *options, *given, change=change)
        assert tuned.code == 0, tuned.err
        if not tuned.verdict["published"]:
            return Result(job, tuned.verdict, leaked=False, true_gain=None)
        model = SimulatedModel(world=world.strip("'"), seed=job.seed)
        sets = (tuned.kept, read_toy_set("toy_baseline"))
        after, before = (measure_accuracy(each, model, 1000, OTHER_SEED + job.seed) for each in sets)
        return Result(job, tuned.verdict, _holds_an_answer(tuned, data[0]), after - before)


def _holds_an_answer(tuned: Finished, data: Any) -> bool:
    """Without any code of the leak check: whether a new line has a gold answer of more than two characters in it."""
    answers = {each.target for split in ("val", "test") for each in data.load(split).samples if len(each.target) > 2}
    old = _lines(read_toy_set("toy_baseline"))
    new = [line for line in _lines(tuned.kept) if line not in old]
    return any(re.search(rf"(?<![\w.]){re.escape(answer)}(?![\w.]*\w)", line) for line in new for answer in answers)


def _lines(prompts: PromptSet) -> list[str]:
    return [line for text in prompts.texts.values() for line in text.splitlines()]


def table(results: Sequence[Result]) -> str:
    """Return Markdown, one line a part and optimizer."""
    lines = [
        "| part | optimizer | runs | published | share (95 %) | true gain of each | leaked "
        "| by validation | sealed gain | why not |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for part, optimizer in sorted({(each.job.part, each.job.optimizer) for each in results}):
        mine = [each for each in results if (each.job.part, each.job.optimizer) == (part, optimizer)]
        published = sum(each.published for each in mine)
        low, high = compute_share_interval(published / len(mine), len(mine), len(mine))
        gains = [each.verdict["gain"] for each in mine if each.verdict["gain"] is not None]
        reasons = Counter(each.verdict["finish_reason"] for each in mine if not each.published)
        cells = [
            *(part, optimizer, len(mine), published),
            f"{published / len(mine):.1%} ({low:.1%} to {high:.1%})",
            ", ".join(f"{100 * each.true_gain:+.1f}" for each in mine if each.true_gain is not None) or "-",
            *(sum(each.leaked for each in mine), sum(each.by_validation for each in mine)),
            f"{100 * statistics.mean(gains):+.1f} points ({len(gains)} tested)" if gains else "-",
            ", ".join(f"{name} {count}" for name, count in reasons.most_common()),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", type=int, help="of each part and optimizer")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    todo, began, results = list(jobs(chosen.only, chosen.seeds)), time.monotonic(), []
    with multiprocessing.get_context("spawn").Pool(chosen.processes, maxtasksperchild=25) as pool:
        for result in pool.imap_unordered(run, todo):
            results.append(result)
            print(f"{len(results)}/{len(todo)} {result.job}: {result.verdict['finish_reason']}", flush=True)
    print(f"\n{len(results)} runs in {time.monotonic() - began:.0f} s\n\n{table(results)}")


if __name__ == "__main__":
    main()
