"""What a set says of the questions it was tuned on: kept with it, joined to another's, refused when it is not that."""

from pathlib import Path

import pytest

from mas.prompt_sets.prompt_set import PromptSet, read_prompt_set, write_prompt_set
from mas.prompt_sets.tuned_on import TUNED_ON_FILE, TunedOn, read_tuned_on
from mas.runtime.errors import UserError

MARKS = TunedOn(frozenset({"aa", "bb"}), frozenset({"cc"}))


def test_it_goes_with_the_set_wherever_that_is_written(tmp_path: Path) -> None:
    written = write_prompt_set(tmp_path / "mine", PromptSet("x", "toy", {"plan": "Plan."}, tmp_path, tuned_on=MARKS))
    read = read_prompt_set(tmp_path / "mine", ["plan"], "toy", tmp_path)
    assert written == read
    assert read.tuned_on == MARKS


def test_of_a_set_without_it_nothing_is_known(tmp_path: Path) -> None:
    tmp_path.joinpath(TUNED_ON_FILE).write_text("of a writing that was cut off")
    write_prompt_set(tmp_path, PromptSet("x", "toy", {"plan": "Plan."}, tmp_path))
    assert read_tuned_on(tmp_path) is None


def test_a_set_tuned_twice_was_tuned_on_both() -> None:
    assert MARKS | TunedOn(frozenset({"cc"}), frozenset({"dd"})) == TunedOn(
        frozenset({"aa", "bb", "cc"}), frozenset({"cc", "dd"})
    )
    assert MARKS | None == MARKS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
        (b"[]", "does not hold 'learnt_from' and 'picked_by'"),
        (b'{"learnt_from": []}', "does not hold 'learnt_from' and 'picked_by'"),
        (b'{"learnt_from": [], "picked_by": [1]}', "each a list of texts"),
    ],
)
def test_something_else_is_refused_in_a_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / TUNED_ON_FILE).write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_tuned_on(tmp_path)


def test_the_file_holds_both_lists_in_order() -> None:
    lists = {"learnt_from": ["aa", "bb"], "picked_by": ["cc"]}
    assert MARKS.to_dict() == lists
    assert TunedOn.from_dict({"picked_by": ["cc"], "learnt_from": ["bb", "aa", "bb"], "more": ["dd"]}) == MARKS
    assert MARKS.to_json() == ('{\n "learnt_from": [\n  "aa",\n  "bb"\n ],\n "picked_by": [\n  "cc"\n ]\n}\n')


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    (tmp_path / TUNED_ON_FILE).write_text(MARKS.to_json())
    assert read_tuned_on(tmp_path) == MARKS
    (tmp_path / TUNED_ON_FILE).write_text('{"picked_by": [], "learnt_from": []}')
    assert read_tuned_on(tmp_path) == TunedOn(frozenset(), frozenset())


@pytest.mark.parametrize(
    "content",
    ["[]", "null", '"learnt_from"', "{}", '{"picked_by": []}', '{"learnt_from": "aa", "picked_by": []}',
     '{"learnt_from": [], "picked_by": {"aa": 1}}', '{"learnt_from": ["aa", 1], "picked_by": []}',
     '{"learnt_from": [], "picked_by": [null]}', '{"learnt_from": null, "picked_by": null}'],
)  # fmt: skip
def test_a_file_with_something_else_says_what_to_do(tmp_path: Path, content: str) -> None:
    file = tmp_path / TUNED_ON_FILE
    file.write_text(content)
    with pytest.raises(UserError) as caught:
        read_tuned_on(tmp_path)
    assert str(caught.value) == (
        f"{file} does not hold 'learnt_from' and 'picked_by', each a list of texts; restore it from where the set "
        "came from."
    )


def test_a_file_that_is_too_deep_or_no_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / TUNED_ON_FILE
    file.write_text("[" * 100_000)
    with pytest.raises(UserError) as caught:
        read_tuned_on(tmp_path)
    assert str(caught.value) == f"{file} is not valid JSON; restore it from where the set came from."
    file.unlink()
    file.mkdir()
    with pytest.raises(UserError) as caught:
        read_tuned_on(tmp_path)
    assert str(caught.value) == f"{file} cannot be read: is a directory; restore it."
    file.rmdir()
    assert read_tuned_on(tmp_path) is None
