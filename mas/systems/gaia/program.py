"""The GAIA system as one `dspy.Module`: seven predictors, one prompt file each, run through the shared graph."""

from pathlib import Path
from typing import cast

import dspy

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import AgentProgram, State
from mas.agents.spec import Toolboxes
from mas.systems.gaia.agents import AGENTS, SPECS, GraphState, Worker
from mas.systems.gaia.graph import recursion_limit, workflow
from mas.systems.gaia.nodes import GraphContext


class GaiaProgram(AgentProgram):
    """Answers a question with its attachment."""

    def __init__(
        self, toolboxes: Toolboxes, retry_limits: dict[Worker, int], max_research_steps: int, on_retry_exhausted: str
    ) -> None:
        super().__init__(SPECS, toolboxes)
        workflow()  # compiled now, so that nothing of it can fail or wait at the first question
        self.retry_limits = retry_limits
        self.max_research_steps = max_research_steps
        self.on_retry_exhausted = on_retry_exhausted

    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        """Return the complete final state.

        Raises:
            ValueError: the question is empty.
        """
        context = GraphContext(
            predictors={name: getattr(self, name) for name in AGENTS},
            toolboxes=self.toolboxes,
            retry_limits=self.retry_limits,
            max_research_steps=self.max_research_steps,
            on_retry_exhausted=self.on_retry_exhausted,
        )
        asked = {"question": question, "file": file.name if file else None, "correlation_id": thread_id}
        limit = recursion_limit(self.retry_limits, self.max_research_steps)
        with dspy.context(adapter=ChatAdapter(use_native_function_calling=True)):
            final = await workflow().ainvoke(
                cast(GraphState, asked), context=context, config={"recursion_limit": limit}
            )
        return cast(State, final)
