"""Figures of the simulated model: scores by world and prompt variant, and what 1,000 questions cost.

    python tests/bench/simulated_worlds.py                 # three minutes, eight on a busy machine
    python tests/bench/simulated_worlds.py --seeds 2       # fewer worlds' seeds

Variants of a prompt set: as it stands (baseline), every skill of the agent said once at the end (all said), every skill
denied in place of the prompt (all denied), and one bare line (empty).
"""

import argparse
import asyncio
import logging
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from mas.prompt_sets.prompt_set import PromptSet, apply_prompt_set, read_prompt_set
from mas.simulation import SimulatedModel
from mas.simulation.skills.skills import SKILLS
from mas.system import agent_names
from mas.tools.tool_context import Resources

ROOT = Path(__file__).resolve().parents[2]
ROLE_OF = {
    "agent": "single",
    "plan": "toy_plan",
    "solve": "toy_solve",
    "finalize": "toy_finalize",
}  # the rest: as named


def system_and_data(system: str, data: str) -> tuple[Any, Any]:
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        config = compose("eval", [f"system={system}", f"data={data}", "model=offline"])
        return instantiate(config.system), instantiate(config.data)


def said_plainly(skill: str) -> str:
    return skill.replace("_", " ").capitalize() + "."


def denied_plainly(skill: str) -> str:
    return DENIALS[skill]


DENIALS = {
    "read_the_attached_file_first": "There is no need to read the attached file.",
    "use_tools_not_memory": "Answer from memory rather than with tools.",
    "quote_exact_values": "Do not quote exact values; round the numbers.",
    "check_the_right_row_and_column": "Never check the row or the column.",
    "use_the_calculator": "Do not use the calculator.",
    "convert_units_with_the_tool": "Do not use the unit converter.",
    "follow_the_rounding_asked_for": "Ignore the rounding that is asked for.",
    "leave_out_units_unless_asked": "Always write the unit behind the number.",
    "no_thousands_separators": "Use thousands separators in numbers.",
    "answer_with_few_words_no_prose": "Answer in full sentences.",
    "comma_separated_list_in_the_asked_order": "Ignore the order asked for and do not separate list items by commas.",
    "keep_the_plan_short_and_complete": "Pad the plan with extra steps.",
    "reject_only_real_faults": "Reject for the slightest fault of style.",
    "recompute_before_approving": "Approve without recomputing anything.",
    "say_what_was_not_found": "Do not say what was not found; make up a value.",
    "name_an_agent_for_every_part": "One agent is enough, whatever the parts of the question.",
    "keep_every_condition_of_the_question": "Conditions of the question may be dropped.",
    "keep_to_the_output_format": "Ignore the output format.",
}


def variants(prompts: PromptSet) -> dict[str, PromptSet]:
    def written(make: Callable[[str, str], str]) -> PromptSet:
        return replace(prompts, texts={agent: make(agent, text) for agent, text in prompts.texts.items()})

    def every(agent: str, say: Callable[[str], str]) -> str:
        role = ROLE_OF.get(agent, agent)
        return "\n".join(say(skill) for skill, about in SKILLS.items() if role in about.roles)

    return {
        "baseline": prompts,
        "all said": written(lambda agent, text: f"{text}\n\n{every(agent, said_plainly)}"),
        "only said": written(lambda agent, text: every(agent, said_plainly)),
        "all denied": written(lambda agent, text: every(agent, denied_plainly)),
        "empty": written(lambda agent, text: "Do the task."),
    }


def program_of(system: Any, prompts: PromptSet, model: SimulatedModel) -> Any:
    program = system.build(model, None, Resources())
    apply_prompt_set(program, prompts)
    return program


async def outcomes(program: Any, samples: Sequence[Any], scorer: Any, concurrency: int = 16) -> list[Any]:
    """Each example's score: 1, 0, or the exception."""
    gate = asyncio.Semaphore(concurrency)

    async def one(sample: Any) -> Any:
        async with gate:
            try:
                prediction = await program.acall(question=sample.question, file=sample.file)
            except Exception as error:  # noqa: BLE001  a malformed reply counts as wrong here
                return error
            return scorer(sample.question, prediction.final_answer, sample.target).value

    return await asyncio.gather(*map(one, samples))


def score(program: Any, samples: Sequence[Any], scorer: Any) -> float:
    return statistics.mean(value if isinstance(value, float) else 0.0 for value in asyncio.run(
        outcomes(program, samples, scorer)
    ))  # fmt: skip


def scores_of(
    system_name: str, data_name: str, seeds: Sequence[int], worlds: Sequence[str], names: Sequence[str]
) -> None:
    from eval.scorers.gaia import GaiaScorer

    system, data = system_and_data(system_name, data_name)
    prompts = read_prompt_set(system.default_prompts, agent_names(system), system.name, ROOT)
    samples = data.load("val").samples
    for world in worlds:
        for name in names:
            variant = variants(prompts)[name]
            found = [
                score(program_of(system, variant, SimulatedModel(world=world, seed=seed)), samples, GaiaScorer())
                for seed in seeds
            ]
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            line = f"{system_name:13}{world:8}{name:12}{statistics.mean(found):6.1%}"
            print(f"{line}  (sd over seeds {spread:.1%}, seed 0 {found[0]:.1%})", flush=True)


def cost_of(count: int) -> None:
    from eval.scorers.gaia import GaiaScorer
    from mas.runtime.trace import Trace, record_trace

    system, data = system_and_data("gaia", "sample")
    prompts = read_prompt_set(system.default_prompts, agent_names(system), system.name, ROOT)
    samples = [sample for split in ("train", "val", "test") for sample in data.load(split).samples]
    calls, start, cpu = 0, time.perf_counter(), time.process_time()
    done, seed = 0, 0
    while done < count:
        batch = samples[: count - done]
        program = program_of(system, prompts, SimulatedModel(seed=seed))
        trace = Trace("bench", lambda *_: None)
        with record_trace(trace):
            asyncio.run(outcomes(program, batch, GaiaScorer()))
        calls += sum(span.kind == "lm" for span in trace.spans)
        done, seed = done + len(batch), seed + 1
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count} questions: {wall:.1f} s, {calls} LM calls, {1000 * used / max(calls, 1):.2f} CPU ms a call"
        f" (system included), peak RSS {peak:.0f} MB"
    )


def main() -> None:
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--systems", nargs="*", default=["gaia", "single_agent", "toy"])
    parser.add_argument("--variants", nargs="*", default=["baseline", "all said", "all denied", "empty"])
    parser.add_argument("--worlds", nargs="*", default=["normal", "null"])
    chosen = parser.parse_args()
    if chosen.questions:
        cost_of(chosen.questions)
    for system in chosen.systems:
        scores_of(system, "toy" if system == "toy" else "sample", range(chosen.seeds), chosen.worlds, chosen.variants)


if __name__ == "__main__":
    main()
