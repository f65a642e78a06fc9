"""Feedback for an optimizer on one agent's part in one answer, in words and without the target.

It says whether the answer was right, which kind was expected, where it first went wrong, and what happened to this
agent: unreadable replies, failed tools, mistaken decisions of a critic. A remark with which the text would contain the
target, an element or a number of it, in any form and even by coincidence, is left out. (Masking it would reveal what it
was.) A label (`eval.scorers.labels`) is named.
"""

import re
from calendar import month_abbr, month_name
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from eval.analysis.attribution.agent_attribution import RETRY_LIMIT, attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps, Attribution, Step, is_own_program
from eval.analysis.attribution.target_matcher import NUMBER_WORDS, LabelMatcher, TargetMatcher, split_elements
from eval.execution.scoring import SCORER
from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from eval.scorers.numeric import parse_quantity

Kind = Literal["label", "number", "list", "date", "decision", "word", "words", "text"]

_MONTH = rf"(?:{'|'.join([*month_name[1:], *month_abbr[1:], 'sept'])})\b\.?"
_DATE = re.compile(
    rf"\d+([-/.])\d+\1\d+|(?:\d+(?:st|nd|rd|th)? (?:of )?)?{_MONTH}(?: \d+(?:st|nd|rd|th)?)?(?:,? \d{{4}})?", re.I
)
_DECISION = re.compile(r"(?:yes|no|true|false)\b", re.IGNORECASE)
_LIST = re.compile("[,;]")
_THOUSANDS = re.compile(r"\d[ ,'\u2019\u00a0]\d{3}(?!\d)")
_DECIMALS = re.compile(r"(\w+)[ -]decimals?\b|(\w+) (?:decimal places?|places after)", re.IGNORECASE)
_NEAREST = {"tenth": 1, "hundredth": 2, "thousandth": 3, "integer": 0, "whole": 0, "unit": 0}
_ORDERED = re.compile(r"order|alphabetic|sorted|rank|ascending|descending|chronological|\bfrom the\b", re.IGNORECASE)
_MARKUP = re.compile(r"[*`_]{2}|`|^[\"'\u201c\u2018].*[\"'\u201d\u2019]$|\\boxed|^[\[({].*[\])}]$", re.DOTALL)
_FEW, _PROSE = 5, 3  # words of a short answer; words beyond the expected ones that make a sentence of it
_KINDS: dict[Kind, str] = {
    "date": "a date",
    "decision": "a plain decision between two possibilities",
    "word": "a single word or name",
    "words": "a few words",
    "text": "a text of some length",
}
MAX_QUOTED_CHARS = 300  # of a message of an error or of the scorer
MAX_OWN_CHARS = 4_000  # of the feedback of the user's own metric
MAX_FAILURES = 3  # of a kind, reported to one agent
NOT_ASKED = "The question was not asked."
_EXPECTED_FIELDS = re.compile(r"Expected to find output fields in the LM response: \[([^\]]*)\]")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_HOLDS_REPLY = re.compile(r"LM response|input_value|AdapterParseError", re.IGNORECASE)
_PROSE_AROUND = "Prose stood around the answer, where the bare answer was expected."


@dataclass(frozen=True)
class Expectation:
    """The target of a question and its kind."""

    matcher: TargetMatcher
    question: str
    kind: Kind

    @classmethod
    def of(cls, target: str, question: str, labels: LabelSet | None = None) -> "Expectation":
        if labels is not None and (label := labels.find(target)) is not None:
            return cls(LabelMatcher(label, labels), question, "label")
        return cls(TargetMatcher(target), question, classify_answer(target))

    def describe(self) -> str:
        """Return a sentence about the expected kind of answer."""
        if self.kind == "label":
            return f"The expected label was {self.matcher.text!r}."
        if self.kind == "number":
            decimals, right = self.decimals_asked, parse_quantity(self.matcher.text)
            is_whole = right and right.value == right.value.to_integral_value() if decimals is None else decimals == 0
            form = "a whole number" if is_whole else "a decimal number"
            if decimals:
                form = f"a number with {_spell(decimals)} decimals"
            return f"Expected was {form}, {'with its unit' if right and right.unit else 'without a unit'}."
        if self.kind == "list":
            in_order = ", in the order that the question asks for" if _ORDERED.search(self.question) else ""
            return f"Expected was a list of {_spell(len(self.matcher.items))} items{in_order}, separated by commas."
        return f"Expected was {_KINDS[self.kind]}, with nothing around it."

    @property
    def decimals_asked(self) -> int | None:
        """Digits after the decimal point that the question asks for; None if it does not say."""
        if found := _DECIMALS.search(self.question):
            word = (found[1] or found[2]).lower()
            return int(word) if word.isdecimal() else NUMBER_WORDS.index(word) if word in NUMBER_WORDS else None
        asked = self.question.lower()
        return next((digits for word, digits in _NEAREST.items() if f"nearest {word}" in asked), None)

    def find_faults(self, answer: str | None) -> list[str]:
        """Return the faults in form."""
        said, target = (answer or "").strip(), self.matcher.text
        if not said:
            return ["There was no answer."]
        number, right, faults = parse_quantity(said), parse_quantity(target), dict[str, object]()
        if self.kind == "number":
            asked, n_numbers = self.decimals_asked, 0 if number else len(re.findall(r"\d[\d., ]*", said))
            has_more_digits = number and asked is not None and -int(number.value.as_tuple().exponent) > asked
            has_unit, needs_unit = bool(number and number.unit), bool(right and right.unit)
            faults = {
                "The answer held several numbers, where a single bare number was expected.": n_numbers > 1,
                _PROSE_AROUND: n_numbers == 1,
                "Words stood where a number was expected.": not number and not n_numbers,
                "A unit or currency sign stood beside the number.": has_unit and not needs_unit,
                "The unit was missing.": number and needs_unit and not has_unit,
                "The rounding was wrong: another number of decimals than asked for.": has_more_digits
                or self.matcher.is_rounded(said),
                "The number had thousands separators.": _THOUSANDS.search(said) and not _THOUSANDS.search(target),
            }
        elif self.kind == "list":
            longest = max((len(item.split()) for item in self.matcher.items), default=1)
            faults = {
                "The number of items was not the expected one.": len(split_elements(said)) != len(self.matcher.items),
                "The list had other separators than commas, such as `and` or line breaks.": (
                    re.search(r"\band\b|&|\n", said) and not re.search(r"\band\b|&", target)
                ),
                "The items were right, but the list order was wrong.": self.matcher.is_reordered(said),
                _PROSE_AROUND: any(len(item.split()) > longest + _PROSE for item in _LIST.split(said)),
            }
        elif self.kind != "text":
            is_number = number is not None and self.kind != "label"
            is_long = len(said.split()) >= len(target.split()) + _PROSE
            faults = {"The answer was a number.": is_number, _PROSE_AROUND: is_long and not is_number}
        faults["The answer had quotation marks, brackets or other markup around it."] = _MARKUP.search(said)
        return [fault for fault, is_there in faults.items() if is_there]


def classify_answer(text: str) -> Kind:
    text = text.strip()
    if parse_quantity(text) is not None:
        return "number"
    if _DATE.fullmatch(text):
        return "date"
    if _DECISION.fullmatch(text):
        return "decision"
    if _LIST.search(text):
        return "list"
    words = len(text.split())
    return "word" if words == 1 else "words" if words <= _FEW else "text"


def _spell(number: int) -> str:
    return NUMBER_WORDS[number] if number < len(NUMBER_WORDS) else str(number)


def build_feedback(agent: str, record: Record, expectation: Expectation) -> str:
    """Return the feedback for an agent, by the name of its predictor."""
    agent_steps = AgentSteps.of(record)
    attribution = attribute_failure(record, agent_steps, expectation.matcher)
    part = _Part(agent, record, expectation, agent_steps, attribution)
    return join_unquoted(part.list_remarks(), expectation.matcher)


def join_unquoted(pieces: Iterable[str], matcher: TargetMatcher, separator: str = " ") -> str:
    """Join the pieces, without each with which the text would quote the target.

    The whole text is checked, because the end of one sentence and the beginning of the next may quote it together.
    """
    text = ""
    for piece in pieces:
        longer = f"{text}{separator}{piece}" if text else piece
        if not matcher.is_quoted_in(longer):
            text = longer
    return text


def remove_quotes(text: str, matcher: TargetMatcher) -> str:
    """Return the feedback of the user's own metric without the sentences that quote the target, in any form.

    A line without such a sentence stays as it is.
    """
    lines = []
    for line in text[:MAX_OWN_CHARS].splitlines():
        rest = join_unquoted(_SENTENCE.split(line), matcher) if matcher.is_quoted_in(line) else line
        if rest or not line:
            lines.append(rest)
    return join_unquoted(lines, matcher, separator="\n").strip()


@dataclass(frozen=True)
class _Part:
    """One agent's part in an answer."""

    agent: str
    record: Record
    expectation: Expectation
    steps: AgentSteps
    attribution: Attribution

    def list_remarks(self) -> Iterator[str]:
        record, happened = self.record, list(self._about_agent())
        yield self._verdict()
        if record.correct:
            fine = "Nothing in this agent's part has to change."
            yield "Its way there had faults all the same." if happened else fine
            yield from happened
            return
        if record.error_class != SCORER:
            yield self.expectation.describe()
        differences = list(self._about_answer()) if record.error is None else []
        yield from differences
        own_program = is_own_program(record)
        if own_program and record.explanation:
            yield self._explain()
        yield from self._about_blame(own_program or bool(happened or differences))
        yield from happened

    def _verdict(self) -> str:
        record = self.record
        if record.error_class == SCORER:
            return "The answer could not be scored."
        if record.error is not None:
            cause = _sanitize(record.error)
            is_secret = self.expectation.matcher.is_quoted_in(cause)
            return f"The question failed without an answer{'.' if is_secret else f': {cause}'}"
        if record.correct:
            return "The final answer was right."
        if record.score:
            parts = ", ".join(f"{name} {value:g}" for name, value in record.parts.items())
            return f"The final answer was partly right{f' (parts of the score: {parts})' if parts else ''}."
        return "The final answer was wrong."

    def _about_answer(self) -> Iterator[str]:
        """Yield faults in form for the finisher, and all differences for the responsible agent."""
        answer, faults, finish = self.record.answer or "", list[str](), self.steps.finish
        is_concerned = self.attribution.agent in (None, self.agent)
        if is_concerned or (finish and finish.agent == self.agent):
            faults = self.expectation.find_faults(answer)
        yield from faults
        if not is_concerned:
            return
        if self.expectation.matcher.is_contained_in(answer):  # at most prose, unit, separators, rounding, order
            yield "What it said was right; only its form was wrong."
            if faults:
                return
        elif answer.strip():
            kind = "It was the right kind of answer, but not the right value."
            yield "Nor was its content right." if faults else kind
        if self.record.explanation and not is_own_program(self.record):
            yield self._explain()

    def _explain(self) -> str:
        return f"The scorer explains: {_cut(self.record.explanation)}"

    def _about_blame(self, has_faults: bool) -> Iterator[str]:
        blamed = self.attribution.agent
        if blamed == self.agent:
            yield "It first went wrong with this agent."
            yield self.attribution.reason
        elif blamed is not None:
            fine = "" if has_faults else ", and this agent's part was fine as far as can be told"
            yield f"It first went wrong with another agent, {blamed}{fine}."
        else:
            yield "Where it went wrong cannot be told."

    def _about_agent(self) -> Iterator[str]:
        """Yield what happened to the agent itself, whoever is responsible."""
        record, known = self.record, _sanitize(self.record.error or "")
        reasons = dict.fromkeys(_sanitize(reason) for name, reason in self.steps.unusable if name == self.agent)
        for reason in [each for each in reasons if each != known][:MAX_FAILURES]:
            yield f"A reply of this agent could not be used: {reason}"
        tools = [tool for step in self.steps.select_agent(self.agent) for tool in step.tools if tool.error]
        for name, error in list(dict.fromkeys((tool.name, tool.error) for tool in tools))[:MAX_FAILURES]:
            yield f"A call of the tool {name} failed: {_sanitize(error or '')}"
        reviews = list(self.steps.pair_reviews(self.agent))
        if not is_own_program(record):  # a field named `decision` makes no critic of a user's predictor
            yield from dict.fromkeys(remark for review in reviews if (remark := self._judge_review(*review)))
        limit = record.limit or ""
        worker, is_given_up = limit.removeprefix(RETRY_LIMIT), limit.startswith(RETRY_LIMIT) and not record.correct
        if is_given_up and any(critic.rejects and judged.agent == worker for critic, judged in reviews):
            yield f"It rejected the work of {worker} until the retry limit was reached and the question was given up."

    def _judge_review(self, critic: Step, judged: Step) -> str | None:
        """Return a miss or a false alarm: drafts are judged by the target, other work by the attribution."""
        is_draft = judged in self.steps.drafts
        right = is_draft and self.expectation.matcher.is_contained_in(judged.answer)
        is_blamed = judged.agent == self.attribution.agent and self.record.error is None
        wrong = not right if is_draft else is_blamed
        if critic.rejects and right:
            return "As a critic, this agent rejected a draft whose content was right: a false alarm."
        if wrong and not critic.rejects and not self.record.correct:
            return "As a critic, this agent approved work that was wrong: a miss; the fault could have been found here."
        is_hit = critic.rejects and is_draft
        return "As a critic, this agent rejected a draft that was indeed wrong." if is_hit else None


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
