"""The hub without a network, in processes of their own: huggingface_hub reads its settings while it is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.hub import serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
README = "---\nconfigs:\n- config_name: main\n  data_files: [{split: test, path: data/test.csv}]\n---\n"
LOAD = """
import time

def waited(seconds):
    raise SystemExit(f"waited {seconds} s")

time.sleep = waited
from eval.benchmarks.hub import HubRepository
from mas.runtime.errors import UserError

hub = HubRepository("owner/name", "REVISION", UserError)
try:
    print(hub.read_table("main", "test")[0]["prompt"], (hub.fetch_files("", ["a.txt"]) / "a.txt").read_text(), end="")
except UserError as error:
    print("refused:", error, end="")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo" / "data").mkdir(parents=True)
    (tmp_path / "repo" / "README.md").write_text(README)
    (tmp_path / "repo" / "a.txt").write_text("attached")
    (tmp_path / "repo" / "data" / "test.csv").write_text("prompt\nWho?\n")
    return tmp_path / "repo"


def load_from(hub: str, home: Path, revision: str = COMMIT) -> str:
    others = {name: value for name, value in os.environ.items() if not name.lower().startswith(("hf_", "http"))}
    others = {name: value for name, value in others.items() if not name.lower().endswith("_proxy")}
    settings = {"HF_ENDPOINT": hub, "HF_HOME": str(home)}
    run = [sys.executable, "-c", LOAD.replace("REVISION", revision)]
    done = subprocess.run(run, env=others | settings, capture_output=True, text=True, timeout=120)
    return done.stdout if done.returncode == 0 else done.stderr


@pytest.mark.slow
def test_without_a_network_what_was_fetched_before_is_used_and_nothing_waited_for(root: Path, tmp_path: Path) -> None:
    with serving(root, COMMIT) as (hub, _):
        assert load_from(hub, tmp_path / "home") == "Who? attached"
    assert load_from(hub, tmp_path / "home") == "Who? attached"
    assert load_from(hub, tmp_path / "home", "f" * 40) == (
        "refused: the hub cannot be reached, and what was fetched before is another revision"
    )
