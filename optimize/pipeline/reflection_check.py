"""Whether the reflection model's replies can be read, tried before a search depends on it.

A model that does not keep to the form that DSPy's proposer asks for makes GEPA spend its budget without one proposal,
and without a word. So one prompt is rewritten just as the search does it (`optimize.search.optimizers.rewriting`),
after an
invented example; no question of the data is shown.

    check_reflection(lm)      # "Report the number of crates …"; ReflectionUnparsableError if it fails twice
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mas.prompt_sets.prompt_set import PromptSet
from optimize.session.termination import EarlyVerdictError

TRIES = 2
AGENT = "clerk"
PROMPTS = PromptSet("example", "example", {AGENT: "Read the note and report how many crates it speaks of."}, Path())
EXAMPLES: Sequence[Mapping[str, Any]] = (
    {
        "Inputs": {"note": "Of the blue crates, four came on Monday and one went back."},
        "Generated Outputs": {"crates": "I think it is about four crates, perhaps more."},
        "Feedback": "Not what was asked for: reply with one whole number, and take off what went back.",
    },
    {
        "Inputs": {"note": "Two crates are on the cart."},
        "Generated Outputs": {"crates": "2"},
        "Feedback": "This is fine.",
    },
)


class ReflectionUnparsableError(EarlyVerdictError):
    """None of the replies could be read."""

    def __init__(self, sentence: str) -> None:
        super().__init__("reflection_unparsable", sentence)


def check_reflection(lm: Any) -> str:
    """The rewritten prompt of the invented example.

    Args:
        lm: the `dspy.LM` that rewrites prompts. At most `TRIES` proposals are asked for, each in one request, or in two
            where DSPy asks anew in another format.

    Raises:
        ReflectionUnparsableError: no proposal could be read.
        LMError: the model could not be asked.
        LimitReachedError: the budget does not allow it; maybe as the cause of another error.
    """
    from dspy.utils.exceptions import AdapterParseError

    from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError

    causes = []
    for samples in (EXAMPLES, EXAMPLES[::-1]):  # another request: the same may have the same reply
        try:
            return _proposal(lm, samples)
        except (AdapterParseError, EmptyReplyError, RefusedReplyError, TruncatedReplyError, ValueError) as error:
            causes.append(f"{type(error).__name__}: {error}".split("\n")[0][:200])
    raise ReflectionUnparsableError(
        f"the reflection model's reply to an invented example could not be read, {TRIES} times ({causes[-1]}); choose "
        "another reflection_model, or give it more model.max_tokens"
    )


def _proposal(lm: Any, samples: Sequence[Mapping[str, Any]]) -> str:
    import dspy
    from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer

    from optimize.search.optimizers.rewriting import PromptRewriter

    rewriting = PromptRewriter(PROMPTS, over=lambda: None, max_chars=None)
    with dspy.context(lm=lm):  # the search's own proposer, but what goes wrong is raised
        texts = InstructionProposer.__call__(rewriting, PROMPTS.texts, {AGENT: samples}, [AGENT])
    return str(texts[AGENT])
