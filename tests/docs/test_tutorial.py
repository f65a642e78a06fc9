"""The tutorial, followed in a copy of the checkout: every command runs, and prints what the page shows."""

import re
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.docs.checkout import copy_checkout

PAGE = (PROJECT_ROOT / "docs/tutorial/first-prompt-set.md").read_text("utf-8")
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()]
SHOWN = [line for block in re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()]


def without_mlflow(command: str) -> str:
    """Return the command without the MLflow store that it would make, which takes seconds and is tested elsewhere."""
    return f"{command} tracking=off" if re.search(r"(eval|optimize)/run\.py", command) else command


@pytest.mark.slow
def test_the_tutorial_ends_with_a_published_set(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    checkout = copy_checkout(tmp_path / "checkout", clean_environment)
    printed = "\n".join(checkout.run(without_mlflow(command), 0, 2) for command in COMMANDS)
    assert len(COMMANDS) == 8
    missing = [line for line in SHOWN if not line.startswith("$ ") and line not in printed]
    assert missing == []
    assert (checkout.root / "prompts/my_first/provenance.yaml").is_file()
