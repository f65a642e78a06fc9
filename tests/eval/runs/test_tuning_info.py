"""The info of a tuning run comes back as it was written; what another version wrote, or damage, is a sentence."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from eval.runs.run_info import TUNING_FILE, TuningInfo, TuningState, read_tuning_info
from mas.runtime.errors import UserError

INFO = TuningInfo(
    run_id="1f3a",
    config={"gate": {"min_gain": 0.1, "agents": ["plän"]}},
    command=["system=toy"],
    state=TuningState("search", sealed_opened_before=2),
)


def written(folder: Path, text: str) -> Path:
    (folder / TUNING_FILE).write_text(text, "utf-8")
    return folder


def test_it_comes_back_as_it_was_written_and_a_folder_without_it_has_none(tmp_path: Path) -> None:
    assert read_tuning_info(tmp_path) is None
    assert read_tuning_info(written(tmp_path, INFO.to_json())) == INFO


FIELDS = asdict(INFO)


def test_one_of_the_version_before_is_read_with_the_defaults_of_what_it_lacks(tmp_path: Path) -> None:
    before = {name: value for name, value in FIELDS.items() if name != "parent_gated"} | {"version": 3}
    found = read_tuning_info(written(tmp_path, json.dumps(before)))
    assert found is not None
    assert (found.version, found.parent_gated) == (3, False)
    assert replace(found, version=INFO.version) == INFO


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps({**FIELDS, "version": 0}), "TuningInfo of version 0, this program reads version 4"),
        (json.dumps({**FIELDS, "unknown": 1}), "TuningInfo of version 4"),
        (json.dumps({**FIELDS, "state": {"unknown": 1}}), "unknown"),
        (json.dumps({**FIELDS, "state": None}), "state"),
        ("{}", "TuningInfo of version None"),
        ("[]", "TuningInfo expected, not list"),
        (INFO.to_json()[:-4], "Unterminated"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_with_its_reason(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(
        UserError, match=rf"^{re.escape(tmp_path.name)}/tuning.json cannot be read \(.*{words}.*\): restore"
    ):
        read_tuning_info(written(tmp_path, text))
