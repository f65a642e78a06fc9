"""Words, compared so that small changes of form do not matter: `Cities` and `city`, `unit_price` and `unit price`.

Question("How many units were sold?").weight["unit"]     # 1.0
similarity("popul", "population")                        # 0.6
"""

import math
import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FILE_NAME = re.compile(r"\S+\.(?:csv|tsv|xlsx?|jsonl?|txt|md|docx?|pptx?|pdf|xml|html?)\b", re.IGNORECASE)
_ASKING = re.compile(
    r"\b(?:what|which|who|whose|whom|when|where|how|tell|give|find|name|state|report|look up|need|want|know)\b", re.I
)
_EMPTY_WORDS = """
    a an the of in on at to for from by with and or is are was were be been being do does did has have had what
    which who whom whose when where how why many much please tell me give find look up according attached attachment
    file table sheet spreadsheet csv json excel xlsx txt text listed list given following question answer as it its
    this that there their his her he she they i you we us our can could would should say says stated state recorded
    shown use using report word only just exactly one
"""
EMPTY_WEIGHT = 0.03  # enough to break a tie, too little to make a match
# What a question word asks for, by the words that columns of that kind are called.
_HINTS = (
    (
        r"\bwhom?\b|\bwhich (?:person|employee|worker|colleague|member|student|player|customer)\b",
        "name person employee owner author manager contact",
    ),
    (r"\bwhen\b|\bwhat (?:date|day)\b", "date day year time"),
    (r"\bwhere\b", "place city location address country room site"),
    (r"\bhow much\b", "price cost amount total value"),
    (r"\bhow (?:many|often)\b", "count number quantity units total"),
    (r"\bhow old\b", "age"),
    (r"\bhow (?:tall|high)\b", "height"),
    (r"\bhow long\b", "length duration"),
    (r"\bhow heavy\b", "weight mass"),
    (r"\bhow far\b", "distance"),
)


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    word = unicodedata.normalize("NFKD", word).casefold()
    word = "".join(letter for letter in word if not unicodedata.combining(letter))
    if word[:1].isdigit():
        return word.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", word) else word
    for ending, replacement in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + replacement
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=50_000)
def stems(text: str) -> tuple[str, ...]:
    """The words of a text in order, in stemmed form. `it's` gives `it`; `unitPrice` and `unit_price` give two."""
    text = re.sub(r"['\u2019]s\b", "", text)
    return tuple(stem(word) for word in _WORD.findall(_CAMEL.sub(" ", text)))


def weight(word: str) -> float:
    return EMPTY_WEIGHT if word in _EMPTY_STEMS else 1.0


def content(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that carry meaning; all of them, if none does (a column may be called `From`)."""
    return tuple(word for word in words if word not in _EMPTY_STEMS) or words


@lru_cache(maxsize=200_000)
def similarity(one: str, other: str) -> float:
    """1 for the same stem, 0.6 for a long common beginning, else 0."""
    if one == other:
        return 1.0
    if one[:1].isdigit() or other[:1].isdigit():
        return 0.0
    shared = max(3, math.ceil(0.7 * max(len(one), len(other))))
    return 0.6 if len(min(one, other, key=len)) >= shared and one[:shared] == other[:shared] else 0.0


def is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[-+]?[$€£]?\s?\d[\d.,]*\s?%?", text.strip()))


class Question:
    """A question as a bag of weighted words, and where it points first."""

    def __init__(self, text: str) -> None:
        self.text = _FILE_NAME.sub(" ", text)
        in_order = stems(self.text)
        self.weight = {word: weight(word) for word in in_order}
        self._phrase = f" {' '.join(in_order)} "
        self._known: dict[str, float] = {}
        self._bags: dict[str, tuple[tuple[str, ...], float]] = {}
        self.focus = self._focus()
        self.hints = frozenset(
            stem(word) for pattern, words in _HINTS if re.search(pattern, self.text, re.I) for word in words.split()
        )

    def contains(self, words: tuple[str, ...]) -> bool:
        return bool(words) and f" {' '.join(words)} " in self._phrase

    def match(self, word: str, among: tuple[str, ...]) -> float:
        if word in among:
            return 1.0
        return max((similarity(word, other) for other in among), default=0.0)

    def knows(self, word: str) -> float:
        """How well a word of a text matches one of the question."""
        if word not in self._known:
            self._known[word] = self.match(word, tuple(self.weight))
        return self._known[word]

    def bag(self, text: str) -> tuple[tuple[str, ...], float]:
        """The words of a text that the question has, and a factor for the share of them: 1 for all, 0.5 for none.

        What the question names in full counts for more than what it names in part.
        """
        if text not in self._bags:
            words = stems(text)
            told = content(words)
            share = sum(bool(self.knows(word)) for word in told) / len(told) if told else 0.0
            self._bags[text] = tuple(word for word in words if self.knows(word)), 0.5 + 0.5 * share
        return self._bags[text]

    def asks(self, pattern: str) -> bool:
        return bool(re.search(pattern, self.text, re.IGNORECASE))

    def fits(self, value: str) -> bool:
        """Whether a value can be what is asked for: a quantity needs a digit, a person a letter."""
        if self.asks(r"\bhow (?:many|much|old|tall|high|long|heavy|far)\b"):
            return bool(re.search(r"\d", value))
        return not self.asks(r"\bwhom?\b") or bool(re.search(r"[^\W\d_]", value))

    def _focus(self) -> dict[str, float]:
        """1 for the first word after the question word, falling to 0: what is asked for is mostly named first."""
        asking = _ASKING.search(self.text)
        start = asking.end() if asking else 0
        ordered = content(stems(self.text[start:])) + content(stems(self.text[:start]))
        falling: dict[str, float] = {}
        for position, word in enumerate(ordered):
            falling.setdefault(word, 1.0 - position / len(ordered))
        return falling


_EMPTY_STEMS = frozenset(stem(word) for word in _EMPTY_WORDS.split())
