import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eval.analysis.attribution.critics import CriticCount
from eval.analysis.summary.lost_points import summarise_critics
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import LostPoints, SessionSummary, Summary
from eval.mlflow_export.run_page import (
    CHANGED_TAG,
    RunPage,
    build_page,
    build_run_name,
    read_end_ms,
    read_start_ms,
    read_status,
    write_artifacts,
    write_page,
)
from eval.mlflow_export.tracked_run import TrackedRun
from eval.runs.folder import read_origin
from eval.runs.run_info import RunInfo, RunState, SessionInfo, TaskInfo
from mas.prompt_sets.prompt_set import PromptSet
from tests.eval.mlflow_export.records import a_record

Opened = Callable[..., TrackedRun]

CONFIG = {
    "system": {
        "_target_": "mas.systems.gaia.system.GaiaSystem", "name": "gaia",
        "tools": {"read_file": "x.y", "calculator": "x.z"},
        "agents": {"planner": {"model": None}, "expert": {"model": "gpt-5"}, "finalizer": {"model": None}},
    },
    "model": {"name": "gpt-4o-mini", "temperature": 0.0, "agents": {"planner": {"name": "gpt-4o"}}},
    "scorer": {"_target_": "eval.scorers.gaia.GaiaScorer"},
    "data": {"_target_": "x.Y", "name": "gaia_level1", "default_split": "validation"},
    "tracking": {"uri": "https://ann:topsecret@host"},
    "prompts": "prompts/baseline", "split": None, "ids": [], "run": {"name": None},
}  # fmt: skip
INFO = RunInfo(
    run_id="run-1",
    config=CONFIG,
    command=["model=gpt-4o-mini"],
    epochs=2,
    prompts_sha256="aa11",
    task=TaskInfo("b" * 64, "1"),
    started_at="2026-11-20T10:00:00+00:00",
)
STATE = RunState(sessions=[SessionInfo("", "2026-11-20T10:05:00+00:00"), SessionInfo("")])


def summary() -> Summary:
    failed = a_record("q2", error="late", error_class="timeout", score=None, limit="lm_calls", level="2/x", attempt=1)
    wrong = a_record("q1", epoch=2, score=0.0)
    return summarise([a_record("q1"), wrong, failed], RunDetails(run_id="run-1", wall_seconds=2.0, epochs=2))


def test_config_becomes_params_and_facts_become_tags() -> None:
    page = build_page(INFO, folder_name="2026_gaia", redact=lambda text: text.replace("topsecret", "***"))
    assert page.params["system.agents.expert.model"] == "gpt-5"
    assert page.params["model.temperature"] == "0.0"
    assert page.params["ids"] == "[]"
    assert page.params["tracking.uri"] == "https://ann:***@host"
    expected = {
        "system": "gaia", "model": "gpt-4o-mini", "scorer": "GaiaScorer", "dataset": "gaia_level1",
        "split": "validation", "prompts": "baseline", "prompts_sha256": "aa11", "dataset_sha256": "b" * 64,
        "task_version": "1", "simulated": "false", "tools": "calculator, read_file", "run_folder": "2026_gaia",
        "model.planner": "gpt-4o", "model.expert": "gpt-5", "model.finalizer": "gpt-4o-mini",
        "harness.command": '["model=gpt-4o-mini"]',
    }  # fmt: skip
    assert expected.items() <= page.tags.items()
    assert page.metrics == {}
    assert page.dataset is not None
    assert (page.dataset["name"], page.dataset["digest"]) == ("gaia_level1", "b" * 36)


def test_the_source_of_the_dataset_names_its_repository() -> None:
    data = {"name": "gaia", "repo": "gaia-benchmark/GAIA", "revision": "abc", "config": "2023_level1", "gated": True}
    page = build_page(replace(INFO, config={**CONFIG, "data": data}))
    assert page.dataset is not None
    assert json.loads(page.dataset["source"])["tags"] == {
        "repo": "gaia-benchmark/GAIA", "revision": "abc", "config": "2023_level1", "split": None,
    }  # fmt: skip


def test_of_a_run_that_is_not_complete_only_floors_become_metrics() -> None:
    to_come = a_record("q2", error="x", error_class="not_run", score=None)
    records = [a_record("q1"), a_record("q1", epoch=2), to_come]
    numbers = summarise(records, RunDetails(run_id="run-1", epochs=2, stopped="out of money"))
    metrics = build_page(INFO, numbers).metrics
    assert (metrics["accuracy"], metrics["errors/not_run"]) == (pytest.approx(2 / 3), 1)
    assert not [name for name in metrics if "ci95" in name or name.startswith("epochs/")]


def test_rejections_by_agent_and_memory_become_metrics() -> None:
    reviews = {"planner": {"reviews": 3, "rejected": 2, "retried": 1, "recovered": 1}}
    session = SessionSummary(peak_memory_mb=150.5)
    numbers = summarise([a_record("q1", reviews=reviews)], RunDetails(run_id="run-1", sessions=(session,)))
    metrics = build_page(INFO, numbers).metrics
    found = {name: metrics[f"agents/planner_{name}"] for name in ("reviews", "rejected", "retried", "recovered")}
    assert (found, metrics["peak_memory_mb"]) == (reviews["planner"], 150.5)


def test_numbers_of_the_summary_become_metrics() -> None:
    metrics = build_page(INFO, summary(), {"agents/planner_calls": 3.0}).metrics
    assert metrics["accuracy"] == pytest.approx(1 / 3)
    assert metrics["accuracy_ci95_low"] < metrics["accuracy"] < metrics["accuracy_ci95_high"]
    assert metrics["accuracy/level_1"] == 0.5
    assert metrics["accuracy/level_2_x"] == 0.0 if "accuracy/level_2_x" in metrics else "accuracy/level_2/x" in metrics
    assert (metrics["errors/timeout"], metrics["limits/lm_calls"], metrics["n_error"]) == (1, 1, 1)
    assert (metrics["lm_calls"], metrics["tool_calls"], metrics["input_tokens"]) == (15, 3, 1500)
    assert metrics["cost_usd"] == pytest.approx(0.03)
    assert metrics["agents/planner_calls"] == 3.0
    assert metrics["epochs/pass_at_1"] < metrics["epochs/pass_at_2"]
    assert all(isinstance(value, float) for value in metrics.values())


def test_lost_points_and_critics_become_metrics() -> None:
    lost = (
        LostPoints(kind="agent", name="expert", n=3, points=0.25, points_ci95=(0.125, 0.5)),
        LostPoints(kind="limit", name="lm_calls", n=1, points=0.125, points_ci95=None),
    )
    count = CriticCount(n_reviews=4, n_drafts=4, judges={"expert"})
    count.by_sample["q1"].rejected_wrong, count.by_sample["q2"].rejected_right = 3, 1
    critics = summarise_critics({"critic_expert": count}, incomplete=False)
    metrics = build_page(INFO, replace(summary(), attribution=lost, critics=critics)).metrics
    assert (metrics["lost/expert"], metrics["lost/expert_ci95_high"], metrics["lost/limit_lm_calls"]) == (
        0.25,
        0.5,
        0.125,
    )
    found = [metrics[f"critics/critic_expert_{name}"] for name in ("precision", "hits", "false_alarms", "misses")]
    assert found == [0.75, 3, 1, 0]
    assert "critics/critic_expert_precision_ci95_low" in metrics


def test_missing_keys_leave_out_what_they_would_have_shown() -> None:
    assert build_page(RunInfo()).params == {}
    assert build_page(RunInfo()) == RunPage(tags={"prompts": "none"})
    assert read_end_ms(RunState()) is None
    assert build_run_name(RunInfo(run_id="r"), "") == "r"


def test_a_run_that_asks_no_model_of_ours_names_none() -> None:
    page = build_page(replace(INFO, model="none"))
    assert {name for name in page.params if name.startswith("model")} == {"model.name"}
    assert page.tags["model"] == "none"
    assert not [name for name in page.tags if name.startswith("model.")]


def test_times_and_status() -> None:
    assert (read_start_ms(INFO), read_end_ms(STATE)) == (1795168800000, 1795169100000)
    assert read_status(summary()) == "FINISHED"
    assert read_status(replace(summary(), stopped="the disk is full")) == "KILLED"


def test_a_run_without_a_name_of_its_own_is_named_for_system_and_model_and_by_its_folder() -> None:
    unnamed = replace(INFO, system="gaia", model="gpt-4o-mini", config={})
    assert build_run_name(unnamed, "2026-11-23_gaia") == "gaia gpt-4o-mini · 2026-11-23_gaia"
    assert build_run_name(replace(unnamed, simulated=True), "b") == "gaia gpt-4o-mini · b (simulated)"
    assert build_run_name(replace(unnamed, config={"run": {"name": "careful"}}), "b") == "careful"


def test_the_page_is_read_back_and_writing_it_again_changes_nothing(opened: Opened) -> None:
    run = opened()
    write_page(run, build_page(INFO))
    many = {f"tools/t{number}_calls": float(number) for number in range(250)}
    page = build_page(INFO, replace(summary(), stopped="no money"), many)
    write_page(run, page)
    write_page(run, page)
    found = run.client.get_run(run.run_id)
    assert found.data.params == page.params
    assert page.tags.items() <= found.data.tags.items()
    assert found.data.tags["mlflow.note.content"] == "Stopped: no money"
    assert found.data.metrics == pytest.approx(page.metrics)
    assert len(run.client.get_metric_history(run.run_id, "accuracy")) == 1
    (dataset,) = found.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("gaia_level1", "b" * 36)
    assert [(tag.key, tag.value) for tag in dataset.tags] == [("mlflow.data.context", "evaluation")]


def test_a_resumed_run_shows_its_newest_numbers_and_what_changed(opened: Opened) -> None:
    run = opened()
    write_page(run, build_page(INFO, summary()))
    better = summarise([a_record("q1", score=0.0)], RunDetails(run_id="run-1"))
    changed = {**CONFIG, "split": "test"}
    write_page(run, build_page(replace(INFO, config=changed), better))
    found = run.client.get_run(run.run_id).data
    assert found.metrics["accuracy"] == 0.0
    assert math.isnan(found.metrics["errors/timeout"])
    assert found.params["split"] == "null"
    assert json.loads(found.tags[CHANGED_TAG]) == {"split": "test"}


def test_files_and_prompts_are_artifacts(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("summary.json", "answers.jsonl", "report.html", "logs/entry_point.log", "run.db"):
        (tmp_path / name).write_text("x")
    run = opened()
    prompts = PromptSet("baseline", "gaia", {"planner": "Plan."}, tmp_path)
    assert write_artifacts(run, tmp_path, {"prompts": prompts}) == [
        "summary.json", "answers.jsonl", "report.html", "logs", "prompts",
    ]  # fmt: skip
    listed = {each.path for each in run.client.list_artifacts(run.run_id)}
    assert listed == {"summary.json", "answers.jsonl", "report.html", "logs", "prompts"}
    local = run.client.download_artifacts(run.run_id, "prompts/planner_system_prompt.txt", str(tmp_path))
    assert Path(local).read_text() == "Plan.\n"


def test_the_origin_names_commit_and_host() -> None:
    found = read_origin()
    assert found["harness.host"]
    if "mlflow.source.git.commit" in found:
        assert len(found["mlflow.source.git.commit"]) == 40
        assert found["mlflow.source.git.dirty"] in ("true", "false")


def test_numbers_that_are_no_more_are_nan_once_and_those_of_others_stay(opened: Opened) -> None:
    run = opened()
    write_page(
        run,
        RunPage(metrics={"accuracy": 0.5, "judge/lm_calls": 3.0, "accuracy/kind_pdf": 1.0, "tuned_on/questions": 2.0}),
    )
    run.client.log_metric(run.run_id, "somebody/rating", 4.0)
    page = RunPage(metrics={"accuracy": 0.5})
    write_page(run, page)
    write_page(run, page)
    shown = run.client.get_run(run.run_id).data.metrics
    assert math.isnan(shown["judge/lm_calls"])
    assert math.isnan(shown["accuracy/kind_pdf"])
    assert math.isnan(shown["tuned_on/questions"])
    assert (shown["accuracy"], shown["somebody/rating"]) == (0.5, 4.0)
    assert len(run.client.get_metric_history(run.run_id, "judge/lm_calls")) == 2


def test_a_rescored_run_says_so() -> None:
    page = build_page(replace(INFO, rescored_from="2026_gaia", rescored_by=["scorer=numeric"]))
    assert page.tags["harness.rescored_from"] == "2026_gaia"
    assert page.tags["harness.rescored_by"] == '["scorer=numeric"]'
