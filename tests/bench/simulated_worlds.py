"""The toy system over the simulated model, and the mean score of its answers, for the benches of tuning."""

import asyncio
import statistics
from collections.abc import Sequence
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from eval.scorers.gaia import GaiaScorer
from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, read_prompt_set
from mas.simulation import SimulatedModel
from mas.system import agent_names
from mas.tools.settings import Resources
from scripts.sample_data.toy import DrawnToyDataset
from tests.bench.measuring import ROOT

CONCURRENCY = 16
DRAWN = "data._target_=scripts.sample_data.toy.DrawnToyDataset"  # of any seed, and as many as are asked for


@cache
def toy_system() -> Any:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return instantiate(compose("eval", ["system=toy", "data=toy", "model=offline"]).system)


def read_toy_set(name: str) -> PromptSet:
    system = toy_system()
    return read_prompt_set(name, agent_names(system), system.name, ROOT)


def build_toy(prompts: PromptSet, model: SimulatedModel) -> Any:
    program = toy_system().build(model, None, Resources())
    apply_prompt_set(program, prompts)
    return program


def measure_accuracy(prompts: PromptSet, model: SimulatedModel, n_questions: int, seed: int) -> float:
    """Return the share of right answers to questions of that seed."""
    questions = DrawnToyDataset(n_train=1, n_val=1, n_test=n_questions, seed=seed).load("test").samples
    return score(build_toy(prompts, model), questions)


def score(program: Any, samples: Sequence[Any]) -> float:
    """Return the mean score; an answer that fails is 0."""
    scorer = GaiaScorer()

    async def answer_all() -> list[float]:
        gate = asyncio.Semaphore(CONCURRENCY)

        async def answer(sample: Any) -> float:
            async with gate:
                try:
                    prediction = await program.acall(question=sample.question, file=sample.file)
                except Exception:  # noqa: BLE001  a malformed reply counts as wrong here
                    return 0.0
                return float(scorer(sample.question, prediction.final_answer, sample.target).value)

        return await asyncio.gather(*map(answer, samples))

    return statistics.mean(asyncio.run(answer_all()))
