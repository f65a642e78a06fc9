"""A prompt may name the labels of the data; nothing else of a question becomes known with them."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.benchmarks.dataset import Sample
from eval.scorers.labels import find_labels
from mas.prompt_sets.prompt_set import PromptSet
from optimize.publishing.leaks import LeakIndex, LeakReport

CLASSES = ("billing", "bug", "not a bug", "Paris office", "1")
WORDS = "amber barge cedar dune ember fjord grove heath inlet jetty knoll ledge marsh notch ochre plume quarry ridge"
UNIQUE = {"v-secret": "Paveldel", "v-paris": "Paris", "s-number": "1,234.50", "s-desk": "billing desk of Ostrel"}


def tickets(name: str, n: int) -> list[Sample]:
    words = WORDS.split()
    return [
        Sample(
            f"{name}-{at:04}",
            f"{name} {' '.join(words[(at + k) % 18] for k in range(7))} x{at}",
            target=CLASSES[at % 5],
        )
        for at in range(n)
    ]


def unique(*ids: str) -> list[Sample]:
    return [Sample(f"{id}-0001", f"What did the keeper of {id} write down that year?", target=UNIQUE[id]) for id in ids]


TRAIN = tickets("train", 60)
VAL = [*tickets("val", 60), *unique("v-secret", "v-paris")]
SEALED = [
    *tickets("sealed", 60),
    *unique("s-number", "s-desk"),
    *(Sample(f"new-{at:04}", f"sealed question number {at}", target="chargeback") for at in range(30)),
]
LABELS = find_labels(TRAIN, VAL)
INDEX, WITHOUT = LeakIndex(TRAIN, VAL, SEALED, LABELS), LeakIndex(TRAIN, VAL, SEALED)
PARENT = PromptSet("parent", "toy", {"solve": "Classify the ticket."}, Path("parent"))


def check(text: str, index: LeakIndex = INDEX, demos: dict[str, list[dict[str, object]]] | None = None) -> LeakReport:
    candidate = dataclasses.replace(PARENT, texts={"solve": f"Classify the ticket.\n{text}"}, demos=demos or {})
    return index.check(candidate, PARENT)


def blocking(text: str, index: LeakIndex = INDEX) -> set[tuple[str, str]]:
    return {(hit.kind, hit.sample_id) for hit in check(text, index).hits if hit.split != "train"}


def test_the_labels_may_be_listed_and_explained() -> None:
    assert set(LABELS.names) == set(CLASSES)
    text = "\n".join(f"- {name}: everything about {name.upper()}, such as '{name}'." for name in CLASSES)
    assert check(text).hits == []
    assert {kind for kind, _ in blocking(text, WITHOUT)} == {"gold"}, "without labels it would be blocked"


@pytest.mark.parametrize(
    ("text", "leaked"),
    [
        ("billing, bug or Paveldel", {"v-secret"}),
        ("Paris office", set()),
        ("Paris office or Paris", {"v-paris"}),
        ("Paris, office hours", {"v-paris"}),
        ("It was Paris.\nOffice hours", {"v-paris"}),
        ("offices in Paris", {"v-paris"}),
        ("the billing desk of Ostrel", {"s-desk"}),
        ("1 or 1,234.50", {"s-number"}),
        ("1234.5", {"s-number"}),
        ("chargeback", {"new"}),  # shared by many sealed questions, which say nothing about labels
    ],
)
def test_other_targets_stay_protected_whatever_they_share_with_a_label(text: str, leaked: set[str]) -> None:
    assert {sample_id.rpartition("-")[0] for _, sample_id in blocking(text)} == leaked


def test_a_question_and_an_id_stay_protected_where_the_target_is_a_label() -> None:
    sample = next(each for each in VAL if each.target == "bug")
    assert ("question", sample.id) in blocking(sample.question)
    assert ("id", sample.id) in blocking(f"see {sample.id}")


def test_demos_of_training_questions_may_show_their_label() -> None:
    shown = {"ticket": TRAIN[1].question, "label": "bug"}
    assert check("", demos={"solve": [shown]}).hits == []
    stolen = {"ticket": VAL[1].question, "label": "bug"}
    assert check("", demos={"solve": [stolen]}).blocked
    assert check("", demos={"solve": [shown | {"label": "Paveldel"}]}).blocked


PIECES = [
    *CLASSES,
    *UNIQUE.values(),
    "chargeback",
    "v-secret-0001",
    "What did the keeper of v-paris write down",
    "and",
    "\n\n",
]


@given(st.lists(st.sampled_from([each for each in PIECES if each not in ("Paris office", "1")]), max_size=12))
def test_what_is_unique_is_found_exactly_as_without_labels(pieces: list[str]) -> None:
    ids = {f"{id}-0001" for id in UNIQUE}
    text = " ".join(pieces)

    def found(index: LeakIndex) -> set[object]:
        return {hit for hit in check(text, index).hits if hit.sample_id in ids or hit.sample_id.startswith("new-")}

    assert found(INDEX) == found(WITHOUT)
