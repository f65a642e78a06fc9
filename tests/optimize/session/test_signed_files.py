"""Digests of a run's files: an edit is noticed, a kill between digest and file is not taken for one."""

import json
from pathlib import Path

import pytest

from eval.runs.run_info import TuningInfo
from mas.runtime.errors import UserError
from optimize.session.run_files import RunFiles
from optimize.session.signed_files import DIGESTS, SignedFiles, check_files, open_signed_files

EDITED = "was changed since the run wrote it: restore it, or start a new tuning run"


def info(run_id: str = "r1") -> TuningInfo:
    return TuningInfo(run_id=run_id).sign()


def test_what_was_written_is_read_and_what_was_edited_is_not(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, signed=SignedFiles(tmp_path, "r1"))
    files.write("search", {"a": 1})
    files.write("search", {"a": 2})
    again = RunFiles(tmp_path, signed=open_signed_files(tmp_path, info()))
    assert again.read("search") == {"a": 2}
    assert again.read("verdict") is None, "not written yet"
    (tmp_path / "search.json").write_text('{"a": 3}')
    for read in (lambda: again.read("search"), lambda: check_files(tmp_path, info())):
        with pytest.raises(UserError, match=f"search.json {EDITED}"):
            read()
    (tmp_path / "search.json").unlink()
    (tmp_path / "verdict.json").write_text("{}")
    assert again.read("search") is None, "its phase is repeated"
    with pytest.raises(UserError, match=f"verdict.json {EDITED}"):
        again.read("verdict")


def test_a_kill_between_digest_and_file_leaves_the_earlier_file(tmp_path: Path) -> None:
    signed = SignedFiles(tmp_path, "r1")
    files = RunFiles(tmp_path, signed=signed)
    files.write("search", {"a": 1})
    signed.expect("search.json", "never written")
    signed.expect("shortlist.json", "never written")
    assert RunFiles(tmp_path, signed=open_signed_files(tmp_path, info())).read("search") == {"a": 1}


@pytest.mark.parametrize("change", ["digests", "signature", "run", "removed"])
def test_digests_that_this_installation_did_not_sign_are_refused(tmp_path: Path, change: str) -> None:
    RunFiles(tmp_path, signed=SignedFiles(tmp_path, "r1")).write("search", {"a": 1})
    (file,) = tmp_path.glob(DIGESTS)
    content = json.loads(file.read_text())
    if change == "removed":
        file.unlink()
    elif change == "digests":
        file.write_text(json.dumps({**content, "digests": {"search.json": ["0" * 64]}}))
    elif change == "signature":
        file.write_text(json.dumps({**content, "signature": "0" * 64}))
    expected = "is missing, so nothing" if change == "removed" else ", which this installation signs, was changed, so"
    with pytest.raises(UserError, match=f"{DIGESTS} ?{expected}"):
        open_signed_files(tmp_path, info("r2" if change == "run" else "r1"))


def test_files_of_a_run_that_the_user_trusts_are_signed_as_they_are(tmp_path: Path) -> None:
    RunFiles(tmp_path).write("search", {"a": 1})
    unsigned = TuningInfo(run_id="r1")
    check_files(tmp_path, unsigned)
    open_signed_files(tmp_path, unsigned)
    check_files(tmp_path, info())
    (tmp_path / "search.json").write_text("{}")
    with pytest.raises(UserError, match=EDITED):
        check_files(tmp_path, info())
