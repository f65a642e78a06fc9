"""Single facts: the leaves of a JSON document, and the sentences of a text.

read_leaves('{"crew": [{"name": "Ada", "role": "pilot"}]}')     # [Leaf(("crew", "Ada, pilot", "name"), "Ada"), …]
select_sentences("Who flew the kite?", "Ada flew the kite. It rained.")   # ["Ada flew the kite."]
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mas.simulation.solving.tables import Table
from mas.simulation.solving.wording import find_phrase, parse_number, split_words

_IDENTITIES = ("name", "title", "id", "code", "label", "key")
_STEP = " > "
_WANTS_NUMBER = re.compile(
    r"\b(how many|how much|what number|how (?:long|tall|far|old|heavy|deep|high|wide|fast)"
    r"|(?:only the|plain|with a) number|number (?:only|alone))\b"
)
_DATE = (
    r"\b(\d{4}-\d\d-\d\d|\d{1,2} [A-Z][a-z]+ \d{4}|[A-Z][a-z]+ \d{1,2}(?:, \d{4})?"
    r"|\d{1,2} [A-Z][a-z]+|\d{4}|[A-Z][a-z]+day)\b"
)
_CAPITALISED = r"(?:[A-Z][\w'-]*|\d+)(?:\s+(?:of|the|de|van|von|and)?\s*[A-Z][\w'-]*)*"


@dataclass(frozen=True)
class Leaf:
    """A scalar of a JSON document; in its path, an object of a list has its name instead of an index."""

    path: tuple[str, ...]
    value: str

    def text(self) -> str:
        return f"{_STEP.join(self.path)}: {self.value}"


def parse_json(text: str) -> object:
    """Return the first JSON object or array in a text; None if there is none."""
    for match in re.finditer(r"^[ \t]*([{\[])", text, re.MULTILINE):
        try:
            found: object = json.JSONDecoder().raw_decode(text, match.start(1))[0]
        except ValueError:
            continue
        return found
    return None


def read_leaves(text: str) -> list[Leaf]:
    """Return all scalars of the JSON in a text, or of lines `a > b: value` that `Leaf.text` has written."""
    found = parse_json(text)
    if found is not None:
        return list(_iterate_leaves(found, ()))
    lines = (line.strip() for line in text.splitlines() if _STEP in line and ": " in line)
    return [Leaf(tuple(path.split(_STEP)), value) for path, _, value in (line.partition(": ") for line in lines)]


def _iterate_leaves(value: object, path: tuple[str, ...]) -> Iterator[Leaf]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _iterate_leaves(inner, (*path, str(key)))
    elif isinstance(value, list) and value and all(not isinstance(inner, (dict, list)) for inner in value):
        yield Leaf(path, ", ".join(_format_scalar(inner) for inner in value))
    elif isinstance(value, list):
        for index, inner in enumerate(value, 1):
            yield from _iterate_leaves(inner, (*path, _name_object(inner) or str(index)))
    else:
        yield Leaf(path, _format_scalar(value))


def _name_object(value: object) -> str | None:
    """Return a name for an object of a list: its name or id, and its other short texts."""
    if not isinstance(value, dict):
        return None
    first = next((value[key] for key in _IDENTITIES if isinstance(value.get(key), (str, int))), None)
    others = (inner for inner in value.values() if isinstance(inner, str) and len(inner) < 30 and inner != first)
    return ", ".join(str(part) for part in (first, *others) if part is not None) or None


def _format_scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def read_record_tables(text: str) -> list[Table]:
    """Return each list of objects in a JSON document as a table; nested objects become `outer inner` columns."""
    return list(_iterate_tables(parse_json(text), ""))


def _iterate_tables(value: object, name: str) -> Iterator[Table]:
    if isinstance(value, list) and len(value) > 1 and all(isinstance(item, dict) for item in value):
        rows = [{" ".join(leaf.path): leaf.value for leaf in _iterate_leaves(item, ())} for item in value]
        header = list(dict.fromkeys(key for row in rows for key in row))
        yield Table(name, header, [[row.get(key, "") for key in header] for row in rows], [])
    if isinstance(value, (dict, list)):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in inner:
            yield from _iterate_tables(item, str(key))


def select_leaves(question: str, found: list[Leaf], count: int = 3) -> list[Leaf]:
    """Return the leaves whose paths match the question best, best first."""
    asked = set(split_words(question))
    return sorted(found, key=lambda leaf: -_score_leaf(question, asked, leaf))[:count]


def _score_leaf(question: str, asked: set[str], leaf: Leaf) -> float:
    score = 0.0
    for depth, step in enumerate(leaf.path, 1):
        parts = split_words(step)
        share = sum(part in asked for part in parts) / len(parts) if parts and ", " not in step else 0.0
        score += share * (2.0 if depth == len(leaf.path) else 1.5) - 0.3 * (share == 0)
        score += 1.5 * sum(find_phrase(part, question) >= 0 for part in step.split(", ") if depth < len(leaf.path))
    return score - 2.0 * (find_phrase(leaf.value, question) >= 0)  # a value in the question is not its answer


def select_sentences(question: str, text: str, count: int = 2) -> list[str]:
    """Return the sentences that share most words with the question; rare words count more."""
    sentences = [s.strip() for s in re.split(r"(?<=[.!?])\s+|\n+", text) if len(split_words(s)) > 1]
    asked = set(split_words(question))
    uses = {word: sum(word in split_words(sentence) for sentence in sentences) for word in asked}
    scores = {s: sum(1.0 / uses[word] + 0.5 for word in set(split_words(s)) & asked) for s in sentences}
    best = sorted(dict.fromkeys(sentences), key=lambda sentence: -scores[sentence])
    return [sentence for sentence in best[:count] if scores[sentence] > 0]


def extract_fact(question: str, sentence: str) -> str | None:
    """Return the part of a sentence that the question asks for."""
    asked = question.lower()
    if re.search(_WANTS_NUMBER, asked):
        return _extract_number(question, sentence)
    after = re.search(r"\b(behind|under|from|at|in|on|near|to|with|by) (?:which|what) ([a-z]+)", asked)
    if after and (numbered := re.search(rf"\b{after[2]} (\d[\w-]*)", sentence, re.IGNORECASE)):
        return numbered[1]
    if after and (place := re.search(rf"\b{after[1]} (?:the |a |an )?([\w-]+)", sentence)):
        return place[1]
    if re.search(r"\brange\b", asked) and (area := _find_new(r"\b([A-Z]+\d+:[A-Z]+\d+)\b", sentence, question)):
        return area
    if re.search(r"\bwhat year|which year|in what year", asked):
        return _find_new(r"\b(1\d{3}|2\d{3})\b", sentence, question)
    if re.search(r"\bwhen\b|\bwhat date|which date|what day", asked):
        return _find_new(_DATE, sentence, question)
    if re.search(r"\bcode|password|identifier|serial\b", asked) and (
        code := _find_new(r"\b([\w]*\d[\w-]*|[A-Z]{2,}[\w-]*)", sentence, question)
    ):
        return code
    after = re.search(r"\b(?:named|called|is|was|are|were|:)\s+(?:the |a |an )?([^.,;]+)", sentence)
    named = _find_new(rf"(?<!\A)\b({_CAPITALISED})", sentence, question) or _find_new(
        rf"\b({_CAPITALISED})", sentence, question
    )
    return named or (after[1].strip() if after else None)


def _extract_number(question: str, sentence: str) -> str | None:
    numbers = [m for m in re.finditer(r"\d[\d,]*(?:\.\d+)?", sentence) if find_phrase(m[0], question) < 0]
    asked = set(split_words(question))
    near = [m[0] for m in numbers if set(split_words(sentence[m.end() : m.end() + 30])[:2]) & asked]
    found = near or [m[0] for m in numbers]
    return found[0].rstrip(",") if found and parse_number(found[0].rstrip(",")) is not None else None


def _find_new(pattern: str, sentence: str, question: str) -> str | None:
    for match in re.finditer(pattern, sentence):
        if find_phrase(match[1], question) < 0 and split_words(match[1]):
            return str(match[1])
    return None
