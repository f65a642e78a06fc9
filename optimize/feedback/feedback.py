"""Feedback for an optimizer on one agent's part in one answer, in words and without the target.

It says whether the answer was right, which kind was expected, where it first went wrong, and what happened to this
agent: unreadable replies, failed tools, mistaken decisions of a critic. Every remark is a tuple of wordings, from the
most specific to the vaguest: the first that does not contain the target, an element or a number of it, in any form and
even by coincidence, is used. (Masking it would reveal what it was.) A label (`eval.scorers.labels`) is named.

    expectation = Expectation.of("88450.42", "Express it in centimetres, rounded to two decimals, without the unit.")
    expectation.wordings[0]               # "Expected was a number with two decimals, without a unit."
    expectation.find_faults("88450.4187 cm")   # a unit next to the number; not rounded as asked
    build_feedback("expert", record, expectation)      # "The final answer was wrong. Expected was a number with …"
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from eval.analysis.attribution.agent_attribution import RETRY_LIMIT, attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps, Attribution, Step, is_own_program
from eval.analysis.attribution.label_matcher import LabelMatcher
from eval.analysis.attribution.target_matcher import NUMBER_WORDS, Remark, TargetMatcher, split_elements
from eval.execution.scoring import SCORER
from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from eval.scorers.numeric import parse_quantity

Kind = Literal["label", "number", "list", "date", "decision", "word", "words", "text"]

_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}"
    rf"|(?:{_DAY} (?:of )?)?{_MONTH}(?:,? \d{{4}})?|{_MONTH} {_DAY}(?:,? \d{{4}})?",
    re.IGNORECASE,
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
_PROSE_REMARK: Remark = (
    "Prose stood around the answer, where the bare answer was expected.",
    "There were words around it that do not belong to it.",
)
_FALSE_ALARM: Remark = (
    "As a critic, this agent rejected a draft whose content was right: a false alarm.",
    "It rejected what should have been approved.",
)
_MISS: Remark = (
    "As a critic, this agent approved work that was wrong: a miss; the fault could have been found here.",
    "It approved what should have been rejected.",
)
_HIT: Remark = ("As a critic, this agent rejected a draft that was indeed wrong.", "Its rejection was justified.")


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

    @property
    def wordings(self) -> Remark:
        """A sentence about the expected kind of answer."""
        if self.kind == "label":
            return (f"The expected label was {self.matcher.text!r}.",)
        if self.kind == "number":
            return (f"Expected was {self._describe_number()}.", "Expected was a number.")
        if self.kind == "list":
            of_what = f" of {_spell(len(self.matcher.items))} items"
            in_order = ", in the order that the question asks for" if _ORDERED.search(self.question) else ""
            return (
                f"Expected was a list{of_what}{in_order}, separated by commas.",
                f"Expected was a list{in_order}, separated by commas.",
            )
        return (f"Expected was {_KINDS[self.kind]}, with nothing around it.", f"Expected was {_KINDS[self.kind]}.")

    def _describe_number(self) -> str:
        decimals, right = self.decimals_asked, parse_quantity(self.matcher.text)
        is_whole = decimals == 0 if decimals is not None else right and right.value == right.value.to_integral_value()
        form = "a whole number" if is_whole else "a decimal number"
        if decimals:
            form = f"a number with {_spell(decimals)} decimals"
        return f"{form}, {'with its unit' if right and right.unit else 'without a unit'}"

    @property
    def decimals_asked(self) -> int | None:
        """Digits after the decimal point that the question asks for; None if it does not say."""
        if found := _DECIMALS.search(self.question):
            word = (found[1] or found[2]).lower()
            return int(word) if word.isdecimal() else NUMBER_WORDS.index(word) if word in NUMBER_WORDS else None
        asked = self.question.lower()
        return next((digits for word, digits in _NEAREST.items() if f"nearest {word}" in asked), None)

    def find_faults(self, answer: str | None) -> list[Remark]:
        """Return the faults in form."""
        said = (answer or "").strip()
        if not said:
            return [("There was no answer.", "The answer was missing.")]
        by_kind = {"label": self._label_faults, "number": self._number_faults, "list": self._list_faults}
        found = list(by_kind.get(self.kind, self._text_faults)(said))
        if _MARKUP.search(said):
            found.append(("The answer had quotation marks, brackets or other markup around it.",))
        return found

    def _label_faults(self, said: str) -> Iterator[Remark]:
        named = self.matcher.find_names(said) if isinstance(self.matcher, LabelMatcher) else set()
        if len(named) != 1 and not self.matcher.matches(said):
            yield ("The answer named several labels." if named else "The answer was none of the labels.",)
        elif len(said.split()) >= len(self.matcher.text.split()) + _PROSE:
            yield _PROSE_REMARK

    def _number_faults(self, said: str) -> Iterator[Remark]:
        number, right, asked = parse_quantity(said), parse_quantity(self.matcher.text), self.decimals_asked
        if number is None:
            n_numbers = len(re.findall(r"\d[\d., ]*", said))
            if not n_numbers:
                yield ("Words stood where a number was expected.", "The answer was not numeric.")
            elif n_numbers > 1:
                yield ("The answer held several numbers, where a single bare number was expected.",)
            else:
                yield _PROSE_REMARK
        else:
            if right and number.unit and not right.unit:
                yield ("A unit or currency sign stood beside the number.", "There was more than the bare number.")
            if right and right.unit and not number.unit:
                yield ("The unit was missing.",)
            has_more_digits = asked is not None and -int(number.value.as_tuple().exponent) > asked
            if has_more_digits or self.matcher.is_rounded(said):
                yield ("The rounding was wrong: another number of decimals than asked for.", "The rounding was wrong.")
        if _THOUSANDS.search(said) and not _THOUSANDS.search(self.matcher.text):
            yield ("The number had thousands separators.", "The digits were written in groups.")

    def _list_faults(self, said: str) -> Iterator[Remark]:
        if len(split_elements(said)) != len(self.matcher.items):
            yield ("The number of items was not the expected one.", "The count was wrong.")
        if re.search(r"\band\b|&|\n", said) and not re.search(r"\band\b|&", self.matcher.text):
            yield ("The list had other separators than commas, such as `and` or line breaks.", "The separators differ.")
        if self.matcher.is_reordered(said):
            yield ("The items were right, but the list order was wrong.", "The sequence was wrong.")
        longest = max((len(item.split()) for item in self.matcher.items), default=1)
        if any(len(item.split()) > longest + _PROSE for item in _LIST.split(said)):
            yield _PROSE_REMARK

    def _text_faults(self, said: str) -> Iterator[Remark]:
        words, expected = len(said.split()), len(self.matcher.text.split())
        if self.kind != "text" and parse_quantity(said) is not None:
            yield ("The answer was a number.", "The answer was numeric.")
        elif self.kind != "text" and words >= expected + _PROSE:
            yield _PROSE_REMARK
        elif self.kind in ("word", "words") and _LIST.search(said):
            yield ("The answer was a list.", "The answer had several elements.")
        elif self.kind in ("word", "words") and words != expected and (words == 1 or expected == 1):
            yield ("The answer had another number of words than expected.", "The length differs.")
        if self.kind == "date" and classify_answer(said) != "date":
            yield ("The answer was not a date.", "The answer was of another kind.")
        if self.kind == "decision" and not _DECISION.match(said):
            yield ("The answer was not a plain decision.", "The answer was of another kind.")


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


def join_unquoted(remarks: Iterable[Remark], matcher: TargetMatcher) -> str:
    """Join the first wording of each remark that does not quote the target.

    The whole text is checked, because the end of one sentence and the beginning of the next may quote it together.
    """
    text = ""
    for remark in remarks:
        longer = (f"{text} {wording}".strip() for wording in remark)
        text = next((each for each in longer if not matcher.is_quoted_in(each)), text)
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
            failed = "The question failed without an answer"
            return (f"{failed}: {_sanitize(record.error)}", f"{failed}.")
        if record.correct:
            return ("The final answer was right.", "Solved.")
        if record.score:
            parts = ", ".join(f"{name} {value:g}" for name, value in record.parts.items())
            by_parts = f" (parts of the score: {parts})" if parts else ""
            return (f"The final answer was partly right{by_parts}.", "It was partly right.")
        return ("The final answer was wrong.", "Unsolved.")

    def _about_answer(self) -> Iterator[Remark]:
        """Yield faults in form for the finisher, and all differences for the responsible agent."""
        answer, faults, finish = self.record.answer or "", list[Remark](), self.steps.finish
        is_concerned = self.attribution.agent in (None, self.agent)
        if is_concerned or (finish and finish.agent == self.agent):
            faults = self.expectation.find_faults(answer)
        yield from faults
        if not is_concerned:
            return
        if self.expectation.matcher.is_contained_in(answer):  # at most prose, unit, separators, rounding, order
            yield ("What it said was right; only its form was wrong.", "The content was fine, the form was not.")
            if faults:
                return
        elif answer.strip():
            kind = "It was the right kind of answer, but not the right value."
            yield ("Nor was its content right." if faults else kind, "The content was not right.")
        if self.record.explanation and not is_own_program(self.record):
            yield self._explain()

    def _explain(self) -> Remark:
        return (f"The scorer explains: {_cut(self.record.explanation)}",)

    def _about_blame(self, has_faults: bool) -> Iterator[Remark]:
        blamed = self.attribution.agent
        if blamed == self.agent:
            yield ("It first went wrong with this agent.", "This is where it went wrong.")
            yield (self.attribution.reason,)
        elif blamed is not None:
            fine = "" if has_faults else ", and this agent's part was fine as far as can be told"
            yield (f"It first went wrong with another agent, {blamed}{fine}.", f"It first went wrong elsewhere{fine}.")
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
            failed = f"A call of the tool {name} failed"
            yield (f"{failed}: {_sanitize(error or '')}", f"{failed}.", "A tool call failed.")
        reviews = list(self.steps.pair_reviews(self.agent))
        if not is_own_program(record):  # a field named `decision` makes no critic of a user's predictor
            yield from dict.fromkeys(remark for review in reviews if (remark := self._judge_review(*review)))
        limit = record.limit or ""
        worker, is_given_up = limit.removeprefix(RETRY_LIMIT), limit.startswith(RETRY_LIMIT) and not record.correct
        if is_given_up and any(critic.rejects and judged.agent == worker for critic, judged in reviews):
            yield (
                f"It rejected the work of {worker} until the retry limit was reached and the question was given up.",
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
