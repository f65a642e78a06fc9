"""Index of what must not get into a prompt: targets, questions, ids and file names of all splits, as salted hashes.

Targets are short, so a plain hash could be reversed by guessing. Hence the salt, which is drawn for each object. All of
it is kept in memory only and never written.

A value of a further column (`data.tags`) counts like the target if one sample alone has it and most samples have one
of their own there: the user's metric may judge by it. Others are categories.

A sample whose target is a label (`eval.scorers.labels`) has no secret target. Its question, id and file are protected
as all others are, and its label with six words of its question.

    lookup = Lookup.of(train, val, sealed)
    lookup.find(Reading("The answer is Paveldel."))[0].form      # ProtectedForm("gold", "val", "q17", …)
"""

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eval.benchmarks.dataset import EXPECTED, Sample, list_gold_texts
from eval.contamination.forms import (
    HINT,
    LONGEST,
    PASSAGE,
    SHORT,
    Form,
    are_common,
    derive_forms,
    derive_whole_forms,
    extract_passages,
)
from eval.contamination.spellings import derive_spellings, find_spelt_numbers
from eval.contamination.text import Piece, Reading, join_words
from eval.scorers.labels import LabelSet

Kind = Literal["gold", "question", "id", "file", "near"]  # near: four words of a question, only a hint
SplitName = Literal["train", "val", "test"]

_SHORTEST_ID, _SHORTEST_STEM = 6, 6  # characters
_LABEL_HINT = 6  # words of a question whose target is a label: rules for a class use four of them by chance


@dataclass(frozen=True, slots=True)
class ProtectedForm:
    """A form of something of one sample, to be looked for in a prompt."""

    kind: Kind
    split: SplitName
    sample_id: str
    weak: bool  # so short or common that alone it proves nothing
    specific: bool = False  # so long that it is hardly found by chance
    label: bool = False  # a whole label, as words


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence of a protected form in a text."""

    form: ProtectedForm
    start: int  # in the reading's text
    end: int
    key: bytes  # of what was found


@dataclass
class Lookup:
    """Index of protected forms. Create it with `Lookup.of`."""

    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)
    _forms: dict[bytes, dict[ProtectedForm, None]] = field(default_factory=dict, repr=False)  # each once, in order
    _lengths: set[int] = field(default_factory=set, repr=False)  # of the forms that are runs of letters
    _grams: set[int] = field(default_factory=lambda: {PASSAGE, HINT}, repr=False)  # how many words they have
    _sizes: dict[str, int] = field(default_factory=dict)
    _in_training: set[bytes] = field(default_factory=set, repr=False)  # keys that the training questions hold
    _labels: frozenset[str] = frozenset()  # as a reading has them

    @staticmethod
    def of(
        train: Sequence[Sample], val: Sequence[Sample], sealed: Sequence[Sample], labels: LabelSet | None = None
    ) -> "Lookup":
        labels = labels or LabelSet()
        lookup = Lookup(_labels=frozenset(Reading(name).text for name in labels.names))
        splits: tuple[tuple[SplitName, Sequence[Sample]], ...] = (("train", train), ("val", val), ("test", sealed))
        private = _find_private_tags([*train, *val, *sealed])
        for split, samples in splits:
            lookup._sizes[split] = len(samples)
            for sample in samples:
                lookup._add(split, sample, labels.find(sample.target) is not None)
                for name, value in sample.tags.items():
                    if name == EXPECTED:
                        lookup._add_texts(split, sample.id, list_gold_texts(name, value))
                    elif (name, value) in private and value not in sample.question:
                        lookup._add_gold(split, sample.id, value)
        for sample in train:
            for text in (sample.question, *list_gold_texts(EXPECTED, sample.tags.get(EXPECTED, "{}"))):
                lookup._in_training |= lookup.keys(Reading(text))
        lookup._forget_training_passages()
        return lookup

    def find(self, reading: Reading) -> list[Occurrence]:
        """Return all occurrences in a text, weak forms and hints included."""
        return [
            Occurrence(form, start, end, key)
            for key, start, end in self._find_keys(reading)
            for form in self._forms[key]
        ]

    def sizes(self) -> dict[str, int]:
        """Return the number of questions of each split."""
        return dict(self._sizes)

    def keys(self, reading: Reading) -> set[bytes]:
        return {key for key, _, _ in self._find_keys(reading)}

    def find_label_spans(self, reading: Reading, occurrences: Iterable[Occurrence]) -> set[tuple[int, int]]:
        """Return where labels stand as they are written, apart from case: `Paris, office` is not `Paris office`."""
        spans = {(each.start, each.end) for each in occurrences if each.form.label}
        return {(start, end) for start, end in spans if reading.text[start:end] in self._labels}

    def is_in_training(self, occurrence: Occurrence) -> bool:
        """Return whether a training question contains it as well, and may be its source."""
        return occurrence.key in self._in_training

    def _find_keys(self, reading: Reading) -> Iterator[tuple[bytes, int, int]]:
        yield from self._find_words(reading)
        for number in (*reading.numbers, *find_spelt_numbers(reading)):
            if (key := self._key("number", number.text)) in self._forms:
                yield key, number.start, number.end
        yield from self._find_grams(reading.words)
        without_and = [word for word in reading.words if word.text != "and"]
        if len(without_and) < len(reading.words):
            yield from self._find_grams(without_and, {size for size in self._grams if size not in (PASSAGE, HINT)})

    def _find_words(self, reading: Reading) -> Iterator[tuple[bytes, int, int]]:
        """Yield runs of letters that begin and end with a word: 'Pavel-Del' is `paveldel`, 'Paveldelta' is not."""
        words = reading.words
        text = join_words(words)
        ends: dict[int, int] = {}  # where a word ends in the squeezed text → where it ends in the reading's
        at = 0
        for word in words:
            at += len(word.text)
            ends[at] = word.end
        lengths, at = sorted(self._lengths), 0
        for word in words:
            for length in lengths:
                end = ends.get(at + length)
                if end is not None and (key := self._key("word", text[at : at + length])) in self._forms:
                    yield key, word.start, end
            at += len(word.text)

    def _find_grams(
        self, words: Sequence[Piece], sizes: Iterable[int] | None = None
    ) -> Iterator[tuple[bytes, int, int]]:
        texts = [word.text for word in words]
        for size in self._grams if sizes is None else sizes:
            for first in range(len(words) - size + 1):
                if (key := self._key("gram", " ".join(texts[first : first + size]))) in self._forms:
                    yield key, words[first].start, words[first + size - 1].end

    def _key(self, how: str, text: str) -> bytes:
        return hashlib.blake2b(f"{how} {text}".encode("utf-8", "replace"), digest_size=12, key=self._salt).digest()

    def _add(self, split: SplitName, sample: Sample, has_label: bool) -> None:
        forms: list[tuple[Kind, Iterable[Form]]] = [
            ("question", extract_passages(sample.question, PASSAGE)),
            ("near", extract_passages(sample.question, _LABEL_HINT if has_label else HINT)),
            ("id", _id_forms(sample.id)),
        ]
        if sample.target is not None and has_label:
            self._add_label(split, sample.id, sample.target)
        elif sample.target is not None and sample.target.strip() != "?":
            self._add_gold(split, sample.id, sample.target)
        if sample.file is not None:
            forms.append(("file", _file_forms(sample.file.stem, sample.file.suffix, sample.id)))
        for kind, each in forms:
            for form in set(each):
                self._add_form(form, ProtectedForm(kind, split, sample.id, form.weak, form.specific))

    def _add_gold(self, split: SplitName, sample_id: str, answer: str) -> None:
        for form in {*derive_spellings(answer)}:
            self._add_form(form, ProtectedForm("gold", split, sample_id, form.weak, form.specific))

    def _add_texts(self, split: SplitName, sample_id: str, texts: Iterable[str]) -> None:
        """Protect the passages of gold queries; those that a training question's has as well are dropped later."""
        for form in {form for text in texts for form in extract_passages(text, PASSAGE)}:
            self._add_form(form, ProtectedForm("question", split, sample_id, form.weak, form.specific))

    def _add_label(self, split: SplitName, sample_id: str, target: str) -> None:
        whole = {form for form in derive_whole_forms(target) if form.how == "word"}
        for form in {*derive_forms(target)}:
            self._add_form(form, ProtectedForm("gold", split, sample_id, weak=True, label=form in whole))

    def _add_form(self, form: Form, protected: ProtectedForm) -> None:
        if form.how == "word":
            self._lengths.add(len(form.text))
        elif form.how == "gram":
            self._grams.add(form.n_words)
        self._forms.setdefault(self._key(form.how, form.text), {})[protected] = None

    def _forget_training_passages(self) -> None:
        """Drop passages of other questions that a training question contains as well."""
        for key in self._in_training:
            mine = (each for each in self._forms[key] if each.split == "train" or each.kind not in ("question", "near"))
            self._forms[key] = dict.fromkeys(mine)


def _id_forms(sample_id: str) -> Iterator[Form]:
    words = [word.text for word in Reading(sample_id).words]
    run = "".join(words)
    if _SHORTEST_ID <= len(run) <= LONGEST and not are_common(words, max_digits=4):
        yield Form("word", run)


def _file_forms(stem: str, suffix: str, sample_id: str) -> Iterator[Form]:
    words = [word.text for word in Reading(stem).words]
    run = "".join(words)
    if len(run) <= SHORT or len(run) > LONGEST or are_common(words, max_digits=4):
        return  # data.csv, image_2.png, the_table.xlsx
    yield Form("word", run + join_words(Reading(suffix).words))
    if len(run) >= _SHORTEST_STEM and stem != sample_id:
        yield Form("word", run)


def _find_private_tags(samples: Sequence[Sample]) -> set[tuple[str, str]]:
    """Return the names and values of tags that one sample alone has, where at least half of the samples do."""
    tags = Counter(tag for sample in samples for tag in sample.tags.items())
    n_values = Counter(name for sample in samples for name in sample.tags)
    n_unique = Counter(name for (name, _), n in tags.items() if n == 1)
    return {(name, value) for (name, value), n in tags.items() if n == 1 and 2 * n_unique[name] >= n_values[name]}
