"""Where feedback quotes the answers of validation questions, they reach the prompts, and the leak check keeps them in.

With the check switched off the same run publishes them, so `0 leaked` is a statement about the check.
"""

from pathlib import Path

import pytest

from mas.prompt_sets.prompt_set import PromptSet, read_set_folder
from optimize.publishing.leaks import LeakReport
from optimize.session.tuning_store import read_tuning
from scripts.sample_data.toy import DrawnToyDataset
from tests.command import TUNED_SET, Finished, tuning_command
from tests.optimize.scorer_rules import SCORED

pytestmark = pytest.mark.slow  # whole runs

SEED = 15
REMEMBERED = "Remember this from earlier cases: "


def run_in_leaky_world(place: Path, *more: str) -> Finished:
    SCORED.clear()
    return tuning_command(
        place,
        *("system=toy", "data=toy", "model=offline", "model.world=leaky", "run.concurrency=8"),
        *("scorer=function", "scorer.target=tests.optimize.scorer_rules:quotes_other_answers"),
        *("data.n_train=20", "data.n_val=20", "data.n_test=60", "gate.epochs=2", "budget.metric_calls=160"),
        "data._target_=scripts.sample_data.toy.DrawnToyDataset",
        *(f"model.seed={SEED}", f"+data.seed={SEED}", f"seed={SEED}", *more),
    )


def list_remembered(prompts: PromptSet) -> list[str]:
    """The answers, each after the first words of its question, that a set's prompts hold."""
    lines = "\n".join(prompts.texts.values()).splitlines()
    return [line.removeprefix(REMEMBERED) for line in lines if line.startswith(REMEMBERED)]


def list_quoted(remembered: list[str], split: str) -> list[str]:
    """Those that hold a question's answer."""
    samples = DrawnToyDataset(20, 20, 60, seed=SEED).load(split).samples
    return [
        each for each in remembered for sample in samples if f"= {sample.target}." in each
        and each.split()[:4] == sample.question.replace("'", " ").split()[:4]
    ]  # fmt: skip


def test_leaks_reach_the_candidates_and_none_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = run_in_leaky_world(tmp_path / "checked")
    tuning = read_tuning(checked.folder)
    remembered = [each for row in tuning.proposals for each in list_remembered(tuning.get_prompts(row.candidate_id))]
    assert len(list_quoted(remembered, "val")) > 20
    blocked = [each["blocked"] for each in checked.read("leaks").values()]
    assert any(blocked)
    if checked.verdict["published"]:
        assert list_remembered(read_set_folder(checked.shelf / TUNED_SET)) == []

    monkeypatch.setattr(LeakReport, "blocked", False)
    unchecked = run_in_leaky_world(tmp_path / "unchecked")
    assert unchecked.verdict["published"] and list_remembered(read_set_folder(unchecked.shelf / TUNED_SET))
