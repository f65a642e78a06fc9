"""Contract of an agent.

class ComputationAgent:
    async def invoke(self, question: str, *, context: Mapping[str, object]) -> AgentResult: ...

Agents are made for each request from the program's predictors (`mas.systems.bos.agents`), so that a tuned copy of the
program runs its own prompts. An agent keeps nothing from one request to the next.
"""

from collections.abc import Mapping
from typing import Protocol

from mas.systems.bos.contracts.result import AgentResult


class Agent(Protocol):
    """Agent of the system, which may fail without ending the request."""

    async def invoke(self, question: str, *, context: Mapping[str, object]) -> AgentResult:
        """Answer the question, or return a failed result that says why.

        Args:
            question: of the request.
            context: of the request, with the temporal values. It may hold secrets: use `format_context` for prompts and
                `EventRecorder` for events. `get_text(context, SYSTEM_PROMPT)` and `get_text(context, EARLIER_RESULTS)`
                are extra inputs of every LLM step.

        Raises:
            LimitReachedError: a limit of the sample or the run was reached. Must not be caught.
        """
        ...
