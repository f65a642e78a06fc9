"""`eval/attribute.py`: wrong questions asked again with one agent corrected, next to a control."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.attribute import task
from eval.cli.command import FINISHED, STOPPED, USER_ERROR, run_cli
from eval.compare import task as compare
from eval.rescore import task as rescore
from eval.runs.run_info import CONTROL
from eval.runs.store import RunStore, read_run_info
from eval.sync import sync
from eval.workflows import replayed_proof
from eval.workflows.evaluate import Ended, evaluate
from tests.eval.command_line import EvalCommand

TOY = ("system=toy", "data=toy", "model=offline", "tracking=off", "limit=24")


@pytest.fixture
def run(eval_command: EvalCommand) -> Path:
    return eval_command(*TOY).folder


def attribute(*arguments: str) -> int:
    return run_cli(lambda: task(list(arguments)))


@pytest.mark.slow
def test_the_author_of_wrong_drafts_is_proven_and_its_run_measures_nothing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "proof"
    assert attribute(str(run), "--agents", "solve,plan,finalize", f"run.dir={place}") == FINISHED
    shown = capsys.readouterr().out
    proof = json.loads((place / "attribution.json").read_text("utf-8"))
    solve = proof["agents"][0]
    assert (solve["agent"], solve["kind"], len(proof["agents"])) == ("solve", "answer", 1)
    assert proof["control"] < solve["recovered"] and solve["difference"]["ci95"][0] > 0
    assert solve["difference"]["difference"] == pytest.approx(solve["recovered"] - proof["control"])
    assert "solve: " in shown and "points are lost here or before" in shown
    assert "plan: not corrected; its output is neither a draft" in shown and "simulated" in shown.lower()
    assert "finalize: not corrected; its output is the answer" in shown

    with RunStore(run / "run.db", read_only=True) as store:
        wrong = {each.sample_id for each in store.final_records() if not each.correct}
    assert proof["n_samples"] == len(wrong)
    for arm in (CONTROL, "solve"):
        info = read_run_info(place / arm)
        assert info.gold_informed == arm and info.simulated
        page = (place / arm / "report.html").read_text("utf-8")
        assert page.index("measures no system") < page.index('class="tiles"'), "before any number is read"
        assert page.count("and measures no system.</p>") == 1
        with RunStore(place / arm / "run.db", read_only=True) as store:
            assert {each.sample_id for each in store.final_records()} == wrong

    for refused in (
        lambda: compare([str(run), str(place / "solve")]),
        lambda: rescore([str(place / "solve"), "scorer=exact", f"run.dir={tmp_path / 'again'}"]),
        lambda: sync([str(place / "solve"), "tracking=local"]),
        lambda: task([str(place / "solve"), f"run.dir={tmp_path / 'twice'}"]),
    ):
        assert run_cli(refused) == USER_ERROR
        assert "right answers" in capsys.readouterr().err
    assert not (tmp_path / "again").exists() and not (tmp_path / "twice").exists()


def test_a_mistake_is_one_sentence_before_anything_is_asked(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "proof"
    capsys.readouterr()
    for arguments, sentence in (
        (("--agents", "nobody"), "--agents names nobody; the agents of toy are plan, solve, finalize."),
        (("--agents", "finalize"), "no agent can be corrected (finalize: its output is the answer"),
        (("model=gpt-4o",), "model cannot be changed here"),
        (("--limit", "0"), "--limit 0 is out of range; expected at least 1."),
    ):
        assert attribute(str(run), *arguments, f"run.dir={place}") == USER_ERROR
        shown = capsys.readouterr()
        assert shown.err.startswith(f"error: {sentence}") and shown.out == "" and not place.exists()


@pytest.mark.slow
def test_a_proof_is_written_into_no_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(run.rglob("*"))
    capsys.readouterr()
    assert attribute(str(run), "--agents", "solve", f"run.dir={run}") == USER_ERROR
    assert "has files that are no run" in capsys.readouterr().err
    assert sorted(run.rglob("*")) == before


def test_a_proof_whose_first_arm_was_interrupted_has_stopped_even_if_that_arm_is_complete(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: Any, **named: Any) -> Ended:
        return replace(evaluate(*arguments, **named), code=STOPPED, is_interrupted=True)

    monkeypatch.setattr(replayed_proof, "evaluate", interrupted)
    assert attribute(str(run), "--agents", "solve", "--limit", "2", f"run.dir={tmp_path / 'proof'}") == STOPPED
    assert "stopped: interrupted" in capsys.readouterr().err
    assert not (tmp_path / "proof" / "solve").exists()
