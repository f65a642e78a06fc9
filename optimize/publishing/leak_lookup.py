"""Index of what must not get into a prompt: targets, questions, ids and file names of all splits.

It is kept in memory only and never written.

A value of a further column (`data.tags`) counts like the target if one sample alone has it and most samples have one
of their own there: the user's metric may judge by it. Others are categories.

A sample whose target is a label (`eval.scorers.labels`) has no secret target. Its question, id and file are protected
as all others are, and its label with six words of its question.

    lookup = Lookup(train, val, sealed)
    lookup.find(Reading("The answer is Paveldel."))[0].form      # ProtectedForm("gold", "val", "q17", …)
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from eval.benchmarks.dataset import EXPECTED, Sample, list_gold_texts
from eval.contamination.form_index import FormIndex, Key
from eval.contamination.forms import (
    HINT,
    LONGEST,
    PASSAGE,
    SHORT,
    Form,
    are_common,
    derive_forms,
    derive_inflected_forms,
    derive_whole_forms,
    extract_passages,
)
from eval.contamination.text import Reading, join_words
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
    key: Key  # of what was found


class Lookup:
    """Index of protected forms."""

    def __init__(
        self, train: Sequence[Sample], val: Sequence[Sample], sealed: Sequence[Sample], labels: LabelSet | None = None
    ) -> None:
        self._labels = labels or LabelSet()
        self._label_texts = {Reading(name).text for name in self._labels.names}
        self._index = FormIndex()
        self._forms: defaultdict[Key, dict[ProtectedForm, None]] = defaultdict(dict)  # each once, in order
        splits: tuple[tuple[SplitName, Sequence[Sample]], ...] = (("train", train), ("val", val), ("test", sealed))
        self.sizes: dict[str, int] = {split: len(samples) for split, samples in splits}
        private = _find_private_tags([*train, *val, *sealed])
        for split, samples in splits:
            for sample in samples:
                self._add_sample(split, sample, private)
        self._in_training: set[Key] = set()  # what the training questions hold
        for sample in train:
            for text in (sample.question, *list_gold_texts(EXPECTED, sample.tags.get(EXPECTED, "{}"))):
                self._in_training |= self.find_keys(text)
        for key in self._in_training:  # passages of other questions that a training question contains as well
            mine = (each for each in self._forms[key] if each.split == "train" or each.kind not in ("question", "near"))
            self._forms[key] = dict.fromkeys(mine)

    def find(self, reading: Reading) -> list[Occurrence]:
        """Return all occurrences in a text, weak forms and hints included."""
        places = self._index.find(reading)
        return [Occurrence(form, start, end, key) for key, start, end in places for form in self._forms[key]]

    def find_keys(self, text: str) -> set[Key]:
        return {key for key, _, _ in self._index.find(Reading(text))}

    def find_label_spans(self, reading: Reading, occurrences: Iterable[Occurrence]) -> set[tuple[int, int]]:
        """Return where labels stand as they are written, apart from case: `Paris, office` is not `Paris office`."""
        spans = {(each.start, each.end) for each in occurrences if each.form.label}
        return {(start, end) for start, end in spans if reading.text[start:end] in self._label_texts}

    def is_in_training(self, occurrence: Occurrence) -> bool:
        """Return whether a training question contains it as well, and may be its source."""
        return occurrence.key in self._in_training

    def _add_sample(self, split: SplitName, sample: Sample, private: set[tuple[str, str]]) -> None:
        has_label = self._labels.find(sample.target) is not None
        forms: list[tuple[Kind, Iterable[Form]]] = [
            ("question", extract_passages(sample.question, PASSAGE)),
            ("near", extract_passages(sample.question, _LABEL_HINT if has_label else HINT)),
            ("id", _id_forms(sample.id)),
        ]
        if sample.target is not None and has_label:
            self._add_label(split, sample.id, sample.target)
        elif sample.target is not None and sample.target.strip() != "?":
            forms.append(("gold", derive_inflected_forms(sample.target)))
        if sample.file is not None:
            forms.append(("file", _file_forms(sample.file.stem, sample.file.suffix, sample.id)))
        for name, value in sample.tags.items():
            if name == EXPECTED:  # passages of gold queries
                forms += [("question", extract_passages(text, PASSAGE)) for text in list_gold_texts(name, value)]
            elif (name, value) in private and value not in sample.question:
                forms.append(("gold", derive_inflected_forms(value)))
        for kind, each in forms:
            for form in each:
                self._add(form, ProtectedForm(kind, split, sample.id, form.weak, form.specific))

    def _add_label(self, split: SplitName, sample_id: str, target: str) -> None:
        whole = {form for form in derive_whole_forms(target) if form.how == "word"}
        for form in derive_forms(target):
            self._add(form, ProtectedForm("gold", split, sample_id, weak=True, label=form in whole))

    def _add(self, form: Form, protected: ProtectedForm) -> None:
        self._forms[self._index.add(form)][protected] = None


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
