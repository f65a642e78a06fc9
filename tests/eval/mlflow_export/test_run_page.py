import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.attribution.critics import CriticCount
from eval.analysis.summary.lost_points import summarise_critics
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import (
    BlockedPages,
    Counts,
    CriticNumbers,
    EpochNumbers,
    Estimate,
    ExtraNumbers,
    LabelNumbers,
    LabelSummary,
    Leaks,
    LostPoints,
    PartNumbers,
    Retried,
    SessionSummary,
    Summary,
    TuningOverlap,
)
from eval.mlflow_export.run_page import (
    CHANGED_TAG,
    RunPage,
    build_page,
    build_run_name,
    list_outdated_metrics,
    read_end_ms,
    read_start_ms,
    read_status,
    write_artifacts,
    write_page,
)
from eval.mlflow_export.tracked_run import TrackedRun
from eval.runs.folder import read_origin
from eval.runs.record import Usage
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


def counts(n: int, accuracy: float, score: float) -> Counts:
    return Counts(
        n=n, n_scored=n, n_correct=1, n_wrong=1, accuracy=accuracy, accuracy_ci95=(accuracy - 0.125, accuracy + 0.125),
        score=score, score_ci95=(score - 0.25, score + 0.25), n_error=0, n_infrastructure=0, n_not_run=0,
    )  # fmt: skip


def label(**changes: Any) -> LabelNumbers:
    known = {"n": 3, "n_given": 2, "precision": 0.5, "precision_ci95": (0.25, 0.75), "recall": None, "f1": 0.25}
    return LabelNumbers(**{**known, "recall_ci95": None, "f1_ci95": None, **changes})


def test_every_number_of_a_graded_run_is_a_metric() -> None:
    plain = summarise([], RunDetails(run_id="r"))
    without = {"accuracy_without": 0.75, "accuracy_without_ci95": (0.5, 1.0), "n_without": 3}
    overlap = TuningOverlap(
        **without, prompts="p", n_questions=2, n_all=5, n_unscored=0, edited=(), n_learnt_from=1, n_picked_by=1
    )  # fmt: skip
    estimate = Estimate(value=0.5, ci95=(0.25, 0.75))
    full = replace(
        plain, metric="mean score", n=6, n_correct=2, n_wrong=3, n_scored=5, n_error=1, n_infrastructure=1, epochs=2,
        n_unscored=1, n_questions=3, accuracy=0.4, accuracy_ci95=(0.125, 0.875), score=0.5, score_ci95=(0.25, 0.75),
        wall_seconds=12.3456789, waited_seconds=1.5, peak_memory_mb=None, format_loss=4, mean_score=0.625,
        by_level={"1": counts(2, 0.5, 0.375)}, by_tag={"topic": {"a b": counts(3, 0.5, 0.625)}},
        errors_by_class={"timeout": 1}, limits={"tokens": 2}, by_agent={"expert": 1.25},
        retried=Retried(n=1, recovered=1, accuracy_first_tries=0.25, score_first_tries=None),
        usage=Usage(lm_calls=7, cost_usd=0.5), scorer_usage=Usage(lm_calls=2, cost_usd=None),
        labels=LabelSummary(macro_f1=0.5, macro_f1_ci95=(0.25, 0.75), n_other=1, n_no_answer=2,
                            by_label={"x": label()}, confusion={}),
        parts={"tables": PartNumbers(score=0.5, score_ci95=(0.25, 0.75), n=4)},
        extra_scorers={"judge": ExtraNumbers(metric="accuracy", score=0.5, score_ci95=(0.25, 0.75), n_scored=5,
                                             n_failed=1, first_error="x")},
        by_epochs=EpochNumbers(n_questions=3, icc=0.125, pass_at={"1": estimate}, pass_hat={"1": estimate},
                               majority=Estimate(value=1.0, ci95=None)),
        leaks=Leaks(**without, n_questions=1, results=()), blocked_pages=BlockedPages(n=3, hosts={}),
        used_to_tune=overlap,
    )  # fmt: skip
    metrics = build_page(INFO, full).metrics

    def interval(name: str, low: float, high: float) -> dict[str, float]:
        return {f"{name}_ci95_low": low, f"{name}_ci95_high": high}

    usage = {name: value for name, value in vars(full.usage).items() if isinstance(value, int | float)}
    judge = {
        f"judge/{name}": value for name, value in vars(full.scorer_usage).items() if isinstance(value, int | float)
    }
    assert metrics == {
        "accuracy": 0.4, **interval("accuracy", 0.125, 0.875), "cost_usd": 0.5, "n_error": 1, "wall_seconds": 12.345679,
        "n": 6, "n_correct": 2, "n_wrong": 3, "n_scored": 5, "n_infrastructure": 1, "n_unscored": 1, "n_questions": 3,
        "epochs": 2, "format_loss": 4, "mean_score": 0.5, **interval("mean_score", 0.25, 0.75), "waited_seconds": 1.5,
        "mean_score/level_1": 0.375, **interval("mean_score/level_1", 0.125, 0.625), "mean_score/level_1_n": 2,
        "errors/timeout": 1, "limits/tokens": 2, "agents/expert_seconds": 1.25, "retried/n": 1, "retried/recovered": 1,
        "retried/accuracy_first_tries": 0.25, **usage, **judge, "mean_score/topic_a b": 0.625,
        **interval("mean_score/topic_a b", 0.375, 0.875), "mean_score/topic_a b_n": 3, "labels/macro_f1": 0.5,
        **interval("labels/macro_f1", 0.25, 0.75), "labels/other_answers": 1, "labels/no_answer": 2,
        "labels/x_precision": 0.5, **interval("labels/x_precision", 0.25, 0.75), "labels/x_f1": 0.25, "labels/x_n": 3,
        "part/tables": 0.5, **interval("part/tables", 0.25, 0.75), "part/tables_n": 4, "extra/judge": 0.5,
        **interval("extra/judge", 0.25, 0.75), "extra/judge_failed": 1, "epochs/icc": 0.125, "epochs/majority": 1.0,
        "epochs/pass_at_1": 0.5, **interval("epochs/pass_at_1", 0.25, 0.75), "epochs/pass_hat_1": 0.5,
        **interval("epochs/pass_hat_1", 0.25, 0.75), "leaks/questions": 1, "leaks/blocked_pages": 3,
        "leaks/accuracy_without": 0.75, **interval("leaks/accuracy_without", 0.5, 1.0), "tuned_on/questions": 2,
        "tuned_on/accuracy_without": 0.75, **interval("tuned_on/accuracy_without", 0.5, 1.0),
    }  # fmt: skip
    assert list_outdated_metrics({"n": 1.0}, metrics) == [name for name in metrics if name != "n"], "all are ours"
    right = build_page(INFO, replace(full, metric="accuracy", scorer_usage=Usage())).metrics
    assert (right["accuracy/level_1"], right["accuracy/level_1_ci95_low"]) == (0.5, 0.375)
    assert not [name for name in right if name.startswith("judge/")]


@pytest.mark.parametrize(("n", "shown"), [(30, True), (31, False)])
def test_of_more_than_thirty_labels_the_macro_f1_alone_is_a_metric(n: int, shown: bool) -> None:
    labels = LabelSummary(
        macro_f1=0.5, macro_f1_ci95=None, n_other=0, n_no_answer=0, by_label={f"l{at}": label() for at in range(n)},
        confusion={},
    )  # fmt: skip
    metrics = build_page(INFO, replace(summary(), labels=labels)).metrics
    assert ("labels/l0_f1" in metrics, metrics["labels/macro_f1"]) == (shown, 0.5)


def test_metrics_of_a_run_that_has_them_no_more_are_outdated_once_and_none_without_a_summary() -> None:
    shown = {
        "accuracy": 0.5, "lost/expert": 0.25, "critics/c_hits": 1.0, "part/tables": 0.5, "judge/lm_calls": math.nan,
        "tokens": 3.0, "other/accuracy": 1.0, "lm_calls": 4.0, "micro_f1/level_1": 0.5,
    }  # fmt: skip
    assert list_outdated_metrics({"accuracy": 0.25}, shown) == [
        "lost/expert",
        "critics/c_hits",
        "part/tables",
        "lm_calls",
    ]
    assert list_outdated_metrics({}, shown) == []


def test_points_lost_and_critics_have_every_number_of_theirs() -> None:
    lost = (
        LostPoints(kind="tool", name="search", n=3, points=0.25, points_ci95=(0.125, 0.5)),
        LostPoints(kind="error", name="timeout", n=1, points=0.125, points_ci95=None),
    )
    critic = CriticNumbers(
        judges=("expert",), is_exact=True, n_reviews=9, approved_right=3, misses=2, false_alarms=1, hits=3, n_unknown=0,
        precision=0.75, precision_ci95=(0.25, 1.0), recall=0.5, recall_ci95=None, n_rejecting=4, n_recovered=1,
        lm_calls=9, input_tokens=10, output_tokens=2, cost_usd=None, seconds=1.5,
    )  # fmt: skip
    metrics = build_page(INFO, replace(summary(), attribution=lost, critics={"c": critic})).metrics
    found = {name: value for name, value in metrics.items() if name.startswith(("lost/", "critics/"))}
    assert found == {
        "lost/search": 0.25, "lost/search_ci95_low": 0.125, "lost/search_ci95_high": 0.5, "lost/error_timeout": 0.125,
        "critics/c_n_reviews": 9, "critics/c_approved_right": 3, "critics/c_misses": 2, "critics/c_false_alarms": 1,
        "critics/c_hits": 3, "critics/c_n_unknown": 0, "critics/c_precision": 0.75, "critics/c_recall": 0.5,
        "critics/c_n_rejecting": 4, "critics/c_n_recovered": 1, "critics/c_lm_calls": 9, "critics/c_input_tokens": 10,
        "critics/c_output_tokens": 2, "critics/c_seconds": 1.5, "critics/c_precision_ci95_low": 0.25,
        "critics/c_precision_ci95_high": 1.0,
    }  # fmt: skip


def test_every_tag_of_a_run_and_its_dataset_go_through_the_redaction() -> None:
    config = {
        "system": {"name": "key", "agents": {"a": {"model": "key"}, "b": None}}, "model": {"name": "m", "agents": None},
        "scorer": {}, "data": {"name": "d", "path": "key"}, "split": "key", "prompts": None, "a b!": {"c": [1, "é"]},
        "empty": {},
    }  # fmt: skip
    info = replace(INFO, config=config, simulated=True, command=None, model="other", prompts_sha256="")
    done = replace(summary(), notice="a notice", stopped="a budget", simulated=False, n_questions=2)
    page = build_page(info, done, folder_name="key", redact=lambda text: text.replace("key", "***"))
    assert page.tags == {
        "dataset_sha256": "b" * 64, "task_version": "1", "simulated": "false", "epochs": "2",
        "harness.started_at": "2026-11-20T10:00:00+00:00", "system": "***", "model": "other", "dataset": "d",
        "split": "***", "prompts": "none", "model.a": "***", "model.b": "m",
        "mlflow.note.content": "a notice\n\nStopped: a budget", "run_folder": "***",
    }  # fmt: skip
    assert page.params == {
        "system.name": "***", "system.agents.a.model": "***", "system.agents.b": "null", "model.name": "m",
        "model.agents": "null", "scorer": "{}", "data.name": "d", "data.path": "***", "split": "***", "prompts": "null",
        "a b_.c": '[1, "\\u00e9"]', "empty": "{}",
    }  # fmt: skip
    assert page.dataset == {
        "name": "d", "digest": "b" * 36, "source": '{"tags": {"path": "***", "split": "***"}}',
        "profile": '{"num_rows": 2}',
    }  # fmt: skip
    assert build_page(replace(info, task=TaskInfo())).dataset is None
    assert build_page(replace(info, config={})).dataset is None
    bare = build_page(INFO).dataset
    assert bare is not None and bare["profile"] == "{}"
    assert build_page(replace(INFO, simulated=True)).tags["simulated"] == "true"
    assert "run_folder" not in build_page(INFO).tags


def test_long_texts_and_odd_names_fit_mlflow() -> None:
    config = {"a": "x" * 501, "b": "x" * 500, "é/../ /c:d": 1, "n" * 300: 2}
    params = build_page(RunInfo(config=config)).params
    assert params == {"a": "x" * 499 + "…", "b": "x" * 500, "_/c_d": "1", "n" * 250: "2"}
    command = ["x" * 6_000]
    assert len(build_page(replace(INFO, command=command)).tags["harness.command"]) == 5_000


def test_a_start_that_is_unknown_is_now_and_the_last_end_counts() -> None:
    now = time.time() * 1000
    assert now - 1 <= read_start_ms(RunInfo()) <= now + 60_000
    ends = ["2026-11-20T10:05:00+00:00", "2026-11-20T10:06:00+00:00", None]
    assert read_end_ms(RunState(sessions=[SessionInfo("", each) for each in ends])) == 1795169160000
    assert build_run_name(RunInfo(), "") == "run"
    assert build_run_name(RunInfo(run_id="r", system="toy"), "") == "toy · r"
