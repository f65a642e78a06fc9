"""A function as an agent: where it runs, which arguments and model it has, and how its end is told."""

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.utils.dummies import DummyLM

from mas.runtime.errors import AgentReplyError
from mas.systems.external.function_program import FunctionProgram
from mas.systems.external.target import Agent

FILE = Path("/data/sales.csv")


def ask(function: Callable[..., object], lm: dspy.BaseLM | None = None) -> Any:
    agent = Agent("mine:answer", function, "position", "name")
    return asyncio.run(FunctionProgram(agent, lm).ask("How many?", FILE, "t"))


def describe(question: str, file: Path) -> tuple[object, ...]:
    return question, file, threading.current_thread() is threading.main_thread(), dspy.settings.lm


async def describe_later(question: str, file: Path) -> tuple[object, ...]:
    return describe(question, file)


class Later:
    async def __call__(self, question: str, file: Path) -> tuple[object, ...]:
        return describe(question, file)


def test_a_function_has_a_thread_and_a_coroutine_the_loop() -> None:
    model = DummyLM([{"answer": "5"}])
    outside = dspy.settings.lm
    functions: list[tuple[Callable[..., object], bool]] = [
        (describe, False),
        (describe_later, True),
        (Later(), True),
        (lambda question, file: describe_later(question, file), True),
    ]
    for function, on_loop in functions:
        assert ask(function) == ("How many?", FILE, on_loop, outside)
        assert ask(function, model) == ("How many?", FILE, on_loop, model)
    assert dspy.settings.lm is outside is not model


async def leave_later(question: str, file: Path) -> None:
    sys.exit(3)


@pytest.mark.parametrize(
    "function", [lambda question, file: sys.exit(3), leave_later, lambda question, file: leave_later(question, file)]
)
def test_an_end_without_an_answer_is_told_by_the_agents_name(function: Callable[..., object]) -> None:
    with pytest.raises(AgentReplyError) as caught:
        ask(function)
    assert str(caught.value) == "mine:answer ended with SystemExit (3) instead of an answer"


def test_a_copy_calls_the_same_agent_under_its_name() -> None:
    agent = Agent("mine:answer", describe, "position", "name")
    copy = FunctionProgram(agent).deepcopy()
    assert (copy.agent.value is agent, copy.name, copy.lm) == (True, "mine:answer", None)
