"""Splits of the questions: training and validation for the search, sealed ones for the final test.

Data may have splits of their own, or a level that is sealed (docs/reference/tuning.md); the rest is split by hash, the
questions of each stratum (a level and a kind of attachment) alike:

- A question's id and the seed decide its place in the queue of its stratum: the order of the rows does not matter, and
  a question that is added or removed shifts at most its neighbours at the cuts of its own stratum.
- The cuts are the stratum's exact shares, rounded up or down by a number drawn from the stratum's name: over many small
  strata this averages out.
- The same question asked twice (same text, same attachment) stays in one part, and so do near-duplicates.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from math import floor
from typing import Any

from eval.benchmarks.dataset import Dataset, Sample, classify_attachment, read_labels
from eval.benchmarks.fingerprint import compute_dataset_digest, compute_file_digest, compute_fingerprint
from eval.benchmarks.near_duplicates import IdentityKey, build_identity_keys, find_near_duplicates, format_pairs
from eval.config.evaluation import require
from eval.contamination.forms import COMMON_WORDS
from eval.scorers.labels import LabelSet, find_labels
from mas.prompt_sets.provenance import TunedOn
from mas.runtime.errors import UserError
from mas.runtime.text import format_count

Part = tuple[Sample, ...]

MIN_QUESTIONS = 2  # questions in each part; with one, nothing has a spread
PARTS = ("train", "val", "sealed")


@dataclass
class SplitSettings:
    """The `splits` section of the configuration."""

    train: float = 0.25  # share of the training questions
    val: float = 0.25  # share of the validation questions; the rest is sealed
    sealed_level: str | None = None  # all questions of this level are sealed; null: as the data say
    seed: int = 0  # of the hashes; separate from the search's, so that another search has the same sealed questions

    def check(self) -> None:
        """Check the settings; raise UserError if a share or the seed is out of range."""
        require(self.seed >= 0, "splits.seed", self.seed, "a whole number from 0 on")
        for key, share in (("train", self.train), ("val", self.val)):
            require(0 < share < 1, f"splits.{key}", share, "a share between 0 and 1")
        if self.train + self.val > 1:
            raise UserError(
                f"splits.train={self.train:g} and splits.val={self.val:g} are more than all; make them smaller."
            )


@dataclass
class Splits:
    """The parts, their digests, and warnings for the user."""

    train: Part
    val: Part
    sealed: Part
    warnings: Sequence[str] = ()
    sealed_option: str | None = None  # of eval/run.py, to ask sealed questions alone; None: there is none
    labels: LabelSet = field(default_factory=LabelSet)  # vocabulary of the targets; never from the sealed questions

    def __post_init__(self) -> None:
        """Compute digests over ids, texts, gold answers and attachments; OSError: an attachment cannot be read."""
        parts = (self.train, self.val, self.sealed)
        digests = [compute_dataset_digest(part, ordered=False) for part in parts]
        self.digest = sha256("\n".join(digests).encode()).hexdigest()  # over who is where, too
        self.sealed_digest = digests[2]
        *learnt, self._sealed_marks = (
            frozenset(compute_fingerprint(each.question, compute_file_digest(each)) for each in part) for part in parts
        )
        self.tuned_on = TunedOn(*learnt)  # for the sets that are made with them

    def to_dict(self) -> dict[str, Any]:
        """Return ids, digests and labels, without texts and other targets, so that an optimizer may read it."""
        return {
            **{name: [sample.id for sample in getattr(self, name)] for name in PARTS},
            "digest": self.digest,
            "sealed_digest": self.sealed_digest,
            "warnings": list(self.warnings),
            "tuned_on": self.tuned_on.to_dict(),
            "sealed_option": self.sealed_option,
            "labels": list(self.labels.names),
        }

    def count_known_to(self, parent: TunedOn | None) -> int:
        """Return the number of sealed questions that the parent set was tuned on."""
        return len(self._sealed_marks & (parent.learnt_from | parent.picked_by)) if parent else 0

    def check_same(self, saved: Mapping[str, Any]) -> None:
        """Check that these are the splits that `to_dict` returned when the run began; UserError: they are not."""
        if self.digest == saved.get("digest"):
            return
        raise UserError(
            "questions, gold answers or attachments, or their division, are not those that the run began with; put the "
            "data and splits.* back as they were, or start a new run."
        )


def make_splits(data: Dataset, settings: SplitSettings, split: str | None = None) -> Splits:
    """Split the questions with targets.

    `split`: of the data, to be shared out; None: their own train, val and test splits, else their default split.
    UserError: the data cannot be loaded, a question is in two parts, or a part would have less than two questions.
    """
    settings.check()
    own = getattr(data, "tuning_splits", None)
    try:
        if own and split is None and settings.sealed_level is None:
            parts, warnings = _load(data, *own)
            warnings += _check_apart(dict(zip(own, parts, strict=True)))
            return _build(data, parts, warnings, f"split={own[-1]}")
        return _share_out(data, settings, split or data.default_split)
    except OSError as error:
        cause = (error.strerror or type(error).__name__).lower()
        raise UserError(f"an attachment cannot be read ({error.filename}: {cause}); make it readable.") from error


def _build(
    data: Dataset, parts: Sequence[Part], warnings: Sequence[str], option: str | None, where: str = ""
) -> Splits:
    if min(map(len, parts)) < MIN_QUESTIONS:
        sizes = ", ".join(f"{len(part)} {name}" for name, part in zip(PARTS, parts, strict=False))
        raise UserError(
            f"data={data.name}{where}: the questions with gold answers make {sizes}, and each part needs "
            f"{MIN_QUESTIONS} at least; add questions, or change splits.train and splits.val."
        )
    train, val, sealed = parts
    return Splits(train, val, sealed, tuple(warnings), option, find_labels(train, val, read_labels(data)))


def _load(data: Dataset, *names: str) -> tuple[list[Part], list[str]]:
    """Return the questions with gold answers of each split, and warnings of what is left out."""
    loaded = [data.load(name) for name in names]
    parts = [tuple(each for each in split.samples if each.target is not None) for split in loaded]
    warnings = []
    if bad := [row for split in loaded for row in split.bad_rows]:
        warnings.append(f"left out: {len(bad)} bad rows, the first being {bad[0]}")
    if missing := sum(len(split.samples) for split in loaded) - sum(map(len, parts)):
        warnings.append(f"left out: {format_count(missing, 'question')} without a gold answer")
    return parts, warnings


def _share_out(data: Dataset, settings: SplitSettings, split: str) -> Splits:
    (samples,), warnings = _load(data, split)
    where, shares = f", split {split}", [settings.train, settings.val]
    level, sealed, option = _find_sealed_level(samples, data, settings), list[Part](), None
    pairs = find_near_duplicates(samples, COMMON_WORDS)
    if level is None:
        shares.append(1 - sum(shares))
    else:
        sealed = [tuple(sorted((each for each in samples if each.level == level), key=lambda each: each.id))]
        same, closed = build_identity_keys(samples), {each.id for each in sealed[0]}
        asked = {same[id] for id in closed} | {same[id] for pair in pairs for id in pair if closed & set(pair)}
        others = tuple(each for each in samples if same[each.id] not in asked)
        if n_out := len(samples) - len(sealed[0]) - len(others):
            warnings.append(f"left out: {format_count(n_out, 'question')} of other levels that level {level} asks, too")
        samples = others
        where += f", without level {level}"
        option = shlex.join([*([] if split == data.default_split else [f"split={split}"]), f"level={level}"])
    same, known = build_identity_keys(samples), {each.id for each in samples}
    pairs = [pair for pair in pairs if known.issuperset(pair)]
    if near := [(one, other) for one, other in pairs if same[one] != same[other]]:
        warnings.append(f"near-duplicates stay in one part: {format_pairs(near)}")
    parts = split_by_hash(samples, shares, settings.seed, pairs=pairs)
    if min(map(len, parts)) < MIN_QUESTIONS:  # the strata are so small that a part would be nearly empty
        parts = split_by_hash(samples, shares, settings.seed, by_stratum=False, pairs=pairs)
    return _build(data, parts + sealed, warnings, option, where)


def _find_sealed_level(samples: Part, data: Dataset, settings: SplitSettings) -> str | None:
    """Return the level that is sealed completely; None if there is none."""
    levels = sorted({each.level or "none" for each in samples})
    asked, usual = settings.sealed_level, getattr(data, "sealed_level", None)
    if asked is None:
        return usual if usual in levels and len(levels) > 1 else None
    if asked not in levels or len(levels) == 1:
        raise UserError(
            f"splits.sealed_level={asked} seals no question with a gold answer, or all of them; their levels are: "
            f"{', '.join(levels) or 'none'}; choose one of several, or leave it out."
        )
    return asked


def _check_apart(parts: Mapping[str, Part]) -> list[str]:
    """Check that no question is in two parts, or raise a UserError; return a warning of near-duplicates."""
    samples = [each for part in parts.values() for each in part]
    where: dict[str, str] = {}
    for name, each in ((name, each) for name, part in parts.items() for each in part):
        if where.setdefault(each.id, name) != name:
            raise UserError(f"the id {each.id} is in {where[each.id]} and in {name}; give each question its own id.")
    first: dict[IdentityKey, str] = {}
    for id, key in build_identity_keys(samples).items():
        if where[other := first.setdefault(key, id)] != where[id]:
            raise UserError(
                f"the question {other} of {where[other]} is asked again in {where[id]} as {id}, so that one would be "
                "learnt from and the other test it; take one of them out."
            )
    pairs = find_near_duplicates(samples, COMMON_WORDS)
    apart = [(f"{where[one]} {one}", f"{where[other]} {other}") for one, other in pairs if where[one] != where[other]]
    advice = "the gain will look too large, since learning from one helps with the other: put each pair into one split"
    return [f"near-duplicates in different splits: {format_pairs(apart)}; {advice}"] if apart else []


def split_by_hash(
    samples: Sequence[Sample],
    shares: Sequence[float],
    seed: int,
    by_stratum: bool = True,
    pairs: Iterable[tuple[str, str]] = (),
) -> list[Part]:
    """Split the samples in proportion to `shares`, each part in the order of the hashes; `pairs` stay in one part."""
    strata: dict[str, list[list[Sample]]] = defaultdict(list)
    for group in _group(samples, seed, pairs):
        level, file = group[0].level or "none", group[0].file
        stratum = f"level {level}, {classify_attachment(file.name if file else None)}" if by_stratum else ""
        strata[stratum].append(group)
    parts: list[list[Sample]] = [[] for _ in shares]
    for name, groups in strata.items():
        n, total, offset = sum(map(len, groups)), sum(shares), _hash(seed, f"stratum {name}")
        cuts = [*(floor(n * share / total + offset) for share in list(accumulate(shares))[:-1]), n]
        place = 0
        for group in groups:
            parts[next(part for part, cut in enumerate(cuts) if place < cut)].extend(group)
            place += len(group)
    return [tuple(sorted(part, key=lambda each: _hash(seed, each.id))) for part in parts]


def _group(samples: Sequence[Sample], seed: int, pairs: Iterable[tuple[str, str]]) -> list[list[Sample]]:
    """The same questions and near-duplicates together, in the order of the smallest hash of each group."""
    same, root = build_identity_keys(samples), dict[IdentityKey, IdentityKey]()

    def find(key: IdentityKey) -> IdentityKey:
        while root.get(key, key) != key:
            key = root[key]
        return key

    for one, other in pairs:
        root[find(same[one])] = find(same[other])
    groups: dict[IdentityKey, list[Sample]] = defaultdict(list)
    for sample in sorted(samples, key=lambda each: (_hash(seed, each.id), each.id)):
        groups[find(same[sample.id])].append(sample)
    return list(groups.values())


def _hash(seed: int, name: str) -> float:
    """From 0 to below 1, evenly."""
    return int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:6], "big") / 2**48
