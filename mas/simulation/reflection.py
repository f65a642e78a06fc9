"""Simulated reflection model: reads feedback on a prompt and proposes a changed prompt, half of the time a poor one.

It sees the request alone: the current instructions, examples and feedback. It knows the prompt formats of GEPA (an
answer between ``` marks) and of DSPy's proposers (fields), and sometimes gets them wrong. It does not know, and must
not import, how the task model reacts to a clause.

Where it diagnoses, it finds out what the feedback on an agent complains of, and mostly writes a clause that fits.
Feedback without anything that it knows (none, or words in disorder) leads to a clause at random: helpful or not.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import yaml
from dspy.lm15 import Request, Response, TextPart

from mas.simulation.chat import create_response, join_system
from mas.simulation.worlds import Rules, parse_world


class _Subject(TypedDict):
    cues: list[str]
    clauses: list[str]
    contrary: str


_CLAUSES = yaml.safe_load(Path(__file__).with_name("reflection_clauses.yaml").read_text(encoding="utf-8"))
CUES: dict[str, str] = _CLAUSES["cues"]
HELPFUL: dict[str, list[str]] = _CLAUSES["helpful"]
USELESS: list[str] = _CLAUSES["useless"]
HARMFUL: list[str] = _CLAUSES["harmful"]
PARTS: dict[str, dict[str, Any]] = _CLAUSES["parts"]
SUBJECTS: dict[str, _Subject] = yaml.safe_load(
    Path(__file__).with_name("diagnosis_clauses.yaml").read_text(encoding="utf-8")
)
_ANY_CLAUSE = [*(clause for subject in SUBJECTS.values() for clause in subject["clauses"]), *USELESS, *HARMFUL]
_OF_PART = 0.7  # chance that a clause is about a part that feedback calls wrong and the prompt may be responsible for
_USES_FEEDBACK = 0.8  # chance, if a diagnosis names a subject
_FORGETS, _REPEATS, _WRONG_FORMAT = 0.10, 0.08, 0.06  # chances of its own mistakes, drawn once per request
_NOT_CONCERNED = re.compile(
    r"nothing in this agent's part has to change|this agent's part was fine|fault lay elsewhere"
)
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?", re.MULTILINE)
_OUTPUT = re.compile(r"Your output fields are:\s*(.*?)(?:All interactions|\Z)", re.DOTALL)
_FEEDBACK = re.compile(r"(?:^#+ Feedback\s*\n|['\"]Feedback['\"]: ['\"]?|^\s*Feedback: )(.+?)"
                       r"(?=\n#|\n+```|['\"]\s*[},]|\Z)", re.MULTILINE | re.DOTALL)  # fmt: skip
_LABELS = re.compile(r"one of these labels: (.+?)\. They are no secret", re.DOTALL)
_EXPECTED_ANSWER = re.compile(
    r"(?:expected|correct answer|gold|should (?:have been|be)|right answer)"
    r"[^'\"\n:]{0,30}[:'\"]\s*['\"]?((?:[^'\"\n.;]|(?<=\d)\.(?=\d)){1,80})",
    re.IGNORECASE,
)


class Draws:
    """Random numbers that depend on a key (model name, seed and request) alone."""

    def __init__(self, key: str) -> None:
        self._key = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=16).digest()

    def draw(self, what: str) -> float:
        """Return a number from 0 to 1, uniformly distributed."""
        return int.from_bytes(hashlib.blake2b(what.encode(), key=self._key, digest_size=8).digest(), "big") / 2**64

    def choose(self, what: str, options: Sequence[str]) -> str:
        return options[int(self.draw(what) * len(options))]

    def shuffle_words(self, text: str) -> str:
        words = list(enumerate(text.split()))
        return " ".join(word for number, word in sorted(words, key=lambda each: self.draw(f"word {each[0]}")))


@dataclass(frozen=True)
class Brief:
    """The parts of a request that a proposal is made from."""

    instruction: str  # the current prompt
    feedback: str
    fields: tuple[str, ...]  # names of the output fields; empty: a text between ``` marks
    as_json: bool
    labels: str = ""  # that the request lists as the possible answers


def propose_prompt(request: Request) -> Response:
    """Return the reply to a request for a better instruction; never fails."""
    text = "\n\n".join([join_system(request), *(message.text or "" for message in request.messages)]).strip()
    draws = Draws(f"{request.model}\n{request.config.seed}\n{text}")
    brief = parse_brief(text)
    instruction = _change_instruction(brief, parse_world(request.model).rules, draws)
    return create_response(request.model, text, [TextPart(_format_reply(brief, instruction, draws))])


def parse_brief(text: str) -> Brief:
    """Parse the current instruction and the feedback, from GEPA's own prompt or a DSPy signature."""
    sections = _SECTION.split(text)
    fields: dict[str, str] = {}
    for name, value in zip(sections[1::2], sections[2::2], strict=True):
        fields[name] = value.strip()  # the last one wins: the system message shows the layout first
    outputs = _OUTPUT.search(text)
    names = tuple(re.findall(r"^\d+\. `(\w+)`", outputs[1], re.MULTILINE)) if outputs else ()
    quoted = re.findall(r"```[^\n]*\n(.*?)\n?```", text, re.DOTALL)
    inputs = {name: value for name, value in fields.items() if name not in names and name != "completed"}
    instruction = next((value for name, value in inputs.items() if "instruction" in name or name == "prompt"), "")
    if not names and quoted:
        instruction = quoted[0]
    material = "\n".join(_FEEDBACK.findall(text)) or "\n".join(quoted[1:]) or "\n".join(inputs.values())
    labels = _LABELS.search(text)
    return Brief(
        _remove_reminder(instruction),
        material,
        names,
        "JSON object" in text,
        labels[1].replace('"', "") if labels else "",
    )


def _remove_reminder(text: str) -> str:
    return re.split(r"^Respond with ", text, flags=re.MULTILINE)[0].strip()


def _change_instruction(brief: Brief, rules: Rules, draws: Draws) -> str:
    """Return the instruction with one or two more clauses, and sometimes one less."""
    lines = [line for line in brief.instruction.splitlines() if line.strip()]
    if len(lines) > 1 and draws.draw("forgets") < _FORGETS:
        lines.pop(1 + int(draws.draw("which") * (len(lines) - 1)))
    if lines and draws.draw("repeats") < _REPEATS:
        lines.append(lines[-1])
    if rules.shuffles:
        brief = replace(brief, feedback=draws.shuffle_words(brief.feedback))
    if rules.diagnoses:
        lines = _remove_contrary(lines, brief.feedback, draws)
    for place in range(1 + (draws.draw("how many") < 0.5)):
        choose = _diagnose if rules.diagnoses else _choose_clause
        clause = choose(brief, rules, draws, place)
        if clause not in lines:
            lines.append(clause)
    named = f"Answer with exactly one of these labels: {brief.labels}."
    if brief.labels and named not in lines and draws.draw("names the labels") < rules.helps:
        lines.append(named)
    if rules.copies_answers:
        lines += _copy_answers(brief.feedback)
    return "\n".join(lines)


def _choose_clause(brief: Brief, rules: Rules, draws: Draws, place: int) -> str:
    helps = draws.draw(f"helps {place}") < rules.helps
    harms = draws.draw(f"harms {place}") < rules.harms
    parts = [name for name, part in PARTS.items() if _is_responsible(brief, part)]
    if parts and draws.draw(f"of a part {place}") < _OF_PART and (helps or harms):
        part = PARTS[draws.choose(f"part {place}", parts)]
        return draws.choose(f"clause {place}", part["helpful" if helps else "harmful"])
    if helps:
        return draws.choose(f"clause {place}", HELPFUL[_choose_subject(brief.feedback, draws, place)])
    return draws.choose(f"clause {place}", HARMFUL if harms else USELESS)


def _diagnose(brief: Brief, rules: Rules, draws: Draws, place: int) -> str:
    found = _find_subjects(brief.feedback)
    if found and draws.draw(f"uses feedback {place}") < _USES_FEEDBACK:
        subject = draws.choose(f"subject {place}", list(found.elements()))
        return draws.choose(f"clause {place}", SUBJECTS[subject]["clauses"])
    return draws.choose(f"any clause {place}", _ANY_CLAUSE)


def _remove_contrary(lines: Sequence[str], feedback: str, draws: Draws) -> list[str]:
    """Return a prompt's lines without the first one that says the opposite of what the feedback calls for."""
    if draws.draw("takes out") < _USES_FEEDBACK:
        for subject in _find_subjects(feedback):
            contrary = re.compile(SUBJECTS[subject]["contrary"], re.IGNORECASE)
            if found := next((line for line in lines[1:] if contrary.search(line)), None):
                return [line for line in lines if line != found]
    return list(lines)


def _find_subjects(feedback: str) -> Counter[str]:
    """Count, by subject, the remarks that name it; remarks that do not concern the agent name none."""
    remarks = [each for each in feedback.lower().splitlines() if not _NOT_CONCERNED.search(each)]
    counts = {
        subject: sum(any(re.search(cue, each) for cue in about["cues"]) for each in remarks)
        for subject, about in SUBJECTS.items()
    }
    return Counter({subject: count for subject, count in counts.items() if count})


def _is_responsible(brief: Brief, part: Mapping[str, str]) -> bool:
    return bool(re.search(part["feedback"], brief.feedback) and re.search(part["prompt"], brief.instruction))


def _choose_subject(feedback: str, draws: Draws, place: int) -> str:
    """Return a subject that the feedback mentions; frequent ones are more likely."""
    lowered = feedback.lower()
    counts = [(subject, len(re.findall(cue, lowered))) for subject, cue in CUES.items()]
    total = sum(count for _, count in counts)
    if not total:
        return draws.choose(f"subject {place}", list(CUES))
    point = draws.draw(f"subject {place}") * total
    for subject, count in counts:
        point -= count
        if point < 0:
            return subject
    return counts[-1][0]


def _copy_answers(feedback: str) -> list[str]:
    """Return the expected answers in the feedback as instructions: the leaky world's mistake."""
    answers = list(dict.fromkeys(text.strip() for text in _EXPECTED_ANSWER.findall(feedback)))[:3]
    first = next((line.strip() for line in feedback.splitlines() if line.strip()), "")
    return [f"Remember this from earlier cases: {text}." for text in answers or [first[:120]] if text]


def _format_reply(brief: Brief, instruction: str, draws: Draws) -> str:
    if draws.draw("format") < _WRONG_FORMAT:
        return f"Here is what I would change. {instruction.splitlines()[-1] if instruction else ''}"
    if not brief.fields:
        return f"```\n{instruction}\n```"
    values = {
        name: instruction if "instruction" in name or name == brief.fields[-1] else "See below."
        for name in brief.fields
    }
    if brief.as_json:
        return json.dumps(values, ensure_ascii=False)
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in {**values, "completed": ""}.items())
