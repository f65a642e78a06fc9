"""A tuning run in MLflow: what is there of it, once, whatever happened on the way."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.config.tracking import LocalTracking
from eval.mlflow_export.tracked_run import PARENT_TAG, open_run
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from optimize.mlflow_export.page import count_openings
from optimize.mlflow_export.report import describe_tuning
from optimize.mlflow_export.tuning_export import TuningExport
from optimize.reports.snapshot import read_tuning
from optimize.session.run_files import RunFiles
from tests.optimize.mlflow_export.tuning_folder import (
    ENDED,
    PROPOSALS,
    a_proposal,
    a_tuning,
    client,
    everything,
    propose,
    send,
    verdict,
    written,
)

FRESH = [
    {"candidate_id": "parent", "val_score": 0.2, "fresh_score": 0.1, "fresh_ci95": [0.0, 0.2]},
    {"candidate_id": "c001", "val_score": 0.25, "fresh_score": 0.3, "fresh_ci95": [0.1, 0.5]},
]
SECRET = "sk-secret-of-this-test-0123456789"


def parent_of(sent: TuningExport, settings: LocalTracking) -> Any:
    return client(settings).get_run(sent.run.run_id)


def child_of(sent: TuningExport, settings: LocalTracking, candidate: str) -> Any:
    return client(settings).get_run(sent.children[candidate])


def runs_in(settings: LocalTracking, experiment: str) -> set[str]:
    found = client(settings).get_experiment_by_name(experiment)
    return {each.info.run_id for each in client(settings).search_runs([found.experiment_id])} if found else set()


def system_of(folder: Path) -> str:
    return RunFiles(folder).read_info().system


def test_a_second_time_changes_nothing(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), shortlist=FRESH)
    sent = send(folder, local)
    before = everything(sent, local)
    again = send(folder, local)
    assert (again.children, again.state) == (sent.children, sent.state)
    assert everything(sent, local) == before
    assert list(sent.children) == ["c001", "c002", "c003"]
    assert sent.count() == {"proposals": {"store": 3, "mlflow": 3}}


def test_the_parent_shows_what_came_of_it(tmp_path: Path, local: LocalTracking) -> None:
    sent = send(a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), shortlist=FRESH), local)
    run = parent_of(sent, local)
    assert run.info.status == "FINISHED"
    assert run.info.end_time - run.info.start_time == 3_600_000
    params = {"model": "gpt-4o-mini", "optimizer": "gepa", "seed": "7", "budget.metric_calls": "600"}
    assert params.items() <= run.data.params.items()
    shown = {
        **{"gain": 0.125, "gain_ci95_low": 0.01, "gain_ci95_high": 0.24, "p": 0.03, "sealed_opened_before": 2},
        **{"baseline_accuracy": 0.25, "winner_accuracy": 0.375, "winner_accuracy_ci95_high": 0.45},
        **{"spend.cost_usd": 1.5, "spend.lm_calls": 180, "sealed.wins": 4, "cost.usd_per_answer": 0.01},
        **{"proposals.accepted": 1, "proposals.rejected": 1, "proposals.cut_off": 1, "best_val_score": 0.25},
        **{"baseline_fresh_score": 0.1},
    }
    assert shown.items() <= run.data.metrics.items()
    tags = {"published": "true", "finish_reason": "improved", "simulated": "false", "winner": "c001"}
    assert tags.items() <= run.data.tags.items()
    note = run.data.tags["mlflow.note.content"]
    assert "25.0 % before (95% interval 20.0 to 30.0), 37.5 % with c001" in note
    assert "gain +12.5 % (95% interval 1.0 to 24.0), p = 0.03; 4 questions won, 1 lost, 3 tied" in note
    assert "python eval/sync.py run/sealed/winner" in note
    assert str(tmp_path) not in json.dumps(run.to_dictionary()["data"])
    names = {each.path for each in client(local).list_artifacts(sent.run.run_id)}
    assert names == {
        *("config.yaml", "leaks.json", "proposals.jsonl", "report.md", "shortlist.json", "splits.json"),
        *("tuning.json", "verdict.json"),
    }
    report = written(local, sent.run.run_id, "report.md")
    assert "| c002 | c001 | finalizer | rejected | 0.25 → 0.5 | - | - | reason 2 |" in report
    assert "better by more than gate.min_gain" in report


def test_the_description_tells_of_sealed_answers_that_the_server_failed(tmp_path: Path) -> None:
    sealed = {**verdict()["sealed"], "failed_answers": {"parent": 5, "winner": 4, "as_right": 1}}
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(sealed=sealed, failed_questions=["q3"]))
    told = "Answers that the server failed each time: 5 before, 4 with c001 (to q3); 1 of before count as right, "
    assert told in describe_tuning(read_tuning(folder), openings=0)


def test_each_proposal_is_a_trace_too_since_mlflow_opens_an_experiment_on_these(
    tmp_path: Path, local: LocalTracking
) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), shortlist=FRESH)
    sent = send(folder, local)
    again = send(folder, local)
    found = again.run.tracing.search_traces(locations=[sent.run.experiment_id], include_spans=True)
    traces = {each.info.tags["harness.question_id"]: each for each in found if each.info.request_metadata}
    traces = {
        name: each
        for name, each in traces.items()
        if each.info.trace_metadata["mlflow.sourceRun"] == sent.children.get(name)
    }
    assert sorted(traces) == ["c001", "c002", "c003"]
    first, second = traces["c001"].info, traces["c002"].info
    assert first.request_preview.startswith("c001: finalizer of parent")
    assert second.response_preview == "rejected; reason 2"
    assert first.response_preview.startswith("val 25.0%, winner; ")
    assert "val_score" in {each.name for each in first.assessments}


def test_a_child_shows_its_scores_its_fate_and_what_it_changed(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), shortlist=FRESH)
    sent = send(folder, local)
    first, second, third = (child_of(sent, local, name) for name in ("c001", "c002", "c003"))
    assert [each.info.status for each in (first, second, third)] == ["FINISHED", "FINISHED", "KILLED"]
    assert [each.data.tags["decision"] for each in (first, second, third)] == ["accepted", "rejected", "cut_off"]
    assert {each.data.tags[PARENT_TAG] for each in (first, second, third)} == {sent.run.run_id}
    assert [each.info.run_name for each in (first, second, third)] == [
        "c001 val 25.0%, winner: finalizer",
        "c002 rejected: finalizer",
        "c003 cut off: finalizer",
    ]
    tags = {"parent_ids": "c001", "agents": "finalizer", "reason": "reason 2", "origin": "reflection"}
    assert tags.items() <= second.data.tags.items()
    assert {"val_score": 0.25, "fresh_score": 0.3, "fresh_ci95_low": 0.1}.items() <= first.data.metrics.items()
    assert {"minibatch_before": 0.25, "minibatch_after": 0.5, "spend.lm_calls": 2}.items() <= (
        second.data.metrics.items()
    )
    assert ("winner" in first.data.tags, "winner" in second.data.tags) == (True, False)
    assert "val_score" not in second.data.metrics
    changed = written(local, second.info.run_id, "prompts/finalizer_system_prompt.txt")
    assert changed == f"You answer, as c002 of {system_of(folder)} does.\n"
    diff = written(local, second.info.run_id, "prompt_diff.txt")
    assert "as c001 of" in diff
    assert "as c002 of" in diff
    assert [each.path for each in client(local).list_artifacts(second.info.run_id, "prompts")] == [
        "prompts/finalizer_system_prompt.txt"
    ]


def test_an_honest_no_is_a_finished_run(tmp_path: Path, local: LocalTracking) -> None:
    run = parent_of(send(a_tuning(tmp_path / "run", verdict=verdict(published=False)), local), local)
    assert (run.info.status, run.data.tags["published"]) == ("FINISHED", "false")
    assert "not published (not_significant)" in run.data.tags["mlflow.note.content"]


def test_while_it_goes_on_it_is_running_and_each_phase_adds_what_is_new(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS[:1], ended_at=None, phase="search")
    sent = send(folder, local, pid=1)
    run = parent_of(sent, local)
    assert (run.info.status, list(sent.children)) == ("RUNNING", ["c001"])
    assert run.data.tags["harness.pid"] == "1"
    assert "published" not in run.data.tags
    client(local).set_terminated(sent.run.run_id, "KILLED")  # by a machine that had not heard of it for long
    sent.begin()
    assert parent_of(sent, local).info.status == "RUNNING"
    propose(folder, PROPOSALS[1], system_of(folder))
    RunFiles(folder).write("shortlist", FRESH)
    again = send(folder, local, pid=2)
    assert (again.run.run_id, list(again.children)) == (sent.run.run_id, ["c001", "c002"])
    assert child_of(again, local, "c001").data.metrics["fresh_score"] == 0.3
    RunFiles(folder).write("verdict", verdict(published=False))
    RunFiles(folder).update_state(ended_at=ENDED)
    assert send(folder, local).state.status == parent_of(sent, local).info.status == "FINISHED"


def test_a_run_that_died_is_killed_and_resumed_it_is_completed(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS[:2], ended_at=None)
    sent = send(folder, local, pid=1)
    assert send(folder, local).state.status == parent_of(sent, local).info.status == "KILLED"
    before = everything(sent, local)
    send(folder, local)
    assert everything(sent, local) == before
    with (folder / "proposals.jsonl").open("a") as file:
        file.write('{"candidate_id": "c0')  # it is just being written
    assert send(folder, local, pid=2).state.status == parent_of(sent, local).info.status == "RUNNING"
    RunFiles(folder).write("verdict", verdict())
    RunFiles(folder).update_state(ended_at=ENDED)
    assert send(folder, local).children == sent.children
    assert parent_of(sent, local).info.status == "FINISHED"


def test_what_a_killed_process_left_half_done_is_completed(
    tmp_path: Path, local: LocalTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict())
    calls: Iterator[int] = iter(range(100))
    log_text = MlflowClient.log_text

    def killed(self: Any, *given: Any) -> None:
        if next(calls) == 3:  # the second child is made; of its two files the first is there
            raise KeyboardInterrupt
        log_text(self, *given)

    monkeypatch.setattr(MlflowClient, "log_text", killed)
    with pytest.raises(KeyboardInterrupt):
        send(folder, local)
    monkeypatch.undo()
    for name, value in local.environment().items():
        monkeypatch.setenv(name, value)
    sent = send(folder, local)
    assert len(client(local).search_runs([sent.run.link["experiment_id"]])) == 4
    child = child_of(sent, local, "c002")
    assert child.info.status == "FINISHED"
    assert "as c002 of" in written(local, child.info.run_id, "prompt_diff.txt")


def test_a_decision_stands_when_the_search_is_replayed(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", [a_proposal(1), a_proposal(2, "cut_off")])
    sent = send(folder, local)
    replayed = [a_proposal(1, "cut_off", reason="interrupted"), a_proposal(2, val_score=0.75)]
    (folder / "proposals.jsonl").write_text("".join(json.dumps(each) + "\n" for each in replayed))
    assert send(folder, local).children == sent.children
    first, second = child_of(sent, local, "c001"), child_of(sent, local, "c002")
    assert [first.data.tags[name] for name in ("decision", "reason")] == ["accepted", "reason 1"]
    assert (second.info.status, second.data.tags["decision"]) == ("FINISHED", "accepted")  # its scoring was cut off
    assert second.data.metrics["val_score"] == 0.75
    assert second.info.run_name == "c002 val 75.0%, accepted: finalizer"  # it was "c002 cut off"


def test_a_simulation_says_so_wherever_it_is_seen(tmp_path: Path, local: LocalTracking) -> None:
    sent = send(a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), simulated=True), local)
    runs = [parent_of(sent, local), *(child_of(sent, local, name) for name in sent.children)]
    assert all(run.info.run_name.endswith(" (simulated)") for run in runs)
    assert all(SIMULATED_NOTICE in run.data.tags["mlflow.note.content"] for run in runs)
    assert {run.data.tags["simulated"] for run in runs} == {"true"}
    assert SIMULATED_NOTICE in written(local, sent.run.run_id, "report.md")


def test_openings_of_the_same_sealed_questions_are_counted(tmp_path: Path, local: LocalTracking) -> None:
    facts: dict[str, Any] = {"sealed_digest": "digest of this test"}
    first = a_tuning(tmp_path / "first", verdict=verdict(), started_at="2026-11-20T10:00:00+00:00", **facts)
    unopened = verdict(published=False, finish_reason="leak_blocked", sealed=None, winner=None)
    leaking = a_tuning(tmp_path / "leaking", verdict=unopened, started_at="2026-11-20T12:00:00+00:00", **facts)
    last = a_tuning(tmp_path / "last", verdict=verdict(), **facts)
    notes = {}
    for folder in (first, leaking, last, last, first):
        sent = send(folder, local)
        notes[folder.name] = parent_of(sent, local).data.tags["mlflow.note.content"]
    earlier = "Earlier openings: 2 in this machine's own log, {} by tuning runs in this MLflow."
    assert "were opened by this run. " + earlier.format(0) in notes["first"]
    assert "have not been opened by this run. " + earlier.format(1) in notes["leaking"]
    assert "were opened by this run. " + earlier.format(1) in notes["last"]
    experiments = [each.experiment_id for each in client(local).search_experiments()]
    assert count_openings(client(local), experiments, facts["sealed_digest"]) == 2


def test_who_opened_them_first_is_counted_even_if_it_began_later(tmp_path: Path, local: LocalTracking) -> None:
    digest: dict[str, Any] = {"sealed_digest": "digest of that test"}
    early: dict[str, Any] = {"started_at": "2026-11-21T01:00:00+00:00"}
    late: dict[str, Any] = {"started_at": "2026-11-21T02:00:00+00:00"}
    slow = a_tuning(
        tmp_path / "slow", verdict=verdict(), sealed_opened_at="2026-11-21T09:00:00+00:00", **early, **digest
    )
    quick = a_tuning(
        tmp_path / "quick", verdict=verdict(), sealed_opened_at="2026-11-21T03:00:00+00:00", **late, **digest
    )
    notes = {}
    for folder in (slow, quick, slow):
        sent = send(folder, local)
        notes[folder.name] = parent_of(sent, local).data.tags["mlflow.note.content"]
    assert "own log, 1 by tuning runs in this MLflow" in notes["slow"]
    assert "own log, 0 by tuning runs in this MLflow" in notes["quick"]


def test_the_list_of_evaluations_has_nothing_of_a_tuning_run(tmp_path: Path, local: LocalTracking) -> None:
    evaluation = open_run(local, f"evaluation of {local.experiment}", name="evaluation", start_ms=0)
    sent = send(a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict()), local)
    assert runs_in(local, local.experiment) == {evaluation.run_id}
    assert runs_in(local, f"{local.experiment}-tuning") == {sent.run.run_id, *sent.children.values()}
    assert sent.state.experiment == f"{local.experiment}-tuning"


def test_no_secret_comes_along(tmp_path: Path, local: LocalTracking) -> None:
    told = a_proposal(1, reason=f"rejected by {SECRET}", agents=["finalizer", SECRET])
    folder = a_tuning(
        *(tmp_path / "run", [told]),
        verdict=verdict(gate={"reasons": [f"key {SECRET}"]}),
        config={"model": {"base_url": f"https://ann:{SECRET}@example.org/v1", "key": SECRET}},
        demos={"finalizer": [{"question": f"what is {SECRET}?"}]},
        reflection_model=SECRET,
        origin={"mlflow.user": SECRET},
    )
    prompt = folder / "candidates" / "c001" / "planner_system_prompt.txt"
    prompt.write_text(f"You plan with {SECRET}.\n")
    sent = send(folder, local, redact=lambda text: text.replace(SECRET, "***"))
    files = [path for path in local.path().rglob("*") if path.is_file()]
    assert any(path.name == "planner_system_prompt.txt" for path in files)
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert "You plan with ***." in written(local, sent.children["c001"], "prompts/planner_system_prompt.txt")


def test_a_folder_without_a_tuning_run_is_a_mistake(tmp_path: Path, local: LocalTracking) -> None:
    with pytest.raises(UserError, match="holds no tuning run"):
        send(tmp_path, local)
