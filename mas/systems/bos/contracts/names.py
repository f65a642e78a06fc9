"""Names of the agents; importing them imports nothing heavy."""

from typing import Literal, get_args

AgentName = Literal["sql", "api_docs", "computation"]
AGENT_NAMES: tuple[AgentName, ...] = get_args(AgentName)
