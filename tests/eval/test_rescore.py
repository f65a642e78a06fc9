"""`eval/rescore.py`: the same answers, scored again into a run of their own."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.analysis.human_review.labels import append_label, describe_label
from eval.cli.command import FAILURES, FINISHED, USER_ERROR, run_cli
from eval.rescore import task
from eval.runs.folder import read_kept_prompts
from eval.runs.record import Record, Usage
from eval.runs.run_info import SweepJob
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet, write_prompt_set
from tests.eval.command_line import EvalCommand, dataset
from tests.eval.obedient_agent import AGENT
from tests.eval.obedient_agent import told as order
from tests.eval.stored_run import CONFIG, answered, stored_run

Rescore = Callable[..., int]

SWEEP = SweepJob("s", 0, [])


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new"


@pytest.fixture
def rescore(tmp_path: Path, new: Path) -> Rescore:
    return lambda *arguments: run_cli(lambda: task([str(tmp_path / "old"), *arguments, f"run.dir={new}"]))


def records(folder: Path) -> dict[str, Record]:
    with RunStore(folder / "run.db", read_only=True) as store:
        return {record.sample_id: record for record in store.records()}


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text("ascii"))
    return found


def test_another_rule_gives_another_score_and_nothing_else_changes(
    tmp_path: Path, new: Path, rescore: Rescore, capsys: pytest.CaptureFixture[str]
) -> None:
    old = stored_run(tmp_path / "old", [answered("q1", "17.4"), answered("q2", "17"), answered("q3", None)])
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    assert rescore("scorer=numeric", "scorer.tolerance=0.5") == FINISHED
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before
    was, now = records(old), records(new)
    assert [each.score for each in was.values()] == [0.0, 1.0, 0.0]
    assert [each.score for each in now.values()] == [1.0, 1.0, 0.0]
    rescored = ("run_id", "score", "explanation", "parts")
    for name, record in now.items():
        assert record.explanation
        assert {k: v for k, v in asdict(record).items() if k not in rescored} == {
            k: v for k, v in asdict(was[name]).items() if k not in rescored
        }
    with RunStore(new / "run.db", read_only=True) as store:
        info = store.read_info()
    assert info.rescored_from == "old"
    assert info.run_id == now["q1"].run_id != "run-1"
    config = yaml.safe_load((new / "config.yaml").read_text())
    assert config["scorer"]["_target_"] == "eval.scorers.numeric.NumericScorer"
    assert config["scorer"]["tolerance"] == 0.5
    assert config["system"] == CONFIG["system"]
    assert summary(new)["n_correct"] == 2
    out = capsys.readouterr().out
    assert f"scored again from: {old}" in out
    assert f"results: {new}" in out
    assert out.splitlines()[-1].endswith(f": python eval/report.py {new}")


def test_a_metric_of_dspy_reads_the_inputs_and_outputs_of_the_run(
    tmp_path: Path, rescore: Rescore, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_later_metric.py").write_text(
        "def metric(gold, pred, trace=None):\n    return (gold.label == pred.label) * len(gold.title) / 4\n"
    )
    state = {"inputs": {"title": "Late"}, "outputs": {"label": "17"}}
    stored_run(tmp_path / "old", [answered("q1", "x", state=state), answered("q2", "17")])
    options = "scorer.target=my_later_metric:metric", "scorer.target_field=label"
    assert rescore("scorer=function", *options) == FAILURES
    found = records(new)
    assert (found["q1"].score, found["q2"].score, found["q2"].error_class) == (1.0, None, "scorer")


def test_errors_stay_errors_except_that_of_a_scorer(tmp_path: Path, new: Path, rescore: Rescore) -> None:
    down = answered("q1", "17", error="down", error_class="infrastructure", error_component="expert", score=None)
    unjudged = answered(
        "q2", "17", error="no verdict", error_class="scorer", error_component="scorer", limit="deadline_seconds",
        score=None, state={"draft": "17", "error": "no verdict", "error_component": "scorer"},
        scorer_usage=Usage(lm_calls=3, cost_usd=1.0),
    )  # fmt: skip
    late = answered("q3", "17", limit="lm_calls")
    unpaid = answered(
        "q4", "17", error="no money for the judge", error_class="quota_or_key", error_component="scorer", score=None
    )
    stored_run(tmp_path / "old", [down, unjudged, late, unpaid])
    assert rescore("scorer=exact") == FAILURES
    now = records(new)
    assert (now["q1"].error, now["q1"].score) == ("down", None)
    scored = now["q2"]
    assert (scored.error, scored.error_class, scored.limit, scored.score) == (None, None, None, 1.0)
    assert (scored.state, scored.scorer_usage) == ({"draft": "17"}, Usage())
    assert (now["q3"].limit, now["q3"].score) == ("lm_calls", 1.0)
    assert (now["q4"].error, now["q4"].error_component, now["q4"].score) == (None, None, 1.0)


def test_a_scorer_that_fails_puts_the_question_in_error_without_its_gold_answer(
    tmp_path: Path, new: Path, rescore: Rescore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rescoring_rules.py").write_text(
        "def judge(question, answer, target):\n    if answer == 'x': raise ValueError(target)\n    return True\n"
    )
    monkeypatch.chdir(tmp_path)
    stored_run(tmp_path / "old", [answered("q1", "x", gold="secret"), answered("q2", "y")])
    assert rescore("scorer=function", "scorer.target=rescoring_rules:judge") == FAILURES
    now = records(new)
    assert (now["q1"].score, now["q1"].error_class, now["q2"].score) == (None, "scorer", 1.0)
    assert "secret" not in str(now["q1"].error)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "nothing would be scored differently"),
        (["scorer=graded"], "scorer=graded calls a model"),
        (["scorer.foo=1"], "scorer.foo=1 is an option of a scorer; name that too: scorer=… scorer.foo=1"),
        (["model=offline", "scorer=exact"], "model cannot be changed"),
        (["gold=nowhere"], "nowhere has no labels yet; review answers with python eval/view.py"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_made(
    tmp_path: Path, new: Path, rescore: Rescore, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    stored_run(tmp_path / "old", [answered("q1", "17")])
    assert rescore(*arguments) == USER_ERROR
    assert expected in capsys.readouterr().err
    assert not new.exists()


def test_a_run_that_is_going_on_and_a_folder_that_is_taken_are_refused(
    tmp_path: Path, new: Path, rescore: Rescore, capsys: pytest.CaptureFixture[str]
) -> None:
    old = stored_run(tmp_path / "old", [answered("q1", "17")])
    with RunStore(old / "run.db"):
        assert rescore("scorer=exact") == USER_ERROR
    assert "is still running" in capsys.readouterr().err
    stored_run(new, [answered("q1", "17")])
    assert rescore("scorer=exact") == USER_ERROR
    assert "already holds a run" in capsys.readouterr().err


def test_a_run_that_was_scored_anew_is_neither_gone_on_with_nor_mixed_with_another(
    eval_command: EvalCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("eval.runs.find.OUTPUTS", tmp_path)
    monkeypatch.setattr("eval.runs.folder.OUTPUTS", tmp_path)
    old, new = (tmp_path / "eval" / f"2026-11-21_0{hour}-00-00_{name}" for hour, name in ((8, "old"), (9, "new")))
    run = [*AGENT, *dataset(tmp_path / "data", order("a", "sleep 0 say 7"))]
    assert eval_command(*run, f"run.dir={old}").code == FINISHED
    assert run_cli(lambda: task([str(old), "scorer=exact", f"run.dir={new}"])) == FINISHED
    before = (new / "run.db").read_bytes()

    mixed = eval_command(*run, "run.epochs=2", f"run.dir={new}")
    assert mixed.code == USER_ERROR
    assert f"run.dir={new} already holds a run; resume it with run.resume={new}" in mixed.err
    resumed = eval_command("run.resume=new")
    assert resumed.code == USER_ERROR
    assert f"holds the answers of {old.name}, scored again" in resumed.err
    assert f"continue with run.resume={old.name}" in resumed.err
    latest = eval_command("run.resume=latest")
    assert latest.code == FINISHED
    assert f"{old.name} is finished; nothing is left to run" in latest.out
    assert (new / "run.db").read_bytes() == before


def test_it_has_a_name_of_its_own_the_same_prompts_and_no_part_in_the_sweep(
    tmp_path: Path, new: Path, rescore: Rescore
) -> None:
    config = {**CONFIG, "run": {"name": "careful"}}
    old = stored_run(tmp_path / "old", [answered("q1", "17")], config=config, sweep=SWEEP, prompts_name="baseline")
    write_prompt_set(old / "prompts", PromptSet("baseline", "toy", {"planner": "Plan."}, old))
    assert rescore("scorer=numeric", "run.name=strict") == FINISHED
    with RunStore(new / "run.db", read_only=True) as store:
        info = store.read_info()
    assert (info.config["run"]["name"], info.sweep) == ("strict", None)
    assert (kept := read_kept_prompts(new)) and kept.texts == {"planner": "Plan."}


DATA = "d" * 64


def review(folder: Path, record: Record, label: str, **parts: str) -> None:
    found = describe_label(record, label, file_sha256=None, who="ada", run="old", **parts)
    append_label(folder / "gold", DATA, found)


def test_what_people_said_is_applied_with_provenance_and_changes_nothing_else(
    tmp_path: Path, new: Path, rescore: Rescore, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong_gold, right, wrong = answered("q1", "18"), answered("q2", "seventeen"), answered("q3", "17")
    others = [answered("q4", "x"), answered("q5", "kept", score=1.0)]  # of a scorer that is not asked again
    stored_run(tmp_path / "old", [wrong_gold, right, wrong, *others], dataset_sha256=DATA)
    review(tmp_path, wrong_gold, "wrong_gold", target="18", note="table 2 says 18")
    review(tmp_path, right, "right")
    review(tmp_path, wrong, "wrong")
    review(tmp_path, others[0], "ambiguous", note="which year?")
    assert rescore(f"gold={tmp_path / 'gold'}") == FINISHED
    now = records(new)
    assert {name: each.score for name, each in now.items()} == {"q1": 1.0, "q2": 1.0, "q3": 0.0, "q4": 0.0, "q5": 1.0}
    (verdict,) = now["q1"].human
    assert (verdict.who, verdict.run, verdict.note) == ("ada", "old", "table 2 says 18")
    assert (now["q1"].target, verdict.target_before, verdict.score_before) == ("18", "17", 0.0)
    assert "table 2" not in now["q1"].explanation
    numbers = summary(new)["human_review"]
    assert numbers["labels"] == {"right": 1, "wrong": 1, "wrong_gold": 1, "ambiguous": 1}
    assert numbers["score_before"] == 0.4
    assert summary(new)["n_scored"] == 5
    with RunStore(new / "run.db", read_only=True) as store:
        assert not store.read_info().task.dataset_sha256, "other targets are other data"
    out = " ".join(capsys.readouterr().out.split())
    assert "1 right, 1 wrong, 1 wrong gold, 1 ambiguous; before, the accuracy was 40.0%" in out


def test_a_judges_run_is_corrected_by_a_rule_and_no_model_is_asked(tmp_path: Path, new: Path, rescore: Rescore) -> None:
    judge = {"_target_": "eval.scorers.graded.GradedScorer", "rubric": "r", "judge": {"_target_": "x.Y"}}
    corrected, kept = answered("q1", "18"), answered("q2", "seventeen", score=1.0)
    stored_run(tmp_path / "old", [corrected, kept], config={**CONFIG, "scorer": judge}, dataset_sha256=DATA)
    review(tmp_path, corrected, "wrong_gold", target="18.0")
    assert rescore(f"gold={tmp_path / 'gold'}") == FINISHED
    now = records(new)
    assert (now["q1"].score, now["q2"].score) == (1.0, 1.0)


def test_labels_are_applied_to_the_original_run_and_a_folder_without_any_is_a_mistake(
    tmp_path: Path, rescore: Rescore, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = answered("q1", "18")
    stored_run(tmp_path / "old", [record], rescored_from="first", dataset_sha256=DATA)
    review(tmp_path, record, "right")
    assert rescore(f"gold={tmp_path / 'gold'}") == USER_ERROR
    assert "was scored again from first; apply the labels to that run" in capsys.readouterr().err
    stored_run(tmp_path / "first", [record], dataset_sha256=DATA)
    (tmp_path / "empty").mkdir()
    assert run_cli(lambda: task([str(tmp_path / "first"), f"gold={tmp_path / 'empty'}"])) == USER_ERROR
    assert "has no labels yet" in capsys.readouterr().err
