"""The tutorial on own programs, word for word in an empty folder outside the checkout, offline and over HTTP."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.docs.checkout import Checkout, copy_checkout

PAGE = (PROJECT_ROOT / "docs/tutorial/your-program.md").read_text("utf-8")
FEWER = "gate.epochs=2 shortlist.epochs=1 budget.metric_calls=400"  # answers than on the page
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S)


def follow(root: Path, environment: Mapping[str, str], model: str) -> str:
    """Do what the page says, block by block, with this model; return what was printed."""
    checkout = copy_checkout(root / "checkout", environment)
    own = {name: value for name, value in checkout.environment.items() if name != "PYTHONPATH"}
    reader = Checkout(root / "own", {**own, "MAS": str(checkout.root), "COLUMNS": "100"})
    reader.root.mkdir()
    variables, printed = "", ""
    for kind, block in BLOCKS:
        if kind == "python":
            reader.write(block.splitlines()[0].removeprefix("# "), block)
        elif kind == "sh":
            shorter = re.sub(r"(optimize/run\.py .*)", rf"\1 {FEWER}", block)
            for line in shorter.replace("model=offline", f"{model} tracking=off").splitlines():
                variables += f"{line}\n" if re.match(r"[A-Z]+=", line) else ""
                printed += reader.run(f"{variables}{line}", 0, 2)
    for name in ("triage", "solver"):
        assert (checkout.root / "prompts" / f"{name}_tuned" / "provenance.yaml").is_file()
        assert f"published: prompts/{name}_tuned" in printed
        assert (reader.root / f"{name}.json").is_file()
    return printed


def without_numbers(text: str) -> str:
    """The search's numbers change with each change of the search; that there are such lines does not."""
    return re.sub(r"\s+", " ", re.sub(r"c?[-+]?\d[\d.,]*(e-\d+)?", "#", text))


@pytest.mark.slow
def test_the_tutorial_ends_with_two_published_and_exported_sets(
    tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    printed = without_numbers(follow(tmp_path / "offline", clean_environment, "model=offline"))
    shown = [line for kind, block in BLOCKS if kind == "text" for line in block.splitlines()]
    assert [line for line in shown if not line.startswith("$ ") and without_numbers(line) not in printed] == []
