"""The page on Python, run in an empty folder as one program."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
CHECK = """
assert (run.score, len(run.table), comparison.difference, len(answers)) == (0.5, 2, 0.0, 2), (run, comparison)
assert earlier.folder == same_again.folder and runs["run"][0] == earlier.folder.name and len(calls) == 0
"""


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    code = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    outputs = f"import pathlib, eval.cli.paths\neval.cli.paths.OUTPUTS = pathlib.Path({str(tmp_path / 'outputs')!r})\n"
    environment = {**clean_environment, "PYTHONPATH": str(PROJECT_ROOT)}
    command = [sys.executable, "-c", outputs + code + CHECK]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(r"\S+_last_word: accuracy 50.0% \(.*\), 1/2 right\n", ended.stdout)
