"""`eval/list_runs.py`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.cli.command import FINISHED, USER_ERROR, run_cli
from eval.list_runs import task
from tests.eval.analysis.run_list.test_read_runs import finished, tuning
from tests.eval.stored_run import SESSION

PUBLISHED = {"published": True, "set": "prompts/mine"}
EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose outputs/ has four runs."""
    place = tmp_path / "project" / "outputs"
    old = [{**SESSION, "started_at": "2026-11-01T10:00:00+00:00"}]
    finished(place / "eval" / "2026-11-01_10-00-00_old", sessions=old, model=EVIL)
    finished(place / "eval" / "2026-11-20_10-00-00_seen")
    tuning(place / "optimize" / "2026-11-02_10-00-00_mine_gepa", PUBLISHED, began="2026-11-02T10:00:00+00:00")
    tuning(place / "optimize" / "2026-11-03_10-00-00_other_gepa", ended_at=None, began="2026-11-03T10:00:00+00:00")
    monkeypatch.setattr("eval.list_runs.OUTPUTS", place)
    yield place


def test_the_list_names_state_score_and_model(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert task(["seen"]) == FINISHED
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == "complete 2026-11-20_10-00-00_seen"
    assert "50.0% (" in shown and ", n = 2 · toy · gpt-4o-mini · " in shown
    assert "1 of 4 runs" in shown
    assert task(["Tuning", "--json", "gepa"]) == FINISHED
    listed = json.loads(capsys.readouterr().out)
    assert [(run["state"], run["reason"]) for run in listed] == [
        ("crashed", "its process ended without notice, in its phase search"),
        ("complete", "published as prompts/mine"),
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no/such"], "no/such is no folder"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(lambda: task(words)) == USER_ERROR
    assert sentence in capsys.readouterr().err
