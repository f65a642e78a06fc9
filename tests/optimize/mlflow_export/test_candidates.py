"""What is sent of each proposal, seen by MLflow's client: its page, its files, its trace, and how it ends."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.mlflow_export.run_page import RunPage
from eval.mlflow_export.tracked_run import PARENT_TAG, Sent, TrackedRun
from eval.runs.record import Record, Usage
from mas.prompt_sets.prompt_set import PromptSet, write_prompt_set
from mas.simulation import SIMULATED_NOTICE
from optimize.mlflow_export import candidates
from optimize.mlflow_export.candidates import CANDIDATE_TAG, DIGEST_TAG, find_children, send_candidates
from optimize.reports.snapshot import TuningSnapshot, read_tuning
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, TEXTS, a_proposal, a_tuning, verdict

START_MS = 1_795_255_200_000  # of 2026-11-21T10:00:00 UTC


class Client:
    """Keeps runs, and notes every call that changes something."""

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.searched: list[tuple[Any, ...]] = []

    def search_runs(self, ids: list[str], condition: str, order_by: Any, page_token: Any) -> Any:
        self.searched.append((ids, condition, order_by))
        return Found(self.runs.values())

    def create_run(self, experiment_id: str, start_time: int, tags: dict[str, str], run_name: str) -> Any:
        self.calls.append(("create", experiment_id, start_time, tags, run_name))
        return self.keep(f"m{len(self.runs) + 1}", run_name, tags)

    def keep(self, run_id: str, name: str, tags: dict[str, str]) -> Any:
        info = SimpleNamespace(run_id=run_id, run_name=name, status="RUNNING", end_time=None)
        self.runs[run_id] = SimpleNamespace(info=info, data=SimpleNamespace(tags=dict(tags)))
        return self.runs[run_id]

    def get_run(self, run_id: str) -> Any:
        return self.runs[run_id]

    def update_run(self, run_id: str, name: str) -> None:
        self.calls.append(("rename", run_id, name))
        self.runs[run_id].info.run_name = name

    def log_text(self, run_id: str, text: str, file: str) -> None:
        self.calls.append(("file", run_id, file, text))

    def set_terminated(self, run_id: str, status: str, end_ms: int) -> None:
        self.calls.append(("end", run_id, status, end_ms))

    def set_tag(self, run_id: str, name: str, text: str) -> None:
        self.calls.append(("tag", run_id, name, text))
        self.runs[run_id].data.tags[name] = text

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [each[1:] for each in self.calls if each[0] == kind]


class Found(list[Any]):
    token = None


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Pages and traces are noted as they are, before they take MLflow's form."""
    noted = Client()

    def keep_page(run: TrackedRun, page: RunPage) -> None:
        noted.calls.append(("page", run.run_id, page))
        noted.runs[run.run_id].data.tags.update(page.tags)

    def keep_records(run: TrackedRun, records: list[Record]) -> Sent:
        noted.calls.append(("records", run.run_id, records))
        return Sent()

    monkeypatch.setattr(candidates, "write_page", keep_page)
    monkeypatch.setattr(TrackedRun, "send", keep_records)
    return noted


def parent_run(client: Client) -> TrackedRun:
    return TrackedRun(client, None, "http://mlflow", "e7", "p0")  # type: ignore[arg-type]


def a_run(tmp_path: Path, *proposals: Any, **parts: Any) -> TuningSnapshot:
    return read_tuning(a_tuning(tmp_path / "run", proposals, **{"system": "toy", "run_id": "t9", **parts}))


def names(client: Client) -> list[str]:
    return [each[-1] for each in client.of("create")]


def test_each_proposal_becomes_a_run_of_its_own_below_its_parent(tmp_path: Path, client: Client) -> None:
    sent = send_candidates(parent_run(client), a_run(tmp_path, *PROPOSALS, verdict=verdict()))
    assert sent == {"c001": "m1", "c002": "m2", "c003": "m3"}
    told = ["c001 val 25.0%, winner: finalizer", "c002 rejected: finalizer", "c003 cut off: finalizer"]
    assert client.of("create") == [
        ("e7", START_MS + number, {PARENT_TAG: "p0", CANDIDATE_TAG: f"c00{number}"}, name)
        for number, name in enumerate(told, start=1)
    ]
    assert client.of("end") == [
        ("m1", "FINISHED", START_MS + 1),
        ("m2", "FINISHED", START_MS + 2),
        ("m3", "KILLED", START_MS + 3),
    ]
    assert client.of("rename") == []
    assert [each[0] for each in client.calls if each[1] == "m1"] == ["page", "file", "file", "records", "end", "tag"]
    assert [each[:2] for each in client.of("tag")] == [(run, DIGEST_TAG) for run in ("m1", "m2", "m3")]
    assert client.searched[0] == (["e7"], f"tags.`{PARENT_TAG}` = 'p0'", ["attributes.start_time ASC"])


def test_of_several_runs_of_a_candidate_the_oldest_counts_and_others_runs_do_not(client: Client) -> None:
    client.keep("m1", "", {CANDIDATE_TAG: "c001"})
    client.keep("m2", "", {CANDIDATE_TAG: "c001"})
    client.keep("m3", "", {})
    client.keep("m4", "", {CANDIDATE_TAG: "c002"})
    found = find_children(parent_run(client))
    assert {name: each.info.run_id for name, each in found.items()} == {"c001": "m1", "c002": "m4"}


def test_a_page_has_all_that_is_known_of_a_proposal_and_nothing_that_is_not(tmp_path: Path, client: Client) -> None:
    full = a_proposal(1, agents=["planner", "finalizer"], parent_ids=["c000", "parent"], reason="r" * 6000)
    bare = {"candidate_id": "c002", "decision": "rejected"}
    fresh = [{"candidate_id": "c001", "fresh_score": 0.5, "fresh_ci95": [0.25, 0.75]}]
    tuning = a_run(tmp_path, full, bare, verdict=verdict(), shortlist=fresh)
    send_candidates(parent_run(client), tuning)
    (_, first), (_, second) = client.of("page")
    reason, note = first.tags.pop("reason"), first.tags.pop("mlflow.note.content")
    assert reason == note and reason.startswith("rrr") and len(reason) <= 5000
    assert first.tags == {
        PARENT_TAG: "p0",
        CANDIDATE_TAG: "c001",
        "parent_ids": "c000, parent",
        "agents": "planner, finalizer",
        "decision": "accepted",
        "origin": "reflection",
        "simulated": "false",
        "winner": "true",
        "harness.kind": "candidate",
    }
    spend = {f"spend.{name}": float(value) for name, value in full["spend"].items() if value is not None}
    assert first.metrics == {
        "val_score": 0.25,
        "minibatch_before": 0.25,
        "minibatch_after": 0.5,
        "iteration": 1.0,
        **spend,
        "fresh_score": 0.5,
        "fresh_ci95_low": 0.25,
        "fresh_ci95_high": 0.75,
    }
    assert second == RunPage(
        tags={
            PARENT_TAG: "p0",
            CANDIDATE_TAG: "c002",
            "decision": "rejected",
            "simulated": "false",
            "harness.kind": "candidate",
        },
        metrics={},
    )


def test_a_simulation_is_marked_in_the_name_and_in_the_note(tmp_path: Path, client: Client) -> None:
    send_candidates(parent_run(client), a_run(tmp_path, a_proposal(1), simulated=True))
    assert names(client) == ["c001 val 25.0%, accepted: finalizer (simulated)"]
    [(_, page)] = client.of("page")
    assert page.tags["simulated"] == "true"
    assert page.tags["mlflow.note.content"] == f"**{SIMULATED_NOTICE}**\n\nreason 1"


def test_a_name_shows_the_score_where_there_is_one_and_has_an_end(tmp_path: Path, client: Client) -> None:
    proposals = (
        a_proposal(1, val_score=0.6333, agents=[]),
        a_proposal(2, "rejected", val_score=0.0),
        a_proposal(3, "cut_off"),
        a_proposal(4, agents=["a" * 200, "b" * 200]),
    )
    send_candidates(parent_run(client), a_run(tmp_path, *proposals))
    assert names(client) == [
        "c001 val 63.3%, accepted",
        "c002 val 0.0%, rejected: finalizer",
        "c003 cut off: finalizer",
        f"c004 val 100.0%, accepted: {'a' * 200} {'b' * 200}"[:250],
    ]


def test_a_proposal_has_the_form_of_an_answer(tmp_path: Path, client: Client) -> None:
    spend = {"lm_calls": 4, "metric_calls": 3, "input_tokens": 70, "cost_usd": 0.5, "unknown_cost_calls": 0}
    unpriced = {**spend, "unknown_cost_calls": 1}
    orphan = a_proposal(2, "rejected", parent_ids=[], agents=["planner", "finalizer"], spend=unpriced)
    tuning = a_run(tmp_path, a_proposal(1, parent_ids=["c000", "c009"], spend=spend), orphan)
    send_candidates(parent_run(client), tuning)
    (_, [first]), (run, [second]) = client.of("records")
    usage = Usage(lm_calls=4, input_tokens=70, cost_usd=0.5, unknown_cost_calls=0)
    parts = {"val_score": 0.25, "minibatch_after": 0.5}
    assert first == Record(
        run_id="t9-e7",
        sample_id="c001",
        epoch=1,
        attempt=1,
        thread_id="c001",
        question="c001: finalizer of c000, c009",
        file=None,
        level=None,
        target=None,
        answer="val 25.0%, accepted; reason 1",
        reasoning_trace="",  # the folder does not have the prompts of c000
        parts=parts,
        usage=usage,
        started_at="2026-11-21T10:00:00.001+00:00",
    )
    assert (run, second.question) == ("m2", "c002: planner, finalizer of parent")
    assert (second.parts, second.usage.cost_usd) == ({"minibatch_after": 0.5}, None)
    assert "-You answer." in second.reasoning_trace and "+You answer, as c002" in second.reasoning_trace


def test_only_the_texts_and_demos_that_differ_are_sent_with_their_difference(tmp_path: Path, client: Client) -> None:
    tuning = a_run(tmp_path, a_proposal(1), a_proposal(2), a_proposal(3, parent_ids=["c002"]))
    demos = {"planner": [{"request": "ä"}]}
    for name, own in (("c002", demos), ("c003", {})):
        folder = tmp_path / "run" / "candidates" / name
        for file in folder.iterdir():
            file.unlink()
        write_prompt_set(folder, PromptSet(name, "toy", TEXTS, folder, demos=own))
    send_candidates(parent_run(client), tuning)
    sent: dict[str, dict[str, str]] = {"m1": {}, "m2": {}, "m3": {}}
    for run, file, text in client.of("file"):
        sent[run][file] = text
    differences = {run: files.pop("prompt_diff.txt") for run, files in sent.items()}
    assert sent == {
        "m1": {"prompts/finalizer_system_prompt.txt": "You answer, as c001 of toy does.\n"},
        "m2": {"prompts/planner_demos.json": json.dumps(demos["planner"], indent=2, ensure_ascii=False) + "\n"},
        "m3": {"prompts/planner_demos.json": "[]\n"},
    }
    assert "-You answer." in differences["m1"] and "+You answer, as c001 of toy does." in differences["m1"]
    assert {each[0]: each[1][0].reasoning_trace for each in client.of("records")} == differences


def test_without_both_sets_there_are_no_files(tmp_path: Path, client: Client) -> None:
    tuning = a_run(tmp_path, a_proposal(1, parent_ids=["c009"]), a_proposal(2))
    for file in (tmp_path / "run" / "candidates" / "c002").iterdir():
        file.unlink()
    send_candidates(parent_run(client), tuning)
    assert client.of("file") == []


def test_nothing_new_is_not_sent_again_and_a_fresh_score_is(tmp_path: Path, client: Client) -> None:
    folder = tmp_path / "run"
    tuning = a_run(tmp_path, a_proposal(1), a_proposal(2, "cut_off"))
    send_candidates(parent_run(client), tuning)
    client.calls.clear()
    assert send_candidates(parent_run(client), tuning) == {"c001": "m1", "c002": "m2"}
    assert client.calls == []
    (folder / "shortlist.json").write_text('[{"candidate_id": "c001", "fresh_score": 0.5}]')
    send_candidates(parent_run(client), read_tuning(folder))
    assert [each[0] for each in client.calls] == ["page", "file", "file", "records", "end", "tag"]
    assert {each[1] for each in client.calls} == {"m1"}


def test_what_was_cut_off_may_be_decided_later_under_a_new_name(tmp_path: Path, client: Client) -> None:
    send_candidates(parent_run(client), a_run(tmp_path / "one", a_proposal(1, "cut_off")))
    client.calls.clear()
    send_candidates(parent_run(client), a_run(tmp_path / "two", a_proposal(1)))
    assert client.of("create") == []
    assert client.of("rename") == [("m1", "c001 val 25.0%, accepted: finalizer")]
    assert client.of("end") == [("m1", "FINISHED", START_MS + 1)]


@pytest.mark.parametrize(
    ("before", "after"), [("accepted", "rejected"), ("rejected", "accepted"), ("accepted", "cut_off")]
)
def test_what_was_decided_stays_so(tmp_path: Path, client: Client, before: str, after: str) -> None:
    send_candidates(parent_run(client), a_run(tmp_path / "one", a_proposal(1, before)))
    client.calls.clear()
    assert send_candidates(parent_run(client), a_run(tmp_path / "two", a_proposal(1, after))) == {"c001": "m1"}
    assert client.calls == []
