"""The toy system by direct calls of the engine: plan, solve and finalize, with neither DSPy's client nor a loop.

outcome = answers(prompts, questions, World("null", 3))     # one final answer a question; None: no format
"""

import json
import random
from collections.abc import Sequence
from typing import Any

import dspy
from dspy.lm15 import Config, Message, Request

from mas.simulation.behaviour import World
from mas.simulation.chat import parse_fields
from mas.simulation.task_model import answer_request
from mas.systems.toy.program import Finalize, Plan, Solve, format_problem_and_steps, format_result

SIGNATURES: dict[str, Any] = {"plan": Plan, "solve": Solve, "finalize": Finalize}
SUBJECTS = (
    "the number",
    "each step",
    "the table",
    "the answer",
    "the calculator",
    "every unit",
    "the list",
    "rounding",
)
VERBS = ("Check", "Never mention", "Write", "Ignore", "Use", "Leave out", "Repeat", "Explain", "Trust", "Round")


def random_prompt(rng: random.Random) -> str:
    """One to twelve clauses, sensible or not."""
    return " ".join(f"{rng.choice(VERBS)} {rng.choice(SUBJECTS)}." for _ in range(rng.randint(1, 12)))


def answers(prompts: dict[str, str], questions: Sequence[str], world: World) -> list[str | None]:
    systems = {agent: _system(agent, text) for agent, text in prompts.items()}
    return [_answer(systems, question, f"offline/{world.kind}-{world.seed}") for question in questions]


def _answer(systems: dict[str, str], question: str, model: str) -> str | None:
    plan = _ask(systems["plan"], model, problem=question)
    if plan is None:
        return None
    request = format_problem_and_steps(question, json.loads(plan["steps"]))
    solved = _ask(systems["solve"], model, problem_and_steps=request)
    if solved is None:
        return None
    request = format_result(question, solved["working"], solved["result"])
    final = _ask(systems["finalize"], model, result_to_finalize=request)
    return final["final_answer"] if final else None


def _ask(system: str, model: str, **inputs: str) -> dict[str, str] | None:
    """One call without the JSON fallback."""
    text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in inputs.items())
    reply = answer_request(Request(model, (Message.user(text),), system=system, config=Config()))
    return parse_fields(reply.message.text or "") or None


def _system(agent: str, text: str) -> str:
    return str(dspy.ChatAdapter().format_system_message(SIGNATURES[agent].with_instructions(text)))
