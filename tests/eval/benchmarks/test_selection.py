import random

import pytest

from eval.benchmarks.dataset import Sample, Selection, select_samples
from mas.runtime.errors import UserError

EXAMPLES = tuple(Sample(str(n), f"Question {n}?", level=str(n % 3 + 1)) for n in range(12))


def ids(selection: Selection) -> list[str]:
    return [sample.id for sample in select_samples(EXAMPLES, selection)]


def test_limit_takes_the_first_and_may_be_more_than_there_are() -> None:
    assert ids(Selection(limit=2)) == ["0", "1"]
    assert len(ids(Selection(limit=99))) == 12


def test_level_keeps_only_that_level() -> None:
    assert ids(Selection(level="2")) == ["1", "4", "7", "10"]
    assert ids(Selection(level="2", limit=1)) == ["1"]


def test_ids_come_in_the_order_given_and_each_once() -> None:
    assert ids(Selection(ids=["7", "3", "7"])) == ["7", "3"]


def test_a_seed_gives_the_same_order_again_and_another_seed_another() -> None:
    state = random.getstate()
    assert ids(Selection(shuffle=True, seed=1)) == ids(Selection(shuffle=True, seed=1))
    assert ids(Selection(shuffle=True, seed=1)) != ids(Selection(shuffle=True, seed=2))
    assert sorted(ids(Selection(shuffle=True, seed=1)), key=int) == ids(Selection())
    assert random.getstate() == state, "the process's own generator was used"


def test_the_limit_comes_after_the_shuffling() -> None:
    shuffled = ids(Selection(shuffle=True, seed=3))
    assert ids(Selection(shuffle=True, seed=3, limit=4)) == shuffled[:4]
    assert set(shuffled[:4]) != {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(level="9"), ["level=9", "1, 2, 3"]),
        (Selection(ids=["nope"]), ["ids", "nope", "0, 1, 2"]),
        (Selection(level="1", ids=["1"]), ["ids", "1"]),
    ],
    ids=["unknown level", "unknown id", "id of another level"],
)
def test_a_selection_of_nothing_is_the_users_mistake(selection: Selection, words: list[str]) -> None:
    with pytest.raises(UserError) as raised:
        select_samples(EXAMPLES, selection)
    for word in words:
        assert word in str(raised.value)
