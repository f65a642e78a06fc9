"""A simulated language model (`conf/model/offline.yaml`): no key, no network, no cost.

An engine behind DSPy's own LM interface: adapters, parsing, tool calls and retries are real. DSPy is not imported here.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import yaml

from mas.llm import Traffic
from mas.llm.profiles.model import AgentModel
from mas.runtime.errors import UserError

if TYPE_CHECKING:
    import dspy
    from dspy.lm15 import Request, Response

SIMULATED_NOTICE = "Simulated model: scores carry no information about any LLM or about GAIA."


@dataclass(frozen=True)
class ReplyEngine:
    reply: Callable[["Request"], "Response"]

    async def complete(self, request: "Request") -> "Response":
        return self.reply(request)


@dataclass
class SimulatedModel:
    """Model profile without key, network or cost; its scores say nothing about any LLM."""

    name: str = "offline"
    world: str | None = "normal"  # None, as `model.world=null` arrives, means the world "null"
    seed: int = 0
    native_tools: bool = True  # false: tools are described in the prompt
    max_connections: ClassVar[int] = 1000
    simulated: ClassVar[bool] = True  # not a setting: reports must always say so

    def __post_init__(self) -> None:
        self.world = self.world or "null"

    def check(self) -> None:
        worlds = yaml.safe_load(Path(__file__).with_name("worlds.yaml").read_text(encoding="utf-8"))
        if self.world not in worlds:
            raise UserError(
                f"There is no simulated world '{self.world}'; set model.world to one of {', '.join(worlds)}."
            )
        if self.seed < 0:
            raise UserError(f"model.seed is {self.seed}; expected a whole number from 0 on.")

    def describe_server(self) -> list[str]:
        return []

    def secrets(self) -> list[str]:
        return []

    def list_unpriced(self, more_names: Collection[str] = ()) -> list[str]:
        return []

    def list_traffic(self) -> list[Traffic]:
        return []

    def create_lm(self, agent: AgentModel) -> "dspy.BaseLM":
        from mas.simulation.task_model import answer_request

        return self._create_lm(answer_request, agent.temperature)

    def create_reflection_lm(self, name: str | None = None) -> "dspy.BaseLM":
        """Return the LM of the reflection, with the same world and seed; `name` has no effect."""
        from mas.simulation.reflection import propose_prompt

        return self._create_lm(propose_prompt, None)

    def _create_lm(self, reply: Callable[["Request"], "Response"], temperature: float | None) -> "dspy.BaseLM":
        from mas.llm.agent_lm import AgentLM
        from mas.llm.engine import CallPolicy
        from mas.llm.prices import FREE

        return AgentLM(
            f"offline/{self.world}-{self.seed}",  # part of the request: no cache mixes up two worlds or seeds
            ReplyEngine(reply),
            CallPolicy("offline", native_tools=self.native_tools, price=FREE),
            temperature=temperature,
            cache=False,
        )
