"""The pages on data and scorers, followed in an empty folder: files written, commands run, in order."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.eval.command_line import without_notes

PAGES = ("how-to/data.md", "reference/scorers.md")  # in this order: the second uses files of the first
PAGE = "\n".join((PROJECT_ROOT / "docs" / page).read_text("utf-8") for page in PAGES)
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
NEEDS_MORE = ("owner/name", "gpt-4o")  # a dataset of the hub, a real model


@pytest.mark.slow
def test_the_pages_commands_run(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    (tmp_path / "eval").symlink_to(PROJECT_ROOT / "eval")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**clean_environment, "HF_HOME": str(tmp_path / "hf"), "PATH": path}
    ran = 0
    for number, block in enumerate(BLOCKS):
        if any(word in block for word in NEEDS_MORE):
            continue
        run = f"run_{number}"
        command = re.sub(r"(python eval/run\.py(?: --\S+)?)", rf"\1 tracking=off run.dir={run}", block)
        ended = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ended.returncode in (0, 2), f"{block}\n{ended.stdout}{ended.stderr}"  # the simulated model may err
        assert without_notes(ended.stderr) == ""
        assert json.loads((tmp_path / run / "summary.json").read_text())["n"] == 2
        ran += 1
    assert ran == len(BLOCKS) - 2


@pytest.mark.parametrize("group", ["data", "scorer"])
def test_the_page_names_every_choice(group: str) -> None:
    for file in (PROJECT_ROOT / "conf" / group).glob("*.yaml"):
        assert f"`{file.stem}`" in PAGE, file.stem
