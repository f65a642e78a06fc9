"""The worlds as a whole: what prompts do to scores, what the answers depend on, where errors show in the records."""

import json
import random
import shutil
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm
from scipy.stats import t as student

from eval.benchmarks.sample_set import SAMPLE
from eval.benchmarks.toy_set import ToyDataset
from eval.execution.run_session import Session
from eval.scorers.gaia import GaiaScorer
from mas.simulation.behaviour import World
from tests.eval.command_line import EvalCommand
from tests.mas.simulation.toy_calls import SIGNATURES, answers, random_prompt

PROMPTS = Path(__file__).parents[3] / "prompts"
TOY = {agent: (PROMPTS / "toy_baseline" / f"{agent}_system_prompt.txt").read_text() for agent in SIGNATURES}
MARGIN = 0.02


def toy_score(prompts: dict[str, str], examples: Any, world: World) -> float:
    found = answers(prompts, [example.question for example in examples], world)
    right = [
        GaiaScorer()(example.question, answer, example.target).value if answer is not None else 0.0
        for example, answer in zip(examples, found, strict=True)
    ]
    return statistics.mean(right)


@pytest.mark.slow
def test_in_the_null_world_150_random_prompt_sets_score_as_the_baseline_does() -> None:
    """Two one-sided tests, paired by the world's seed: random set less baseline, within 2 points either way."""
    examples = ToyDataset(n_val=60).load("val").samples
    differences = []
    for seed in range(150):
        rng = random.Random(seed)
        drawn = {agent: random_prompt(rng) for agent in TOY}
        world = World("null", seed)
        differences.append(toy_score(drawn, examples, world) - toy_score(TOY, examples, world))
    mean, error = statistics.mean(differences), statistics.stdev(differences) / len(differences) ** 0.5
    p = max(student.sf((mean + MARGIN) / error, 149), student.cdf((mean - MARGIN) / error, 149))
    power = 2 * norm.cdf(MARGIN / error - norm.ppf(0.95)) - 1
    print(f"\nnull world: difference {mean:+.4f}, standard error {error:.4f}, TOST p = {p:.2g}, power {power:.3f}")

    assert power > 0.9
    assert p < 0.05


@pytest.fixture
def sample_copy(tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(SAMPLE / "val", folder)
    return folder


def records(eval_command: EvalCommand, folder: Path, *more: str) -> list[dict[str, Any]]:
    finished = eval_command("model=offline", "data=jsonl", f"data.path={folder}", "limit=40", *more)
    assert finished.code in (0, 2), finished.err  # 2: some questions ended in an error
    return sorted(finished.records.values(), key=lambda record: str(record["sample_id"]))


@dataclass
class Opened:
    """Which files of a folder are opened, each with whether a tool opens it."""

    folder: Path
    files: list[tuple[str, bool]] = field(default_factory=list)
    before_questions: int = 0
    watching: bool = True

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.watching and event == "open" and str(self.folder) in str(arguments[0]):
            frame, by_tool = sys._getframe(), False
            while frame.f_back is not None and not by_tool:
                frame = frame.f_back
                by_tool = "/mas/tools/" in frame.f_code.co_filename
            self.files.append((str(arguments[0]), by_tool))


@contextmanager
def watched(folder: Path) -> Iterator[Opened]:
    """During a run."""
    opened, open_answering = Opened(folder), Session.open_answering

    def counted(session: Session) -> Any:
        opened.before_questions = len(opened.files)
        return open_answering(session)

    sys.addaudithook(opened.watch)  # cannot be taken off again, so it is switched off
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "open_answering", counted)
        try:
            yield opened
        finally:
            opened.watching = False


@pytest.mark.slow
def test_only_tools_open_the_questions_files_and_answers_do_not_depend_on_the_gold_answers(
    eval_command: EvalCommand, sample_copy: Path
) -> None:
    with watched(sample_copy) as opened:
        first = records(eval_command, sample_copy)
    assert len(first) == 40
    assert sum(by_tool for _, by_tool in opened.files) > 20
    while_questions_ran = opened.files[opened.before_questions :]
    assert all(by_tool for _, by_tool in while_questions_ran), "the data is loaded before the first question"

    file = sample_copy / "metadata.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    golds = [row["Final answer"] for row in rows]
    random.Random(1).shuffle(golds)
    file.write_text(
        "".join(json.dumps({**row, "Final answer": gold}) + "\n" for row, gold in zip(rows, golds, strict=True))
    )
    second = records(eval_command, sample_copy)

    def told(found: list[dict[str, Any]]) -> bytes:
        return json.dumps({r["sample_id"]: [r["answer"], r["reasoning_trace"], r["error"]] for r in found}).encode()

    assert told(first) == told(second)
    assert [r["target"] for r in first] != [r["target"] for r in second]


@pytest.mark.slow
def test_a_run_is_the_same_every_time_and_another_with_another_seed(eval_command: EvalCommand) -> None:
    def told(seed: int) -> list[Any]:
        found = records(eval_command, SAMPLE / "val", f"model.seed={seed}", "limit=15")
        return [(record["sample_id"], record["answer"]) for record in found]

    first = told(0)

    assert told(0) == first
    assert told(1) != first


@pytest.mark.parametrize("world", ["null", "harmful", "leaky"])
def test_every_world_can_be_chosen_on_the_command_line(eval_command: EvalCommand, world: str) -> None:
    finished = eval_command("experiment=offline", f"model.world={world}", "model.seed=2", "limit=1", "tracking=off")

    asked = {
        step["name"] for record in finished.records.values() for step in record["trajectory"] if step["kind"] == "lm"
    }
    assert {name.rpartition("/")[2] for name in asked} == {f"{world}-2"}
