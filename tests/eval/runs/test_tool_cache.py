"""What tools returned, on the disk: what it survives, and what it must not hold."""

import json
from pathlib import Path

import pytest

from eval.runs.call_log import CallLog
from eval.runs.store import RunStore

ODD = "a\ud83d\0\u202e\udfff'"


@pytest.mark.parametrize("returned", ["", ODD, "é" * 1_000_000])
def test_a_result_comes_back_exactly(tmp_path: Path, returned: str) -> None:
    with RunStore(tmp_path / "run.db") as store:
        CallLog(store).for_tools().put("key", json.dumps(returned))
    with RunStore(tmp_path / "run.db") as store:
        assert CallLog(store).for_tools().get("key") == json.dumps(returned)
        assert CallLog(store).for_tools().get("other") is None


def test_a_result_with_a_secret_is_not_kept(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db", redact=lambda text: text.replace("canary", "***")) as store:
        results = CallLog(store).for_tools()
        results.put("key", json.dumps({"returned": "a canary sings"}))
        results.put("other", json.dumps({"returned": "", "events": [{"url": "https://canary.example.org/"}]}))
        assert results.get("key") is results.get("other") is None
    assert all(b"canary" not in each.read_bytes() for each in tmp_path.iterdir())
