"""A disk that is full at any moment of a run: what the command says to do works once there is room."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.runs.store import RunStore, StoreError
from tests.eval.command_line import EvalCommand, dataset, question


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("root is missing: only root may mount")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def resize(disk: Path, kilobytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", disk], check=True)


def rows(folder: Path) -> list[str]:
    try:
        with RunStore(folder / "run.db", read_only=True) as store:
            return list(store.lines())
    except StoreError:
        return []


@pytest.mark.slow
def test_a_run_on_a_disk_that_is_full_at_any_size_goes_on_as_it_says(
    eval_command: EvalCommand, disk: Path, tmp_path: Path
) -> None:
    asked = dataset(tmp_path / "data", *(question(f"q{n}", f"What is {n} + 1?", str(n + 1)) for n in range(20)))
    common = ["system=toy", "model=offline", *asked, "run.concurrency=1"]
    codes = set()
    for kilobytes in (4, 20, 60, 100, 140, 200, 260, 330):
        resize(disk, kilobytes)
        folder = disk / str(kilobytes)
        full = eval_command(*common, f"run.dir={folder}")
        codes.add(full.code)
        assert full.code in (1, 3), full.out
        assert "Traceback" not in full.err
        resize(disk, 100_000)
        kept = rows(folder)
        found = re.search(r"^continue with: python eval/run.py (\S+)$", full.err + full.out, re.MULTILINE)
        assert (found is not None) == (full.code == 3), full.err
        assert found or re.search("(?i)check that the disk has room|no space left on device", full.err), full.err
        again = eval_command(found[1], f"run.dir={folder}") if found else eval_command(*common, f"run.dir={folder}")
        assert again.code in (0, 2), f"{kilobytes} KB: {full.err}{again.err}"
        lines = (folder / "answers.jsonl").read_text().count("\n")
        assert lines == 20 and rows(folder)[: len(kept)] == kept
        subprocess.run(["rm", "-rf", folder], check=True)
    assert codes == {1, 3}
