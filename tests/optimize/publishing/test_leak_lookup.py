"""What of a sample is looked for in a text, and where it is found."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import EXPECTED, Sample
from eval.contamination.text import Reading
from eval.scorers.labels import LabelSet
from optimize.publishing.leak_lookup import Lookup, Occurrence

QUESTION = "Which keeper of the Velm lighthouse burned the least oil in Ostrel that winter?"


def sealed(target: str | None = None, id: str = "s1", question: str = "?", **parts: Any) -> Sample:
    return Sample(id, question, target=target, **parts)


def find(
    text: str, *samples: Sample, train: tuple[Sample, ...] = (), labels: LabelSet | None = None
) -> list[Occurrence]:
    return Lookup.of(train, (), samples, labels).find(Reading(text))


def kinds(text: str, *samples: Sample, **others: Any) -> set[str]:
    return {each.form.kind for each in find(text, *samples, **others)}


def test_an_occurrence_says_whose_it_is_and_where_it_stands() -> None:
    text = "It was Pavel-Del, they say."
    [each] = find(text, sealed("Paveldel"))
    assert (each.form.kind, each.form.split, each.form.sample_id) == ("gold", "test", "s1")
    assert Reading(text).text[each.start : each.end] == "pavel-del"
    assert not each.form.weak and not each.form.specific and not each.form.label


def test_a_run_of_letters_begins_and_ends_with_a_word() -> None:
    assert kinds("Paveldel", sealed("Paveldel")) == kinds("pavel del", sealed("Paveldel")) == {"gold"}
    assert kinds("Paveldelta", sealed("Paveldel")) == kinds("a Spaveldel", sealed("Paveldel")) == set()


def test_each_split_has_its_name_and_its_size() -> None:
    lookup = Lookup.of([sealed("Avelor")], [sealed("Bintel"), sealed("Cordan")], [sealed("Dornas")] * 3)
    assert lookup.sizes() == {"train": 1, "val": 2, "test": 3}
    found = lookup.find(Reading("Avelor, Bintel, Dornas"))
    assert [each.form.split for each in sorted(found, key=lambda each: each.start)] == ["train", "val", "test"]


@pytest.mark.parametrize("target", [None, "?", " ? "])
def test_a_sample_without_an_answer_has_none_to_protect(target: str | None) -> None:
    assert kinds("? None", sealed(target)) == set()


def test_a_number_is_found_in_figures_and_in_words() -> None:
    for text in ("there are 1,234 of them", "one thousand two hundred and thirty-four"):
        [each] = find(text, sealed("1234"))
        assert each.form.kind == "gold" and Reading(text).text[each.start : each.end].endswith(("4", "four"))


def test_the_and_of_a_list_does_not_hide_it_and_its_place_is_that_of_the_whole_list() -> None:
    text = "so Ilka, Brandt and Soria it was"
    lists = [each for each in find(text, sealed("Ilka; Brandt; Soria")) if each.form.specific]
    assert {Reading(text).text[each.start : each.end] for each in lists} == {"ilka, brandt and soria"}


def test_eight_words_of_a_question_are_a_passage_and_four_are_a_hint() -> None:
    sample = sealed("Gorvanna", question=QUESTION)
    eight, seven, four, three = (" ".join(QUESTION.split()[1 : 1 + n]) for n in (8, 7, 4, 3))
    assert kinds(eight, sample) == {"question", "near"}
    assert kinds(seven, sample) == kinds(four, sample) == {"near"}
    assert kinds(three, sample) == set()


def test_a_hint_of_a_question_with_a_label_is_six_words() -> None:
    sample, labels = sealed("billing", question=QUESTION), LabelSet(("billing", "login"))
    six, five = (" ".join(QUESTION.split()[1 : 1 + n]) for n in (6, 5))
    assert kinds(six, sample, labels=labels) == {"near"}
    assert kinds(five, sample, labels=labels) == set()


def test_a_label_is_vocabulary_and_known_as_one() -> None:
    labels = LabelSet(("Paris office", "Rome"))
    lookup = Lookup.of([], [], [sealed("paris office"), sealed("Paveldel", "s2")], labels)
    reading = Reading("Paris office, or paris, office; Paveldel")
    found = lookup.find(reading)
    assert {(each.form.sample_id, each.form.weak, each.form.label) for each in found} == {
        ("s1", True, True),
        ("s2", False, False),
    }
    spans = lookup.find_label_spans(reading, found)
    assert [reading.text[start:end] for start, end in spans] == ["paris office"]


def test_what_a_training_question_says_may_come_from_there() -> None:
    train = (Sample("t1", f"{QUESTION} Was it Gorvanna?", target="yes"),)
    lookup = Lookup.of(train, [], [sealed("Gorvanna"), sealed("Marabunda", "s2")])
    found = lookup.find(Reading("Gorvanna and Marabunda"))
    assert {each.form.sample_id: lookup.is_in_training(each) for each in found} == {"s1": True, "s2": False}


def test_a_passage_that_a_training_question_has_too_is_no_longer_another_ones() -> None:
    train, sample = (Sample("t1", QUESTION, target="Marabunda"),), sealed("Gorvanna", question=QUESTION)
    found = find(f"{QUESTION} Gorvanna", sample, train=train)
    assert {(each.form.kind, each.form.split) for each in found} == {
        ("question", "train"),
        ("near", "train"),
        ("gold", "test"),
    }


def test_gold_queries_are_protected_and_those_of_training_samples_are_known() -> None:
    query = "SELECT keeper, sum(oil) FROM lanterns WHERE harbour = 'Ostrel' GROUP BY keeper ORDER BY keeper"
    tags = {EXPECTED: json.dumps({"sql": query, "table": "lanterns"})}
    assert kinds(query, sealed("Gorvanna", tags=tags)) == {"question"}
    assert kinds("lanterns", sealed("Gorvanna", tags=tags)) == set(), "a name of a table is nobody's own"
    train = (Sample("t1", "?", target="Marabunda", tags=tags),)
    assert {each.form.split for each in find(query, sealed("Gorvanna", tags=tags), train=train)} == {"train"}


def test_a_further_column_counts_if_most_samples_have_a_value_of_their_own_there() -> None:
    def tagged(values: list[str], question: str = "?") -> list[Sample]:
        return [sealed("Gorvanna", f"s{n}", question, tags={"reviewer": each}) for n, each in enumerate(values)]

    assert kinds("Bintelmar", *tagged(["Bintelmar", "Avelor"])) == {"gold"}
    assert kinds("Bintelmar", *tagged(["Bintelmar", "Avelor", "Avelor"])) == set(), "two of three share theirs"
    assert kinds("Bintelmar", *tagged(["Bintelmar", "Cordan", "Avelor", "Avelor"])) == {"gold"}, "half of them"
    assert kinds("Avelor", *tagged(["Bintelmar", "Cordan", "Avelor", "Avelor"])) == set(), "two samples have it"
    assert kinds("Bintelmar", *tagged(["Bintelmar", "Avelor"], "Where is Bintelmar?")) == set(), "the question says it"


@pytest.mark.parametrize(
    ("id", "expected"),
    [("8f3ac2d1-77aa", True), ("abcdef", True), ("abcde", False), ("test-0002", False), ("test-00021", True),
     ("x" * 200, True), ("x" * 201, False)],
)  # fmt: skip
def test_an_id_counts_unless_it_is_short_or_like_any_other(id: str, expected: bool) -> None:
    assert kinds(f"see {id} there", sealed(id=id)) == ({"id"} if expected else set())


@pytest.mark.parametrize(
    ("name", "said", "expected"),
    [
        ("hamrun_tolls.csv", "hamrun_tolls.csv", True),
        ("hamrun_tolls.csv", "hamrun tolls", True),
        ("data.csv", "data.csv", False),
        ("image_2.png", "image_2.png", False),
        ("velm.csv", "velm.csv", True),
        ("velm.csv", "velm", False),
        ("velms.csv", "velms", False),
        ("velmas.csv", "velmas", True),
        ("vlm.csv", "vlm.csv", False),
        (f"{'y' * 200}.csv", "y" * 200, True),
        (f"{'y' * 201}.csv", "y" * 201, False),
    ],
)
def test_a_file_counts_with_its_suffix_and_without_if_its_stem_is_long(name: str, said: str, expected: bool) -> None:
    assert kinds(f"in {said} it says", sealed(file=Path("/data") / name)) == ({"file"} if expected else set())


def test_a_file_that_is_named_as_its_sample_counts_as_the_id() -> None:
    sample = sealed(id="hamrun_tolls", file=Path("/data/hamrun_tolls.csv"))
    assert kinds("hamrun_tolls", sample) == {"id"}


def test_a_form_of_two_samples_is_found_for_both_and_once_for_each() -> None:
    found = find("Gorvanna", sealed("Gorvanna"), sealed("gorvanna", "s2"))
    assert sorted(each.form.sample_id for each in found) == ["s1", "s2"]


def test_nothing_that_is_protected_is_kept_as_it_is() -> None:
    lookup = Lookup.of([], [], [sealed("Gorvanna", id="hamrun-tolls", question=QUESTION)])
    assert "Gorvanna" not in repr(lookup) and "hamrun" not in repr(lookup)
    assert Lookup.of([], [], [sealed("Gorvanna")]).keys(Reading("Gorvanna")) != lookup.keys(Reading("Gorvanna"))
