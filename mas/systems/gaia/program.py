"""The GAIA system as one `dspy.Module`: seven predictors, one prompt file each, run through the shared graph."""

import uuid
from pathlib import Path

import dspy

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.react import Toolbox
from mas.runtime.event_loop import run_blocking
from mas.runtime.trace import current_thread_id, keep_state
from mas.systems.gaia import signatures
from mas.systems.gaia.agents import GraphContext
from mas.systems.gaia.graph import recursion_limit, workflow
from mas.systems.gaia.state import Worker, initial_state
from mas.tools.attachments import use_attachments


class GaiaProgram(dspy.Module):
    """Answers a question with its attachment; every attribute that is a predictor can be tuned."""

    def __init__(
        self,
        retry_limits: dict[Worker, int],
        max_research_steps: int,
        on_retry_exhausted: str,
        toolboxes: dict[str, Toolbox],
    ) -> None:
        super().__init__()
        self.planner = dspy.Predict(signatures.Plan)
        self.critic_planner = dspy.Predict(signatures.ReviewPlan)
        self.researcher = dspy.Predict(signatures.Research)
        self.critic_researcher = dspy.Predict(signatures.ReviewResearch)
        self.expert = dspy.Predict(signatures.Solve)
        self.critic_expert = dspy.Predict(signatures.ReviewAnswer)
        self.finalizer = dspy.Predict(signatures.Finalize)
        self.retry_limits = retry_limits
        self.max_research_steps = max_research_steps
        self.on_retry_exhausted = on_retry_exhausted
        self.toolboxes = toolboxes

    def forward(self, question: str, file: str | Path | None = None) -> dspy.Prediction:
        """The same run for synchronous callers, on the one event loop that holds the connections."""
        return run_blocking(self.aforward(question, file))

    async def aforward(self, question: str, file: str | Path | None = None) -> dspy.Prediction:
        """Answer one question.

        Args:
            question: what is asked.
            file: path of the attachment. Agents see its bare name, tools resolve that name and no other.

        Returns:
            A prediction with `final_answer`, `final_reasoning_trace` and `state`, the complete final state.

        Raises:
            LMError: the model could not be asked, after its retries.
            AdapterParseError: critic or finalizer could not be understood, twice.
        """
        path = Path(file) if file else None
        state = initial_state(
            question, path.name if path else None, current_thread_id() or uuid.uuid4().hex, self.retry_limits
        )
        adapter = ChatAdapter(use_native_function_calling=True)
        with dspy.context(adapter=adapter), use_attachments([path] if path else []):
            final = await workflow().ainvoke(
                state, context=GraphContext(self), config={"recursion_limit": self._recursion_limit}
            )
        keep_state(final)
        return dspy.Prediction(
            final_answer=final["final_answer"], final_reasoning_trace=final["final_reasoning_trace"], state=final
        )

    @property
    def _recursion_limit(self) -> int:
        return recursion_limit(self.retry_limits, self.max_research_steps)
