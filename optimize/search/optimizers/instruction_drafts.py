"""MIPROv2's proposer of instructions: DSPy's own, with questions instead of examples, and a count of what goes wrong.

DSPy shows its proposer whole training examples, targets included, and agents' right answers. Here it sees what the
system is asked, the agents' present texts and DSPy's tips.

    drafts = InstructionDrafts(requests, questions, labels, max_chars, **settings)     # settings as MIPROv2 gives them
    requests.requests, requests.unparsable       # 17, 0
"""

from collections.abc import Mapping, Sequence

import dspy

from eval.benchmarks.dataset import Sample
from mas.agents.chat_adapter import ChatAdapter
from mas.prompt_sets.dspy_internals import BaseCallback
from optimize.search.dspy_compat import GroundedProposer, create_dataset_summary
from optimize.search.optimizers.prompt_rewriter import ReflectionRequests, build_labels_brief
from optimize.search.optimizers.scored_programs import SearchOverError

_MAX_INPUT_CHARS = 1000  # of a question in a request for the summary
_GENERAL_RULES = (
    "\n\nThe new instruction will be used for other questions than these. It must hold general rules only: no fact, "
    "name, number, date, question or answer of this dataset."
)


class InstructionDrafts(GroundedProposer):
    """The texts that MIPROv2 chooses from. An agent without a usable reply has its present text in that place."""

    def __init__(
        self,
        requests: ReflectionRequests,
        questions: Sequence[Sample],
        labels: Sequence[str],
        max_chars: int | None,
        **settings: object,
    ) -> None:
        """Summarize the questions.

        Args:
            requests: counts requests and failures.
            questions: of the training split; their targets are not read.
            labels: that the targets are; empty: they are answers.
            max_chars: maximum length of one agent's text; None: no limit.
            settings: those of DSPy's class, without a summary, which would be one of `trainset`.
        """
        super().__init__(**settings)
        self._requests, self._max_chars = requests, max_chars
        examples, batch = [_show_inputs(sample) for sample in questions], settings["view_data_batch_size"]

        def summarize() -> str:
            sent = _RequestCount()
            with dspy.context(adapter=ChatAdapter(), callbacks=[sent]):
                text: str = create_dataset_summary(examples, batch, self.prompt_model)
            requests.requests += sent.n - 1  # `attempt` counts one
            return text

        summary = requests.attempt(summarize)
        self.use_dataset_summary = True
        self.data_summary = (summary or "Not available.") + build_labels_brief(labels) + _GENERAL_RULES

    def propose_instructions_for_program(self, **settings: object) -> Mapping[int, list[str]]:
        """Return the texts of each predictor, by its number.

        Raises:
            SearchOverError: the reflection model is of no use.
        """
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
                return self._check(request(predictor=predictor, demo_set_i=demo_set_i, **settings))

        text = self._requests.attempt(draft)
        return present if text is None else text

    def _check(self, text: str) -> str:
        if not text.strip():
            raise ValueError("the proposed instruction is empty")
        if self._max_chars is not None and len(text) > self._max_chars:
            raise ValueError(f"the proposed instruction has {len(text)} characters; allowed are {self._max_chars}")
        return text


class _RequestCount(BaseCallback):
    """Number of requests to a model."""

    def __init__(self) -> None:
        self.n = 0

    def on_lm_start(self, *args: object, **kwargs: object) -> None:
        self.n += 1


def _show_inputs(sample: Sample) -> dspy.Example:
    """Return what the system gets of a question."""
    inputs = dict(sample.inputs) or {"question": sample.question}
    return dspy.Example(**{name: text[:_MAX_INPUT_CHARS] for name, text in inputs.items()}).with_inputs(*inputs)
