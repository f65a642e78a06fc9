"""MLflow's own pages of our runs, seen in a real Chromium: what a person looks for stands there.

The pictures are in pytest's folder of the test; MLFLOW_PICTURES=docs/images replaces those of docs/how-to/mlflow.md.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.config.tracking import LocalTracking
from eval.mlflow_export.traces import derive_trace_id
from tests.command import run_command, surroundings
from tests.mlflow_runs import records_in_store
from tests.pages.browser import browser, picture, see, why_not
from tests.servers.mlflow_server import running_mlflow
from tests.servers.running import running_llm

LIMIT = 16
PRICED = 6  # questions to a model with a price; the simulated one is free
PRICES = "+model.prices.loopback={input_usd_per_million: 0.15, output_usd_per_million: 0.6}"
ADDED = {
    "finalizer": "Answer with as few words as possible: a bare number or name, no prose.\n"
    "Leave out units unless the question asks for them, and write numbers without thousands separators.\n"
    "Follow the rounding that the question asks for.",
    "researcher": "Read the attached file first. Quote exact values, and check that they come from the right row and "
    "column.\nUse tools rather than memory.",
}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Stored:
    """Three runs in a local store, and MLflow's pages on it."""

    experiment: str  # address of its pages
    folders: dict[str, Path]
    pictures: Path

    def run_id(self, name: str) -> str:
        return str(json.loads((self.folders[name] / "mlflow.json").read_text("utf-8"))["run_id"])

    @property
    def comparison(self) -> str:
        chosen = f"selectedRunUuid={self.run_id('careful')}&compareToRunUuid={self.run_id('baseline')}"
        return f"{self.experiment}/evaluation-runs?{chosen}"

    def correct(self, name: str) -> dict[str, bool]:
        """By question."""
        return {record.sample_id: record.correct for record in records_in_store(self.folders[name])}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("pages")
    local = LocalTracking(folder=str(folder / "store"))
    careful = write_careful_prompts(folder / "careful")
    folders = {name: folder / f"run-{name}" for name in ("baseline", "careful", "priced")}
    simulated = ("model=offline", f"limit={LIMIT}")
    priced = ("model=openai_compatible", "model.name=loopback", PRICES)
    with running_llm() as llm, surroundings(folder), pytest.MonkeyPatch.context() as patch:
        options = {
            "baseline": simulated,
            "careful": (*simulated, f"prompts={careful}"),
            "priced": (*priced, f"model.base_url={llm.base_url}", f"limit={PRICED}"),
        }
        for name, value in local.environment().items():
            patch.setenv(name, value)  # so that what the code sets is undone at the end
        for name, given in options.items():
            run_command(folder, "eval", "data=sample", f"run.name={name}", f"run.dir={folders[name]}", *given)
            sent = run_command(folder, "sync", folders[name], "tracking=local", f"tracking.folder={local.folder}")
            assert sent.code == 0, sent.err
    backend = f"sqlite:///{folder / 'store' / 'mlflow.db'}"
    pictures = Path(os.environ.get("MLFLOW_PICTURES", folder / "pictures")).absolute()
    pictures.mkdir(exist_ok=True)
    with running_mlflow(folder / "server", backend) as server:
        yield Stored(f"{server.url}/#/experiments/1", folders, pictures)


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    if reason := why_not():
        pytest.skip(reason)
    with browser() as opened:
        yield opened


def write_careful_prompts(folder: Path) -> Path:
    """The hand-written set with a few sentences more for two agents."""
    shutil.copytree(PROJECT_ROOT / "prompts" / "baseline", folder)
    for agent, added in ADDED.items():
        prompt = folder / f"{agent}_system_prompt.txt"
        prompt.write_text(f"{prompt.read_text('utf-8').rstrip()}\n{added}\n", "utf-8")
    return folder


def test_the_list_of_runs_shows_our_numbers(stored: Stored, page: Any) -> None:
    text = see(page, f"{stored.experiment}/evaluation-runs", "baseline", "careful", "priced", "accuracy")
    picture(page, stored.pictures, "mlflow-runs")
    for column in ("accuracy", "n_correct", "n_error", "cost_usd", "tool_calls"):
        assert column in text
    accuracy = sum(stored.correct("careful").values()) / LIMIT
    assert str(round(accuracy, 6)) in text
    assert "baseline (simulated)" in text


def test_two_runs_are_compared_question_by_question(stored: Stored, page: Any) -> None:
    see(page, f"{stored.experiment}/evaluation-runs", "baseline", "careful")
    for name in ("careful", "baseline"):
        page.get_by_role("row").filter(has_text=name).get_by_role("checkbox").click()
    page.get_by_role("button", name="Actions").first.click()
    page.get_by_role("menuitem", name="Compare").click()
    text = see(page, None, "Comparing", f"{LIMIT} of {LIMIT}", "Expected ou", "correct")
    page.set_viewport_size({"width": 2000, "height": 1000})
    text = see(page, None, "error_class")
    picture(page, stored.pictures, "mlflow-compare")
    page.set_viewport_size({"width": 1600, "height": 900})
    first_words = {each.sample_id: each.question[:12] for each in records_in_store(stored.folders["careful"])}
    better = sum(stored.correct("careful").values()) / LIMIT
    assert f"{math.floor(better * 100 + 0.5)}%" in text, "MLflow rounds a half up"
    shown = [
        sample_id
        for sample_id in stored.correct("careful")
        if f" · {sample_id}" in text or first_words[sample_id] in text
    ]
    assert len(shown) >= 5, "the rows that fit on the page"


def test_a_trace_is_a_tree_with_tokens_and_cost(stored: Stored, page: Any) -> None:
    record = next(each for each in records_in_store(stored.folders["priced"]) if each.usage.tool_calls)
    page_of_trace = f"{stored.experiment}/traces?selectedEvaluationId={derive_trace_id(record, '1')}"
    text = see(page, page_of_trace, "critic_planner", "read_file", "loopback")
    assert "orchestrator" not in text, "a span of its own would be empty"
    picture(page, stored.pictures, "mlflow-trace")
    tokens = record.usage.input_tokens + record.usage.output_tokens
    assert f"{tokens:,} tokens" in text
    first = next(step for step in record.trajectory if step["kind"] == "lm")
    assert f"${first['attributes']['cost_usd']:.6f}".rstrip("0") in text
    assert re.search("question.*planner.*researcher.*finalizer", text, re.S), "the reasoning may name an agent before"
