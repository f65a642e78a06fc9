import ast
import math
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from mas.runtime.text import parse_python, replace_surrogates, to_jsonable


@dataclass
class Ship:
    name: str
    load: float


class Model(BaseModel):
    seen: set[str]


class Plain:
    def __repr__(self) -> str:
        return "<plain>"


def _raise(error: Exception) -> None:
    raise error


def test_a_text_is_parsed_although_another_thread_parsed_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    parse, errors = ast.parse, [SystemError("AST constructor recursion depth mismatch (before=63, after=58)")]
    monkeypatch.setattr(
        ast, "parse", lambda *args, **kwargs: parse(*args, **kwargs) if not errors else _raise(errors.pop())
    )
    assert ast.unparse(parse_python("1 + 2", "eval")) == "1 + 2"
    assert errors == []


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
