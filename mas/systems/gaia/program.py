"""The GAIA system as one `dspy.Module`: seven predictors, one prompt file each, run through the shared graph."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import dspy

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import AgentProgram, State, check_question
from mas.agents.spec import AgentSpec, Toolboxes
from mas.systems.gaia.agents import AGENTS, Worker, initial_state
from mas.systems.gaia.graph import recursion_limit, workflow
from mas.systems.gaia.nodes import GraphContext


class GaiaProgram(AgentProgram):
    """Answers a question with its attachment."""

    def __init__(
        self,
        agents: Sequence[AgentSpec],
        toolboxes: Toolboxes,
        retry_limits: Mapping[Worker, int],
        max_research_steps: int,
        on_retry_exhausted: str,
    ) -> None:
        super().__init__(agents, toolboxes)
        self.retry_limits = dict(retry_limits)
        self.max_research_steps = max_research_steps
        self.on_retry_exhausted = on_retry_exhausted

    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        """Return the complete final state.

        Raises:
            ValueError: the question is empty.
            LMError: the model could not be asked, after its retries.
            AdapterParseError: a reply of critic or finalizer could not be read, twice.
        """
        check_question(question)
        context = GraphContext(
            predictors={name: getattr(self, name) for name in AGENTS},
            toolboxes=self.toolboxes,
            max_research_steps=self.max_research_steps,
            on_retry_exhausted=self.on_retry_exhausted,
        )
        state = initial_state(question, file.name if file else None, thread_id, self.retry_limits)
        limit = recursion_limit(self.retry_limits, self.max_research_steps)
        with dspy.context(adapter=ChatAdapter(use_native_function_calling=True)):
            final = await workflow().ainvoke(state, context=context, config={"recursion_limit": limit})
        return cast(State, final)
