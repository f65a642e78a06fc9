"""Labels: targets that many samples share, such as classes or yes and no. They are vocabulary, not secrets.

    labels = find_labels(train, val)
    labels.names, labels.find(" Billing")           # ("billing", "login", "refund"), "billing"

A target that is wrongly taken for a label is not protected from prompts and feedback: so `find_labels` decides for a
whole set of samples, and `data.labels` overrides it.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from pathlib import PurePath
from typing import Protocol

from eval.benchmarks.dataset import normalise_question

MIN_QUESTIONS = 5  # that share a label
MIN_EVEN_SHARE = 8  # and at least an eighth of what each label would have if they were equally frequent
MIN_COVERED_PERCENT = 90  # of the questions have one of the labels
MIN_SHOWN = 2  # training questions with the label: what validation questions alone say stays unknown to the search
MAX_CHARS = 50  # of a label that nobody has named; a sentence is an answer
_WORD = re.compile(r"\w+")


class Question(Protocol):
    """A sample, a planned question or a record."""

    @property
    def question(self) -> str: ...
    @property
    def file(self) -> PurePath | str | None: ...
    @property
    def target(self) -> str | None: ...


@dataclass(frozen=True)
class LabelSet:
    """The labels of a dataset, in their usual spelling; empty: its targets are answers."""

    names: tuple[str, ...] = ()

    def find(self, text: str | None) -> str | None:
        """Return the label that a text is; None if it is none."""
        return None if text is None else self._by_key.get(normalise_question(text))

    def __bool__(self) -> bool:
        return bool(self.names)

    @cached_property
    def _by_key(self) -> dict[str, str]:
        return {normalise_question(name): name for name in self.names}


def find_labels(samples: Iterable[Question], others: Iterable[Question] = (), given: Sequence[str] = ()) -> LabelSet:
    """Return the labels of samples; none unless their targets are clearly classes.

    Of different questions, at least `MIN_QUESTIONS` share a label, and an eighth of an even share. Labels cover nine
    tenths of the questions, and are at most as many as the square root of the number that they cover. Each occurs in
    `samples`, for tuning the training questions; `others`, the validation questions, are counted as well. Sealed ones
    are never passed. `given`: the labels as the user names them; empty: they are found.
    """
    if given:
        return LabelSet(tuple({normalise_question(name): " ".join(name.split()) for name in given}.values()))
    shown, asked = _group_by_target(samples), _group_by_target(others)
    for key, questions in shown.items():
        asked[key] |= questions
    counts = Counter({key: len(questions) for key, questions in asked.items()})
    found = _find_shared(counts)
    n_covered = sum(counts[key] for key in found)
    known = sorted(key for key in found if len(shown[key]) >= MIN_SHOWN)
    if len(found) > isqrt(n_covered) or 100 * n_covered < MIN_COVERED_PERCENT * counts.total() or len(known) < 2:
        return LabelSet()
    spelt = [Counter(" ".join(each.split()) for each in shown[key].values()) for key in known]
    usual = (min(spellings, key=lambda each: (-spellings[each], each)) for spellings in spelt)
    return LabelSet(tuple(usual))


def _group_by_target(samples: Iterable[Question]) -> defaultdict[str, dict[str, str]]:
    """Return the different questions of each target, each with its spelling of the target."""
    groups: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for sample in samples:
        if sample.target is not None:
            text = normalise_question(sample.question)
            asked = " ".join(_WORD.findall(text)) or text
            file = PurePath(sample.file).name if sample.file else ""
            groups[normalise_question(sample.target)].setdefault(f"{asked}\n{file}", sample.target)
    return groups


def _find_shared(counts: Mapping[str, int]) -> list[str]:
    """Return the targets that enough questions share, the most frequent ones first."""
    found: list[str] = []
    n_covered = 0
    for key in sorted(filter(_is_short, counts), key=lambda key: (-counts[key], key)):
        n_covered += counts[key]
        if counts[key] < MIN_QUESTIONS or counts[key] * MIN_EVEN_SHARE * (len(found) + 1) < n_covered:
            break
        found.append(key)
    return found


def _is_short(key: str) -> bool:
    """Return whether it is short and plain: it is put into requests, so it must not look like a field of one."""
    is_plain = "[[" not in key and all(unicodedata.category(each)[0] != "C" for each in key)
    return is_plain and 0 < len(key) <= MAX_CHARS
