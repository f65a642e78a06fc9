"""What is true in the learnable worlds: the best prompts by enumeration, their gain, and the clauses that help.

    python tests/bench/learnable_worlds.py        # the table of docs/explanation/simulated-worlds.md, some minutes

For each agent all subsets of its skills are tried, each skill asked for not at all, once or twice (for agents with
more than eight: not at all or twice); the one with the highest product of chances is the best. What the sets with the
best prompts score is then measured on sealed questions. Simulated: nothing here is about any LLM.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mas.prompt_sets.prompt_set import PromptSet, read_prompt_set, write_prompt_set  # noqa: E402
from mas.simulation.diagnosis import CLAUSES  # noqa: E402
from mas.simulation.reflection import HARMFUL, USELESS  # noqa: E402
from mas.simulation.skills.behaviour import Behaviour, World  # noqa: E402
from mas.simulation.skills.skills import SKILLS  # noqa: E402
from mas.system import agent_names  # noqa: E402
from tests.bench.simulated_worlds import said_plainly, system_and_data  # noqa: E402

BAD_SEED = ROOT / "mas" / "simulation" / "bad_seed"
WORLDS = {  # world → system and data
    **dict.fromkeys(("normal", "learnable", "badseed", "noheadroom"), ("toy", "toy")),
    "dense": ("gaia", "sample"),
}
LEAST = 0.005  # change of the product of an agent's chances that counts as help or harm


def list_skills(role: str) -> list[str]:
    return [name for name, skill in SKILLS.items() if role in skill.roles]


def rate(world: str, role: str, prompt: str) -> float:
    """Return the product of the chances of an agent's skills."""
    behaviour = Behaviour(World(world), role, prompt, {}, question="", decision_key="")
    return math.prod(behaviour.compute_chance(skill) for skill in list_skills(role))


def list_variants(role: str) -> Iterator[list[str]]:
    """Yield the clauses of each subset of skills."""
    skills = list_skills(role)
    if len(skills) <= 8:
        for times in product(range(3), repeat=len(skills)):
            yield [said_plainly(skill) for skill, n in zip(skills, times, strict=True) for _ in range(n)]
        return
    for size in range(len(skills) + 1):
        for chosen in combinations(skills, size):
            yield [said_plainly(skill) for skill in chosen] * 2


def find_best(world: str, role: str, prompt: str) -> str:
    variants = ("\n".join([prompt, *clauses]) for clauses in list_variants(role))
    return max(variants, key=lambda text: rate(world, role, text))


def share_clauses(world: str, roles: Mapping[str, str]) -> tuple[float, float]:
    """Return the shares of the reflection's clauses, over all agents, that help and that harm."""
    changes = [
        rate(world, role, f"{prompt}\n{clause}") - rate(world, role, prompt)
        for role, prompt in roles.items()
        for clause in (*CLAUSES, *USELESS, *HARMFUL)
    ]
    return sum(each > LEAST for each in changes) / len(changes), sum(each < -LEAST for each in changes) / len(changes)


def read_parent(world: str) -> PromptSet:
    system, _ = system_and_data(*WORLDS[world])
    name = str(BAD_SEED) if world == "badseed" else system.default_prompts
    return read_prompt_set(name, agent_names(system), system.name, ROOT)


def name_roles(prompts: PromptSet) -> dict[str, str]:
    return {agent: f"toy_{agent}" if prompts.system == "toy" else agent for agent in prompts.texts}


def write_best(world: str, parent: PromptSet) -> PromptSet:
    """Return the best set: in `badseed` from the toy system's own prompts, since harmful clauses can be taken out."""
    start = read_parent("learnable") if world == "badseed" else parent
    roles = name_roles(parent)
    return replace(parent, texts={agent: find_best(world, roles[agent], text) for agent, text in start.texts.items()})


def measure(world: str, prompts: PromptSet, seeds: Sequence[int]) -> list[float]:
    """Return the accuracy of a set on the sealed questions, by world seed, from whole runs."""
    system, data = WORLDS[world]
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "prompts"
        write_prompt_set(folder, prompts)
        for seed in seeds:
            options = (f"system={system}", f"data={data}", "split=test", "model=offline", f"model.world={world}")
            more = (f"model.seed={seed}", f"prompts={folder}", f"run.dir={place}/{seed}", "tracking=off", "limit=120")
            subprocess.run([sys.executable, str(ROOT / "eval" / "run.py"), *options, *more], capture_output=True)
            found.append(json.loads((Path(place) / str(seed) / "summary.json").read_text())["accuracy"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS))
    chosen = parser.parse_args()
    print("| world | system | parent | best set | best gain | clauses that help | that harm |")
    print("|---|---|---|---|---|---|---|")
    for world in chosen.worlds:
        parent = read_parent(world)
        roles = name_roles(parent)
        helps, harms = share_clauses(world, {roles[agent]: text for agent, text in parent.texts.items()})
        before, best = (measure(world, each, range(chosen.seeds)) for each in (parent, write_best(world, parent)))
        gains = [100 * (after - old) for old, after in zip(before, best, strict=True)]
        error = statistics.stdev(gains) / len(gains) ** 0.5
        print(
            f"| `{world}` | {WORLDS[world][0]} | {statistics.mean(before):.1%} | {statistics.mean(best):.1%} | "
            f"{statistics.mean(gains):+.1f} (s.e. {error:.1f}) | {helps:.0%} | {harms:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
