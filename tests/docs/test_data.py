"""The pages on data and scorers, followed in an empty folder: files written, commands run, in order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.eval.command_line import EvalCommand

PAGES = ("how-to/data.md", "reference/scorers.md")  # in this order: the second uses files of the first
PAGE = "\n".join((PROJECT_ROOT / "docs" / page).read_text("utf-8") for page in PAGES)
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
NEEDS_MORE = ("owner/name", "gpt-4o")  # a dataset of the hub, a real model


@pytest.mark.slow
def test_the_pages_commands_run(eval_command: EvalCommand) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = 0
    for block in BLOCKS:
        if any(word in block for word in NEEDS_MORE):
            continue
        before, _, options = block.replace("\\\n", " ").partition("python eval/run.py ")
        subprocess.run(["bash", "-ec", before], env={**os.environ, "PATH": path}, check=True)
        finished = eval_command(*shlex.split(options))
        assert finished.code in (0, 2), f"{block}\n{finished.out}"  # the simulated model may err
        assert (finished.err, finished.summary["n"]) == ("", 2)
        ran += 1
    assert ran == len(BLOCKS) - 2


@pytest.mark.parametrize("group", ["data", "scorer"])
def test_the_page_names_every_choice(group: str) -> None:
    for file in (PROJECT_ROOT / "conf" / group).glob("*.yaml"):
        assert f"`{file.stem}`" in PAGE, file.stem
