"""The single agent as a `dspy.Module`: one predictor, `agent`, that works with tools until it answers.

program = SingleAgentProgram(SPECS, {"agent": Toolbox({"calculator": dspy.Tool(calculator)})}, retry_limit=3)
program(question="What is 2 + 3?").final_answer      # "5"
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy

from mas.agents.program import AgentProgram, State, check_question
from mas.agents.react import MAX_FEEDBACK_CHARS, UNUSABLE, react
from mas.agents.spec import AgentSpec, Toolboxes
from mas.runtime.lm_errors import StepLimitError
from mas.runtime.trace import current_trace, event, span


class Answer(dspy.Signature):
    """Answer the question."""

    question_to_answer: str | None = dspy.InputField(desc="the question, and what was wrong with an earlier reply")
    file: str | None = dspy.InputField(desc="bare name of the file attached to the question, if any")
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField(desc="tools to call now; none once the answer is known")
    final_answer: str = dspy.OutputField(desc="the answer alone, in the form the question asks for")
    final_reasoning_trace: str = dspy.OutputField(desc="how the answer was reached, in a few sentences")


class SingleAgentProgram(AgentProgram):
    """Answers a question with its attachment in one conversation, or in another after a bad reply."""

    def __init__(self, agents: Sequence[AgentSpec], toolboxes: Toolboxes, retry_limit: int) -> None:
        super().__init__(agents, toolboxes)
        self.retry_limit = retry_limit

    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        check_question(question)
        state: dict[str, Any] = {"question": question, "file": file.name if file else None}
        state |= {"correlation_id": thread_id, "turns": [], "retry_count": 0, "feedback": ""}
        request = question
        while True:
            current_trace().state = dict(state)
            try:
                with span("agent", "agent", inputs={"request": request}) as current:
                    inputs = {"question_to_answer": request, "file": state["file"]}
                    state["turns"], prediction = await react(self.agent, inputs, [], self.toolboxes["agent"])
                    answer, trace = prediction.final_answer or "", prediction.final_reasoning_trace or ""
                    current.outputs = {"final_answer": answer, "final_reasoning_trace": trace}
                break
            except StepLimitError:  # another conversation would use up its steps as well
                raise
            except UNUSABLE as error:
                if state["retry_count"] >= self.retry_limit:
                    raise
                state["retry_count"] += 1
                state["feedback"] = str(error)[:MAX_FEEDBACK_CHARS]  # of the last unusable reply
                event("unusable reply", "warning", agent="agent", error=state["feedback"])
                request = f"{question}\n\nYour last reply could not be used: {state['feedback']}"
        return {**state, "final_answer": answer, "final_reasoning_trace": trace}
