"""Simulated reflection model: proposes a changed prompt from feedback, half of the time a poor one.

It sees the request alone, in the formats of GEPA (an answer between ``` marks) and of DSPy's proposers (fields). Of the
skills it knows clauses and the complaints in feedback that name them; which help only scores can show.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml
from dspy.lm15 import Request, Response, TextPart

from mas.simulation.behaviour import SKILLS, Rules, draw_uniform, parse_world
from mas.simulation.chat import create_response, format_fields, join_system

T = TypeVar("T")
Draw = Callable[[str], float]  # purpose → a number from 0 to 1, the same for the same request

HELPFUL: dict[str, list[str]] = {skill: about["helps"] for skill, about in SKILLS.items()}
HARMFUL: list[str] = [clause for about in SKILLS.values() for clause in about["harms"]]
USELESS: list[str] = yaml.safe_load(Path(__file__).with_name("useless_clauses.yaml").read_text(encoding="utf-8"))
_FORGETS, _WRONG_FORMAT = 0.10, 0.06  # chances of its own mistakes, drawn once per request
_FINE = re.compile(r"nothing in this agent's part has to change|this agent's part was fine|fault lay elsewhere")
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


@dataclass(frozen=True)
class Brief:
    """The parts of a request that a proposal is made from."""

    instruction: str  # the current prompt
    feedback: str
    fields: Sequence[str]  # names of the output fields; empty: a text between ``` marks
    as_json: bool
    labels: str  # that the request lists as the possible answers


def propose_prompt(request: Request) -> Response:
    """Return the reply to a request for a better instruction; never fails."""
    text = "\n\n".join([join_system(request), *(message.text or "" for message in request.messages)]).strip()
    key = hashlib.blake2b(text.encode("utf-8", "replace")).hexdigest()

    def draw(what: str) -> float:
        return draw_uniform(f"{key}\n{request.model}\n{request.config.seed}\n{what}")

    brief = parse_brief(text)
    instruction = _change_instruction(brief, parse_world(request.model).rules, draw)
    return create_response(request, [TextPart(_format_reply(brief, instruction, draw("format")))])


def _choose(options: Sequence[T], share: float) -> T:
    return options[int(share * len(options))]


def parse_brief(text: str) -> Brief:
    """Parse the current instruction and the feedback, from GEPA's own prompt or a DSPy signature."""
    sections = _SECTION.split(text)
    # Of equal names the last one wins: the system message shows the layout first.
    fields = {name: value.strip() for name, value in zip(sections[1::2], sections[2::2], strict=True)}
    outputs = _OUTPUT.search(text)
    names = re.findall(r"^\d+\. `(\w+)`", outputs[1], re.MULTILINE) if outputs else []
    quoted = re.findall(r"```[^\n]*\n(.*?)\n?```", text, re.DOTALL)
    inputs = {name: value for name, value in fields.items() if name not in names and name != "completed"}
    instruction = next((value for name, value in inputs.items() if "instruction" in name or name == "prompt"), "")
    if not names and quoted:
        instruction = quoted[0]
    feedback = "\n".join(_FEEDBACK.findall(text)) or "\n".join(quoted[1:]) or "\n".join(inputs.values())
    labels = _LABELS.search(text)
    instruction = re.split(r"^Respond with ", instruction, flags=re.MULTILINE)[0].strip()
    return Brief(instruction, feedback, names, "JSON object" in text, labels[1].replace('"', "") if labels else "")


def _change_instruction(brief: Brief, rules: Rules, draw: Draw) -> str:
    """Return the instruction with one or two more clauses, and sometimes one less."""
    lines = [line for line in brief.instruction.splitlines() if line.strip()]
    if len(lines) > 1 and draw("forgets") < _FORGETS:
        lines.remove(_choose(lines[1:], draw("which")))
    complaints = _find_complaints(brief)
    if rules.mends and rules.reads and draw("mends") < rules.helps:
        contrary = [line for skill in complaints for line in SKILLS[skill]["harms"] if line in lines]
        lines = [line for line in lines if line not in contrary[:1]]
    for place in range(1 + (draw("how many") < 0.5)):
        clause = _choose_clause(complaints if rules.reads else Counter(), rules, draw, place)
        lines += [] if clause in lines else [clause]
    named = f"Answer with exactly one of these labels: {brief.labels}."
    if brief.labels and named not in lines and draw("names the labels") < rules.helps:
        lines.append(named)
    return "\n".join(lines + (_copy_answers(brief.feedback) if rules.copies else []))


def _find_complaints(brief: Brief) -> Counter[str]:
    """Count the remarks that complain of a skill's absence, without those about other agents."""
    remarks = [each for each in brief.feedback.lower().splitlines() if not _FINE.search(each)]
    counts = {
        skill: sum(bool(re.search(about["cue"], each)) for each in remarks)
        for skill, about in SKILLS.items()
        if re.search(about.get("prompt", ""), brief.instruction)
    }
    return Counter({skill: count for skill, count in counts.items() if count})


def _choose_clause(complaints: Counter[str], rules: Rules, draw: Draw, place: int) -> str:
    if draw(f"helps {place}") < rules.helps:
        skill = _choose(list(complaints.elements()) or list(HELPFUL), draw(f"skill {place}"))
        return _choose(HELPFUL[skill], draw(f"clause {place}"))
    return _choose(HARMFUL if draw(f"harms {place}") < rules.harms else USELESS, draw(f"clause {place}"))


def _copy_answers(feedback: str) -> list[str]:
    """Return the expected answers in the feedback as instructions: the leaky world's mistake."""
    answers = list(dict.fromkeys(text.strip() for text in _EXPECTED_ANSWER.findall(feedback)))[:3]
    first = next((line.strip() for line in feedback.splitlines() if line.strip()), "")
    return [f"Remember this from earlier cases: {text}." for text in answers or [first[:120]] if text]


def _format_reply(brief: Brief, instruction: str, share: float) -> str:
    if share < _WRONG_FORMAT:
        return f"Here is what I would change. {instruction.splitlines()[-1] if instruction else ''}"
    if not brief.fields:
        return f"```\n{instruction}\n```"
    values: dict[str, object] = {
        name: instruction if "instruction" in name or name == brief.fields[-1] else "See below."
        for name in brief.fields
    }
    return json.dumps(values, ensure_ascii=False) if brief.as_json else format_fields(values)
