"""The profile of the simulated model: `conf/model/offline.yaml`."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from mas.llm.profiles.model import AgentModel
from mas.runtime.errors import UserError

WORLDS = ("normal", "null", "harmful", "leaky")


@dataclass
class OfflineModel:
    """No key, no network, no cost; no statement about any LLM either."""

    name: str = "offline"
    world: str | None = "normal"  # on the command line `null` is no text: None means the world of that name
    seed: int = 0
    native_tools: bool = True  # false: tools are described in the prompt
    call_deadline_seconds: float = 60.0
    simulated: ClassVar[bool] = True  # not a setting: nobody may switch off what the scores say

    def __post_init__(self) -> None:
        self.world = self.world or "null"

    def check(self) -> None:
        """See that there is such a world; nothing can be missing, since the model is part of the package.

        Raises:
            UserError: there is none, or the seed is no number that one can be made from.
        """
        if self.world not in WORLDS:
            raise UserError(
                f"There is no simulated world '{self.world}'; set model.world to one of {', '.join(WORLDS)}."
            )
        if self.seed < 0:
            raise UserError(f"model.seed is {self.seed}; expected a whole number from 0 on.")

    def secrets(self) -> list[str]:
        return []

    def unpriced(self, more_names: Collection[str] = ()) -> list[str]:
        return []

    def gate_history(self) -> list[dict[str, Any]]:
        """None: nobody has to wait for it."""
        return []

    def lm(self, agent: AgentModel) -> Any:
        """The `dspy.LM` of one agent. World and seed are in its model's name: no cache takes one world for another."""
        from mas.simulation.engine import AsyncOfflineEngine, OfflineEngine

        return self._lm(OfflineEngine(), AsyncOfflineEngine(), agent.temperature)

    def reflection_lm(self, name: str | None = None) -> Any:
        """The `dspy.LM` that reads feedback and proposes prompts, of the same world and seed, whatever its name."""
        from mas.simulation.reflection.reflection import AsyncOfflineReflection, OfflineReflection

        return self._lm(OfflineReflection(), AsyncOfflineReflection(), None)

    def _lm(self, engine: Any, async_engine: Any, temperature: float | None) -> Any:
        from mas.llm.agent_lm import AgentLM
        from mas.llm.call_policy import CallPolicy
        from mas.llm.limits import Limits
        from mas.llm.prices import FREE

        return AgentLM(
            f"offline/{self.world}-{self.seed}",
            engine,
            async_engine,
            native_tools=self.native_tools,
            deadline_seconds=self.call_deadline_seconds,
            terms=CallPolicy("offline", Limits("offline", takes_images=False, takes_audio=False), price=FREE),
            temperature=temperature,
            cache=False,
        )
