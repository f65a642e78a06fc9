"""The answer inside a sentence: what it says beyond the words of the question.

best_phrase("The access code of the north gate is 4711.", Question("Which code opens the north gate?"))  # 4711
"""

import math
import re
from collections import Counter

from tests.servers.words import EMPTY_WEIGHT, Question, is_number, similarity, stem, stems, weight

_ENDS = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z0-9\"'(*-])|\n+|;\s+")
_CLAUSES = re.compile(
    r",?\s+(?:and|but|while|whereas)\s+(?=(?:the|that|its|his|her|their|in|on|at|for|[A-Z])\b)|,\s+(?=the\b)"
)
_VERB = re.compile(r"\s+(?:is|are|was|were|equals|has been|have been|will be|stands at|reads)\s+|:\s+|\s=\s")
_PRONOUN = re.compile(r"\A(?:its?|he|she|they|his|her|their|this|that|these|there)\b", re.IGNORECASE)
_WORD = re.compile(r"[$€£]?\d[\d.,:/-]*\d%?|[$€£]?\d%?|[^\W\d_][\w'\u2019&.-]*[\w]|[^\W_]")
_LEAD = re.compile(
    r"\A(?:(?:about|around|located|situated|kept|stored|held|found|set|called|named|known as|written|given|made|as|in|"
    r"on|at|by|to|for|from|with|of|under|behind|the|a|an)\b\s*)+",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:,?\s+(?:which|who|that|because|since|so that|according to|as of)\b.*|,\s+(?:and|but|not)\b.*)\Z", re.I
)
_SUBORDINATE = re.compile(r",?\s+(?:since|because|although|though|so that)\b.*\Z", re.IGNORECASE | re.DOTALL)
_ASKED_KIND = re.compile(r"\b(?:which|what)\s+([a-z]\w+)", re.IGNORECASE)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    rf"\d{{4}}-\d\d-\d\d|\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:,?\s+\d{{4}})?|{_MONTH}\s+\d{{1,2}}(?:,?\s+\d{{4}})?|"
    rf"{_MONTH}\s+\d{{4}}|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\d{{1,2}}:\d\d(?:\s*[ap]m)?|\b[12]\d{{3}}\b",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?:(?:Mr|Mrs|Ms|Dr|Prof)\.?\s+)?[A-Z][\w'\u2019-]+(?:\s+(?:(?:de|van|von|der|la|al)\s+)*[A-Z][\w'\u2019.-]*)*"
)
_NUMBER = re.compile(r"[$€£]?\d[\d.,]*\d%?|[$€£]?\d%?")


def split_sentences(text: str) -> list[str]:
    return [part.strip(" #*•-") for part in _ENDS.split(text) if part and part.strip(" #*•-")]


def best_phrase(text: str, question: Question) -> tuple[str | None, float]:
    """The answer, and how much of the question its clause covers (0 to 1). None: no sentence says anything of it."""
    clauses = _clauses(text)
    frequency = _frequency([words for _, words in clauses], question)
    ranked = sorted(
        ((_score(words, question, frequency, len(clauses)), clause) for clause, words in clauses),
        key=lambda pair: -pair[0],
    )
    for score, clause in ranked[:3]:
        phrase = _phrase(clause, question) if score > 2 * EMPTY_WEIGHT else None
        if phrase:
            return phrase, _coverage(dict(clauses)[clause], question)
    return None, 0.0


def _clauses(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Clauses with the words that say what each is about; a pronoun borrows those of the sentence before."""
    found: list[tuple[str, tuple[str, ...]]] = []
    before: tuple[str, ...] = ()
    for sentence in split_sentences(text):
        parts = _CLAUSES.split(sentence)
        parts = parts if all(_VERB.search(part) for part in parts) else [sentence]
        for part in parts:
            borrowed = before if _PRONOUN.match(part) else ()
            found.append((part, stems(part) + borrowed))
        before = stems(sentence) + (before if _PRONOUN.match(sentence) else ())
    return found


def _frequency(clauses: list[tuple[str, ...]], question: Question) -> dict[str, int]:
    return {word: sum(question.match(word, words) > 0 for words in clauses) for word in question.weight}


def _score(words: tuple[str, ...], question: Question, frequency: dict[str, int], clauses: int) -> float:
    total = 0.0
    for word, word_weight in question.weight.items():
        if matched := question.match(word, words):
            total += word_weight * matched * (0.3 + math.log((clauses + 1) / frequency[word]))
    return total - 0.02 * sum(weight(word) == 1 and not question.knows(word) for word in words)


def _coverage(words: tuple[str, ...], question: Question) -> float:
    covered = sum(value for word, value in question.weight.items() if question.match(word, words))
    return covered / sum(question.weight.values())


def _phrase(clause: str, question: Question) -> str | None:
    clause = _SUBORDINATE.sub("", clause.rstrip(" .!?")) or clause
    typed = _typed(clause, question) or _of_asked_kind(clause, question)
    if typed:
        return typed
    return _beside_verb(clause, question) or _nearest_run(clause, question)


def _typed(clause: str, question: Question) -> str | None:
    """A date for `when`, a name for `who`, a number for `how many`: the one nearest to the words of the question."""
    for asked, pattern in (
        (r"\bwhen\b|\b(?:what|which) (?:date|day|year|time|month)\b", _DATE),
        (r"\bhow (?:many|much|old|tall|high|long|heavy|far|often|deep|wide)\b", _NUMBER),
        (r"\bwho(?:m|se)?\b", _NAME),
    ):
        if question.asks(asked):
            spans = [found for found in pattern.finditer(clause) if not _known(found[0], question)]
            names = [
                found for found in spans if pattern is not _NAME or stem(found[0].lower()) not in ("the", "a", "in")
            ]
            if names:
                return min(names, key=lambda found: _distance(clause, found.span(), question))[0]
    return None


def _of_asked_kind(clause: str, question: Question) -> str | None:
    """`which pier` and `pier 3`."""
    for kind in _ASKED_KIND.findall(question.text):
        found = re.search(rf"\b{kind}\s+(?:number\s+|no\.\s+)?(\d[\w.-]*|[A-Z]\d*)\b", clause, re.IGNORECASE)
        if found and not _known(found[1], question):
            return found[1]
    return None


def _beside_verb(clause: str, question: Question) -> str | None:
    """`<what the question names> is <answer>`, either way round."""
    found = _VERB.search(clause)
    if found is None:
        return None
    left, right = clause[: found.start()], clause[found.end() :]
    on_left, on_right = (_known_words(side, question) for side in (left, right))
    answer = _trim(right if on_left >= on_right else left, question)
    return answer if answer and not _known(answer, question) else None


def _trim(side: str, question: Question) -> str:
    side = _TAIL.sub("", side)
    side = _LEAD.sub("", side.strip(" ,"))
    number = re.match(rf"({_NUMBER.pattern})\s+(\w+)\Z", side)
    if number and any(similarity(stem(number[2]), word) for word in question.weight):
        return number[1]  # `how high is it in metres` wants no unit
    return side.strip(" \"'\u201c\u201d\u2018\u2019`*,.")


def _nearest_run(clause: str, question: Question) -> str | None:
    """The run of words that the question does not have and that stands nearest to those it has; numbers win ties."""
    runs: list[tuple[int, int]] = []
    for word in _WORD.finditer(clause):
        if _known(word[0], question) or all(weight(part) < 1 for part in stems(word[0])):
            continue
        if runs and clause[runs[-1][1] : word.start()].strip() == "" and word[0][0].isupper():
            runs[-1] = (runs[-1][0], word.end())
        else:
            runs.append(word.span())
    if not runs:
        return None
    start, end = min(runs, key=lambda span: _distance(clause, span, question) - 30 * is_number(clause[slice(*span)]))
    return clause[start:end]


def _distance(clause: str, span: tuple[int, int], question: Question) -> float:
    """Mean distance in characters to the words that the question shares; those that stand there once count for more.

    An answer that follows what the question names is taken to be nearer than one before it.
    """
    places = [word for word in _WORD.finditer(clause) if _known(word[0], question) and _heavy(word[0])]
    if not places:
        return float(span[0])
    often = Counter(stems(word[0]) for word in places)
    shares = [1 / often[stems(word[0])] ** 2 for word in places]
    gaps = [span[0] - word.end() if word.end() <= span[0] else 1.5 * (word.start() - span[1]) for word in places]
    return sum(share * gap for share, gap in zip(shares, gaps, strict=True)) / sum(shares)


def _known_words(text: str, question: Question) -> float:
    return sum(weight(word) for word in set(stems(text)) if question.knows(word))


def _known(text: str, question: Question) -> bool:
    return all(question.knows(word) for word in stems(text))


def _heavy(word: str) -> bool:
    return any(weight(part) == 1 for part in stems(word))
