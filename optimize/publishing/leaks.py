"""Leak check: finds targets, questions, ids and file names of the samples in prompts and their demos.

Of a question, eight words in a row count. A hit from the validation or sealed questions blocks the set; one from the
training questions is only reported. Not counted: what the text of the same agent says as often in a parent that passed
the gate (`is_gated`), and the model's own work on a training question in a demo. A short or common target (`5`, `yes`,
`2000`), and one that is a part of a label (`eval.scorers.labels`), counts only if the same paragraph has four words of
its question, its id or its file name.

No report quotes a prompt or a target, and the index is kept in memory only.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from eval.benchmarks.dataset import EXPECTED, Sample, list_gold_texts
from eval.contamination.forms import (
    HINT,
    LONGEST,
    PASSAGE,
    Form,
    FormIndex,
    Reading,
    are_common,
    derive_inflected_forms,
    extract_passages,
)
from eval.scorers.labels import LabelSet
from mas.prompt_sets.prompt_set import PromptSet
from mas.system import Program

Kind = Literal["gold", "question", "id", "file", "near"]  # near: four words of a question, only a hint
SplitName = Literal["train", "val", "test"]

_MAX_SHOWN = 3  # hits that a summary names
_SHORTEST_NAME = 6  # characters of an id or a file's name
_PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class Hit:
    """A place where a prompt contains something of a sample; one of a training question does not block."""

    kind: Kind
    split: SplitName
    agent: str
    place: str  # "text line 12", "demo 2 field result"
    sample_id: str


@dataclass(frozen=True)
class LeakReport:
    """Hits in one prompt set, those that block it first."""

    hits: list[Hit] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)  # number of questions per split

    @property
    def blocking(self) -> list[Hit]:
        return [hit for hit in self.hits if hit.split != "train"]

    @property
    def blocked(self) -> bool:
        return bool(self.blocking)

    def summary(self) -> str:
        """Return one line that names the samples, but never what they say."""
        blocking = self.blocking
        named = [f"{hit.split} {hit.kind} ({hit.agent}, {hit.place}, {hit.sample_id})" for hit in blocking[:_MAX_SHOWN]]
        if len(blocking) > _MAX_SHOWN:
            named.append(f"{len(blocking) - _MAX_SHOWN} more")
        n_shown = len(self.hits) - len(blocking)
        return (", ".join(named) or "nothing that blocks") + (f"; {n_shown} of training questions" if n_shown else "")

    def to_dict(self) -> dict[str, Any]:
        found = {"blocked": self.blocked, "summary": self.summary(), "checked": self.checked}
        return {**found, "hits": [asdict(hit) for hit in self.hits]}


class ProtectedForm(NamedTuple):
    """Something of one sample that a prompt must not contain."""

    kind: Kind
    split: SplitName
    sample_id: str
    weak: bool  # so short or common that alone it proves nothing
    specific: bool  # so long that it is hardly found by chance


class Occurrence(NamedTuple):
    """An occurrence of a protected form in a text."""

    form: ProtectedForm
    start: int  # in the reading's text
    end: int
    key: str  # of what was found


class _Passage:
    """A text that is checked as a whole: an agent's instructions, or one field of a demo."""

    def __init__(self, reading: Reading, occurrences: list[Occurrence], labels: list[tuple[int, int]], place: str):
        """`labels`: where labels stand. `place`: such as "demo 2 field result"; empty: instructions."""
        self._reading, self.occurrences, self._labels, self._place = reading, occurrences, labels, place
        # What proves that a sample is meant, by sample and paragraph.
        self._hints: defaultdict[tuple[str, int], list[Occurrence]] = defaultdict(list)
        for each in occurrences:
            if each.form.kind != "gold":
                self._hints[each.form.sample_id, self._find_paragraph(each)].append(each)

    def describe_place(self, found: Occurrence) -> str:
        line = self._reading.text.count("\n", 0, found.start) + 1
        return self._place or f"text line {line}"

    def is_all(self, found: Occurrence) -> bool:
        """Return whether the passage contains nothing else."""
        words = self._reading.words
        return found.start <= words[0].start and words[-1].end <= found.end

    def is_in_label(self, found: Occurrence) -> bool:
        """Return whether it is a part of a label, as `Paris` is of `Paris office`: the search may name each label."""
        return any(start <= found.start and found.end <= end for start, end in self._labels)

    def has_hint(self, found: Occurrence) -> bool:
        hints = self._hints[found.form.sample_id, self._find_paragraph(found)]
        return any(hint.start >= found.end or hint.end <= found.start for hint in hints)

    def _find_paragraph(self, found: Occurrence) -> int:
        """Return the number of the paragraph; a field of a demo is one."""
        return 0 if self._place else len(_PARAGRAPH.findall(self._reading.text, 0, found.start))


class LeakIndex:
    """Index of the protected forms of a run's samples."""

    def __init__(
        self, train: Sequence[Sample], val: Sequence[Sample], sealed: Sequence[Sample], labels: LabelSet | None = None
    ) -> None:
        self._labels = labels or LabelSet()
        names = sorted((re.escape(Reading(each).text) for each in self._labels.names), key=len, reverse=True)
        self._label = re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)")
        self._index = FormIndex()
        self._forms: defaultdict[str, dict[ProtectedForm, None]] = defaultdict(dict)  # each once, in order
        splits: tuple[tuple[SplitName, Sequence[Sample]], ...] = (("train", train), ("val", val), ("test", sealed))
        self.sizes: dict[str, int] = {split: len(samples) for split, samples in splits}
        for split, samples in splits:
            for sample in samples:
                for kind, form in self._derive_forms(sample):
                    protected = ProtectedForm(kind, split, sample.id, form.weak, form.specific)
                    self._forms[self._index.add(form)][protected] = None
        self._in_training: set[str] = set()  # what the training questions contain as well, and may be the source of
        for sample in train:
            for text in (sample.question, *_list_gold_queries(sample)):
                self._in_training |= self._find_keys(text)
        for key in self._in_training:  # passages of other questions that a training question contains as well
            mine = (each for each in self._forms[key] if each.split == "train" or each.kind not in ("question", "near"))
            self._forms[key] = dict.fromkeys(mine)

    def _find_keys(self, text: str) -> set[str]:
        return {key for key, _, _ in self._index.find(Reading(text))}

    def _derive_forms(self, sample: Sample) -> Iterator[tuple[Kind, Form]]:
        for text in (sample.question, *_list_gold_queries(sample)):
            yield from (("question", each) for each in extract_passages(text, PASSAGE))
        yield from (("near", each) for each in extract_passages(sample.question, HINT))
        yield from (("id", each) for each in _derive_name_forms(sample.id))
        if sample.target is not None and sample.target.strip() != "?" and self._labels.find(sample.target) is None:
            yield from (("gold", each) for each in derive_inflected_forms(sample.target))
        if sample.file is not None and sample.file.stem != sample.id:
            yield from (("file", each) for each in _derive_name_forms(sample.file.stem))

    def check(
        self, prompts: PromptSet, parent: PromptSet, system_words: Iterable[str] = (), is_parent_gated: bool = False
    ) -> LeakReport:
        """Find leaks that `prompts` contains and a gated `parent`, the set that the search started from, does not.

        `system_words`: of the system itself; a target among them counts only close to its question. `is_parent_gated`:
        it passed the gate and is unchanged since, so what it contains is no leak of this search.
        """
        common_keys = {key for text in system_words for key in self._find_keys(text)}
        hits = []
        for agent in prompts.texts:
            inherited: Counter[tuple[ProtectedForm, str]] = Counter()
            if is_parent_gated and agent in parent.texts:
                inherited.update((found.form, found.key) for _, found in self._check_agent(parent, agent, common_keys))
            for passage, found in self._check_agent(prompts, agent, common_keys):
                if inherited[found.form, found.key] > 0:  # as many as the parent has, the first ones
                    inherited[found.form, found.key] -= 1
                else:
                    form, place = found.form, passage.describe_place(found)
                    hits.append(Hit(form.kind, form.split, agent, place, form.sample_id))
        return LeakReport(sorted(dict.fromkeys(hits), key=lambda hit: hit.split == "train"), self.sizes)

    def _check_agent(
        self, prompts: PromptSet, agent: str, common_keys: set[str]
    ) -> Iterator[tuple[_Passage, Occurrence]]:
        """Yield what counts in an agent's text and demos, before the comparison with the parent."""
        yield from self._check_passages([self._read(prompts.texts[agent])], common_keys, set())
        for number, demo in enumerate(prompts.demos.get(agent, ()), start=1):
            passages = [self._read(value, f"demo {number} field {name}") for name, value in demo.items()]
            yield from self._check_passages(passages, common_keys, _find_training_examples(passages))

    def _read(self, value: object, place: str = "") -> _Passage:
        reading = Reading("\n".join(_list_texts(value)))
        places = self._index.find(reading)
        found = [Occurrence(form, start, end, key) for key, start, end in places for form in self._forms[key]]
        return _Passage(reading, found, [each.span() for each in self._label.finditer(reading.text)], place)

    def _check_passages(
        self, passages: Sequence[_Passage], common_keys: set[str], training: set[str]
    ) -> Iterator[tuple[_Passage, Occurrence]]:
        """Yield the findings in a text, or in a demo; what one made on a training question has of it is allowed.

        In such a demo the target of another question counts only if it is close to that question, is all that a field
        contains, or is long; otherwise it comes from the training question's own material.
        """
        own = {each.key for passage in passages for each in passage.occurrences if each.form.sample_id in training}
        for passage in passages:
            for found in passage.occurrences:
                form, key, needs_hint = found.form, found.key, False
                if form.kind == "near" or form.sample_id in training or key in own:
                    continue
                if form.kind == "gold":
                    is_common = key in common_keys or (form.split != "train" and key in self._in_training)
                    is_by_chance = bool(training) and not (form.specific or passage.is_all(found))
                    needs_hint = form.weak or is_common or is_by_chance or passage.is_in_label(found)
                if not needs_hint or passage.has_hint(found):
                    yield passage, found


def _derive_name_forms(name: str) -> Iterator[Form]:
    """Yield the form of an id or of a file's name, unless it is short or common: `data.csv`, `image_2.png`."""
    words = [word.text for word in Reading(name).words]
    run = "".join(words)
    if _SHORTEST_NAME <= len(run) <= LONGEST and not are_common(words, max_digits=4):
        yield Form(run)


def _list_gold_queries(sample: Sample) -> list[str]:
    return list_gold_texts(EXPECTED, sample.tags.get(EXPECTED, "{}"))


def collect_system_words(program: Program) -> list[str]:
    """Return the names of a program's tools and fields, which its prompts may contain."""
    tools = {name for box in program.toolboxes.values() for name in box.tools}
    return sorted(tools | {name for _, predictor in program.named_predictors() for name in predictor.signature.fields})


def _find_training_examples(passages: Iterable[_Passage]) -> set[str]:
    """Return the training questions that a demo was made on, as far as it contains them."""
    forms = (found.form for passage in passages for found in passage.occurrences)
    return {each.sample_id for each in forms if each.split == "train" and each.kind in ("question", "id", "file")}


def _list_texts(value: object) -> Iterator[str]:
    """Yield all texts in a value of a demo: JSON with conversations and tool calls."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _list_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _list_texts(item)
    elif value is not None:
        yield str(value)
