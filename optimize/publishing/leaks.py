"""Leak check: finds targets, questions, ids and file names of the samples in prompts and their demos.

Of a question, eight words in a row count. A hit from the validation or sealed questions blocks the set; one from the
training questions is only reported. Not counted: what the text of the same agent says as often in a parent that passed
the gate (`is_gated`), and the model's own work on a training question in a demo. A short or common target (`5`, `yes`,
`2000`), and one that is a part of a label (`eval.scorers.labels`), counts only if the same paragraph has four words of
its question, its id or its file name. A value of a further column (`data.tags`) counts like the target if one sample
alone has it and most samples have one of their own.

    index = LeakIndex(splits.train, splits.val, splits.sealed)
    report = index.check(candidate.prompts, parent, is_parent_gated=True)
    report.blocked, report.summary()      # True, "val gold (finalizer, text line 12, q17)"

No report quotes a prompt or a target, and the index is kept in memory only.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from eval.benchmarks.dataset import EXPECTED, Sample, list_gold_texts
from eval.contamination.forms import (
    HINT,
    LONGEST,
    PASSAGE,
    SHORT,
    Form,
    FormIndex,
    Key,
    Reading,
    are_common,
    derive_inflected_forms,
    extract_passages,
    join_words,
)
from eval.runs.run_info import list_offered_tools
from eval.scorers.labels import LabelSet
from mas.prompt_sets.prompt_set import PromptSet
from mas.system import Program

Kind = Literal["gold", "question", "id", "file", "near"]  # near: four words of a question, only a hint
SplitName = Literal["train", "val", "test"]
Status = Literal["blocking", "shown", "inherited", "allowed"]

OF_TRAINING = "demo of a training question"
OF_UNGATED_PARENT = "in the starting prompts as well, which have not passed the gate as they are"
_QUIET = {  # statuses in a summary; the worst comes first
    "blocking": None,
    "shown": "of training questions",
    "inherited": "that the parent has as well",
    "allowed": "in demos of training questions",
}
_MAX_SHOWN = 3  # hits that a summary names
_SHORTEST_ID, _SHORTEST_STEM = 6, 6  # characters


@dataclass(frozen=True)
class Hit:
    """A place where a prompt contains something of a sample."""

    kind: Kind
    split: SplitName
    agent: str
    place: str  # "text line 12", "demo 2 field result"
    sample_id: str
    status: Status
    note: str = ""


@dataclass(frozen=True)
class LeakReport:
    """Hits in one prompt set."""

    hits: list[Hit] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)  # number of questions per split

    @property
    def blocked(self) -> bool:
        return any(hit.status == "blocking" for hit in self.hits)

    def summary(self) -> str:
        """Return one line that names the samples, but never what they say."""
        blocking = [hit for hit in self.hits if hit.status == "blocking"]
        shown = [f"{hit.split} {hit.kind} ({hit.agent}, {hit.place}, {hit.sample_id})" for hit in blocking[:_MAX_SHOWN]]
        more = [f"{len(blocking) - _MAX_SHOWN} more"] if len(blocking) > _MAX_SHOWN else []
        kinds = [hit.note if hit.note == OF_UNGATED_PARENT else _QUIET[hit.status] for hit in self.hits]
        counts = Counter(sorted(filter(None, kinds), key=lambda kind: kind != OF_UNGATED_PARENT))
        return "; ".join([", ".join([*shown, *more]) or "nothing that blocks", *(f"{counts[k]} {k}" for k in counts)])

    def to_dict(self) -> dict[str, Any]:
        return {"blocked": self.blocked, "checked": self.checked, "hits": [asdict(hit) for hit in self.hits]}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "LeakReport":
        return LeakReport([Hit(**hit) for hit in data["hits"]], dict(data["checked"]))


@dataclass(frozen=True, slots=True)
class ProtectedForm:
    """A form of something of one sample, to be looked for in a prompt."""

    kind: Kind
    split: SplitName
    sample_id: str
    weak: bool  # so short or common that alone it proves nothing
    specific: bool = False  # so long that it is hardly found by chance


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence of a protected form in a text."""

    form: ProtectedForm
    start: int  # in the reading's text
    end: int
    key: Key  # of what was found


@dataclass(frozen=True)
class _Passage:
    """A text that is checked as a whole: an agent's instructions, or one field of a demo."""

    reading: Reading
    occurrences: list[Occurrence]
    labels: list[tuple[int, int]]  # where labels stand
    place: str  # "demo 2 field result"; empty: instructions
    is_text: bool  # not a conversation

    def describe_place(self, found: Occurrence) -> str:
        return self.place or f"text line {self.reading.find_line(found.start) + 1}"

    def is_all(self, found: Occurrence) -> bool:
        """Return whether the passage contains nothing else."""
        words = self.reading.words
        return self.is_text and found.start <= words[0].start and words[-1].end <= found.end

    def is_in_label(self, found: Occurrence) -> bool:
        """Return whether it is a part of a label, as `Paris` is of `Paris office`: the search may name each label."""
        return any(start <= found.start and found.end <= end for start, end in self.labels)

    def group_hints(self) -> defaultdict[tuple[str, int], list[Occurrence]]:
        """Return what proves that a sample is meant, by sample and paragraph; a field of a demo is one."""
        hints: defaultdict[tuple[str, int], list[Occurrence]] = defaultdict(list)
        for each in self.occurrences:
            if each.form.kind != "gold":
                hints[each.form.sample_id, self.find_paragraph(each)].append(each)
        return hints

    def find_paragraph(self, found: Occurrence) -> int:
        return 0 if self.place else self.reading.find_paragraph(found.start)


_Finding = tuple[_Passage, Occurrence, bool]  # True: it is allowed


class LeakIndex:
    """Index of the protected forms of a run's samples."""

    def __init__(
        self, train: Sequence[Sample], val: Sequence[Sample], sealed: Sequence[Sample], labels: LabelSet | None = None
    ) -> None:
        self._labels = labels or LabelSet()
        names = sorted((re.escape(Reading(each).text) for each in self._labels.names), key=len, reverse=True)
        self._label = re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)")
        self._index = FormIndex()
        self._forms: defaultdict[Key, dict[ProtectedForm, None]] = defaultdict(dict)  # each once, in order
        splits: tuple[tuple[SplitName, Sequence[Sample]], ...] = (("train", train), ("val", val), ("test", sealed))
        self.sizes: dict[str, int] = {split: len(samples) for split, samples in splits}
        private = _find_private_tags([*train, *val, *sealed])
        for split, samples in splits:
            for sample in samples:
                for kind, form in self._derive_forms(sample, private):
                    protected = ProtectedForm(kind, split, sample.id, form.weak, form.specific)
                    self._forms[self._index.add(form)][protected] = None
        self._in_training: set[Key] = set()  # what the training questions contain as well, and may be the source of
        for sample in train:
            for text in (sample.question, *list_gold_texts(EXPECTED, sample.tags.get(EXPECTED, "{}"))):
                self._in_training |= self._find_keys(text)
        for key in self._in_training:  # passages of other questions that a training question contains as well
            mine = (each for each in self._forms[key] if each.split == "train" or each.kind not in ("question", "near"))
            self._forms[key] = dict.fromkeys(mine)

    def _find_keys(self, text: str) -> set[Key]:
        return {key for key, _, _ in self._index.find(Reading(text))}

    def _derive_forms(self, sample: Sample, private: set[tuple[str, str]]) -> Iterator[tuple[Kind, Form]]:
        yield from (("question", each) for each in extract_passages(sample.question, PASSAGE))
        yield from (("near", each) for each in extract_passages(sample.question, HINT))
        yield from (("id", each) for each in _derive_id_forms(sample.id))
        secrets = []
        if sample.target is not None and sample.target.strip() != "?" and self._labels.find(sample.target) is None:
            secrets.append(sample.target)
        if sample.file is not None:
            yield from (("file", each) for each in _derive_file_forms(sample.file.stem, sample.file.suffix, sample.id))
        for name, value in sample.tags.items():
            if name == EXPECTED:  # passages of gold queries
                for text in list_gold_texts(name, value):
                    yield from (("question", each) for each in extract_passages(text, PASSAGE))
            elif (name, value) in private and value not in sample.question:
                secrets.append(value)
        yield from (("gold", each) for secret in secrets for each in derive_inflected_forms(secret))

    def check(
        self, prompts: PromptSet, parent: PromptSet, system_words: Iterable[str] = (), is_parent_gated: bool = False
    ) -> LeakReport:
        """Find leaks that `prompts` contains and a gated `parent`, the set that the search started from, does not.

        `system_words`: of the system itself; a target among them counts only close to its question. `is_parent_gated`:
        it passed the gate and is unchanged since, so what it contains is no leak of this search.
        """
        common_keys = {key for text in system_words for key in self._find_keys(text)}
        found: list[Hit] = []
        for agent in prompts.texts:
            mine = list(self._check_agent(prompts, agent, common_keys))
            theirs = list(self._check_agent(parent, agent, common_keys)) if agent in parent.texts else []
            found += _classify_hits(agent, mine, theirs, is_parent_gated)
        hits: dict[tuple[str, ...], Hit] = {}
        for hit in sorted(found, key=lambda each: list(_QUIET).index(each.status)):
            hits.setdefault((hit.kind, hit.split, hit.agent, hit.place, hit.sample_id), hit)
        return LeakReport(list(hits.values()), self.sizes)

    def _check_agent(self, prompts: PromptSet, agent: str, common_keys: set[Key]) -> Iterator[_Finding]:
        """Yield what counts in an agent's text and demos, before the comparison with the parent."""
        yield from self._check_passages([self._read(prompts.texts[agent])], common_keys, set())
        for number, demo in enumerate(prompts.demos.get(agent, ()), start=1):
            passages = [self._read(value, f"demo {number} field {name}") for name, value in demo.items()]
            yield from self._check_passages(passages, common_keys, _find_training_examples(passages))

    def _read(self, value: object, place: str = "") -> _Passage:
        reading = Reading("\n".join(_list_texts(value)))
        places = self._index.find(reading)
        found = [Occurrence(form, start, end, key) for key, start, end in places for form in self._forms[key]]
        labels = [each.span() for each in self._label.finditer(reading.text)]
        return _Passage(reading, found, labels, place, isinstance(value, str | int | float))

    def _check_passages(
        self, passages: Sequence[_Passage], common_keys: set[Key], training: set[str]
    ) -> Iterator[_Finding]:
        """Yield the findings in a text, or in a demo; what one made on a training question has of it is allowed.

        In such a demo the target of another question counts only if it is close to that question, is all that a field
        contains, or is long; otherwise it comes from the training question's own material.
        """
        own = {each.key for passage in passages for each in passage.occurrences if each.form.sample_id in training}
        for passage in passages:
            hints = passage.group_hints()
            for found in passage.occurrences:
                form, key, needs_hint = found.form, found.key, False
                if form.kind == "near":
                    continue
                if form.sample_id in training or key in own:
                    yield passage, found, True
                    continue
                if form.kind == "gold":
                    is_common = key in common_keys or (form.split != "train" and key in self._in_training)
                    is_by_chance = bool(training) and not (form.specific or passage.is_all(found))
                    needs_hint = form.weak or is_common or is_by_chance or passage.is_in_label(found)
                if not needs_hint or any(
                    hint.start >= found.end or hint.end <= found.start
                    for hint in hints[form.sample_id, passage.find_paragraph(found)]
                ):
                    yield passage, found, False


def _derive_id_forms(sample_id: str) -> Iterator[Form]:
    words = [word.text for word in Reading(sample_id).words]
    run = "".join(words)
    if _SHORTEST_ID <= len(run) <= LONGEST and not are_common(words, max_digits=4):
        yield Form("word", run)


def _derive_file_forms(stem: str, suffix: str, sample_id: str) -> Iterator[Form]:
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


def collect_system_words(program: Program) -> list[str]:
    """Return the names of a program's tools and fields, which its prompts may contain."""
    tools = {name for names in list_offered_tools(program).values() for name in names}
    return sorted(tools | {name for _, predictor in program.named_predictors() for name in predictor.signature.fields})


def _classify_hits(agent: str, mine: list[_Finding], theirs: list[_Finding], is_parent_gated: bool) -> Iterator[Hit]:
    """Yield an agent's findings as hits; as many as a gated parent has are inherited, the first ones."""
    left = Counter((found.form, found.key) for _, found, _ in theirs)
    for passage, found, is_allowed in mine:
        form, note = found.form, ""
        status: Status = "shown" if form.split == "train" else "blocking"
        parent_has_it = left[form, found.key] > 0
        left[form, found.key] -= parent_has_it
        if parent_has_it and is_parent_gated:
            status = "inherited"
        elif is_allowed:
            status, note = "allowed", OF_TRAINING
        elif parent_has_it and status == "blocking":
            note = OF_UNGATED_PARENT
        yield Hit(form.kind, form.split, agent, passage.describe_place(found), form.sample_id, status, note)


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
