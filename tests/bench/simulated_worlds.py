"""A system over the simulated model, and the mean score of its answers, for the benches of tuning."""

import asyncio
import statistics
from collections.abc import Sequence
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set
from mas.simulation import SimulatedModel
from mas.tools.tool_context import Resources
from tests.bench.measuring import ROOT

CONCURRENCY = 16


def system_and_data(system: str, data: str) -> tuple[Any, Any]:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = compose("eval", [f"system={system}", f"data={data}", "model=offline"])
        return instantiate(config.system), instantiate(config.data)


def program_of(system: Any, prompts: PromptSet, model: SimulatedModel) -> Any:
    program = system.build(model, None, Resources())
    apply_prompt_set(program, prompts)
    return program


def score(program: Any, samples: Sequence[Any], scorer: Any) -> float:
    """Return the mean score; an answer that fails is 0."""

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
