import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import BaseModel

from mas.runtime.text import format_count, name_type, replace_surrogates, to_jsonable


def test_a_noun_has_an_s_unless_there_is_one() -> None:
    assert [format_count(n, "answer") for n in (0, 1, 2, 1200)] == [
        "0 answers",
        "1 answer",
        "2 answers",
        "1,200 answers",
    ]


def test_a_wrong_type_is_named_as_in_a_sentence() -> None:
    named = [name_type(each) for each in (5, [], {}, ArithmeticError(), None, object())]
    assert named == ["an int", "a list", "a dict", "an ArithmeticError", "None", "an object"]


@dataclass
class Ship:
    name: str
    load: float


class Model(BaseModel):
    seen: set[str]


class Plain:
    def __repr__(self) -> str:
        return "<plain>"


def test_half_a_character_is_replaced_at_any_depth() -> None:
    value = {"a\ud83d": ["b\ud83d", ("c\udc00", 1)], "d": None}
    assert replace_surrogates(value) == {"a?": ["b?", ("c?", 1)], "d": None}
    assert replace_surrogates("\U0001f600") == "\U0001f600"


def test_whatever_a_state_holds_becomes_json() -> None:
    value = {
        1: Path("/data/a.csv"), "set": {"b", "a"}, "ship": Ship("Velmor", math.inf), "model": Model(seen={"y", "x"}),
        "class": Ship, "plain": Plain(), "tuple": (1, 2.5, True, None), "nan": math.nan, Path("/x/key"): "path",
    }  # fmt: skip
    assert to_jsonable(value) == {
        "1": "a.csv", "set": ["a", "b"], "ship": {"name": "Velmor", "load": "inf"}, "model": {"seen": ["x", "y"]},
        "class": repr(Ship), "plain": "<plain>", "tuple": [1, 2.5, True, None], "nan": "nan", "key": "path",
    }  # fmt: skip


def test_dates_and_times_are_iso_8601() -> None:
    at = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
    assert to_jsonable({"at": at, "day": at.date()}) == {"at": "2026-11-22T09:30:00+00:00", "day": "2026-11-22"}


def test_what_contains_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    found, depth = to_jsonable(loop), 0
    while isinstance(found, list):
        (found,), depth = found, depth + 1
    assert (found, depth) == ("[[...]]", 40)


def nest(kind: str, inner: object) -> object:
    made = {
        "list": [inner], "tuple": (inner,), "mapping": {"a": inner}, "ship": Ship("a", inner),  # type: ignore[arg-type]
        "model": Wrapped(inner=inner),
    }  # fmt: skip
    return made[kind]


class Wrapped(BaseModel):
    inner: object


@pytest.mark.parametrize("kind", ["list", "tuple", "mapping", "ship"])
def test_forty_containers_within_each_other_are_walked_through_whatever_they_are(kind: str) -> None:
    value: object = 1.5
    for _ in range(39):
        value = nest(kind, value)
    assert "1.5" in str(to_jsonable([value])) and not isinstance(to_jsonable([value])[0], str)
    found = to_jsonable([[value]])
    while isinstance(found, list | dict):
        found = found[-1] if isinstance(found, list) else list(found.values())[-1]
    assert isinstance(found, str), "the innermost container is told by its repr"


def test_containers_within_containers_become_json_too() -> None:
    assert to_jsonable(Wrapped(inner=Ship("a", 1.0))) == {"inner": {"name": "a", "load": 1.0}}
    assert to_jsonable({"a": {2, 10, "b"}, "b": frozenset({(1, 2)})}) == {"a": ["b", 10, 2], "b": [[1, 2]]}
    assert to_jsonable(Wrapped) == repr(Wrapped)
    assert to_jsonable({None: 1, True: 2, 1.5: 3, (1, 2): 4}) == {"None": 1, "True": 2, "1.5": 3, "[1, 2]": 4}


def test_a_copy_of_a_text_keeps_its_containers_kinds() -> None:
    found = replace_surrogates(({"k\ud83d": "v"}, ["x\udc00"], 5, None))
    assert found == ({"k?": "v"}, ["x?"], 5, None) and isinstance(found, tuple)
    assert name_type("x") == "a str" and name_type(()) == "a tuple"
