"""How a prompt is rewritten from feedback: DSPy's proposer with a brief of our own, and a count of what goes wrong.

DSPy's brief orders the model to put "all niche and domain specific factual information" of the examples into the
prompt: answers leak that way. And GEPA goes on as if nothing had happened when no reply can be read.

    rewriting = Rewriting(parent.prompts, over=lambda: None, max_chars=8000)
    rewriting({"plan": "…"}, {"plan": [{"Inputs": …, "Generated Outputs": …, "Feedback": …}]}, ["plan"])
    rewriting.asked, rewriting.unparsable       # 1, 0
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer
from dspy.utils.exceptions import AdapterParseError, LMAuthError, LMBillingError, LMConfigurationError

from mas.agents.chat_adapter import ChatAdapter
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError

BRIEF = """\
I gave an assistant instructions for one step of a larger task. You are given these instructions, examples of what it \
was given and what it replied, and feedback on each reply.

Write better instructions for the assistant.

Read the examples and the feedback, and find out what the assistant does wrong, or leaves out, time and again. Say in \
general terms what it has to do instead: how to read its input, which strategy to follow, what to check before it \
replies, which form its reply must have. Keep what already works in the present instructions.

The new instructions will be used for other questions than these. They must hold general rules only: no fact, name, \
number, date, quotation, question or answer from the examples or the feedback, not even as an illustration."""

TRIES = 2  # a reply that cannot be read is asked for once more
FAILURES_IN_A_ROW = 10  # requests without a usable reply, after which it is no use going on
_USELESS = (AdapterParseError, EmptyReplyError, RefusedReplyError, TruncatedReplyError, ValueError)
_REFUSALS = (LMAuthError, LMBillingError, LMConfigurationError)  # of every request to come, too


class PromptRewriter(InstructionProposer):
    """DSPy's own. An agent for which there is no usable reply keeps its text; without any there is no proposal."""

    def __init__(self, prompts: PromptSet, over: Callable[[], str | None], max_chars: int | None) -> None:
        """
        Args:
            prompts: whose texts show how a text is normalised; GEPA looks agents up by them.
            over: why nothing more is to be asked; None: go on.
            max_chars: of one agent's text.
        """
        super().__init__(
            base_instructions=BRIEF,
            max_chars=max_chars,
            truncate_history_outputs=True,
            adapter=ChatAdapter(),  # which falls back to JSON; DSPy's choice here reads JSON alone
        )
        self.asked = self.unparsable = 0
        self.failed: str | None = None  # why it is no use going on
        self.fault: str | None = None  # the same, if the reason is not what the model writes
        self._prompts, self._over = prompts, over
        self._in_a_row = 0

    def __call__(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """Agent → new text."""
        agents = [agent for agent in components_to_update if agent in reflective_dataset]
        texts = {agent: self._rewritten(candidate, reflective_dataset, agent) for agent in agents}
        if self._over() is not None:
            return {}
        return {agent: text for agent, text in texts.items() if text is not None}

    def _rewritten(
        self, candidate: dict[str, str], samples: Mapping[str, Sequence[Mapping[str, Any]]], agent: str
    ) -> str | None:
        for _ in range(TRIES):
            if self._over() is not None or self.failed:
                return None
            try:
                text = super().__call__(candidate, dict(samples), [agent])[agent]
            except Exception as error:  # noqa: BLE001  GEPA would ask again, and go on as if nothing had happened
                self._note(error)
                continue
            self.asked += 1
            self._in_a_row = 0
            return replace(self._prompts, texts={agent: text}).texts[agent]
        return None

    def _note(self, error: Exception) -> None:
        if self._over() is not None:  # the budget, which is no fault of the model's
            return
        self.asked += 1
        self.unparsable += isinstance(error, _USELESS)
        self._in_a_row += 1
        if isinstance(error, _REFUSALS) or self._in_a_row >= FAILURES_IN_A_ROW:
            self.failed = f"the reflection model gave no usable reply ({type(error).__name__}: {error})"
            self.fault = None if isinstance(error, _USELESS) else self.failed
