"""Who learns from what: own splits, a sealed level, and hashed ones that do not care about the order of the rows."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from eval.benchmarks.dataset import Sample, Split
from eval.benchmarks.fingerprint import compute_fingerprint
from eval.benchmarks.gaia import GaiaDataset
from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from mas.prompt_sets.tuned_on import TunedOn
from mas.runtime.errors import UserError
from optimize.questions.allocation import split_by_hash
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
    sealed_name: ClassVar[str] = GaiaDataset.sealed_name


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
    assert splits.labels.names == ("billing", "refund") and splits.labels.n_rare == 0
    assert splits.to_dict()["labels"] == ["billing", "refund"]
    sealed_alone = parts | {"a": questions(40), "b": [replace(each, id=f"v{each.id}", question=f"v{each.question}")
                                                     for each in questions(40)]}  # fmt: skip
    assert not make_splits(Presplit((), parts=sealed_alone), SplitSettings()).labels


def test_labels_that_the_data_name_are_the_labels() -> None:
    @dataclass
    class Named(Rows):
        labels: Sequence[object] = (True, "no")

    splits = make_splits(Named(labelled("row", "True", "no")), SplitSettings())
    assert splits.labels.names == ("True", "no")


def without_files(samples: Sequence[Sample]) -> list[Sample]:
    return [replace(each, file=None) for each in samples]


def parts_of(splits: Splits) -> list[set[str]]:
    return [{each.id for each in getattr(splits, name)} for name in PARTS]


def test_another_seed_gives_other_splits_and_the_same_seed_the_same() -> None:
    splits = [make_splits(Rows(questions(40)), SplitSettings(seed=seed)) for seed in (0, 0, 1)]
    assert splits[0] == splits[1]
    assert parts_of(splits[0]) != parts_of(splits[2])
    assert [len(part) for part in parts_of(splits[0])] == [10, 10, 20]


def test_strata_too_small_to_share_out_are_shared_out_together() -> None:
    for seed in range(30):
        splits = make_splits(Rows([sample(n, level=str(n)) for n in range(8)]), SplitSettings(seed=seed))
        assert min(len(part) for part in parts_of(splits)) >= 2


def test_the_sample_and_the_toy_come_with_splits_of_their_own() -> None:
    for data, sealed in ((BundledDataset(), 69), (ToyDataset(n_test=30), 30)):
        splits = make_splits(data, SplitSettings())
        assert splits.train == data.load("train").samples
        assert splits.val == data.load("val").samples
        assert splits.sealed == data.load("test").samples
        assert len(splits.sealed) == sealed
        assert splits.warnings == ()


def test_what_asks_sealed_questions_alone_is_told_where_there_is_such_an_option() -> None:
    levels = [sample(n, level) for n, level in enumerate(["1"] * 8 + ["2"] * 8)]
    cases: list[tuple[Any, SplitSettings, str | None, str | None]] = [
        (ToyDataset(), SplitSettings(), None, "split=test"),
        (ToyDataset(), SplitSettings(), "test", None),
        (BundledDataset(), SplitSettings(sealed_level="2"), "test", "split=test level=2"),
        (Levelled(levels), SplitSettings(), None, "level=1"),
        (Rows(levels), SplitSettings(sealed_level="2"), None, "level=2"),
        (Rows(levels), SplitSettings(), None, None),
    ]
    for data, settings, split, option in cases:
        splits = make_splits(data, settings, split)
        assert splits.sealed_option == option
        assert splits.to_dict()["sealed_option"] == option


def test_the_marks_know_what_was_learnt_from_and_picked_by_and_tell_no_question() -> None:
    splits = make_splits(Rows(questions(20)), SplitSettings())
    assert splits.tuned_on is not None
    again = {compute_fingerprint(each.question.upper()) for each in splits.train}
    assert splits.tuned_on.learnt_from == again
    assert splits.tuned_on.picked_by == {compute_fingerprint(each.question) for each in splits.val}
    assert not any(each.question in json.dumps(splits.to_dict()) for each in questions(20))


def test_a_named_split_or_a_sealed_level_is_shared_out_although_there_are_splits() -> None:
    parts = parts_of(make_splits(ToyDataset(), SplitSettings(), split="test"))
    assert set().union(*parts) == {each.id for each in ToyDataset().load("test").samples}
    assert 120 <= len(parts[2]) <= 130
    sealed = make_splits(BundledDataset(), SplitSettings(sealed_level="2")).sealed
    assert {each.level for each in sealed} == {"2"}


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


def test_splits_of_data_without_near_duplicates_are_those_of_before() -> None:
    """Of a run that began before near-duplicates were looked for: it can still be resumed."""
    splits = make_splits(Rows(questions(40)), SplitSettings())
    assert splits.digest == "1fbade8ae4c509665f7235cfd78066ebbdf078174f1fd33869e07ab5de17e53d"


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
    assert splits.warnings == ("left out: 2 questions of other levels that are near-duplicates of level 1's",)


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


def test_gaia_level_1_alone_is_learnt_from_with_a_warning() -> None:
    splits = make_splits(Levelled(questions(53, level="1"), name="gaia_level1"), SplitSettings())
    assert [len(part) for part in parts_of(splits)] in ([13, 13, 27], [13, 14, 26], [14, 13, 26])
    assert "data=gaia_level1 has GAIA Level 1 alone" in splits.warnings[0]
    assert "must not be reported as GAIA Level 1" in splits.warnings[0]


def test_a_sealed_question_that_another_level_asks_too_is_not_learnt_from() -> None:
    samples = [sample(n, level) for n, level in enumerate(["1"] * 4 + ["2"] * 12)]
    copy = replace(samples[0], id="copy", level="2")
    splits = make_splits(Levelled([*samples, copy]), SplitSettings())
    assert "copy" not in set().union(*parts_of(splits))
    assert splits.warnings == ("left out: 1 question of other levels that level 1 asks as well",)


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
        (SplitSettings(sealed_level=" "), "splits.sealed_level is empty"),
        (SplitSettings(seed=-1), "splits.seed=-1 is out of range"),
        (SplitSettings(train=0.5, val=0.5), "leave nothing to be sealed"),
        (SplitSettings(train=0.05), "make 1 train, 5 val, 14 sealed, and each part needs 2"),
        (SplitSettings(sealed_level="7"), "there are: 2"),
        (SplitSettings(sealed_level="2"), "none would be left to learn from"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: SplitSettings, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_splits(Rows(questions(20, level="2")), settings)


def test_too_few_questions_are_refused() -> None:
    for n in (0, 1, 5):
        with pytest.raises(UserError, match="each part needs 2"):
            make_splits(Rows(questions(n)), SplitSettings())


def test_a_missing_attachment_is_a_sentence(tmp_path: Path) -> None:
    rows = [*questions(20), Sample("f", "How many?", tmp_path / "gone.csv", "1")]
    with pytest.raises(UserError, match=r"an attachment cannot be read \(.*gone.csv: no such file"):
        make_splits(Rows(rows), SplitSettings())


def test_a_resumed_run_has_the_same_splits_in_whatever_order() -> None:
    rows = questions(20)
    splits = make_splits(Rows(rows), SplitSettings())
    saved = json.loads(json.dumps(splits.to_dict()))
    assert "What is" not in json.dumps(saved)
    make_splits(Rows(rows[::-1]), SplitSettings()).check_same(saved)
    with pytest.raises(UserError, match="split otherwise than when the run began: "):
        make_splits(Rows(rows), SplitSettings(seed=1)).check_same(saved)
    changed = make_splits(Rows([replace(each, target="5") for each in rows]), SplitSettings())
    with pytest.raises(UserError, match="gold answers or attachments are not those"):
        changed.check_same(saved)
    assert changed.sealed_digest != splits.sealed_digest


def test_the_sealed_digest_is_that_of_the_sealed_questions_alone() -> None:
    parts = {"a": questions(9)[:3], "b": questions(9)[3:6], "c": questions(9)[6:]}
    one = make_splits(Presplit([], parts=parts), SplitSettings())
    other = make_splits(Presplit([], parts={**parts, "a": parts["a"][:2]}), SplitSettings())
    assert one.sealed_digest == other.sealed_digest
    assert one.digest != other.digest


def test_settings_at_their_limits_are_accepted_and_beyond_them_refused_in_a_sentence() -> None:
    SplitSettings(train=0.5, val=0.5, seed=0, sealed_level="1").check()
    SplitSettings(train=0.001, val=0.999).check()
    assert SplitSettings() == SplitSettings(0.25, 0.25, None, 0)
    refused = {
        "splits.seed=-1 is out of range; expected a whole number from 0 on.": SplitSettings(seed=-1),
        "splits.train=1 is out of range; expected a share between 0 and 1.": SplitSettings(train=1),
        "splits.val=0 is out of range; expected a share between 0 and 1.": SplitSettings(val=0),
        "splits.val=1 is out of range; expected a share between 0 and 1.": SplitSettings(val=1),
        "splits.train=0.75 and splits.val=0.5 are more than all; make them smaller.": SplitSettings(0.75, 0.5),
        "splits.sealed_level is empty; name a level of the data, or leave it out.": SplitSettings(sealed_level=""),
    }
    for told, settings in refused.items():
        with pytest.raises(UserError) as found:
            settings.check()
        assert str(found.value) == told


def refusal(data: Any, settings: SplitSettings, split: str | None = None) -> str:
    with pytest.raises(UserError) as found:
        make_splits(data, settings, split)
    return str(found.value)


def test_a_refusal_names_the_data_the_split_and_what_to_do() -> None:
    rows = questions(20, level="2")
    assert refusal(Rows(rows), SplitSettings(0.5, 0.5)) == (
        "splits.train=0.5 and splits.val=0.5 leave nothing to be sealed; make them smaller."
    )
    assert refusal(Rows(rows), SplitSettings(sealed_level="7")) == (
        "splits.sealed_level=7: no question with a gold answer has that level; there are: 2."
    )
    assert refusal(Rows([]), SplitSettings(sealed_level="7")) == (
        "splits.sealed_level=7: no question with a gold answer has that level; there are: none."
    )
    assert refusal(Rows(rows), SplitSettings(sealed_level="2")) == (
        "splits.sealed_level=2: all questions have that level, so that none would be left to learn from; leave it out, "
        "or choose data with other levels too."
    )
    levels = [sample(n, level) for n, level in enumerate(["1"] * 8 + ["2"] * 3)]
    assert "data=mine, split other, without level 1: the questions with gold answers make " in refusal(
        Rows(levels), SplitSettings(sealed_level="1"), "other"
    )
    few = [sample(n, level) for n, level in enumerate(["1"] + ["2"] * 8)]
    assert refusal(Rows(few), SplitSettings(0.25, 0.25, "1")) == (
        "data=mine, split all: the questions with gold answers make 4 train, 4 val, 1 sealed, and each part needs 2 at "
        "least; add questions, or change splits.train and splits.val."
    )
    many = questions(9)
    parts = {"a": many[:2], "b": many[2:4], "c": many[4:5]}
    assert refusal(Presplit([], parts=parts), SplitSettings()) == (
        "data=mine: the questions with gold answers make 2 train, 2 val, 1 sealed, and each part needs 2 at least; add "
        "questions, or change splits.train and splits.val."
    )
    parts["c"] = many[4:6]
    assert [len(each) for each in parts_of(make_splits(Presplit([], parts=parts), SplitSettings()))] == [2, 2, 2]


def test_questions_without_a_level_have_one_that_can_be_named() -> None:
    rows = [*questions(8), *(sample(n, "2") for n in range(8, 14))]
    splits = make_splits(Rows(rows[::-1]), SplitSettings(sealed_level="2"))
    assert [each.id for each in splits.sealed] == [f"q{n:03d}" for n in range(8, 14)], "in the order of their ids"
    assert splits.sealed_option == "level=2"
    assert refusal(Rows(rows), SplitSettings(sealed_level="9")).endswith("there are: 2, none.")


def test_a_usual_level_is_sealed_only_if_there_are_others() -> None:
    @dataclass
    class Unnamed(Rows):
        sealed_level: ClassVar[str] = "1"

    splits = make_splits(Unnamed(questions(20, level="1")), SplitSettings(0.2, 0.3))
    assert splits.warnings == (
        "data=mine has level 1 alone: 50% of it is learnt from, and what the rest scores must not be reported as level "
        "1; with data that have other levels too it is sealed whole",
    )
    other = make_splits(Unnamed(questions(20, level="2")), SplitSettings())
    assert other.warnings == () and other.sealed_option is None and len(other.sealed) == 10


def test_sealed_questions_that_the_prompts_were_tuned_on_are_counted_and_warned_of() -> None:
    splits = make_splits(Rows(questions(20)), SplitSettings())
    marks = [compute_fingerprint(each.question) for each in splits.sealed]
    nothing = frozenset[str]()
    assert splits.count_known_to(None) == 0 and splits.describe_known_to(None) is None
    learnt = compute_fingerprint(splits.train[0].question)
    assert splits.describe_known_to(TunedOn(frozenset({learnt}), nothing)) is None
    parent = TunedOn(frozenset({marks[0], learnt}), frozenset({marks[0], marks[1]}))
    assert splits.count_known_to(parent) == 2
    assert splits.describe_known_to(parent) == (
        "2 of the 10 sealed questions were used to tune the prompts that this run begins with: the new prompts will "
        "score too high on them; use the data and splits.* of that run, or begin with other prompts"
    )


def test_splits_are_saved_whole_and_what_differs_is_named() -> None:
    many = questions(8)
    splits = Splits.of((tuple(many[:3]), tuple(many[3:5]), tuple(many[5:])), ["look out"], "split=c")
    assert splits.tuned_on is not None
    saved = splits.to_dict()
    assert saved == {
        "train": ["q000", "q001", "q002"],
        "val": ["q003", "q004"],
        "sealed": ["q005", "q006", "q007"],
        "digest": splits.digest,
        "sealed_digest": splits.sealed_digest,
        "warnings": ["look out"],
        "tuned_on": splits.tuned_on.to_dict(),
        "sealed_option": "split=c",
        "labels": [],
    }
    splits.check_same(saved)
    advice = "put the data and splits.* back as they were, or start a new run."
    cases = (
        ({"val": ["q003"]}, "1 questions differ in val (q004 is now among them)"),
        ({"val": ["q001", "q003", "q004"]}, "1 questions differ in val (q001 is no longer among them)"),
        ({"train": [], "val": []}, "3 questions differ in train (q000 is now among them)"),
    )
    for changed, told in cases:
        with pytest.raises(UserError) as found:
            splits.check_same({**saved, **changed, "digest": "another"})
        assert str(found.value) == f"the data are split otherwise than when the run began: {told}; {advice}"
    with pytest.raises(UserError) as found:
        splits.check_same({**saved, "digest": "another"})
    assert str(found.value) == (
        f"questions, gold answers or attachments are not those that the run began with; {advice}"
    )


def test_what_is_left_out_of_own_splits_is_told_of_each() -> None:
    @dataclass
    class Damaged(Presplit):
        def load(self, split: str) -> Split:
            return Split(tuple(self.parts[split]), (f"{split} 1", f"{split} 2"))

    many = questions(6)
    lost = sample(9, target=None)
    parts = {"a": [*many[:2], lost], "b": many[2:4], "c": many[4:]}
    splits = make_splits(Damaged([], parts=parts), SplitSettings())
    assert splits.warnings == (
        "left out: 6 bad rows, the first being a 1",
        "left out: 1 question without a gold answer",
    )
    assert splits.sealed_option == "split=c" and len(splits.train) == 2


def test_strata_that_give_each_part_two_questions_are_large_enough() -> None:
    rows = [sample(n, level) for n, level in enumerate(["1"] * 4 + ["2"] * 4)]
    n_other = 0
    for seed in range(10):
        alike, together = (split_by_hash(rows, (0.25, 0.25, 0.5), seed, by_stratum=each) for each in (True, False))
        assert min(map(len, alike)) == 2
        splits = make_splits(Rows(rows), SplitSettings(seed=seed))
        assert [splits.train, splits.val, splits.sealed] == alike
        n_other += alike != together
    assert n_other, "or the test shows nothing"
