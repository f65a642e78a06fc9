"""MIPROv2's proposer of instructions: DSPy's own, with questions instead of examples, and a count of what goes wrong.

DSPy shows its proposer whole training examples, targets included, and agents' right answers. Here it sees what the
system is asked, the agents' present texts and DSPy's tips.

    drafts = InstructionDrafts(requests, questions, labels, max_chars, **settings)     # settings as MIPROv2 gives them
    requests.requests, requests.unparsable       # 16, 0
"""

from collections.abc import Mapping, Sequence

import dspy

from eval.benchmarks.dataset import Sample
from mas.agents.chat_adapter import ChatAdapter
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
        """Summarize the training questions, whose targets are not read; `settings` are those of DSPy's class."""
        super().__init__(**settings)
        self._requests, self._max_chars = requests, max_chars
        examples = [_show_inputs(sample) for sample in questions]

        def summarize() -> str:
            with dspy.context(adapter=ChatAdapter()):
                return str(create_dataset_summary(examples, settings["view_data_batch_size"], self.prompt_model))

        self.use_dataset_summary = True
        self.data_summary = requests.attempt(summarize) or "Not available."
        self.data_summary += build_labels_brief(labels) + _GENERAL_RULES

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
                text: str = request(predictor=predictor, demo_set_i=demo_set_i, **settings)
            if not text.strip() or (self._max_chars is not None and len(text) > self._max_chars):
                raise ValueError(f"the proposed instruction has {len(text)} characters; allowed are {self._max_chars}")
            return text

        text = self._requests.attempt(draft)
        return present if text is None else text


def _show_inputs(sample: Sample) -> dspy.Example:
    """Return what the system gets of a question."""
    inputs = dict(sample.inputs) or {"question": sample.question}
    return dspy.Example(**{name: text[:_MAX_INPUT_CHARS] for name, text in inputs.items()}).with_inputs(*inputs)
