"""True gains and false publications of every optimizer, and of plain dspy.GEPA at equal cost, in the simulated worlds.

    python tests/bench/optimizer_gains.py                           # goes on with what is missing: days of CPU time
    python tests/bench/optimizer_gains.py --parts null --optimizers bootstrap --seeds 20
    python tests/bench/optimizer_gains.py --list                    # what is there, and what is missing
    python tests/bench/optimizer_gains.py --document                # writes the tables, runs nothing

| part | worlds | size | what is looked for |
|---|---|---|---|
| null | null, shuffled, noheadroom | small: 20, 20 and 60 questions | sets that are published and not better |
| gain | normal (GAIA too), learnable, badseed, dense | as configured | the gain on fresh questions, and its price |
| headroom | 50 with something to win, 50 without | as configured | how often the preflight says so |

A run is the whole tuning command in this process, without MLflow and reports. Its line in the file of results is
written when it has ended, and a run whose line is there is not repeated: stop it whenever you like. Results of other
code are kept as well: delete the file to measure anew (each line has its commit).

True gain: of the published set (0 if none was), on fresh questions: other toy questions with the same model, or, as the
sample has no others, its questions under model seeds that are used nowhere else. Plain GEPA runs once a world and seed,
to as many requests as the longest of our runs there took in all; what it would have returned at each earlier moment is
kept, so that it is compared with each run at exactly that run's cost. Simulated: nothing here is about any LLM.
"""

import argparse
import contextlib
import io
import json
import logging
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
if __name__ in ("__main__", "__mp_main__"):  # as a script only this folder is on the path
    sys.path[0] = str(ROOT)
# Neither is read from the disk for each answer, nor are this machine's touched
os.environ["MAS_HARNESS_KEY"] = "simulated-worlds-of-the-benchmark"
os.environ["PYTHONHASHSEED"] = "0"  # one choice of GEPA's merge depends on it

RESULTS = Path(__file__).with_suffix(".jsonl")  # kept with the code: its runs take days of CPU time
PAGE = ROOT / "docs" / "explanation" / "optimizer-gains.md"
MARKS = ("<!-- {}: written by tests/bench/optimizer_gains.py --document -->", "<!-- end of {} -->")
MEMORY = Path("/dev/shm")  # no run waits for a disk, where there is one
SMALL = ("data.n_train=20", "data.n_val=20", "data.n_test=60", "gate.epochs=2", "budget.metric_calls=160")
BAD_SEED = "mas/simulation/bad_seed"
CHEAP, DEAR = ("bootstrap", "halving"), ("gepa", "mipro")
PLAIN, PLAIN_FEEDBACK = "plain", "plain, feedback"
SEEDS = {"null": {**dict.fromkeys(CHEAP, 200), **dict.fromkeys(DEAR, 60)}, "gain": dict.fromkeys((*CHEAP, *DEAR), 10)}
WORLDS = {
    "null": ("null", "noheadroom", "shuffled"),
    "gain": ("learnable", "normal", "badseed", "dense", "normal gaia"),
}
HEADROOM = {  # worlds, systems and seeds of the preflight: 50 with something to win, 50 without
    **dict.fromkeys((("normal", "toy"), ("normal", "gaia"), ("learnable", "toy"), ("badseed", "toy")), 10),
    ("dense", "gaia"): 10,
    **dict.fromkeys((("null", "toy"), ("noheadroom", "toy")), 13),
    **dict.fromkeys((("null", "gaia"), ("noheadroom", "gaia")), 12),
}
HEADROOM_SEED = 100  # the first; the preflight was written with the seeds before
WITHOUT = ("null", "noheadroom")
FRESH_QUESTIONS = 500  # of the toy set, of each seed
FRESH_SEED = 50_000  # added to a seed: questions or worlds that no run has
FRESH_WORLDS = 6  # model seeds that the sample's sealed questions are asked with
DRAWS = 10_000  # of seeds, for intervals
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)  # of a run's requests, for the curve of plain GEPA
CURVE_OF = "halving"  # the optimizer whose requests those are


@dataclass(frozen=True)
class Job:
    part: str
    world: str
    optimizer: str
    seed: int
    budget: int = 0  # requests; of plain GEPA alone
    on: str = ""  # system, of a world that several have

    @property
    def is_plain(self) -> bool:
        return self.optimizer.startswith(PLAIN)

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.part, self.place, self.optimizer, self.seed)

    @property
    def place(self) -> str:
        """World, and the system where several have it."""
        return f"{self.world} {self.on}".strip()

    @property
    def system(self) -> str:
        return self.on or ("gaia" if self.world == "dense" else "toy")

    @property
    def overrides(self) -> list[str]:
        data = "sample" if self.system == "gaia" else "toy"
        own = [
            *(f"system={self.system}", f"data={data}", "model=offline", f"model.world='{self.world}'"),
            *(f"model.seed={self.seed}", f"seed={self.seed}", "tracking=off", "yes=true", "log.level=error"),
            f"optimizer={'gepa' if self.is_plain else self.optimizer}",
        ]
        if self.system == "toy":
            own += [f"data.seed={self.seed}"]
        if self.part == "null":
            own += SMALL
        if self.part == "headroom":
            own += ["headroom.mode=only"]
        if self.world == "badseed":
            own += [f"prompts={BAD_SEED}"]
        return own


Line = dict[str, Any]


def list_optimizers() -> list[str]:
    there = {file.stem for file in (ROOT / "conf" / "optimizer").glob("*.yaml")}
    return [name for name in (*CHEAP, *DEAR) if name in there]


def list_jobs(chosen: argparse.Namespace, lines: Sequence[Line]) -> Iterator[Job]:
    """Yield what is missing: seed by seed, so that whenever this is stopped all have about as many."""
    done = {_key(line) for line in lines}
    if "headroom" in chosen.parts:
        for seed in range(max(HEADROOM.values())):
            for (world, system), seeds in HEADROOM.items():
                job = Job("headroom", world, "gepa", HEADROOM_SEED + seed, on=system)
                if job.key not in done and seed < (chosen.seeds or seeds) and world in chosen.worlds:
                    yield job
    for part in (each for each in chosen.parts if each in WORLDS):
        most = max(SEEDS[part].values())
        for seed in range(most if chosen.seeds is None else chosen.seeds):
            for place in (each for each in WORLDS[part] if each in chosen.worlds):
                world, _, on = place.partition(" ")
                for optimizer in (each for each in list_optimizers() if each in chosen.optimizers):
                    job = Job(part, world, optimizer, seed, on=on)
                    if job.key not in done and (chosen.seeds or seed < SEEDS[part][optimizer]):
                        yield job


def list_plain_jobs(chosen: argparse.Namespace, lines: Sequence[Line]) -> Iterator[Job]:
    """Yield a plain run for each world and seed in which one of ours took more requests than the plain one there."""
    needed: Counter[tuple[str, int]] = Counter()
    for line in lines:
        if line["part"] == "gain" and not line["optimizer"].startswith(PLAIN):
            run = (_place(line), line["seed"])
            needed[run] = max(needed[run], line["requests"])
    there = {_key(line): line["budget"] for line in lines if line["optimizer"].startswith(PLAIN)}
    for (place, seed), budget in sorted(needed.items(), key=lambda each: each[0][1]):
        world, _, on = place.partition(" ")
        for optimizer in (PLAIN, PLAIN_FEEDBACK):
            job = Job("gain", world, optimizer, seed, budget, on)
            if place in chosen.worlds and optimizer in chosen.optimizers and there.get(job.key, 0) < budget:
                yield job


def _key(line: Line) -> tuple[str, str, str, int]:
    return (line["part"], _place(line), line["optimizer"], line["seed"])


def _place(line: Line) -> str:
    return f"{line['world']} {line.get('on', '')}".strip()


# One run


def run(job: Job) -> Line:
    """Run a job and return its line."""
    logging.disable(logging.WARNING)
    began, cpu = time.monotonic(), _cpu_seconds()
    place = str(MEMORY) if MEMORY.is_dir() else None
    silent, said = io.StringIO(), contextlib.ExitStack()
    with said, tempfile.TemporaryDirectory(dir=place) as scratch:
        said.enter_context(contextlib.redirect_stdout(silent))
        said.enter_context(contextlib.redirect_stderr(silent))
        said.enter_context(_prepared(Path(scratch)))
        measure = _run_plain if job.is_plain else _run_headroom if job.part == "headroom" else _run_ours
        found = measure(job, Path(scratch))
    used = {"seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(_cpu_seconds() - cpu, 2)}
    return {**asdict(job), **found, **used, "commit": _commit()}


@contextlib.contextmanager
def _prepared(scratch: Path) -> Iterator[None]:
    from omegaconf import OmegaConf

    from eval.cli.paths import OUTPUTS
    from optimize.gate import sealed_log
    from optimize.pipeline import tuning

    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    log = mock.patch.object(sealed_log, "find_log", lambda: scratch / "sealed_tests.jsonl")
    page = mock.patch.object(tuning, "_write_page", lambda run: None)
    with log, page:
        yield


def _request(job: Job, scratch: Path) -> Any:
    from omegaconf import OmegaConf

    from optimize.session.config import TuningRequest

    overrides = [*job.overrides, f"run.dir={scratch / 'run'}"]
    config, composed = _compose(overrides)
    resolved: Any = OmegaConf.to_container(composed, resolve=True)
    return TuningRequest(config, resolved, config.check(), overrides, scratch / "prompts")


def _compose(overrides: Sequence[str]) -> tuple[Any, Any]:
    """Return a tuning run's configuration, checked and as composed."""
    from hydra import compose, initialize_config_dir

    from optimize.session.config import read_config

    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        composed = compose("optimize", list(overrides))
    return read_config(composed), composed


def _run_ours(job: Job, scratch: Path) -> Line:
    from optimize.pipeline.tuning import tune
    from optimize.session.run_files import RunFiles

    request = _request(job, scratch)
    tune(request)
    files = RunFiles(scratch / "run")
    verdict = files.read("verdict")
    winner = verdict.get("winner") or verdict.get("best_val") or {}
    gain, name = 0.0, winner.get("candidate_id")
    if name and (job.part == "gain" or verdict["published"]):  # else it is not asked for, and takes as long as the run
        parent = request.prompts
        gain = _true_gain(job, parent, files.read_candidate(name, list(parent.texts), parent.system))
    return {
        "published": verdict["published"],
        "finish_reason": verdict["finish_reason"],
        "gain": gain if verdict["published"] else 0.0,
        "winner_gain": gain,
        "sealed_gain": verdict["gain"],
        "answers": _count_answers(files, request, verdict),
        "requests": verdict["spend"]["lm_calls"],
        "reflections": verdict["spend"]["reflection_calls"],
    }


def _run_headroom(job: Job, scratch: Path) -> Line:
    from optimize.pipeline.tuning import tune
    from optimize.session.run_files import RunFiles

    tune(_request(job, scratch))
    files = RunFiles(scratch / "run")
    found = files.read("headroom")
    return {
        "worth_it": found["worth_it"],
        "answers": {"headroom": found["n_answers"], "planned": found["n_planned"]},
        "rewrites": {each["name"]: [each["gain"], each["p"]] for each in found["rewrites"]},
        "requests": files.read_info().state.spend["lm_calls"],
        "gain": max((each["gain"] for each in found["rewrites"]), default=0.0),
    }


def _count_answers(files: Any, request: Any, verdict: Any) -> dict[str, int]:
    """Return the paid answers by phase."""
    import sqlite3

    from eval.runs.folder import DATABASE
    from eval.runs.store import RunStore

    with contextlib.closing(sqlite3.connect(files.folder / "trials.db")) as database:
        (n_trials,) = database.execute("SELECT COUNT(*) FROM trials").fetchone()
    sealed = 0
    for arm in (files.folder / "sealed").glob(f"*/{DATABASE}"):
        with RunStore(arm, read_only=True) as store:
            sealed += len(store.read_last_attempts())
    baseline = (files.read("baseline") or {}).get("n_questions", 0)
    searched = verdict["spend"]["metric_calls"]
    others = {"baseline": baseline, "search": searched - baseline, "shortlist": n_trials - searched}
    return {**others, "sealed": sealed, "total": n_trials + sealed}


def _run_plain(job: Job, scratch: Path) -> Line:
    """As the users of dspy.GEPA do it: compile, and take what it returns.

    With feedback: our remarks for each agent instead of the score alone, and all agents in each proposal, the best of
    its options in earlier measurements. Program, answers and payments are those of our runs.
    """
    import dspy

    from eval.execution.console import Console
    from optimize.questions.splits import make_splits
    from optimize.search.dspy_compat import run_isolated, to_examples
    from optimize.session.tuning_run import open_tuning_run

    request = _request(job, scratch)
    config = request.config
    splits = make_splits(config.base.data, config.splits)
    moments: list[tuple[int, int]] = []  # requests so far, candidate that it would return
    with open_tuning_run(request, splits, scratch / "run", Console()) as opened:
        objective, has_feedback = opened.objective, job.optimizer == PLAIN_FEEDBACK

        def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
            return objective(gold, pred, trace, pred_name if has_feedback else None, pred_trace)

        def note(state: Any) -> bool:
            scores = state.program_full_scores_val_set
            requests, best = opened.ledger.spend().lm_calls, scores.index(max(scores))
            if not moments or moments[-1][1] != best:
                moments.append((requests, best))
            return requests >= job.budget

        student = opened.build_student(opened.parent.prompts)
        optimizer = dspy.GEPA(
            metric,
            max_metric_calls=10**9,
            reflection_lm=opened.reflection_lm,
            num_threads=config.run.concurrency,
            component_selector="all" if has_feedback else "round_robin",
            warn_on_score_mismatch=False,
            track_stats=True,
            seed=job.seed,
            gepa_kwargs={"stop_callbacks": [note]},
        )
        compiled: list[Any] = []
        with opened.use_reflection():
            run_isolated(
                lambda: compiled.append(
                    optimizer.compile(
                        student, trainset=to_examples(objective.train_ids), valset=to_examples(objective.val_ids)
                    )
                )
            )
        requests = opened.ledger.spend().lm_calls
    candidates = [
        {name: each.signature.instructions for name, each in program.named_parameters()}
        for program in compiled[0].detailed_results.candidates
    ]
    gains = {0: 0.0}
    for _, best in moments:
        if best not in gains:
            prompts = replace(request.prompts, texts={**request.prompts.texts, **candidates[best]})
            gains[best] = _true_gain(job, request.prompts, prompts)
    curve = [(at, best, gains[best]) for at, best in moments]
    return {"curve": curve, "n_candidates": len(candidates), "requests": requests, "gain": curve[-1][2]}


def _true_gain(job: Job, parent: Any, prompts: Any) -> float:
    """Return the gain in accuracy on fresh questions; 0 where no prompt has an effect."""
    if job.world == "null" or (prompts.texts == parent.texts and prompts.demos == parent.demos):
        return 0.0
    return _accuracy(job, prompts) - _accuracy(job, parent)


_MEASURED: dict[tuple[str, int, str], float] = {}  # of this process: the parent is asked for again and again


def _accuracy(job: Job, prompts: Any) -> float:
    from mas.prompt_sets.prompt_set import digest

    place = (job.world, job.seed, digest(prompts))
    if place not in _MEASURED:
        _MEASURED[place] = _measure_accuracy(job, prompts)
    return _MEASURED[place]


def _measure_accuracy(job: Job, prompts: Any) -> float:
    from eval.benchmarks.toy_set import ToyDataset
    from eval.scorers.gaia import GaiaScorer
    from mas.prompt_sets.prompt_set import apply_prompt_set
    from mas.simulation import SimulatedModel
    from tests.bench.simulated_worlds import score

    base = _compose(job.overrides)[0].base
    if job.system == "toy":
        seeds = [job.seed]
        fresh = ToyDataset(n_train=1, n_val=1, n_test=FRESH_QUESTIONS, seed=FRESH_SEED + job.seed).load("test").samples
    else:
        seeds = [FRESH_SEED + FRESH_WORLDS * job.seed + number for number in range(FRESH_WORLDS)]
        fresh = base.data.load("test").samples
    models = [SimulatedModel(world=job.world, seed=seed) for seed in seeds]
    with base.system.open_resources(base.tools, lambda note: None) as resources:

        def answer(model: Any) -> float:
            program = base.system.build(model, None, resources)
            apply_prompt_set(program, prompts)
            return score(program, fresh, GaiaScorer())

        return statistics.mean(map(answer, models))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    return asked.stdout.strip()


# Tables


def tabulate(lines: Sequence[Line]) -> dict[str, str]:
    """Return the table of each part that has lines, as Markdown."""
    latest = {_key(line): line for line in lines}  # of a plain run that was made again with more requests, the longer
    plain = {_key(line): line for line in latest.values() if line["optimizer"].startswith(PLAIN)}
    tables = {
        "null": ("False publications", _tabulate_null),
        "gain": ("True gain at equal cost", lambda ours: _tabulate_gain(ours, plain)),
        "headroom": ("Headroom preflight", _tabulate_headroom),
    }
    found = {}
    for part, (title, make_rows) in tables.items():
        mine = [line for line in latest.values() if line["part"] == part]
        if ours := [line for line in mine if not line["optimizer"].startswith(PLAIN)]:
            rows, commits = "\n".join(make_rows(ours)), ", ".join(sorted({line["commit"] for line in mine}))
            found[part] = f"#### {title}\n\n{rows}\n\nMeasured with the commits {commits}; simulated model."
    return found


def _groups(lines: Sequence[Line], part: str) -> Iterator[tuple[str, str, list[Line]]]:
    for place in WORLDS[part]:
        for optimizer in (*CHEAP, *DEAR):
            if mine := [line for line in lines if (_place(line), line["optimizer"]) == (place, optimizer)]:
                yield place, optimizer, sorted(mine, key=lambda line: line["seed"])


def _is_false(line: Line) -> bool:
    """Return whether what was published is not better; in the other worlds of this part nothing can be."""
    return line["published"] and (line["world"] != "shuffled" or line["gain"] <= 0)


def _tabulate_null(lines: Sequence[Line]) -> Iterator[str]:
    from eval.analysis.statistics.intervals import compute_accuracy_interval

    yield "| world | optimizer | runs | published | no better, of them | share (95 %) | answers | CPU seconds a run |"
    yield "|---|---|---|---|---|---|---|---|"
    for world, optimizer, mine in _groups(lines, "null"):
        false = sum(map(_is_false, mine))
        low, high = compute_accuracy_interval(false, len(mine)) or (0.0, 1.0)
        cells = (
            *(f"`{world}`", optimizer, len(mine), sum(line["published"] for line in mine), false),
            f"{100 * false / len(mine):.1f} % ({100 * low:.1f} to {100 * high:.1f})",
            *(f"{_mean(line['answers']['total'] for line in mine):,.0f}", f"{_mean(_cpu(mine)):.1f}"),
        )
        yield f"| {' | '.join(map(str, cells))} |"


def _tabulate_gain(lines: Sequence[Line], plain: Mapping[tuple[str, str, str, int], Line]) -> Iterator[str]:
    yield (
        "| world | optimizer | seeds | published | answers: baseline, search, shortlist, sealed | requests "
        "| true gain, points (95 %) | of the search's winner | plain GEPA, as many requests | with feedback "
        "| ours / the better plain (95 %) | CPU seconds a run |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for world, optimizer, mine in _groups(lines, "gain"):
        gains = [line["gain"] for line in mine]
        phases = [f"{_mean(line['answers'][phase] for line in mine):,.0f}" for phase in list(mine[0]["answers"])[:-1]]
        peers = [_gains_of_plain(mine, plain, peer) for peer in (PLAIN, PLAIN_FEEDBACK)]
        cells = (
            *(f"`{world}`", optimizer, len(mine), sum(line["published"] for line in mine), ", ".join(phases)),
            f"{_mean(line['requests'] for line in mine):,.0f}",
            *(_with_interval(gains), _with_interval([line["winner_gain"] for line in mine])),
            *(_with_interval([each for each in peer if each is not None]) for peer in peers),
            *(_describe_ratio(gains, peers), f"{_mean(_cpu(mine)):.1f}"),
        )
        yield f"| {' | '.join(map(str, cells))} |"
    yield from _tabulate_curve(lines, plain)


def _tabulate_curve(lines: Sequence[Line], plain: Mapping[tuple[str, str, str, int], Line]) -> Iterator[str]:
    """Yield what plain GEPA would have returned at each share of our runs' requests."""
    shares = [f"{100 * share:.0f} %" for share in SHARES]
    yield from ("", f"Points that plain GEPA had gained after a share of the requests of {CURVE_OF}, same seeds:", "")
    yield f"| world | plain GEPA | seeds | {' | '.join(shares)} | {CURVE_OF}, same seeds |"
    yield "|---|---|---|" + "---|" * (len(shares) + 1)
    for place, optimizer, ours in _groups(lines, "gain"):
        for peer in (PLAIN, PLAIN_FEEDBACK):
            mine = [
                line for line, found in zip(ours, _gains_of_plain(ours, plain, peer), strict=True) if found is not None
            ]
            if optimizer == CURVE_OF and mine:
                at = [[{**line, "requests": share * line["requests"]} for line in mine] for share in SHARES]
                means = [_mean(_gains_of_plain(each, plain, peer)) for each in at]
                points = " | ".join(f"{100 * each:+.1f}" for each in (*means, _mean(line["gain"] for line in mine)))
                yield f"| `{place}` | {'score alone' if peer == PLAIN else 'with feedback'} | {len(mine)} | {points} |"


def _tabulate_headroom(lines: Sequence[Line]) -> Iterator[str]:
    yield "| world | system | something to win | worlds | said worth it | right | answers, share of the planned |"
    yield "|---|---|---|---|---|---|---|"
    for world, system in HEADROOM:
        if mine := [line for line in lines if (line["world"], line["on"]) == (world, system)]:
            yield _headroom_row(f"`{world}`", system, "no" if world in WITHOUT else "yes", mine)
    for name, is_without in (("all with", False), ("all without", True)):
        if mine := [line for line in lines if (line["world"] in WITHOUT) == is_without]:
            yield _headroom_row(name, "", "no" if is_without else "yes", mine)
    if lines:
        yield _headroom_row("all", "", "", lines)


def _headroom_row(name: str, system: str, has_headroom: str, lines: Sequence[Line]) -> str:
    from eval.analysis.statistics.intervals import compute_accuracy_interval

    right = sum(line["worth_it"] != (line["world"] in WITHOUT) for line in lines)
    low, high = compute_accuracy_interval(right, len(lines)) or (0.0, 1.0)
    shares = [line["answers"]["headroom"] / line["answers"]["planned"] for line in lines]
    cells = (
        *(name, system, has_headroom, len(lines), sum(line["worth_it"] for line in lines)),
        f"{100 * right / len(lines):.0f} % ({100 * low:.0f} to {100 * high:.0f})",
        f"{_mean(line['answers']['headroom'] for line in lines):,.0f}, at most {100 * max(shares):.1f} %",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _gains_of_plain(
    lines: Sequence[Line], plain: Mapping[tuple[str, str, str, int], Line], peer: str
) -> list[float | None]:
    """Return what plain GEPA would have returned at the cost of each run; None: it has not been run that far."""
    found: list[float | None] = []
    for line in lines:
        curve = plain.get(("gain", _place(line), peer, line["seed"]))
        if curve is None or curve["requests"] < line["requests"]:
            found.append(None)
        else:
            found.append([0.0, *(gain for at, _, gain in curve["curve"] if at <= line["requests"])][-1])
    return found


def _describe_ratio(gains: Sequence[float], peers: Sequence[Sequence[float | None]]) -> str:
    """Return the ratio of the mean gains, over the seeds that both have."""
    found = []
    for peer in peers:
        if pairs := [(gain, other) for gain, other in zip(gains, peer, strict=True) if other is not None]:
            found.append(np.array(pairs))
    if not found:
        return "-"
    pairs = max(found, key=lambda each: each[:, 1].mean())
    if pairs[:, 1].mean() <= 0:
        return "plain has no gain"
    drawn = pairs[_draw_seeds(len(pairs))].mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(drawn[:, 1] > 0, drawn[:, 0] / drawn[:, 1], np.inf)
    low, high = np.quantile(ratios, (0.025, 0.975))
    ratio = pairs[:, 0].mean() / pairs[:, 1].mean()
    return f"{ratio:.2f} ({low:.2f} to {high:.2f}; {len(pairs)} seeds)"


def _with_interval(gains: Sequence[float]) -> str:
    """Return mean and percentile interval in points, seeds drawn anew."""
    if not gains:
        return "-"
    values = np.array(gains)
    low, high = np.quantile(values[_draw_seeds(len(values))].mean(axis=1), (0.025, 0.975))
    return f"{100 * values.mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def _draw_seeds(n: int) -> Any:
    return np.random.default_rng(1).integers(0, n, (DRAWS, n))


def _mean(values: Any) -> float:
    return statistics.mean(values)


def _cpu(lines: Sequence[Line]) -> list[float]:
    return [line["cpu_seconds"] for line in lines]


# Command


def read_lines(file: Path) -> list[Line]:
    """Return the complete lines; a kill may have cut one off."""
    found = []
    for line in file.read_text("utf-8").splitlines() if file.is_file() else []:
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def append(file: Path, line: Line) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as stream:
        if stream.tell() and _last_byte(file) != b"\n":  # a kill cut that line off
            stream.write(b"\n")
        stream.write(json.dumps(line).encode() + b"\n")


def _last_byte(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1)


def _document(tables: Mapping[str, str]) -> None:
    """Write the tables into the page; the table of a part without lines stays."""
    text = PAGE.read_text("utf-8")
    for part, table in tables.items():
        begin, end = (mark.format(part) for mark in MARKS)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}"
    PAGE.write_text(text, "utf-8")


def _run_all(jobs: Sequence[Job], processes: int, file: Path) -> None:
    if not jobs:
        return
    with multiprocessing.get_context("spawn").Pool(min(processes, len(jobs)), maxtasksperchild=20) as pool:
        for number, line in enumerate(pool.imap_unordered(run, jobs), 1):
            append(file, line)
            told = f"{line['part']} {_place(line)} {line['optimizer']} {line['seed']}: {line.get('finish_reason', '')}"
            print(
                f"{number}/{len(jobs)} {told} {100 * line['gain']:+.1f} points, {line['requests']:,} requests, "
                f"{line['cpu_seconds']:.1f} CPU s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = (*list_optimizers(), PLAIN, PLAIN_FEEDBACK)
    worlds = tuple(dict.fromkeys(world for part in WORLDS.values() for world in part))
    parts = [*WORLDS, "headroom"]
    parser.add_argument("--parts", nargs="*", choices=parts, default=parts)
    parser.add_argument("--worlds", nargs="*", choices=worlds, default=worlds)
    parser.add_argument("--optimizers", nargs="*", choices=everything, default=everything)
    parser.add_argument("--seeds", type=int, help="of each world and optimizer; else 200, 60 or 10")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--file", type=Path, default=RESULTS)
    parser.add_argument("--list", action="store_true", help="what is missing; runs nothing")
    parser.add_argument("--document", action="store_true", help=f"write the tables into {PAGE.name}; runs nothing")
    chosen = parser.parse_args()
    if chosen.list:
        missing = Counter((job.part, job.place, job.optimizer) for job in list_jobs(chosen, read_lines(chosen.file)))
        for name, count in missing.items():
            print(f"missing: {count:4} of {' '.join(name)}")
    elif not chosen.document:
        _run_all(list(list_jobs(chosen, read_lines(chosen.file))), chosen.processes, chosen.file)
        if "gain" in chosen.parts:
            _run_all(list(list_plain_jobs(chosen, read_lines(chosen.file))), chosen.processes, chosen.file)
    tables = tabulate(read_lines(chosen.file))
    print("\n" + "\n\n".join(tables.values()))
    if chosen.document:
        _document(tables)


if __name__ == "__main__":
    main()
