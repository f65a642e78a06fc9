"""A simulated reflection model: reads feedback on a prompt, and proposes a changed prompt, half of the time a poor one.

It sees nothing but the request: the present instructions, examples, feedback. It knows the prompt formats of GEPA (an
answer between ``` marks) and of DSPy's proposers (fields), and gets them wrong now and then. What the task model makes
of a clause it does not know, and this module never imports.

    lm = dspy.LM("offline/normal-0", engine=OfflineReflection(), async_engine=AsyncOfflineReflection())
    lm("I provided an assistant with the following instructions …")[0]      # "```\\n…new instructions…\\n```"
"""

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from dspy.lm15 import Message, Request, Response, TextPart, Usage, response_to_events

from mas.simulation.reflection.clauses import CUES, HARMFUL, HELPFUL, USELESS

_FORGETS, _REPEATS, _WRONG_FORMAT = 0.10, 0.08, 0.06  # chances of its own mistakes, each drawn once a request
_HELPS = {"normal": 0.5, "harmful": 0.0, "leaky": 0.5}  # chance that a drawn clause fits the feedback; null: as normal
_HARMS = {"normal": 0.5, "harmful": 0.95, "leaky": 0.5}  # of the other clauses, the share that harm
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*\n?", re.MULTILINE)
_OUTPUT = re.compile(r"Your output fields are:\s*(.*?)(?:All interactions|\Z)", re.DOTALL)
_FEEDBACK = re.compile(r"(?:^#+ Feedback\s*\n|['\"]Feedback['\"]: ['\"]?|^\s*Feedback: )(.+?)"
                       r"(?=\n#|\n+```|['\"]\s*[},]|\Z)", re.MULTILINE | re.DOTALL)  # fmt: skip
_SHOWN = re.compile(
    r"(?:expected|correct answer|gold|should (?:have been|be)|right answer)"
    r"[^'\"\n:]{0,30}[:'\"]\s*['\"]?([^'\"\n.;]{1,80})",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Brief:
    """What a request asks for, as far as it can be told."""

    instruction: str  # the present prompt
    feedback: str
    fields: tuple[str, ...]  # output fields asked for; empty: a text between ``` marks
    as_json: bool


class Luck:
    """Draws that are a function of world, request and sample id."""

    def __init__(self, key: str) -> None:
        self._key = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=16).digest()

    def share(self, what: str) -> float:
        """Between 0 and 1, evenly."""
        return int.from_bytes(hashlib.blake2b(what.encode(), key=self._key, digest_size=8).digest(), "big") / 2**64

    def choice(self, what: str, options: tuple[str, ...]) -> str:
        return options[int(self.share(what) * len(options))]


def propose(request: Request) -> Response:
    """A reply to a request for a better instruction; never fails."""
    text = _text(request)
    found = re.search(r"(?:^|/)([a-z]+)-(\d+)$", request.model)
    world = found[1] if found else "normal"
    luck = Luck(f"{request.model}\n{request.config.seed}\n{text}")
    brief = read_brief(text)
    reply = _formatted(brief, _changed(brief, world, luck), luck)
    asked, written = -(-len(text) // 4), -(-len(reply) // 4)
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant([TextPart(reply)]),
        finish_reason="stop",
        usage=Usage(input_tokens=asked, output_tokens=written, total_tokens=asked + written),
    )


def read_brief(text: str) -> Brief:
    """The present instruction and the feedback: of GEPA's own prompt, or of a DSPy signature."""
    sections = _SECTION.split(text)
    fields: dict[str, str] = {}
    for name, value in zip(sections[1::2], sections[2::2], strict=True):
        fields[name] = value.strip()  # the last counts: the system message shows the layout first
    outputs = _OUTPUT.search(text)
    names = tuple(re.findall(r"^\d+\. `(\w+)`", outputs[1], re.MULTILINE)) if outputs else ()
    quoted = re.findall(r"```[^\n]*\n(.*?)\n?```", text, re.DOTALL)
    inputs = {name: value for name, value in fields.items() if name not in names and name != "completed"}
    instruction = next((value for name, value in inputs.items() if "instruction" in name or name == "prompt"), "")
    if not names and quoted:
        instruction = quoted[0]
    material = "\n".join(_FEEDBACK.findall(text)) or "\n".join(quoted[1:]) or "\n".join(inputs.values())
    return Brief(_without_reminder(instruction), material, names, "JSON object" in text)


def _without_reminder(text: str) -> str:
    return re.split(r"^Respond with ", text, flags=re.MULTILINE)[0].strip()


def _changed(brief: Brief, world: str, luck: Luck) -> str:
    """The instruction with one or two clauses more, and sometimes one fewer."""
    lines = [line for line in brief.instruction.splitlines() if line.strip()]
    if len(lines) > 1 and luck.share("forgets") < _FORGETS:
        lines.pop(1 + int(luck.share("which") * (len(lines) - 1)))
    if lines and luck.share("repeats") < _REPEATS:
        lines.append(lines[-1])
    for place in range(1 + (luck.share("how many") < 0.5)):
        clause = _clause(brief.feedback, world, luck, place)
        if clause not in lines:
            lines.append(clause)
    if world == "leaky":
        lines += _copied(brief.feedback)
    return "\n".join(lines)


def _clause(feedback: str, world: str, luck: Luck, place: int) -> str:
    if luck.share(f"helps {place}") < _HELPS.get(world, 0.5):
        return luck.choice(f"clause {place}", HELPFUL[_subject(feedback, luck, place)])
    poor = HARMFUL if luck.share(f"harms {place}") < _HARMS.get(world, 0.5) else USELESS
    return luck.choice(f"clause {place}", poor)


def _subject(feedback: str, luck: Luck, place: int) -> str:
    """What the feedback speaks of, the more often the likelier."""
    lowered = feedback.lower()
    heard = [(subject, len(re.findall(cue, lowered))) for subject, cue in CUES.items()]
    total = sum(count for _, count in heard)
    if not total:
        return luck.choice(f"subject {place}", tuple(CUES))
    point = luck.share(f"subject {place}") * total
    for subject, count in heard:
        point -= count
        if point < 0:
            return subject
    return heard[-1][0]


def _copied(feedback: str) -> list[str]:
    """What the leaky reflection takes for knowledge worth keeping: the answers that the feedback lets slip."""
    shown = list(dict.fromkeys(text.strip() for text in _SHOWN.findall(feedback)))[:3]
    first = next((line.strip() for line in feedback.splitlines() if line.strip()), "")
    return [f"Remember this from earlier cases: {text}." for text in shown or [first[:120]] if text]


def _formatted(brief: Brief, instruction: str, luck: Luck) -> str:
    if luck.share("format") < _WRONG_FORMAT:
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


def _text(request: Request) -> str:
    system = request.system
    head = system if isinstance(system, str) else "".join(getattr(part, "text", "") for part in system or ())
    return "\n\n".join([head, *(message.text or "" for message in request.messages)]).strip()


class OfflineReflection:
    """The reflection for synchronous calls. It keeps no state."""

    def complete(self, request: Request) -> Response:
        return propose(request)

    def stream(self, request: Request) -> Iterator[Any]:
        yield from response_to_events(propose(request))

    def close(self) -> None:
        """Nothing is held open."""

    def dump_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "OfflineReflection":
        return cls()


class AsyncOfflineReflection:
    """The reflection for asynchronous calls."""

    async def complete(self, request: Request) -> Response:
        return propose(request)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        for event in response_to_events(propose(request)):
            yield event

    async def aclose(self) -> None:
        """Nothing is held open."""

    def dump_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "AsyncOfflineReflection":
        return cls()
