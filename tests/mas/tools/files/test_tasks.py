"""Tasks by their name, and values packed for another process."""

import pytest

from mas.tools.files import tasks
from mas.tools.files.tasks import Answer, pack, run_task, unpack
from mas.tools.results import ToolError


def test_a_task_gets_its_bytes_and_its_arguments() -> None:
    answer = run_task("mas.tools.web.html_rows:list_links", b"<li><a>Rome</a></li>", {"name": "list"})
    assert answer == Answer({"texts": ["Rome"]}, b"")


@pytest.mark.parametrize("value", [None, [1, "a"], {"a": "\N{EURO SIGN}\ud800\x00"}, "x" * 100_000])
def test_values_come_back_as_they_were_packed(value: object) -> None:
    assert unpack(pack(value)) == value
    assert len(pack("x" * 100_000)) < 2_000


def test_values_may_be_as_large_as_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_UNPACKED_BYTES", 5)
    assert unpack(pack("abc")) == "abc"
    with pytest.raises(ToolError) as refused:
        pack("abcd")
    assert str(refused.value) == "The text in it has more than 5 bytes; it is not read."
    monkeypatch.setattr(tasks, "MAX_UNPACKED_BYTES", 100)
    size = len(pack("abc"))
    monkeypatch.setattr(tasks, "MAX_PACKED_BYTES", size)
    assert unpack(pack("abc")) == "abc"
    monkeypatch.setattr(tasks, "MAX_PACKED_BYTES", size - 1)
    with pytest.raises(ToolError, match="it is not read"):
        pack("abc")
