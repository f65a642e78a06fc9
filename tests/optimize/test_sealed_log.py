"""How often a sealed set was opened: across runs, processes and crashes."""

import subprocess
import sys
from pathlib import Path

import pytest

from eval.paths import PROJECT_ROOT
from mas.errors import UserError
from mas.prompts import PromptSet, digest
from optimize.sealed_log import note_opening, opened_before, warning

PROMPTS = PromptSet("tuned", "toy", {"planner": "Plan."}, Path())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "optimize" / "sealed_sets.jsonl"


def test_each_run_counts_once_for_each_set(file: Path) -> None:
    assert opened_before("set-1", file=file) == []
    for run, sealed in (("r1", "set-1"), ("r2", "set-1"), ("r1", "set-1"), ("r3", "set-2")):
        note_opening(sealed, run, PROMPTS, file)
    before = opened_before("set-1", besides="r3", file=file)
    assert [(each.run, each.prompts_sha256) for each in before] == [("r1", digest(PROMPTS)), ("r2", digest(PROMPTS))]
    assert [each.run for each in opened_before("set-1", besides="r1", file=file)] == ["r2"]
    assert len(file.read_text().splitlines()) == 3


def test_the_warning_counts_what_came_before(file: Path) -> None:
    assert warning([]) is None
    note_opening("set", "r1", PROMPTS, file)
    assert (warning(opened_before("set", file=file)) or "").startswith("this sealed set has been opened once before:")
    note_opening("set", "r2", PROMPTS, file)
    assert "opened 2 times before: each opening makes" in (warning(opened_before("set", file=file)) or "")


def test_a_line_that_a_crash_cut_off_spoils_no_other(file: Path) -> None:
    note_opening("set", "r1", PROMPTS, file)
    with file.open("ab") as open_file:
        open_file.write(b'{"sealed_digest": "set", "run": "r\xc3')
    assert [each.run for each in opened_before("set", file=file)] == ["r1"]
    note_opening("set", "r3", PROMPTS, file)
    assert [each.run for each in opened_before("set", file=file)] == ["r1", "r3"]


def test_processes_at_the_same_time_lose_nothing(file: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mas.prompts import PromptSet; from optimize.sealed_log import *\n"
        "for n in range(5): note_opening('set', f'{sys.argv[2]}-{n}', PromptSet('s', 'toy', {}, Path()), "
        "Path(sys.argv[1]))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(file), name], cwd=PROJECT_ROOT) for name in ("a", "b", "c")
    ]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    assert len(opened_before("set", file=file)) == 15


def test_a_set_is_not_opened_unnoted(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    with pytest.raises(UserError, match="no sealed set is opened unnoted"):
        note_opening("set", "r1", PROMPTS, tmp_path / "taken" / "sealed_sets.jsonl")
