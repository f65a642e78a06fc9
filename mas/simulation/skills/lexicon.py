"""Recognition of skills in a prompt by meaning: in other words, in another order, negated or not.

    read_votes("Never do sums in your head.")["use_the_calculator"]                       # [1]
    read_votes("There is no need to use the calculator.")["use_the_calculator"]           # [-1]
    read_votes("Use the calculator. Do not use the calculator.")["use_the_calculator"]    # [1, -1]

Each sentence has one vote on each skill. Negations are counted per clause: `never approve without recomputing` has two.
Vocabulary and patterns are in `skills.yaml`, which explains their syntax.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import yaml


@dataclass(frozen=True)
class Skill:
    """A rule that an agent follows or not; `skills.yaml` describes the fields."""

    talent: float
    baseline: Sequence[str]
    patterns: Sequence[str]


_DATA = yaml.safe_load(Path(__file__).with_name("skills.yaml").read_text(encoding="utf-8"))
SKILLS = {name: Skill(**fields) for name, fields in _DATA["skills"].items()}
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+|;\s*")
_TYPOGRAPHIC = str.maketrans({"\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u2011": "-", "\u2010": "-"})
_CONTRACTIONS = (
    (r"\bcan(?:'t|not)\b", "can not"),
    (r"\bwon't\b", "will not"),
    (r"(\w)n't\b", r"\1 not"),
    (r"\bdont\b", "do not"),
    (r"\beven (?:if|when|though)\b", "although"),
)
# Negative words that negate nothing.
_HARMLESS = re.compile(
    r"\bnot (?:only|just|merely|simply)\b|\bwhether or not\b|\bno matter\b|\bno (?:more|longer|later|fewer|less) than\b"
    r"|\bnothing (?:but|else|more|other)\b|\bno (?:more|less|fewer|others?)\b|\bnot (?:one|a single \w+) more\b"
    r"|\bneither more nor (?:less|fewer)\b|\bnot (?:more|fewer|less)\b"
    r"|\bwithout (?:exception|fail|delay|question)\b|\bno doubt\b"
    r"|\b(?:that|which) is not\b|\bdo not forget\b|\bnever forget\b|\bnot (?:to )?forget\b|\bdo not hesitate\b"
    r"|\bif not\b"
)
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nothing|nobody|nor|neither|without|rather than|instead of|avoid\w*|refrain\w*|omit\w*"
    r"|skip\w*|dropp?\w*|leav\w+ (?:\w+ ){0,3}?(?:out|off|away|aside)|left (?:out|off|away|aside)|strip\w*|remov\w*"
    r"|exclud\w*|forb[ia]d\w*|bann?\w*|prohibit\w*|forget\w*|ignor\w*|neglect\w*|free (?:of|from)|unnecessary|needless"
    r"|superfluous|stop|resist|fail to|hesitate|distrust\w*|useless|pointless|unwanted|unwelcome|lest|hardly|rarely"
    r"|seldom|minus|disregard\w*|spare|wrong to|off limits|taboo|keep (?:\w+ ){0,3}?out|steer clear|shun\w*|dispense"
    r"|(?:unreliable|bad|poor|weak|error-prone|hopeless) at|beware\w*|guard against|watch out for|wary of"
    r"|(?:is|are) (?:a|the) (?:\w+ )?(?:mistake|error)|(?:is|are) (?:risky|dangerous|wrong|error-prone)"
    r"|(?:lead|invit|caus|breed)\w*(?: to)? (?:\w+ )?(?:errors?|mistakes?|slips?)|costs? points|los\w+ (?:points|marks)"
    r"|bypass\w*|abstain\w*|optional|eschew\w*|over (?:your|what|memory|recall|recollection|guess\w*|mere))\b"
)
_COPULA = r"\b(?:is|are|was|were|be|been|must|should|may|can|do|does|will|need|needs|shall|have|has|to)"
_PASSIVE = re.compile(
    r"(?:none|omitted|skipped|dropped|left|avoided|stripped|removed|excluded|forbidden|banned|prohibited|forgotten"
    r"|ignored|neglected|unnecessary|needless|superfluous|useless|pointless|unwanted|unwelcome|optional|wrong to"
    r"|off limits|taboo|bypassed|disregarded|shunned|spared|is |are |lead|invit|caus|breed|cost|los)\w*"
)
# A negation does not reach beyond a colon, nor beyond a comma that such a word follows.
_TURN = re.compile(r":\s|,\s+(?:in|as|with|by|for|following|each|all|only)\b")
# Ends of clauses, which end the reach of a negation as well.
_BOUNDARY = re.compile(
    r"\s[-\u2013\u2014]+\s|[()\u2014]|(?:,\s*)?\b(?:but|unless|until|before|because|although|however|whereas|while"
    r"|except|only (?:if|when)|even (?:if|when|for)|so that|since)\b|"
    r"(?=\b(?:rather than|instead of|over (?:your|what|memory|recall|recollection|guess|mere))\b)"
    r"|(?:,\s*(?:and\s+|or\s+)?|\b(?:and|or)\s+)"
    r"(?=(?:do not|no|not|never|nothing|none|without|nor|neither|avoid|omit|skip|leave|drop)\b)|\bnor\b"
    r"|,\s*(?:and\s+|then\s+|so\s+|just\s+|always\s+|simply\s+)*"
    r"(?=(?:use|read|give|write|copy|check|report|look|open|quote|state|say|let|make|keep|stick|go|answer|put|rely|trust|follow|round|reject|approve|recompute|redo"
    r"|verify|turn|call|run|work|note|tell|admit|it|you|they|that|just|always|include|add|convert|separate|join|sort|plan"
    r"|fill|return|reply|respond|the|please|ask|find|take|consult|instead|each|every)\b)"
)
_GROUPED = r"\b\d{1,3}(?:[, ]\d{3})+\b"


@dataclass(frozen=True)
class _Pattern:
    sign: str
    key: str
    others: tuple[str, ...]
    banned: tuple[str, ...]


@dataclass(frozen=True)
class _Sentence:
    """A sentence of a prompt, with a cache of the classes that were searched in it."""

    text: str
    clauses: tuple[tuple[int, int], ...]
    negations: tuple[tuple[int, int], ...]
    found: dict[str, list[tuple[int, int]]]

    def find_spans(self, name: str) -> list[tuple[int, int]]:
        if name not in self.found:
            self.found[name] = [match.span() for match in _COMPILED[name].finditer(self.text)]
        return self.found[name]

    def is_negated(self, place: int, matched: list[tuple[int, int]]) -> bool:
        """Return whether an odd number of negations governs the place, without those inside matched words."""
        start, end = next((start, end) for start, end in self.clauses if start <= place < end)
        inside = [
            (a, b)
            for a, b in self.negations
            if start <= a < end and not any(low <= a and b <= high for low, high in matched)
        ]
        return sum(self._governs(a, b, place) for a, b in inside) % 2 == 1

    def _governs(self, start: int, end: int, place: int) -> bool:
        if start <= place:
            return not _TURN.search(self.text[end:place])
        return self._reaches_back(start, end, place)

    def _reaches_back(self, start: int, end: int, place: int) -> bool:
        """Return whether a negation governs words before it: `units are to be dropped`, up to the next comma."""
        between = self.text[place:start]
        if "," in between:
            return False
        return bool(_PASSIVE.match(self.text[start:end]) or re.search(rf"{_COPULA}\s+$", between))


@lru_cache(maxsize=4096)
def read_votes(prompt: str) -> Mapping[str, Sequence[int]]:
    """Return the votes on each skill that a prompt mentions, one a sentence: 1 asks for it, -1 for its contrary."""
    votes: dict[str, list[int]] = {}
    for text in _split_sentences(prompt):
        for skill, vote in _read_votes(text).items():
            votes.setdefault(skill, []).append(vote)
    return MappingProxyType(votes)


@lru_cache(maxsize=16384)
def _read_votes(text: str) -> Mapping[str, int]:
    """Return the votes of one sentence: 1 for, -1 against. Cached: optimizers recombine the same sentences."""
    sentence = _Sentence(text, tuple(_split_clauses(text)), tuple(_find_negations(text)), {})
    totals = {skill: _read_vote(sentence, patterns) for skill, patterns in _PARSED.items()}
    return {skill: (total > 0) - (total < 0) for skill, total in totals.items() if total}


def _read_vote(sentence: _Sentence, patterns: tuple[_Pattern, ...]) -> int:
    total = 0
    for pattern in patterns:
        vote = _match(sentence, pattern)
        if vote and pattern.sign == "=":
            return vote
        total += vote
    return total


def _match(sentence: _Sentence, pattern: _Pattern) -> int:
    keys = sentence.find_spans(pattern.key)
    if not keys or any(sentence.find_spans(name) for name in pattern.banned):
        return 0
    if not all(sentence.find_spans(name) for name in pattern.others):
        return 0
    if pattern.sign == "=":
        return 1
    matched = [span for name in (pattern.key, *pattern.others) for span in sentence.find_spans(name)]
    votes = [_apply_sign(pattern.sign, sentence.is_negated(start, matched)) for start, _ in keys]
    return (sum(votes) > 0) - (sum(votes) < 0)


def _apply_sign(sign: str, negated: bool) -> int:
    if sign in "~^":
        return (1 if sign == "~" else -1) if negated else 0
    return -1 if negated == (sign == "+") else 1


def _split_sentences(prompt: str) -> Iterator[str]:
    text = prompt.translate(_TYPOGRAPHIC).lower().replace("_", " ")
    for pattern, plain in _CONTRACTIONS:
        text = re.sub(pattern, plain, text)
    for sentence in _SENTENCE.split(text):
        if sentence.strip():
            yield " ".join(_HARMLESS.sub(_mask, sentence).split())


def _mask(match: re.Match[str]) -> str:
    """Mark a harmless negative, so that it is matched as a word but not as a negation."""
    return re.sub(r"\b(no|not|nothing|without|never)\b", "\\1\N{ZERO WIDTH NON-JOINER}", match[0])


def _split_clauses(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _BOUNDARY.finditer(text):
        if match.start() > start:
            yield start, match.start()
            start = match.start()
    yield start, len(text) + 1


def _find_negations(text: str) -> Iterator[tuple[int, int]]:
    for match in _NEGATION.finditer(text):
        if text[match.end() : match.end() + 1] != "\N{ZERO WIDTH NON-JOINER}":
            yield match.span()


def _compile_words(words: str) -> str:
    parts = []
    for word in words.split():
        body = re.escape(word).replace(r"\*", r"[\w-]*").replace("_", r"[\u200c]?\s+")
        parts.append(body.replace("\\~", "~").replace("~", r"[\u200c]?(?:\W+\w+){0,3}?\W+"))
    return rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-])"


def _parse_pattern(text: str) -> _Pattern:
    sign, *names = text.split()
    key = next(name for name in names if name.startswith("*"))[1:]
    others = tuple(name for name in names if name[0] not in "*!")
    return _Pattern(sign, key, others, tuple(name[1:] for name in names if name.startswith("!")))


_COMPILED = {name: re.compile(_compile_words(words)) for name, words in _DATA["classes"].items()} | {
    "GROUPED": re.compile(_GROUPED)
}
_PARSED = {name: tuple(_parse_pattern(text) for text in skill.patterns) for name, skill in SKILLS.items()}
