"""The architecture page: its paths exist, its layers are import-linter's, its diagram is the orchestrator's."""

import itertools
import re
import tomllib
from typing import Any, cast

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.systems.gaia.agents import AGENTS, WORKERS, GraphState, Worker, initial_state
from mas.systems.gaia.orchestrator import orchestrate

PAGE = (PROJECT_ROOT / "docs/explanation/architecture.md").read_text("utf-8")
PICTURE = PROJECT_ROOT / "docs/images/gaia-states.svg"
QUESTIONS = re.findall(r"^\| (.+\?) \| (.+) \| `(.+)` \|$", PAGE, re.MULTILINE)
EDGE = re.compile(r"^    (\S+) --> ([^\s:]+)", re.MULTILINE)


def read_all(path: str) -> str:
    found = PROJECT_ROOT / path
    files = [found] if found.is_file() else sorted(found.rglob("*.py"))
    return "\n".join(file.read_text("utf-8") for file in files)


@pytest.mark.parametrize(("question", "paths", "name"), QUESTIONS, ids=[found[0] for found in QUESTIONS])
def test_what_the_table_points_to_exists(question: str, paths: str, name: str) -> None:
    named = re.findall(r"`(\S+/\S*)`", paths)
    assert named, question
    assert [path for path in named if not (PROJECT_ROOT / path).exists()] == []
    defined = rf"^\s*(?:(?:async )?def|class) {name}\b|^(?:\w+, )*{name}\b.*=|^\s*{name}:"
    text = "\n".join(map(read_all, named))
    assert name in named[-1] or re.search(defined, text, re.MULTILINE), f"{question} {name} is not defined in {paths}"


def test_the_table_answers_the_usual_questions() -> None:
    words = ("official GAIA scorer", "expert's retry limit", "Ctrl-C", "candidate prompt chosen", "MLflow show")
    assert [word for word in words if not any(word in question for question, _, _ in QUESTIONS)] == []
    assert len(QUESTIONS) == PAGE.count("? | `")


@pytest.mark.parametrize("package", ["mas", "eval", "optimize"])
def test_the_layers_are_those_of_import_linter(package: str) -> None:
    contracts = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract.get("containers") == [package]]
    table = PAGE.partition(f"| Layer of `{package}/` |")[2].partition("\n\n")[0]
    shown = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    assert [set(row) for row in shown] == [set(re.split(r"\W+", layer)) for layer in layers]


def find_transitions() -> set[tuple[str, str]]:
    """Return each step of the orchestrator with each that can follow, over all decisions and counters."""
    limits: dict[Worker, int] = dict.fromkeys(WORKERS, 2)
    start = initial_state("q", None, "id", limits)
    found = {("[*]", cast(str, orchestrate(start)["current_step"])), ("finalizer", "[*]")}
    for step, decision, steps, index, retries in itertools.product(
        AGENTS[:-1], ("approve", "reject"), (0, 2), (0, 1), (0, 1)
    ):
        researching = step.endswith("researcher")
        if researching and not steps:
            continue
        changes: dict[str, Any] = {
            "current_step": step,
            "research_steps": ["step"] * steps,
            "research_results": ["result"] * steps,
            "current_research_index": index if researching else -1,
        }
        if step.startswith("critic_"):
            changes |= {f"{step}_decision": decision, f"{step.removeprefix('critic_')}_retry_count": retries}
        found.add((step, orchestrate(cast(GraphState, {**start, **changes}))["current_step"]))
    return found


def test_the_diagram_has_the_transitions_of_the_orchestrator() -> None:
    diagram = PAGE.partition("stateDiagram-v2\n")[2].partition("```")[0]
    assert set(EDGE.findall(diagram)) == find_transitions()


def test_the_picture_shows_the_same_states() -> None:
    drawn = PICTURE.read_text("utf-8")
    assert [agent for agent in AGENTS if f">{agent}<" not in drawn] == []
