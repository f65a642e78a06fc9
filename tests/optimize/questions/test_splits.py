"""Who learns from what: own splits, a sealed level, and hashed ones that do not care about the order of the rows."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pytest

from eval.benchmarks.dataset import Sample, Split
from eval.benchmarks.hugging_face import GaiaDataset
from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from mas.runtime.errors import UserError
from optimize.questions.splits import (
    PARTS,
    Splits,
    SplitSettings,
    make_splits,
)


@dataclass
class Rows:
    """Data with the given questions."""

    samples: Sequence[Sample]
    name: str = "mine"
    default_split: str = "all"
    bad_rows: tuple[str, ...] = ()

    def load(self, split: str) -> Split:
        return Split(tuple(self.samples), self.bad_rows)


@dataclass
class Levelled(Rows):
    sealed_level: ClassVar[str] = GaiaDataset.sealed_level


@dataclass
class Presplit(Rows):
    tuning_splits: ClassVar[tuple[str, str, str]] = ("a", "b", "c")
    parts: Mapping[str, Sequence[Sample]] = field(default_factory=dict)

    def load(self, split: str) -> Split:
        return Split(tuple(self.parts[split]))


def sample(number: int, level: str | None = None, suffix: str | None = None, target: str | None = "4") -> Sample:
    file = Path(f"/data/{number}{suffix}") if suffix else None
    return Sample(f"q{number:03d}", f"What is {number} plus one?", file, target, level)


def questions(n: int, level: str | None = None) -> list[Sample]:
    return [sample(number, level) for number in range(n)]


def labelled(name: str, *targets: str) -> list[Sample]:
    """Twelve questions of each target."""
    return [
        Sample(f"{name}-{target}-{at}", f"{name} {target} {at}", target=target)
        for target in targets
        for at in range(12)
    ]


def test_labels_are_those_of_training_and_validation_never_of_sealed_questions() -> None:
    parts = {
        "a": labelled("train", "billing", "refund"),
        "b": labelled("val", "billing", "refund"),
        "c": labelled("sealed", "billing", "chargeback"),
    }
    splits = make_splits(Presplit((), parts=parts), SplitSettings())
    assert splits.labels.names == ("billing", "refund")
    assert splits.to_dict()["labels"] == ["billing", "refund"]
    sealed_alone = parts | {"a": questions(40), "b": [replace(each, id=f"v{each.id}", question=f"v{each.question}")
                                                     for each in questions(40)]}  # fmt: skip
    assert not make_splits(Presplit((), parts=sealed_alone), SplitSettings()).labels


def parts_of(splits: Splits) -> list[set[str]]:
    return [{each.id for each in getattr(splits, name)} for name in PARTS]


def test_the_sample_and_the_toy_come_with_splits_of_their_own() -> None:
    for data, sealed in ((BundledDataset(), 69), (ToyDataset(n_test=30), 30)):
        splits = make_splits(data, SplitSettings())
        assert splits.train == data.load("train").samples
        assert splits.val == data.load("val").samples
        assert splits.sealed == data.load("test").samples
        assert len(splits.sealed) == sealed
        assert splits.warnings == ()


def test_own_splits_that_share_a_question_are_refused() -> None:
    many = questions(9)
    parts = {
        "a": many[:3],
        "b": many[3:6],
        "c": [*many[6:], replace(many[0], id="other", question="WHAT is 0  plus one?")],
    }
    with pytest.raises(UserError, match="the question q000 of a is asked again in c as other"):
        make_splits(Presplit([], parts=parts), SplitSettings())
    with pytest.raises(UserError, match="the id q000 is in a and in c"):
        make_splits(Presplit([], parts={**parts, "c": many[:3]}), SplitSettings())


def test_the_same_text_about_another_file_is_another_question(tmp_path: Path) -> None:
    for name, text in (("1.txt", "a"), ("2.txt", "b"), ("3.txt", "a")):
        (tmp_path / name).write_text(text)
    many = questions(9)
    asked = [replace(many[n], question="How many rows?", file=tmp_path / f"{n}.txt") for n in (1, 2, 3)]
    parts = {"a": [asked[0], many[4]], "b": [asked[1], many[5]], "c": many[6:8]}
    assert make_splits(Presplit([], parts=parts), SplitSettings()).train == tuple(parts["a"])
    with pytest.raises(UserError, match="asked again"):
        make_splits(Presplit([], parts={**parts, "c": [asked[2], many[6]]}), SplitSettings())


@pytest.mark.parametrize("seed", range(10))
def test_the_same_question_twice_stays_in_one_part(seed: int) -> None:
    many = questions(20)
    twice = [*many, *(replace(each, id=f"{each.id}-again", level="9") for each in many)]
    splits = make_splits(Rows(twice), SplitSettings(seed=seed))
    for part in parts_of(splits):
        assert {f"{id}-again" for id in part if "again" not in id} == {id for id in part if "again" in id}


NEARLY = "In which year did the keeper of the {} lighthouse write down the storm that broke lamp {}?"


def near_duplicates(n: int) -> tuple[list[Sample], list[Sample]]:
    """So many questions, and each again in other words."""
    first = [replace(sample(at), question=NEARLY.format(f"Velm{at}", f"x{at}"), target=f"18{at}") for at in range(n)]
    again = [replace(each, id=f"{each.id}-again", question=f"Please: {each.question}", level="9") for each in first]
    return first, again


@pytest.mark.parametrize("seed", range(5))
def test_near_duplicates_stay_in_one_part_and_the_user_is_warned(seed: int) -> None:
    first, again = near_duplicates(12)
    many = [replace(each, question=f"Which of {each.id}?") for each in questions(60)[20:]]
    splits = make_splits(Rows([*first, *again, *many]), SplitSettings(seed=seed))
    for part in parts_of(splits):
        assert {f"{id}-again" for id in part if id < "q012"} >= {id for id in part if "again" in id}
        assert {id for id in part if f"{id}-again" in part} == {id for id in part if id < "q012" and "again" not in id}
    assert splits.warnings == (
        "near-duplicates stay in one part: 12 pairs of questions (q000 and q000-again, q001 and q001-again, "
        "q002 and q002-again, …)",
    )
    without = [make_splits(Rows([*first, *many]), SplitSettings(seed=seed)) for _ in range(2)]
    assert without[0] == without[1] and without[0].warnings == ()


def test_near_duplicates_across_splits_of_the_datas_own_are_warned_of() -> None:
    first, again = near_duplicates(3)
    many = questions(20)
    parts = {"a": [*first, *many[3:6]], "b": many[6:9], "c": [*again[:1], *many[9:12]]}
    (warning,) = make_splits(Presplit([], parts=parts), SplitSettings()).warnings
    assert warning.startswith("near-duplicates in different splits: 1 pair of questions (a q000 and c q000-again); ")
    parts["a"] += again[1:]
    assert len(make_splits(Presplit([], parts=parts), SplitSettings()).warnings) == 1


def test_near_duplicates_of_a_sealed_level_are_not_learnt_from() -> None:
    first, again = near_duplicates(3)
    sealed = [replace(each, level="1") for each in first]
    others = [sample(number, level="9") for number in range(10, 22)]
    splits = make_splits(Levelled([*sealed, *again[:2], *others]), SplitSettings())
    assert parts_of(splits)[2] == {each.id for each in sealed}
    assert not {each.id for each in again} & set().union(*parts_of(splits))
    assert splits.warnings == ("left out: 2 questions of other levels that level 1 asks, too",)


def test_of_gaia_level_1_is_sealed_and_the_other_levels_are_halved() -> None:
    samples = [sample(n, level) for n, level in enumerate(["1"] * 53 + ["2"] * 86 + ["3"] * 26)]
    splits = make_splits(Levelled(samples), SplitSettings())
    assert Counter(each.level for each in splits.sealed) == {"1": 53}
    assert Counter(each.level for each in splits.train) == {"2": 43, "3": 13}
    assert Counter(each.level for each in splits.val) == {"2": 43, "3": 13}
    assert splits.warnings == ()
    assert Counter(each.level for each in make_splits(Levelled(samples), SplitSettings(sealed_level="3")).sealed) == {
        "3": 26
    }


def test_a_sealed_question_that_another_level_asks_too_is_not_learnt_from() -> None:
    samples = [sample(n, level) for n, level in enumerate(["1"] * 4 + ["2"] * 12)]
    copy = replace(samples[0], id="copy", level="2")
    splits = make_splits(Levelled([*samples, copy]), SplitSettings())
    assert "copy" not in set().union(*parts_of(splits))
    assert splits.warnings == ("left out: 1 question of other levels that level 1 asks, too",)


def test_questions_without_gold_answers_are_left_out_and_counted() -> None:
    rows = [*questions(20), *(sample(n, target=None) for n in range(20, 23))]
    splits = make_splits(Rows(rows, bad_rows=("line 3: empty",)), SplitSettings())
    assert sum(len(part) for part in parts_of(splits)) == 20
    assert splits.warnings == (
        "left out: 1 bad rows, the first being line 3: empty",
        "left out: 3 questions without a gold answer",
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (SplitSettings(train=0), "splits.train=0 is out of range"),
        (SplitSettings(val=float("nan")), "splits.val=nan is out of range"),
        (SplitSettings(train=0.6, val=0.5), "more than all"),
        (SplitSettings(seed=-1), "splits.seed=-1 is out of range"),
        (SplitSettings(train=0.5, val=0.5), "0 sealed, and each part needs 2"),
        (SplitSettings(train=0.05), "make 1 train, 5 val, 14 sealed, and each part needs 2"),
        (SplitSettings(sealed_level=" "), "splits.sealed_level=  seals no question"),
        (SplitSettings(sealed_level="7"), "their levels are: 2; choose one of several"),
        (SplitSettings(sealed_level="2"), "or all of them; their levels are: 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: SplitSettings, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_splits(Rows(questions(20, level="2")), settings)


def test_too_few_questions_are_refused() -> None:
    for n in (0, 1, 5):
        with pytest.raises(UserError, match="each part needs 2"):
            make_splits(Rows(questions(n)), SplitSettings())


def test_a_resumed_run_has_the_same_splits_in_whatever_order() -> None:
    rows = questions(20)
    splits = make_splits(Rows(rows), SplitSettings())
    saved = json.loads(json.dumps(splits.to_dict()))
    assert "What is" not in json.dumps(saved)
    make_splits(Rows(rows[::-1]), SplitSettings()).check_same(saved)
    with pytest.raises(UserError, match="not those that the run began with"):
        make_splits(Rows(rows), SplitSettings(seed=1)).check_same(saved)
    changed = make_splits(Rows([replace(each, target="5") for each in rows]), SplitSettings())
    with pytest.raises(UserError, match="gold answers or attachments, or their division, are not those"):
        changed.check_same(saved)
    assert changed.sealed_digest != splits.sealed_digest
