"""The reply in a message of the sandbox, whose every field the code in it may have made up."""

from dataclasses import asdict, fields
from typing import Any

import pytest

from mas.tools.sandbox.session import DISTURBED, Reply, SessionLostError, SessionTimeoutError

FULL: dict[str, Any] = {
    **{"output": "printed", "output_cut": 1, "value": "42", "value_cut": 2, "error": "Traceback", "error_cut": 3}
}
COUNTS = ("output_cut", "value_cut", "error_cut")
TEXTS = ("output", "value", "error")


def test_a_reply_has_the_texts_and_counts_of_its_message_and_nothing_else_of_it() -> None:
    assert Reply.parse({"id": "a", **FULL}) == Reply("printed", 1, "42", 2, "Traceback", 3)
    assert [field.name for field in fields(Reply)] == list(FULL)
    assert asdict(Reply()) == dict.fromkeys(TEXTS, "") | dict.fromkeys(COUNTS, 0)
    assert Reply.parse(asdict(Reply())) == Reply()


def test_characters_that_no_file_can_hold_are_replaced_in_each_text() -> None:
    assert Reply.parse({**FULL, "output": "a\ud800", "value": "\udfff", "error": "é\ud83d!"}) == Reply(
        "a?", 1, "?", 2, "é?!", 3
    )


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize(
    ("count", "is_one"),
    [(0, True), (10**15, True), (-1, False), (10**15 + 1, False), (1.0, False), (True, False), ("1", False)],
)
def test_a_count_is_a_whole_number_that_can_be_one(name: str, count: object, is_one: bool) -> None:
    if is_one:
        assert getattr(Reply.parse({**FULL, name: count}), name) == count
        return
    with pytest.raises(SessionLostError) as lost:
        Reply.parse({**FULL, name: count})
    assert str(lost.value) == DISTURBED


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("text", [0, None, b"x", ["x"], True])
def test_a_text_is_a_text(name: str, text: object) -> None:
    with pytest.raises(SessionLostError) as lost:
        Reply.parse({**FULL, name: text})
    assert str(lost.value) == "the code has disturbed the sandbox's own messages"


@pytest.mark.parametrize("name", list(FULL))
def test_a_message_without_a_field_is_no_reply(name: str) -> None:
    with pytest.raises(SessionLostError, match=DISTURBED):
        Reply.parse({key: value for key, value in FULL.items() if key != name})


def test_a_timeout_is_a_lost_session() -> None:
    assert issubclass(SessionTimeoutError, SessionLostError)
