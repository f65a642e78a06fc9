"""Simulated reflection model: reads feedback on a prompt and proposes a changed prompt, half of the time a poor one.

It sees the request alone: the current instructions, examples and feedback. It knows the prompt formats of GEPA (an
answer between ``` marks) and of DSPy's proposers (fields), and sometimes gets them wrong. It does not know, and must
not import, how the task model reacts to a clause.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from mas.simulation.diagnosis import DIAGNOSING, SHUFFLED, Draws, choose_clause, remove_contrary, shuffle_words

_CLAUSES = yaml.safe_load(Path(__file__).with_name("reflection_clauses.yaml").read_text(encoding="utf-8"))
CUES: dict[str, str] = _CLAUSES["cues"]
HELPFUL: dict[str, list[str]] = _CLAUSES["helpful"]
USELESS: list[str] = _CLAUSES["useless"]
HARMFUL: list[str] = _CLAUSES["harmful"]
PARTS: dict[str, dict[str, Any]] = _CLAUSES["parts"]
_OF_PART = (
    0.7  # chance that a clause is about a part that the feedback calls wrong and the prompt may be responsible for
)
_FORGETS, _REPEATS, _WRONG_FORMAT = 0.10, 0.08, 0.06  # chances of its own mistakes, drawn once per request
_HELPS = {"normal": 0.5, "harmful": 0.0, "leaky": 0.5}  # chance that a clause fits the feedback; null: as normal
_HARMS = {"normal": 0.5, "harmful": 0.95, "leaky": 0.5}  # share of the other clauses that harm
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
    fields: tuple[str, ...]  # names of the output fields; empty: a text between ``` marks
    as_json: bool
    labels: str = ""  # that the request lists as the possible answers


def propose_prompt(request: Request) -> Response:
    """Return the reply to a request for a better instruction; never fails."""
    text = _join_text(request)
    found = re.search(r"(?:^|/)([a-z]+)-(\d+)$", request.model)
    world = found[1] if found else "normal"
    draws = Draws(f"{request.model}\n{request.config.seed}\n{text}")
    brief = parse_brief(text)
    reply = _format_reply(brief, _change_instruction(brief, world, draws), draws)
    read, written = -(-len(text) // 4), -(-len(reply) // 4)
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant([TextPart(reply)]),
        finish_reason="stop",
        usage=Usage(input_tokens=read, output_tokens=written, total_tokens=read + written),
    )


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


def _change_instruction(brief: Brief, world: str, draws: Draws) -> str:
    """Return the instruction with one or two more clauses, and sometimes one less."""
    lines = [line for line in brief.instruction.splitlines() if line.strip()]
    if len(lines) > 1 and draws.draw("forgets") < _FORGETS:
        lines.pop(1 + int(draws.draw("which") * (len(lines) - 1)))
    if lines and draws.draw("repeats") < _REPEATS:
        lines.append(lines[-1])
    if world == SHUFFLED:
        brief = replace(brief, feedback=shuffle_words(brief.feedback, draws))
    if world in DIAGNOSING:
        lines = remove_contrary(lines, brief.feedback, draws)
    for place in range(1 + (draws.draw("how many") < 0.5)):
        clause = _choose_clause(brief, world, draws, place)
        if clause not in lines:
            lines.append(clause)
    named = f"Answer with exactly one of these labels: {brief.labels}."
    if brief.labels and named not in lines and draws.draw("names the labels") < _HELPS.get(world, 0.5):
        lines.append(named)
    if world == "leaky":
        lines += _copy_answers(brief.feedback)
    return "\n".join(lines)


def _choose_clause(brief: Brief, world: str, draws: Draws, place: int) -> str:
    if world in DIAGNOSING:
        return choose_clause(brief.feedback, draws, place, [*USELESS, *HARMFUL])
    helps = draws.draw(f"helps {place}") < _HELPS.get(world, 0.5)
    harms = draws.draw(f"harms {place}") < _HARMS.get(world, 0.5)
    parts = [name for name, part in PARTS.items() if _is_responsible(brief, part)]
    if parts and draws.draw(f"of a part {place}") < _OF_PART and (helps or harms):
        part = PARTS[draws.choose(f"part {place}", parts)]
        return draws.choose(f"clause {place}", part["helpful" if helps else "harmful"])
    if helps:
        return draws.choose(f"clause {place}", HELPFUL[_choose_subject(brief.feedback, draws, place)])
    return draws.choose(f"clause {place}", HARMFUL if harms else USELESS)


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


def _join_text(request: Request) -> str:
    system = request.system
    head = system if isinstance(system, str) else "".join(getattr(part, "text", "") for part in system or ())
    return "\n\n".join([head, *(message.text or "" for message in request.messages)]).strip()
