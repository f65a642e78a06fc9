"""Reads a text for the answer to a question by the words that the two share. It knows nothing but the text.

find_answer("City | Code\nParis | 17\nRome | 4", "What is the code of Rome?")          # "4"
relevant_excerpt(long_text, "What is the code of Rome?", max_chars=6000)               # the lines that matter
"""

import json
import math
import re
from itertools import groupby
from operator import itemgetter
from typing import Any

from tests.servers.markings import part_asked
from tests.servers.records import Cell, Record, find_records, is_table_line, json_document, xml_root
from tests.servers.sentences import best_phrase
from tests.servers.words import EMPTY_WEIGHT, Question, content, is_number, stems

_NOTICE = re.compile(r"^\[.*\]$|^\(?page \d+ of \d+.*$", re.IGNORECASE | re.MULTILINE)
SHORT_PARAGRAPH_CHARS = 600
_CONTEXT_LINES = 3  # kept at the top of a block: title, column letters, header


def find_answer(text: str, question_text: str) -> str | None:
    """The value that best fits the question, as it stands in the text; None if nothing in the text fits."""
    question = Question(question_text)
    text = part_asked(text, question_text)
    text = _NOTICE.sub("", text) if json_document(text) is None else text
    value, covered = _best_cell(find_records(text), question)
    if json_document(text) is None and xml_root(text) is None:
        prose = "\n".join(line for line in text.splitlines() if not is_table_line(line))
        phrase, phrase_covered = best_phrase(prose, question)
        if phrase and phrase_covered > covered + EMPTY_WEIGHT:
            return phrase
    return value


def relevant_excerpt(text: str, question_text: str, max_chars: int) -> str:
    """All of a short text; of a long one the best lines with the header lines above them, or the best JSON items."""
    text = part_asked(text, question_text)
    if len(text) <= max_chars:
        return text
    question = Question(question_text)
    document = json_document(text)
    if document is not None:
        return json.dumps(_pruned(document, question), indent=2, ensure_ascii=False)
    units = _units(text)
    kept = set(_headers([unit for _, unit in units]))
    size = sum(len(units[position][1]) for position in kept)
    for position in sorted(range(len(units)), key=lambda place: -_overlap(units[place][1], question)):
        size += len(units[position][1])
        if size > max_chars:
            break
        kept.add(position)
    chosen = [units[position] for position in sorted(kept)]
    return "\n\n".join("\n".join(unit for _, unit in same) for _, same in groupby(chosen, key=itemgetter(0)))


def _units(text: str) -> list[tuple[int, str]]:
    """(paragraph, text): paragraphs where they are short, since their lines may belong together, else lines."""
    units: list[tuple[int, str]] = []
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text)):
        lines = [line for line in paragraph.splitlines() if line.strip()]
        whole = len(paragraph) <= SHORT_PARAGRAPH_CHARS and not any(map(is_table_line, lines))
        units += [(number, part) for part in (["\n".join(lines)] if whole and lines else lines)]
    return units


def _headers(lines: list[str]) -> list[int]:
    """The first lines of the text and of each table."""
    starts = [0] + [n for n in range(1, len(lines)) if is_table_line(lines[n]) and not is_table_line(lines[n - 1])]
    return [n for start in starts for n in range(max(start - 1, 0), min(start + _CONTEXT_LINES, len(lines)))]


def _overlap(text: str, question: Question) -> float:
    words = stems(text)
    return sum(value * question.match(word, words) for word, value in question.weight.items())


def _pruned(node: Any, question: Question, keep: int = 8) -> Any:
    if isinstance(node, dict):
        return {key: _pruned(value, question) for key, value in node.items()}
    if isinstance(node, list) and len(node) > keep:
        best = sorted(range(len(node)), key=lambda n: -_overlap(json.dumps(node[n], ensure_ascii=False), question))
        return [_pruned(node[n], question) for n in sorted(best[:keep])]
    return [_pruned(item, question) for item in node] if isinstance(node, list) else node


def _best_cell(records: list[Record], question: Question) -> tuple[str | None, float]:
    rarity = _Rarity(records, question)
    best: tuple[float, float, str | None] = (0.0, 0.0, None)
    for record in records:
        for cell in record.cells:
            score, covered = _score(record, cell, question, rarity)
            if covered and score > best[0]:
                best = (score, covered, cell.value)
    return best[2], best[1]


class _Rarity:
    """How much a word of the question tells: one that stands in every row or every label tells little."""

    def __init__(self, records: list[Record], question: Question) -> None:
        rows = [_row_words(record) for record in records]
        labels = {stems(cell.label) for record in records for cell in record.cells}
        self.in_rows = {word: self._rarity(word, rows, question) for word in question.weight}
        self.in_labels = {word: self._rarity(word, list(labels), question) for word in question.weight}
        self.given = {cell.label for record in records for cell in record.cells if _is_given(cell, question)}

    @staticmethod
    def _rarity(word: str, bags: list[tuple[str, ...]], question: Question) -> float:
        having = sum(question.match(word, bag) for bag in bags)
        return 0.2 + 0.8 * math.log((len(bags) + 1) / max(having, 1)) / math.log(len(bags) + 1) if bags else 0.0


def _row_words(record: Record) -> tuple[str, ...]:
    return tuple(word for text in (*(cell.value for cell in record.cells), *record.about) for word in stems(text))


def _score(record: Record, cell: Cell, question: Question, rarity: _Rarity) -> tuple[float, float]:
    """How well `cell` answers, and the share of the question that its label and the rest of the record cover."""
    label = question.bag(cell.label)
    rest = [question.bag(text) for text in (*(other.value for other in record.cells if other != cell), *record.about)]
    rest = [bag for bag in rest if bag[0]]
    score = covered = 0.0
    for word, weight in question.weight.items():
        by_label = question.match(word, label[0]) * label[1] * rarity.in_labels[word]
        by_label *= 1 + 0.5 * question.focus.get(word, 0.0)
        by_row = max((question.match(word, words) * share for words, share in rest), default=0.0)
        gain = max(by_label, by_row * rarity.in_rows[word])
        score += weight * gain
        covered += weight if gain else 0.0
    score += _extras(record, cell, question, rarity.given)
    return score, covered / sum(question.weight.values()) if covered > 3 * EMPTY_WEIGHT else 0.0


def _is_given(cell: Cell, question: Question) -> bool:
    """Whether the question names this value as a condition. A bare number needs its label to be meant."""
    return question.contains(stems(cell.value)) and (not is_number(cell.value) or _names(cell.label, question))


def _names(label: str, question: Question) -> bool:
    return any(question.knows(word) == 1 for word in content(stems(label)))


def _extras(record: Record, cell: Cell, question: Question, given: set[str]) -> float:
    extra = 0.3 if question.contains(stems(cell.label)) else 0.0
    for other in record.cells:
        if other != cell and _is_given(other, question):
            extra += 0.4 if _names(other.label, question) else 0.3
    if question.contains(stems(cell.value)):
        extra -= 1.5  # the question gives this value; it asks for another
    elif cell.label in given:
        extra -= 1.0  # it gives a value of this kind, as the condition for one of another kind
    if cell.address and question.asks(rf"\bcell {cell.address}\b"):
        extra += 5.0
    if question.hints & set(stems(cell.label)):
        extra += 0.4
    if cell == record.cells[0]:
        extra += 0.05  # what names a record mostly stands first
    return extra - (0.0 if question.fits(cell.value) else 1.0)
