"""What must not get into a prompt: gold answers, questions, ids and files of all three splits, as salted hashes.

Golds are short, so that a plain hash of one could be undone by guessing. Hence the salt, drawn anew for each object;
and these live in memory only: nothing of them is ever written.

    lookup = Lookup.of(train, val, sealed)
    lookup.find(Reading("The answer is Paveldel."))      # [Find(Trace("gold", "val", "q17", …), start=14, end=22)]
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eval.benchmarks.example import Example
from optimize.common_words import COMMON_WORDS
from optimize.leak_text import Piece, Reading, quantity, squeezed

Kind = Literal["gold", "question", "id", "file", "near"]  # near: a question's four words; no leak, but a hint at one
SplitName = Literal["train", "val", "test"]

PASSAGE, HINT = 8, 4  # words of a question
_LONGEST = 200  # characters of what is looked for as a whole
_SHORT = 3  # characters
_SMALL = 100
_SIGNIFICANT = 5  # digits from which on a number is hardly met by chance
_LONG_WORDS, _LONG_CHARS = 3, 12  # the same of a text
_SHORTEST_ID, _SHORTEST_STEM = 6, 6  # characters
_LIST = re.compile("[,;\n]")  # as in eval/scorers/gaia.py
_ARTICLES = ("the", "a", "an")


@dataclass(frozen=True, slots=True)
class Trace:
    """Something of one example that may be found in a prompt."""

    kind: Kind
    split: SplitName
    example_id: str
    weak: bool = False  # so short or common that alone it proves nothing
    specific: bool = False  # so long that it is hardly met by chance


@dataclass(frozen=True, slots=True)
class Find:
    trace: Trace
    start: int  # in the reading's text
    end: int
    key: bytes  # of what was found


@dataclass(frozen=True, slots=True)
class _Form:
    """One way in which something may be written: as a run of letters (`word`), a `number` or n `gram` words."""

    how: Literal["word", "number", "gram"]
    text: str
    n_words: int = 1
    weak: bool = False
    specific: bool = False


@dataclass
class Lookup:
    """To be made by `Lookup.of`."""

    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)
    _traces: dict[bytes, list[Trace]] = field(default_factory=dict, repr=False)
    _lengths: set[int] = field(default_factory=set, repr=False)  # of the forms that are runs of letters
    _grams: set[int] = field(default_factory=lambda: {PASSAGE, HINT}, repr=False)  # how many words they have
    _sizes: dict[str, int] = field(default_factory=dict)
    _in_training: set[bytes] = field(default_factory=set, repr=False)  # keys that the training questions hold

    @staticmethod
    def of(train: Sequence[Example], val: Sequence[Example], sealed: Sequence[Example]) -> "Lookup":
        lookup = Lookup()
        splits: tuple[tuple[SplitName, Sequence[Example]], ...] = (("train", train), ("val", val), ("test", sealed))
        for split, examples in splits:
            lookup._sizes[split] = len(examples)
            for example in examples:
                lookup._add(split, example)
        for example in train:
            lookup._in_training |= lookup.keys(Reading(example.question))
        lookup._forget_training_passages()
        return lookup

    def find(self, reading: Reading) -> list[Find]:
        """All there is in a text, weak traces and hints included."""
        return [Find(trace, start, end, key) for key, start, end in self._met(reading) for trace in self._traces[key]]

    def sizes(self) -> dict[str, int]:
        """Questions of each split."""
        return dict(self._sizes)

    def keys(self, reading: Reading) -> set[bytes]:
        return {key for key, _, _ in self._met(reading)}

    def in_training(self, find: Find) -> bool:
        """Whether a training question says it too, so that it may well come from there."""
        return find.key in self._in_training

    def _met(self, reading: Reading) -> Iterator[tuple[bytes, int, int]]:
        yield from self._met_words(reading)
        for number in reading.numbers:
            if (key := self._key("number", number.text)) in self._traces:
                yield key, number.start, number.end
        yield from self._met_grams(reading.words)
        without_and = [word for word in reading.words if word.text != "and"]
        if len(without_and) < len(reading.words):
            yield from self._met_grams(without_and, {size for size in self._grams if size not in (PASSAGE, HINT)})

    def _met_words(self, reading: Reading) -> Iterator[tuple[bytes, int, int]]:
        """Runs of letters that begin and end with a word: 'Pavel-Del' is `paveldel`, 'Paveldelta' is not."""
        words = reading.words
        text = squeezed(words)
        ends: dict[int, int] = {}  # where a word ends in the squeezed text → where it ends in the reading's
        at = 0
        for word in words:
            at += len(word.text)
            ends[at] = word.end
        lengths, at = sorted(self._lengths), 0
        for word in words:
            for length in lengths:
                end = ends.get(at + length)
                if end is not None and (key := self._key("word", text[at : at + length])) in self._traces:
                    yield key, word.start, end
            at += len(word.text)

    def _met_grams(
        self, words: Sequence[Piece], sizes: Iterable[int] | None = None
    ) -> Iterator[tuple[bytes, int, int]]:
        texts = [word.text for word in words]
        for size in self._grams if sizes is None else sizes:
            for first in range(len(words) - size + 1):
                if (key := self._key("gram", " ".join(texts[first : first + size]))) in self._traces:
                    yield key, words[first].start, words[first + size - 1].end

    def _key(self, how: str, text: str) -> bytes:
        return hashlib.blake2b(f"{how} {text}".encode("utf-8", "replace"), digest_size=12, key=self._salt).digest()

    def _add(self, split: SplitName, example: Example) -> None:
        forms: list[tuple[Kind, Iterable[_Form]]] = [
            ("question", _passages(example.question, PASSAGE)),
            ("near", _passages(example.question, HINT)),
            ("id", _id_forms(example.id)),
        ]
        if example.target is not None and example.target.strip() != "?":
            forms.append(("gold", gold_forms(example.target)))
        if example.file is not None:
            forms.append(("file", _file_forms(example.file.stem, example.file.suffix, example.id)))
        for kind, each in forms:
            for form in set(each):
                self._learn(form, Trace(kind, split, example.id, form.weak, form.specific))

    def _learn(self, form: _Form, trace: Trace) -> None:
        if form.how == "word":
            self._lengths.add(len(form.text))
        elif form.how == "gram":
            self._grams.add(form.n_words)
        traces = self._traces.setdefault(self._key(form.how, form.text), [])
        if trace not in traces:
            traces.append(trace)

    def _forget_training_passages(self) -> None:
        """Words that a training question has too are no sign of another question."""
        for key in self._in_training:
            mine = [
                each for each in self._traces[key] if each.split == "train" or each.kind not in ("question", "near")
            ]
            self._traces[key] = mine


def gold_forms(target: str) -> Iterator[_Form]:
    """How a gold answer may be written: as a number, as a text, as the items of a list and all of them together."""
    text = Reading(target).text.strip()
    number = quantity(text)
    if number is not None:
        yield _Form("number", number, weak=_weak_number(number), specific=_digits(number) >= _SIGNIFICANT)
    if number is None or any(letter.isalpha() for letter in text):
        yield from _text_forms(Reading(target).words)
    items = [Reading(item) for item in _LIST.split(target) if Reading(item).words]
    if number is None and len(items) > 1:
        yield from _list_forms(items)


def _list_forms(items: Sequence[Reading]) -> Iterator[_Form]:
    forms = [form for item in items for form in gold_forms(item.text)]
    yield from forms
    words = [word.text for item in items for word in item.words if word.text != "and"]
    told_apart = any(not form.weak for form in forms) or (len(items) > 2 and not _all_common(words))
    yield _Form("gram", " ".join(words), len(words), weak=not told_apart, specific=told_apart)


def _text_forms(words: Sequence[Piece]) -> Iterator[_Form]:
    texts = [word.text for word in words]
    for said in (texts, texts[1:] if texts[:1] and texts[0] in _ARTICLES else []):
        run = "".join(said)
        if run and len(run) <= _LONGEST:
            weak = len(run) <= _SHORT or _all_common(said)
            yield _Form("word", run, weak=weak, specific=len(said) >= _LONG_WORDS and len(run) >= _LONG_CHARS)
    for first in range(len(texts) - PASSAGE + 1):  # a part of a long answer
        yield _Form("gram", " ".join(texts[first : first + PASSAGE]), PASSAGE, specific=True)


def _passages(question: str, size: int) -> Iterator[_Form]:
    """All runs of so many words that say more than a form of words; a shorter question as a whole."""
    words = [word.text for word in Reading(question).words]
    if len(words) < size:
        size = len(words) if len(words) >= 3 and size == PASSAGE else size
    for first in range(len(words) - size + 1):
        said = words[first : first + size]
        if any(_telling(word) for word in said):
            yield _Form("gram", " ".join(said), size)


def _id_forms(example_id: str) -> Iterator[_Form]:
    words = [word.text for word in Reading(example_id).words]
    run = "".join(words)
    if _SHORTEST_ID <= len(run) <= _LONGEST and not _all_common(words, max_digits=4):
        yield _Form("word", run)


def _file_forms(stem: str, suffix: str, example_id: str) -> Iterator[_Form]:
    words = [word.text for word in Reading(stem).words]
    run = "".join(words)
    if len(run) <= _SHORT or len(run) > _LONGEST or _all_common(words, max_digits=4):
        return  # data.csv, image_2.png, the_table.xlsx
    yield _Form("word", run + squeezed(Reading(suffix).words))
    if len(run) >= _SHORTEST_STEM and stem != example_id:
        yield _Form("word", run)


def _telling(word: str) -> bool:
    return (len(word) > 1 or not word.isascii()) and word not in COMMON_WORDS


def _all_common(words: Sequence[str], max_digits: int = 2) -> bool:
    """Words that any prompt may have, single letters and short numbers."""
    return all(
        word in COMMON_WORDS or (word.isascii() and (len(word) == 1 or (word.isdigit() and len(word) <= max_digits)))
        for word in words
    )


def _weak_number(number: str) -> bool:
    """Short, small, or round (1000, 20000): numbers of any prompt."""
    small = float(number) < _SMALL and _digits(number) < _SIGNIFICANT
    return len(number) <= _SHORT or small or ("." not in number and len(number.rstrip("0")) <= 1)


def _digits(number: str) -> int:
    """How many of them are significant."""
    return len(number.replace(".", "").lstrip("0")) if "." in number else len(number.rstrip("0"))
