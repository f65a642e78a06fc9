"""Records of the real systems over the simulated model, and records put together from a few agents' steps.

records("toy", ToyDataset().load("val").samples[:30], "normal")
record("17", answer="18", steps=[step("solve", result="18"), step("finalize", final_answer="18")])
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from omegaconf import OmegaConf

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import build_part
from eval.execution.runner import SampleRunner
from eval.runs.record import Record
from eval.scorers.gaia import GaiaScorer
from mas.prompt_sets.prompt_set import read_prompt_set
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleKey
from mas.simulation import SimulatedModel
from mas.system import agent_names
from mas.tools.settings import Resources
from tests.eval.execution.sample_run import SampleRun


def records(
    system_name: str, samples: Sequence[Sample], world: str, texts: Mapping[str, str] | None = None, seed: int = 0
) -> list[Record]:
    """One answer to each example, with the system's own settings and prompts; `texts` stand in for some of these."""
    system = build_part(OmegaConf.load(PROJECT_ROOT / "conf" / "system" / f"{system_name}.yaml"), "system")  # type: ignore[arg-type]
    prompts = read_prompt_set(system.default_prompts, agent_names(system), system.name, PROJECT_ROOT)
    prompts = replace(prompts, texts={**prompts.texts, **(texts or {})})
    found: list[Record] = []
    runner = SampleRunner(
        run_id="simulated",
        program=system.build(SimulatedModel(world=world, seed=seed), prompts, Resources()),
        scorer=GaiaScorer(),
        deadline_seconds=120,
        redact=str,
    )
    run_blocking(
        SampleRun(runner, found.append, concurrency=8).run([(sample, SampleKey(sample.id)) for sample in samples])
    )
    return found


def record(target: str, answer: str | None, steps: Sequence[Sequence[dict[str, Any]]] = (), **changes: Any) -> Record:
    """Scored by GAIA's rule; each step is an agent's span with those of its tools and models behind it."""
    question = str(changes.pop("question", "What is it?"))
    scored = GaiaScorer()(question, answer, target)
    made = Record(
        "run", "q1", 1, 1, "thread", question, None, None, target,
        answer=answer, score=scored.value, explanation=scored.explanation, parts=dict(scored.parts),
        trajectory=_numbered(steps),
    )  # fmt: skip
    return replace(made, **changes)


def step(agent: str, *below: dict[str, Any], request: str = "Do it.", **outputs: Any) -> list[dict[str, Any]]:
    own = {"kind": "agent", "name": agent, "inputs": {"request": request}, "outputs": outputs, "events": []}
    return [own, *below]


def tool(name: str, seen: str = "", error: str | None = None, **inputs: Any) -> dict[str, Any]:
    return {"kind": "tool", "name": name, "inputs": inputs, "outputs": {"observation": seen}, "error": error}


def lm(*tools: str) -> dict[str, Any]:
    """A model call in which these tools were offered."""
    return {"kind": "lm", "name": "model", "inputs": {"tools": [{"name": name} for name in tools]}}


def _numbered(steps: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    numbers = count(1)
    spans: list[dict[str, Any]] = [{"id": 0, "parent": None, "kind": "question", "name": "q1"}]
    for own, *below in steps:
        place = next(numbers)
        spans.append({**own, "id": place, "parent": 0})
        spans += [{**each, "id": next(numbers), "parent": place} for each in below]
    return spans
