"""Proposers of new prompts: DSPy's own, with another brief and a count of what goes wrong.

DSPy's brief tells the model to put "all niche and domain specific factual information" of the examples into the prompt,
which leaks answers. And GEPA goes on silently when no reply can be read.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import dspy
from dspy.utils.exceptions import AdapterParseError, LMAuthError, LMBillingError, LMConfigurationError

from eval.benchmarks.dataset import Sample
from mas.agents.chat_adapter import ChatAdapter
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError
from optimize.search.dspy_compat import GroundedProposer, InstructionProposer
from optimize.search.optimizer import SearchOutcome, SearchOverError, SearchTask
from optimize.search.trials import Trials

BRIEF = """\
I gave an assistant instructions for one step of a larger task. You are given these instructions, examples of what it \
was given and what it replied, and feedback on each reply.

Write better instructions for the assistant.

Read the examples and the feedback, and find out what the assistant does wrong, or leaves out, time and again. Say in \
general terms what it has to do instead: how to read its input, which strategy to follow, what to check before it \
replies, which form its reply must have. Keep what already works in the present instructions.

The new instructions will be used for other questions than these. They must hold general rules only: no fact, name, \
number, date, quotation, question or answer from the examples or the feedback, not even as an illustration."""

# Added to the brief where the targets are labels (`eval.scorers.labels`), which are then known to the search.
LABELS_BRIEF = """

The answer to every question is one of these labels: {labels}. They are no secret: the new instructions may name \
them, and say in general terms when each of them is right."""

MAX_CHARS = 8000  # of a prompt that is written: prompts would only grow
QUESTIONS_SHOWN = 20  # in a request for a draft
_MAX_QUESTION_CHARS = 500
_GENERAL_RULES = (
    "\n\nThe new instruction will be used for other questions than these. It must hold general rules only: no fact, "
    "name, number, date, question or answer of this dataset."
)

TRIES = 2  # requests until a reply can be read
MAX_FAILURES_IN_A_ROW = 10  # requests without a usable reply, after which the search gives up
USELESS_REPLY = (AdapterParseError, EmptyReplyError, RefusedReplyError, TruncatedReplyError, ValueError)
_REFUSALS = (LMAuthError, LMBillingError, LMConfigurationError)  # every later request would fail as well

T = TypeVar("T")
Feedback = Mapping[str, Sequence[Mapping[str, object]]]  # agent → its calls with inputs, outputs, feedback


def build_labels_brief(labels: Sequence[str]) -> str:
    """Return what a brief says of the labels, which are quoted as data: JSON; nothing if there are none."""
    if not labels:
        return ""
    return LABELS_BRIEF.format(labels=", ".join(json.dumps(each, ensure_ascii=False) for each in labels))


class ReflectionRequests:
    """Counts of a search's requests to the reflection model, and of what goes wrong."""

    def __init__(self, get_stop_reason: Callable[[], str | None]) -> None:
        """Begin with no requests; `get_stop_reason` returns why no more are to be sent, or None."""
        self.requests = self.unparsable = 0
        self.failure: str | None = None  # why no more requests are worth sending
        self._stops_session = False  # the cause is not what the model writes
        self._get_stop_reason, self._failures_in_a_row = get_stop_reason, 0

    def attempt(self, send: Callable[[], T]) -> T | None:
        """Return the result of `send`, tried twice; None if there is none, or no more requests are to be sent."""
        for _ in range(TRIES):
            if self._get_stop_reason() is not None or self.failure:
                return None
            try:
                result = send()
            except Exception as error:  # noqa: BLE001  optimizers would retry, and go on as if nothing had happened
                if self._get_stop_reason() is None:  # else the budget has refused it, which is no failure of the model
                    self._count_failure(error)
            else:
                self.requests, self._failures_in_a_row = self.requests + 1, 0
                return result
        return None

    def finish(self, trials: Trials) -> SearchOutcome:
        """Return the counts at the end of a search; a failing model stops the session, and a defect is raised."""
        trials.check()
        if self.failure and self._stops_session:
            trials.stop(self.failure)
        return SearchOutcome(self.requests, self.unparsable)

    def _count_failure(self, error: Exception) -> None:
        is_useless = isinstance(error, USELESS_REPLY)
        self.requests += 1
        self.unparsable += is_useless
        self._failures_in_a_row += 1
        if isinstance(error, _REFUSALS) or self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
            self.failure = f"the reflection model gave no usable reply ({type(error).__name__}: {error})"
            self._stops_session = not is_useless


class PromptRewriter(ReflectionRequests, InstructionProposer):
    """DSPy's proposer. An agent without a usable reply keeps its text; if no agent has one, nothing is proposed."""

    def __init__(self, task: SearchTask) -> None:
        """Create a proposer whose texts may name the task's labels."""
        ReflectionRequests.__init__(self, task.get_stop_reason)
        InstructionProposer.__init__(
            self,
            base_instructions=BRIEF + build_labels_brief(task.objective.labels.names),
            max_chars=MAX_CHARS,
            truncate_history_outputs=True,
            adapter=ChatAdapter(),  # falls back to JSON; DSPy's default here reads JSON only
        )
        self._prompts = task.student.initial_prompts

    def __call__(
        self, candidate: dict[str, str], reflective_dataset: Feedback, components_to_update: list[str]
    ) -> dict[str, str]:
        """Return new texts by agent."""
        texts = {}
        for agent in (each for each in components_to_update if each in reflective_dataset):
            text = self.attempt(functools.partial(self.rewrite_once, candidate, reflective_dataset, agent))
            if text is not None:  # normalized as those of the parent are: GEPA looks agents up by their text
                texts[agent] = replace(self._prompts, texts={agent: text}).texts[agent]
        return {} if self._get_stop_reason() is not None else texts

    def rewrite_once(self, candidate: dict[str, str], feedback: Feedback, agent: str) -> str:
        """Request one new text; one of `USELESS_REPLY` is raised if the reply cannot be used."""
        texts: dict[str, str] = super().__call__(candidate, dict(feedback), [agent])
        return texts[agent]


class InstructionDrafts(GroundedProposer):
    """DSPy's proposer of the texts that MIPROv2 chooses from, with questions instead of examples.

    DSPy shows its proposer whole training examples, targets included, and agents' right answers. Here it sees what the
    system is asked, the agents' present texts and DSPy's tips. An agent without a usable reply keeps its present text.
    """

    def __init__(
        self, requests: ReflectionRequests, questions: Sequence[Sample], labels: Sequence[str], **settings: object
    ) -> None:
        """Show some of the training questions, whose targets are not read; `settings` are those of DSPy's class."""
        super().__init__(**settings)
        self._requests = requests
        inputs = (dict(sample.inputs) or {"question": sample.question} for sample in questions[:QUESTIONS_SHOWN])
        shown = [f"- {json.dumps(each, ensure_ascii=False)[:_MAX_QUESTION_CHARS]}" for each in inputs]
        self.use_dataset_summary = True  # what DSPy shows as such
        self.data_summary = "\n".join(["Some of the questions:", *shown]) + build_labels_brief(labels) + _GENERAL_RULES

    def propose_instructions_for_program(self, **settings: object) -> Mapping[int, list[str]]:
        """Return the texts of each predictor, by its number; SearchOverError: the reflection model is of no use."""
        texts: Mapping[int, list[str]] = super().propose_instructions_for_program(**settings)
        if self._requests.failure or 0 < self._requests.requests == self._requests.unparsable:
            raise SearchOverError
        return texts

    def propose_instruction_for_predictor(self, *, predictor: dspy.Predict, demo_set_i: int, **settings: object) -> str:
        """Return a text for one predictor; MIPROv2 puts the present one in the first place."""
        present: str = predictor.signature.instructions
        if demo_set_i == 0:
            return present
        request = super().propose_instruction_for_predictor

        def draft() -> str:
            with dspy.context(adapter=ChatAdapter()):
                text: str = request(predictor=predictor, demo_set_i=demo_set_i, **settings)
            if not text.strip() or len(text) > MAX_CHARS:
                raise ValueError(f"the proposed instruction has {len(text)} characters; allowed are {MAX_CHARS}")
            return text

        text = self._requests.attempt(draft)
        return present if text is None else text
