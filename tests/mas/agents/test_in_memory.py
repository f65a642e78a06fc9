"""Objects of a running program under names of their own."""

from pathlib import Path

import pytest

from mas.agents.in_memory import PREFIX, find_object, is_in_memory, list_in_memory, name_object
from mas.runtime.errors import UserError


def test_an_object_has_its_name_inside_the_block_and_not_after_it() -> None:
    value = {"n": 1}
    with name_object(value, "My data: all of it") as target:
        assert target == "in-memory:My_data_all_of_it"
        assert find_object(target) is value
    with pytest.raises(UserError) as caught:
        find_object(target)
    assert str(caught.value) == (
        "in-memory:My_data_all_of_it is an object of a Python program that is over, and cannot be loaded again; put it "
        "into a module and give package.module:name."
    )


def test_a_name_that_is_taken_gets_the_next_number() -> None:
    with name_object([1], "data") as first, name_object([2], "data") as second, name_object([3], "data") as third:
        assert (first, second, third) == ("in-memory:data", "in-memory:data_2", "in-memory:data_3")
        assert [find_object(each) for each in (first, second, third)] == [[1], [2], [3]]
    with pytest.raises(RuntimeError, match="stop"), name_object([1], "data"):
        raise RuntimeError("stop")
    with name_object([4], "data") as again:
        assert again == "in-memory:data"


class One:
    def run(self) -> int:
        return 1


class Two:
    def run(self) -> int:
        return 2


def test_code_has_a_digest_of_its_source_in_its_name() -> None:
    names = []
    for value in (One, Two, One.run, Two.run):
        with name_object(value, "code") as target:
            names.append(target)
    assert len(set(names)) == 4
    assert all(len(each) == len("in-memory:code-") + 8 for each in names)
    with name_object(One(), "code") as target:
        assert target == names[0], "an instance has the source of its class"
    for data in ("text", 3, Path):
        with name_object(data, "data") as target:
            assert target.startswith("in-memory:data-") == (data is Path)


@pytest.mark.parametrize(
    ("target", "expected"), [(f"{PREFIX}a", True), ("a:b", False), (f" {PREFIX}a", False), (3, False), (None, False)]
)
def test_only_a_text_with_the_prefix_is_in_memory(target: object, expected: bool) -> None:
    assert is_in_memory(target) is expected


def test_the_parts_of_a_configuration_that_only_memory_held_are_listed() -> None:
    config: dict[str, object] = {
        "system": {"name": "dspy", "target": "in-memory:Program-1"},
        "data": {"path": "rows.csv", "target": "a:b"},
        "scorer": {"target": "in-memory:score"},
        "limit": "in-memory:x",
        "empty": {},
    }
    assert list_in_memory(config) == ["system", "scorer"]
    assert list_in_memory({}) == []
