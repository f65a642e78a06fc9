"""What tools returned, on the disk: what it survives, and what it must not hold."""

from pathlib import Path

import pytest

from eval.runs.call_log import CallLog
from eval.runs.store import RunStore
from mas.runtime.sample_context import KeptResult

ODD = "a\ud83d\0\u202e\udfff'"
BLOCKED = {"name": "blocked page", "seconds": 0.5, "level": "warning", "url": "https://example.org/"}


@pytest.mark.parametrize("returned", ["", ODD, "é" * 1_000_000])
def test_a_result_comes_back_exactly_and_with_what_was_noted(tmp_path: Path, returned: str) -> None:
    with RunStore(tmp_path / "run.db") as store:
        results = CallLog(store).for_tools()
        results.keep("key", KeptResult(returned, (BLOCKED,)))
        results.keep("key", KeptResult("of a call that was made at the same time"))
    with RunStore(tmp_path / "run.db") as store:
        assert CallLog(store).for_tools().find("key") == KeptResult(returned, (BLOCKED,))
        assert CallLog(store).for_tools().find("other") is None


def test_a_result_with_a_secret_is_not_kept(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db", redact=lambda text: text.replace("canary", "***")) as store:
        results = CallLog(store).for_tools()
        results.keep("key", KeptResult("a canary sings"))
        results.keep("other", KeptResult("", ({**BLOCKED, "url": "https://canary.example.org/"},)))
        assert results.find("key") is results.find("other") is None
    assert all(b"canary" not in each.read_bytes() for each in tmp_path.iterdir())
