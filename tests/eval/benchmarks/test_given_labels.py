"""`data.labels`: the targets that there are, and what is said of others."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Split
from eval.benchmarks.files import JsonlDataset
from mas.runtime.errors import UserError


def load(folder: Path, *targets: object, labels: Any = ("billing", "refund"), **settings: str) -> Split:
    rows = [{"question": f"question {at}", "answer": target} for at, target in enumerate(targets)]
    (folder / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return JsonlDataset(path=str(folder), labels=labels, **settings).load("all")


def test_targets_in_the_list_are_read_however_they_are_spelt(tmp_path: Path) -> None:
    split = load(tmp_path, "billing", " Refund", "REFUND", None, "?")
    assert [each.target for each in split.samples] == ["billing", "Refund", "REFUND", None, None]
    assert [each.target for each in load(tmp_path, 0, 1.0, "1", labels=(0, 1)).samples] == ["0", "1", "1"]
    assert [each.target for each in load(tmp_path, True, "false", labels=(True, False)).samples] == ["True", "false"]


def test_all_rows_with_another_target_are_listed(tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        load(tmp_path, "billing", "refnd", "refund", "other")
    message = str(raised.value)
    assert message.startswith("2 rows are bad; correct them, or leave them out with data.on_bad_row=skip:")
    for line, target in ((2, "refnd"), (4, "other")):
        assert f"line {line}: the target '{target}' is not one of data.labels=billing,refund" in message
    split = load(tmp_path, "billing", "refnd", "refund", on_bad_row="skip")
    assert len(split.samples) == 2 and len(split.bad_rows) == 1
