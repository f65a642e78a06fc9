"""The profile of the simulated model: `conf/model/offline.yaml`."""

from dataclasses import dataclass
from typing import Any

from mas.llm.model import AgentModel


@dataclass
class OfflineModel:
    """No key, no network, no cost; no statement about any LLM either."""

    name: str = "offline"
    native_tools: bool = True  # false: tools are described in the prompt
    call_deadline_seconds: float = 60.0
    simulated: bool = True

    def check(self) -> None:
        """Nothing can be missing: the model is part of the package."""

    def secrets(self) -> list[str]:
        return []

    def lm(self, agent: AgentModel) -> Any:
        from mas.llm.agent_lm import AgentLM
        from mas.offline.engine import AsyncOfflineEngine, OfflineEngine

        return AgentLM(
            "offline/simulated",
            OfflineEngine(),
            AsyncOfflineEngine(),
            native_tools=self.native_tools,
            deadline_seconds=self.call_deadline_seconds,
            num_retries=0,
            temperature=agent.temperature,
            cache=False,
        )
