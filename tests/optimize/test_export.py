"""A candidate published by hand says that nobody tested it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.cli.command import FINISHED, USER_ERROR, run_cli
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet, digest, read_prompt_set, write_prompt_set
from mas.prompt_sets.provenance import TunedOn
from optimize.export import task
from tests.command import forget_results, keep_result
from tests.eval.stored_tuning import TASK, store_tuning
from tests.optimize.mlflow_export.tuning_folder import keep_candidate

AGENTS = ["planner", "researcher", "expert", "critic_planner", "finalizer"]
PARENT = PromptSet("p", "toy", {"plan": "Plan.", "solve": "Solve."}, Path("p"))
TUNED = PromptSet(
    "c", "toy", {"plan": "Plan.", "solve": "Solve [bold]well[/bold]."}, Path("c"), demos={"solve": [{"a": 1}]}
)
LEAK = {"kind": "gold", "split": "val", "agent": "solve", "place": "text line 1", "sample_id": "v1"}


def proposal(candidate_id: str, **more: Any) -> dict[str, Any]:
    line: dict[str, Any] = {
        "candidate_id": candidate_id,
        "parent_ids": ["parent"],
        "agents": ["solve"],
        "decision": "accepted",
    }
    return {**line, "reason": "better [red]on[/red] the minibatch", "val_score": 0.625, **more}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "2026-11-21_10-00-00_tuned"
    write_prompt_set(folder / "prompts", PARENT)
    info = RunInfo(
        run_id="r1", started_at="2026-11-21T10:00:00+00:00", simulated=True, prompts_name="baseline",
        prompts_sha256=digest(PARENT), tuning=TASK,
    )  # fmt: skip
    lines = (proposal("c001"), proposal("c002", decision="rejected", val_score=None))
    results = {name: each for line in lines for name, each in keep_candidate(line, TUNED).items()}
    store_tuning(folder, info, results)
    return folder


def test_an_export_carries_what_it_was_tuned_on_and_says_how_to_use_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = TunedOn(frozenset({"aa"}), frozenset({"bb"}))
    keep_result(run, "splits", {"sealed_option": "split=test", "tuned_on": marks.to_dict()})
    assert task([str(run), "--candidate", "c001", "--name", "by_hand"], tmp_path / "prompts") == FINISHED
    read = read_prompt_set("by_hand", ["plan", "solve"], "toy", tmp_path)
    assert (read.tuned_on, read.edited) == (marks, ())
    assert "tuned_on.json" in read.provenance["checksums"]
    assert "published: prompts/by_hand (use it: prompts=by_hand split=test)" in capsys.readouterr().out


def test_an_export_is_marked_ungated(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shelf = tmp_path / "prompts"
    assert task([str(run), "--candidate", "c001", "--name", "by_hand"], shelf) == FINISHED
    read = read_prompt_set("by_hand", ["plan", "solve"], "toy", tmp_path)
    assert digest(read) == digest(TUNED)
    assert read.provenance["gated"] is False and read.provenance["leaks"] is None
    assert read.provenance["run"] == run.name and read.provenance["candidate_id"] == "c001"
    assert "UNGATED" in yaml.safe_load((shelf / "by_hand" / "set.yaml").read_text())["description"]
    said = capsys.readouterr().out
    assert "warning: c001 was not tested on sealed questions" in said and "not checked for leaked answers" in said
    assert str(tmp_path) not in (shelf / "by_hand" / "provenance.yaml").read_text()


def test_a_leak_that_the_run_found_is_told_again(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = {"blocked": True, "summary": "val gold (solve, text line 1, v1)", "checked": {"val": 1}, "hits": [LEAK]}
    keep_result(run, "leaks", {"c001": report})
    task([str(run), "--candidate", "c001", "--name", "by_hand"], tmp_path / "prompts")
    assert "warning: it leaks: val gold (solve, text line 1, v1)" in capsys.readouterr().out
    provenance = yaml.safe_load((tmp_path / "prompts" / "by_hand" / "provenance.yaml").read_text())
    assert provenance["leaks"] == {"blocked": True, "hits": {"val gold": 1}, "checked": {"val": 1}}


def test_the_list_has_every_candidate(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert task([str(run), "--list"]) == FINISHED
    said = capsys.readouterr().out
    assert "tuned (simulated): 2 candidates" in said
    assert all(word in said for word in ("c001", "accepted", "62.5%", "c002", "rejected"))


@pytest.mark.parametrize("columns", [60, 120])
def test_the_list_cuts_no_reason_in_a_narrow_terminal(
    columns: int, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_results(run, "proposal c001", "proposal c002")
    long = [proposal(f"c{n:03}", reason="no better on its few questions, " * 9, agents=AGENTS) for n in range(19)]
    for line in long:
        keep_result(run, f"proposal {line['candidate_id']}", line)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert task([str(run), "--list"]) == FINISHED
    said = capsys.readouterr().out.splitlines()
    rows = [line for line in said if line.startswith("│")]
    assert all(len(row) <= columns for row in rows)
    first = [row for row in rows if "accepted" in row]
    assert len(first) == len(long) and all("62.5%" in row for row in first)
    reasons = " ".join(row.split("│")[5].strip() for row in rows)
    assert reasons.count("better") == len(long) * 6, "200 characters of each"
    assert said[-1] == f"reasons in full: {run / 'report.html'}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["RUN", "--candidate", "c009", "--name", "x"], "has no candidate c009; choose one of: c001, c002, parent"),
        (["RUN", "--candidate", "../c001", "--name", "x"], "has no candidate ../c001"),
        (["RUN", "--candidate", "parent", "--name", "x"], "the set that the run began with"),
        (["RUN", "--candidate", "c001"], "give either --list, or both"),
        (["RUN"], "give either --list, or both"),
        (["RUN", "--list", "--name", "x"], "give either --list, or both"),
        (["RUN", "--candidate", "c001", "--name", "a/b"], "plain name"),
        (["nowhere", "--list"], "nowhere is no run"),
        ([], "RUN"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    arguments: list[str], sentence: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(run) if each == "RUN" else each for each in arguments]
    assert run_cli(lambda: task(given, tmp_path / "prompts")) == USER_ERROR
    said = capsys.readouterr().err
    assert sentence in said and said.startswith("error: ") and said.count("\n") == 1
    assert not (tmp_path / "prompts").exists()


def test_a_name_that_is_taken_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(run), "--candidate", "c001", "--name", "by_hand"]
    task(given, tmp_path / "prompts")
    assert run_cli(lambda: task(given, tmp_path / "prompts")) == USER_ERROR
    assert "ever overwritten" in capsys.readouterr().err
