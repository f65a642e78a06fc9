"""Feedback for an optimizer on one agent's part in one answer, in words and without the target.

It says whether the answer was right, which kind was expected, where it first went wrong, and what happened to this
agent: unreadable replies, failed tools, mistaken decisions of a critic. Texts of the system or the question are not
quoted, because the optimizer sees them as well. Messages of errors and of the scorer are quoted, but a remark that
contains the target, an element or a number of it, in any form and even by coincidence, is replaced by a vaguer one or
left out. (Masking it would reveal what it was.)

    build_feedback("expert", record, Expectation.of(target, question))
    # "The final answer was wrong. Expected was a whole number, without a unit. …"
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eval.analysis.attribution.agent_attribution import RETRY_LIMIT, attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps, Attribution, Step, is_own_program
from eval.analysis.attribution.predictor_attribution import RightAnswers
from eval.analysis.attribution.target_matcher import Remark, TargetMatcher
from eval.execution.scoring import SCORER
from eval.runs.record import Record
from optimize.feedback.expectation import Expectation

MAX_QUOTED_CHARS = 300  # of a message of an error or of the scorer
MAX_OWN_CHARS = 4_000  # of the feedback of the user's own metric
MAX_FAILURES = 3  # of a kind, reported to one agent
_EXPECTED_FIELDS = re.compile(r"Expected to find output fields in the LM response: \[([^\]]*)\]")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_HOLDS_REPLY = re.compile(r"LM response|input_value|AdapterParseError", re.IGNORECASE)

NOT_ASKED = "The question was not asked."


def build_feedback(
    agent: str, record: Record, expectation: Expectation, right_answers: RightAnswers | None = None
) -> str:
    """Return the feedback for an agent, by the name of its predictor."""
    agent_steps = AgentSteps.of(record)
    attribution = attribute_failure(record, agent_steps, expectation.matcher, right_answers)
    part = _Part(agent, record, expectation, agent_steps, attribution)
    return join_unquoted(part.list_remarks(), expectation.matcher)


def join_unquoted(remarks: Iterable[Remark], matcher: TargetMatcher) -> str:
    """Join the first wording of each remark that does not quote the target.

    The whole text is checked, because the end of one sentence and the beginning of the next may quote it together.
    """
    text = ""
    for remark in remarks:
        for wording in remark:
            longer = f"{text} {wording}".strip()
            if not matcher.is_quoted_in(longer):
                text = longer
                break
    return text


def remove_quotes(text: str, matcher: TargetMatcher) -> str:
    """Return the feedback of the user's own metric without the sentences that quote the target, in any form.

    A line without such a sentence stays as it is.
    """
    kept = ""
    for line in text[:MAX_OWN_CHARS].splitlines():
        start = f"{kept}\n" if kept else ""
        if not matcher.is_quoted_in(start + line):
            kept = start + line
            continue
        rest = ""
        for sentence in _SENTENCE.split(line):
            longer = f"{rest} {sentence}".strip()
            if not matcher.is_quoted_in(start + longer):
                rest = longer
        kept = start + rest if rest else kept
    return kept.strip()


@dataclass(frozen=True)
class _Part:
    """One agent's part in an answer."""

    agent: str
    record: Record
    expectation: Expectation
    steps: AgentSteps
    attribution: Attribution

    def list_remarks(self) -> Iterator[Remark]:
        record, happened = self.record, list(self._about_agent())
        yield self._verdict()
        if record.correct:
            yield (
                "Its way there had faults all the same." if happened else "Nothing in this agent's part has to change.",
            )
            yield from happened
            return
        if record.error_class != SCORER:
            yield self.expectation.wordings
        differences = list(self._about_answer()) if record.error is None else []
        yield from differences
        own_program = is_own_program(record)
        if own_program and record.explanation:
            yield self._explain()
        yield from self._about_blame(own_program or bool(happened or differences))
        yield from happened

    def _verdict(self) -> Remark:
        record = self.record
        if record.error_class == SCORER:
            return ("The answer could not be scored.", "It was not scored.")
        if record.error is not None:
            return (
                f"The question failed without an answer: {_sanitize(record.error)}",
                "The question failed without an answer.",
                "It failed.",
            )
        if record.correct:
            return ("The final answer was right.", "The outcome was correct.", "Solved.")
        if record.score:
            parts = ", ".join(f"{name} {value:g}" for name, value in record.parts.items())
            by_parts = f" (parts of the score: {parts})" if parts else ""
            return (f"The final answer was partly right{by_parts}.", "It was partly right.", "In part correct.")
        return ("The final answer was wrong.", "The outcome was not correct.", "Unsolved.")

    def _about_answer(self) -> Iterator[Remark]:
        """Yield faults in form for the finisher, and all differences for the responsible agent."""
        answer, faults, finish = self.record.answer or "", list[Remark](), self.steps.finish
        is_concerned = self.attribution.agent in (None, self.agent)
        if is_concerned or (finish and finish.agent == self.agent):
            faults = self.expectation.find_faults(answer)
        yield from faults
        if not is_concerned:
            return
        if self.expectation.is_content_right(answer):
            yield ("What it said was right; only its form was wrong.", "The content was fine, the form was not.")
            if faults:
                return
        elif answer.strip():
            kind = "It was the right kind of answer, but not the right value."
            yield (
                "Nor was its content right." if faults else kind,
                "The content was not right.",
                "Its content was at fault.",
            )
        if self.record.explanation and not is_own_program(self.record):
            yield self._explain()

    def _explain(self) -> Remark:
        return (f"The scorer explains: {_cut(self.record.explanation)}",)

    def _about_blame(self, has_faults: bool) -> Iterator[Remark]:
        blamed = self.attribution.agent
        if blamed == self.agent:
            yield ("It first went wrong with this agent.", "This is where it went wrong.")
            yield self.attribution.reason
        elif blamed is not None:
            fine = "" if has_faults else ", and this agent's part was fine as far as can be told"
            yield (
                f"It first went wrong with another agent, {blamed}{fine}.",
                f"It first went wrong elsewhere{fine}.",
                "The fault lay elsewhere.",
            )
        else:
            yield ("Where it went wrong cannot be told.", "The cause is unknown.")

    def _about_agent(self) -> Iterator[Remark]:
        """Yield what happened to the agent itself, whoever is responsible."""
        record, known = self.record, _sanitize(self.record.error or "")
        reasons = dict.fromkeys(_sanitize(reason) for name, reason in self.steps.unusable if name == self.agent)
        for reason in [each for each in reasons if each != known][:MAX_FAILURES]:
            yield (f"A reply of this agent could not be used: {reason}", "A reply of this agent could not be used.")
        tools = [tool for step in self.steps.select_agent(self.agent) for tool in step.tools if tool.error]
        for name, error in list(dict.fromkeys((tool.name, tool.error) for tool in tools))[:MAX_FAILURES]:
            yield (
                f"A call of the tool {name} failed: {_sanitize(error or '')}",
                f"A call of the tool {name} failed.",
                "A tool call failed.",
            )
        reviews = list(self.steps.pair_reviews(self.agent))
        if not is_own_program(record):  # a field named `decision` makes no critic of a user's predictor
            yield from dict.fromkeys(remark for review in reviews if (remark := self._judge_review(*review)))
        if (record.limit or "").startswith(RETRY_LIMIT) and not record.correct:
            worker = (record.limit or "").removeprefix(RETRY_LIMIT)
            if any(critic.rejects and judged.agent == worker for critic, judged in reviews):
                yield (
                    f"It rejected the work of {worker} until the retry limit was reached and the question was given "
                    "up.",
                    "It rejected the work until the question was given up.",
                )

    def _judge_review(self, critic: Step, judged: Step) -> Remark | None:
        """Return a miss or a false alarm: drafts are judged by the target, other work by the attribution."""
        is_draft = judged in self.steps.drafts
        right = is_draft and self.expectation.matcher.is_contained_in(judged.answer)
        is_blamed = judged.agent == self.attribution.agent and self.record.error is None
        wrong = not right if is_draft else is_blamed
        if critic.rejects and right:
            return _FALSE_ALARM
        if wrong and not critic.rejects and not self.record.correct:
            return _MISS
        return _HIT if critic.rejects and wrong and is_draft else None


_FALSE_ALARM: Remark = (
    "As a critic, this agent rejected a draft whose content was right: a false alarm.",
    "It rejected what should have been approved.",
)
_MISS: Remark = (
    "As a critic, this agent approved work that was wrong: a miss; the fault could have been found here.",
    "It approved what should have been rejected.",
)
_HIT: Remark = ("As a critic, this agent rejected a draft that was indeed wrong.", "Its rejection was justified.")


def _sanitize(message: str) -> str:
    """Return an error message as one sentence, without any reply of the model."""
    if fields := _EXPECTED_FIELDS.search(message):
        return f"it could not be read; expected were the output fields {fields[1]}, each under its own name."
    if _HOLDS_REPLY.search(message):
        return "it could not be read in the form that was asked for."
    return _cut(message)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    line = line if len(line) <= MAX_QUOTED_CHARS else f"{line[:MAX_QUOTED_CHARS]}…"
    return line if line.endswith((".", "…", "!", "?")) else f"{line}."
