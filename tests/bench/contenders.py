"""Who is measured: this harness and its peers, as commands for the same questions at the same concurrency."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measuring import CALLS, ROOT, FailedError, Measured, measure

OURS, INSPECT, DSPY = "this harness", "Inspect AI", "dspy.Evaluate"
Command = Callable[[str, int, int, Path], list[str]]  # base URL, concurrency, questions, a new folder


@dataclass(frozen=True)
class Contender:
    name: str
    version: str  # empty: not installed
    command: Command

    @property
    def title(self) -> str:
        return f"{self.name} {self.version or '(not installed: pip install .[bench])'}"

    def run(self, folder: Path, questions: int, concurrency: int, latency_seconds: float) -> Measured:
        """
        Raises:
            FailedError: not every question was asked and answered.
        """
        measured = measure(
            lambda url: self.command(url, concurrency, questions, folder), questions * CALLS, latency_seconds
        )
        if self.name == OURS:
            check_summary(folder, questions)
        return measured


def contenders(inspect_python: str) -> list[Contender]:
    """All three, installed or not."""
    here = Path(__file__).parent

    def inspect(url: str, concurrency: int, questions: int, folder: Path) -> list[str]:
        return [inspect_python, str(here / "peer_inspect.py"), url, str(concurrency), str(questions), str(folder)]

    def dspy(url: str, concurrency: int, questions: int, folder: Path) -> list[str]:
        return [sys.executable, str(here / "peer_dspy.py"), url, str(concurrency), str(questions)]

    return [
        Contender(OURS, version(sys.executable, "mas-harness"), evaluation),
        Contender(INSPECT, version(inspect_python, "inspect-ai"), inspect),
        Contender(DSPY, version(sys.executable, "dspy"), dspy),
    ]


def version(python: str, package: str) -> str:
    """Of the package as that Python would import it; empty if it is not installed."""
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    asked = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def evaluation(url: str, concurrency: int, questions: int, folder: Path) -> list[str]:
    """`eval/run.py` with its store and its logs, through the whole GAIA graph; MLflow off, as the peers have none."""
    return [
        sys.executable,
        str(ROOT / "eval/run.py"),
        "model=openai_compatible",
        f"model.base_url={url}",
        "data=jsonl",
        f"data.path={question_folder(folder.parent, questions)}",
        "tracking=off",
        f"run.concurrency={concurrency}",
        "run.deadline_seconds=3600",
        f"run.dir={folder}",
        "system.agents.researcher.tools=[calculator]",
    ]


def question_folder(parent: Path, number: int) -> Path:
    folder = parent / f"questions-{number}"
    if not folder.exists():
        folder.mkdir(parents=True)
        rows = (
            {"task_id": f"q{i}", "Question": f"Question {i}: what is 6 * 7?", "Final answer": "42"}
            for i in range(number)
        )
        (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def check_summary(folder: Path, questions: int) -> None:
    """
    Raises:
        FailedError: a question is missing, in error or wrong, although the server's answers are right.
    """
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    if summary["accuracy"] != 1.0 or summary["n"] != questions or summary["n_error"]:
        counts = {name: summary[name] for name in ("accuracy", "n", "n_error")}
        raise FailedError(f"the run itself went wrong: {counts}")
