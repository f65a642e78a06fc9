"""The page of a tuning run, its report and its proposals' pages, as they are made from the run's folder alone."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.mlflow_export.prompt_registry import LinkedPrompt
from eval.mlflow_export.tracked_run import HOST_TAG, TrackedRun, to_ms
from mas.simulation import SIMULATED_NOTICE
from optimize.mlflow_export import champion, page
from optimize.mlflow_export.candidates import _build_files, _build_name, _build_page
from optimize.mlflow_export.page import build_tuning_page, count_openings, flatten_metrics, write_files
from optimize.mlflow_export.report import build_report, describe_tuning
from optimize.reports.snapshot import TuningSnapshot, read_tuning
from optimize.search.candidate import PARENT
from tests.optimize.mlflow_export.tuning_folder import ENDED, LOOKS, PROPOSALS, STARTED, a_proposal, a_tuning, verdict

FRESH = ({"candidate_id": PARENT, "val_score": 0.2, "fresh_score": 0.3}, {"candidate_id": "c001", "fresh_score": 0.5})


class Client:
    """Takes what is written."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def get_run(self, run_id: str) -> Any:
        return SimpleNamespace(data=SimpleNamespace(tags=dict(self.tags)))

    def log_text(self, run_id: str, text: str, name: str) -> None:
        self.texts[name] = text

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        self.tags[key] = value


def parent(client: Client) -> TrackedRun:
    return TrackedRun(client, None, "uri", "experiment", "parent")  # type: ignore[arg-type]


def read(folder: Path, **facts: Any) -> TuningSnapshot:
    known = {"verdict": verdict(), "shortlist": FRESH, "system": "toy", "name": "tuned", **facts}
    return read_tuning(a_tuning(folder, known.pop("proposals", PROPOSALS), **known))


def test_the_figures_of_the_verdict_are_metrics_and_what_is_unknown_is_left_out(tmp_path: Path) -> None:
    metrics = build_tuning_page(read(tmp_path / "run"), 0).metrics
    expected = {
        "gain": 0.125, "p": 0.03, "gain_ci95_low": 0.01, "gain_ci95_high": 0.24, "baseline_accuracy": 0.25,
        "baseline_accuracy_ci95_high": 0.3, "winner_accuracy": 0.375, "winner_accuracy_ci95_low": 0.3,
        "baseline_val_score": 0.2, "baseline_fresh_score": 0.3, "sealed.wins": 4, "cost.usd_per_answer": 0.01,
        "spend.lm_calls": 180, "sealed_opened_before": 2, "proposals.accepted": 1, "proposals.rejected": 1,
        "proposals.cut_off": 1, "best_val_score": 0.25,
    }  # fmt: skip
    assert {name: metrics.get(name) for name in expected} == expected
    assert "gain_shrunken" not in metrics and "sealed.test" not in metrics and "winner_score" not in metrics
    graded = verdict(metric="mean score", baseline={"score": 0.5, "score_ci95": [0.4, 0.6]})
    found = build_tuning_page(read(tmp_path / "graded", verdict=graded), 0).metrics
    assert (found["baseline_mean_score"], found["baseline_mean_score_ci95_low"]) == (0.5, 0.4)
    assert "best_val_score" not in build_tuning_page(read(tmp_path / "none", proposals=()), 0).metrics


def test_the_tags_say_what_was_tuned_how_it_ended_and_which_questions_it_used(tmp_path: Path) -> None:
    made = read(tmp_path / "run", origin={"mlflow.user": "ann", HOST_TAG: "here", "who": None, "branch": "main"})
    tags, params = build_tuning_page(made, 1).tags, build_tuning_page(made, 1).params
    expected = {
        "harness.kind": "tuning", "phase": "sealed", "system": "toy", "model": "gpt-4o-mini", "simulated": "false",
        "run_folder": "run", "sealed_opened": "true", "sealed_opened_ms": str(to_ms(STARTED)), "published": "true",
        "finish_reason": "improved", "winner": "c001", "mlflow.user": "ann", "origin.branch": "main",
    }  # fmt: skip
    assert {name: tags.get(name) for name in expected} == expected
    assert HOST_TAG not in tags and "origin.who" not in tags, "the process may be another one by now"
    assert (params["seed"], params["reflection_model"], params["optimizer.name"]) == ("7", "gpt-4o", "gepa")
    running = build_tuning_page(read(tmp_path / "running", verdict=None), 0).tags
    assert "published" not in running and running["sealed_opened"] == "false" and "sealed_opened_ms" not in running


def test_the_end_of_a_run_that_was_killed_is_when_it_last_wrote(tmp_path: Path) -> None:
    assert read(tmp_path / "run").end_ms == to_ms(ENDED)
    killed = read(tmp_path / "killed", ended_at=None)
    for name, seconds in (("tuning.json", 1_000), ("proposals.jsonl", 2_000)):
        os.utime(killed.folder / name, (seconds, seconds))
    assert killed.end_ms == 2_000_000


def test_the_page_of_the_run_is_sent_as_it_is(tmp_path: Path) -> None:
    client, made = Client(), read(tmp_path / "run")
    page = "<style>b { color: red }</style><script>draw('<svg>')</script>"
    (made.folder / "report.html").write_text(page)
    write_files(parent(client), made, 0)
    assert client.texts["report.html"] == page, "its policy allows its own scripts alone"


def test_files_are_sent_once_and_again_if_they_have_changed(tmp_path: Path) -> None:
    client, made = Client(), read(tmp_path / "run")
    write_files(parent(client), made, 0)
    assert {"report.md", "verdict.json", "proposals.jsonl"} <= set(client.texts)
    assert set(json.loads(client.tags[page.FILES_TAG])) == set(client.texts)
    client.texts.clear()
    write_files(parent(client), made, 0)
    assert client.texts == {}
    write_files(parent(client), made, 5)
    assert set(client.texts) == {"report.md"}, "it says how often the questions were used"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "published as prompts/tuned."),
        ({"verdict": verdict(published=False)}, "not published (not_significant)."),
        ({"verdict": None}, "no verdict yet, last seen in its phase sealed."),
    ],
)
def test_the_description_begins_with_the_outcome(facts: dict[str, Any], words: str, tmp_path: Path) -> None:
    assert describe_tuning(read(tmp_path / "run", **facts), 0).startswith(f"Tuning of toy with gepa: {words}")


def test_the_description_has_the_result_with_its_intervals_and_the_openings(tmp_path: Path) -> None:
    text = describe_tuning(read(tmp_path / "run", verdict=verdict(gain_shrunken=0.1)), 3)
    for words in (
        "On 8 sealed questions, 5 answers each: accuracy 25.0 % before (95% interval 20.0 to 30.0), 37.5 % with c001",
        "gain +12.5 % (95% interval 1.0 to 24.0), p = 0.03, estimated true gain +10.0 %; 4 ",
        "4 questions won, 1 lost, 3 tied.",
        "Proposals: 3, of which 1 accepted, 1 rejected, 1 cut off",
        "were opened by this run. Earlier openings: 2 in this machine's own log, 3 by tuning runs in this MLflow",
        "run/sealed/winner",
    ):
        assert words in text, words
    looks = {**verdict()["sealed"], **LOOKS, "level": 0.03, "level_left": 0.02}
    stopped = read(tmp_path / "stopped", verdict=verdict(sealed=looks))
    said = "Stopped at look 2 of 4, after 8 of 16 questions: a gain was shown; 80 of 160 answers were saved"
    assert said in describe_tuning(stopped, 0) and "level is 0.03 (two-sided), spent over 4 looks" in describe_tuning(
        stopped, 0
    )
    metrics = build_tuning_page(stopped, 0).metrics
    assert {name: metrics[f"sealed.{name}"] for name in ("look", "looks", "n_answers", "n_answers_saved")} == {
        "look": 2, "looks": 4, "n_answers": 80, "n_answers_saved": 80,
    }  # fmt: skip
    bare = describe_tuning(read(tmp_path / "bare", verdict=None, proposals=(), sealed_opened_before=None), 0)
    assert "Proposals" not in bare and "have not been opened" in bare and "Earlier openings: 0 in" in bare
    assert "sealed/winner" not in bare and "On " not in bare
    assert describe_tuning(read(tmp_path / "simulated", simulated=True), 0).startswith("**")


def test_the_report_has_the_checks_and_every_proposal(tmp_path: Path) -> None:
    text = build_report(read(tmp_path / "run"), 0)
    assert text.startswith("# tuned\n\nTuning of toy") and "## Gate\n\n- passed: better by more than" in text
    assert "| c001 | parent | finalizer | accepted | 0.25 → 0.5 | 0.25 | 0.5 | reason 1 |\n" in text
    assert "| c003 | parent | finalizer | cut_off | 0.25 → 0.5 | - | - | reason 3 |\n" in text
    bare = build_report(read(tmp_path / "bare", verdict=None, proposals=()), 0)
    assert "## Gate" not in bare and "## Proposals" not in bare


def test_proposals_have_names_pages_and_the_texts_that_they_changed(tmp_path: Path) -> None:
    made = read(tmp_path / "run")
    assert [_build_name(made, each) for each in made.proposals] == [
        "c001 val 25.0%, winner: finalizer", "c002 rejected: finalizer", "c003 cut off: finalizer"
    ]  # fmt: skip
    first, second = (_build_page(parent(Client()), made, each) for each in made.proposals[:2])
    assert (first.tags["winner"], first.tags["decision"], "winner" in second.tags) == ("true", "accepted", False)
    assert (first.metrics["fresh_score"], first.metrics["val_score"], first.metrics["iteration"]) == (0.5, 0.25, 1.0)
    assert "fresh_score" not in second.metrics and first.metrics["spend.metric_calls"] == 3
    files = _build_files(made, made.proposals[0])
    changed = [name for name in files if name.startswith("prompts/")]
    assert len(changed) == 1 and "finalizer" in changed[0] and "c001 of toy" in files[changed[0]]


def test_openings_of_others_are_counted_until_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    def a_run(name: str, opened: str | None, start_ms: int) -> Any:
        tags = {} if opened is None else {page.OPENED_AT_TAG: opened}
        return SimpleNamespace(info=SimpleNamespace(run_id=name, start_time=start_ms), data=SimpleNamespace(tags=tags))

    there = [a_run("a", "100", 1), a_run("b", None, 200), a_run("c", "300", 1)]
    monkeypatch.setattr(page, "search_runs", lambda *_: there)
    counts = [count_openings(Client(), [], "5e", until, but) for until, but in (  # type: ignore[arg-type]
        (None, ""), (None, "a"), (99, ""), (100, ""), (200, ""), (300, "c"))]  # fmt: skip
    assert counts == [3, 2, 0, 1, 2, 2]


def test_only_finite_numbers_of_a_tree_are_metrics() -> None:
    tree = {"calls": 12, "cost": None, "deep": {"share": 0.5, "is_new": True, "bad": float("nan")}, "text": "x"}
    assert flatten_metrics("spend", tree) == {"spend.calls": 12.0, "spend.deep.share": 0.5}


@pytest.mark.parametrize(
    ("facts", "there", "outcome"),
    [
        ({}, None, "moved"),
        ({"simulated": True}, None, "moved"),
        ({}, "2026-11-21T11:00:00.000+00:00", "moved"),  # its own, of an attempt that was cut off
        ({}, "2026-11-21T11:00:00.001+00:00", "superseded"),
        ({"verdict": verdict(published=False)}, None, None),
        ({"verdict": None}, None, None),
    ],
)
def test_a_published_set_becomes_champion_once_and_never_in_place_of_a_newer_one(
    facts: dict[str, Any], there: str | None, outcome: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[tuple[str, str]] = []
    alias = champion.CHAMPION_SIMULATED if facts.get("simulated") else champion.CHAMPION
    linked = [LinkedPrompt(name, "1") for name in ("toy.finalizer", "toy.planner")]
    current = None if there is None else SimpleNamespace(tags={f"harness.{alias}_since": there})
    monkeypatch.setattr(champion, "register_prompts", lambda *_, **__: linked)
    monkeypatch.setattr(
        champion, "find_aliased_version", lambda _, name, __: current if name == "toy.planner" else None
    )
    monkeypatch.setattr(champion, "set_alias", lambda _, alias, each: moved.append((alias, each.name)))
    client = Client()
    client.set_prompt_version_tag = lambda *_: None  # type: ignore[attr-defined]
    made = read(tmp_path / "run", **facts)
    assert champion.promote_champion(parent(client), made) == outcome
    assert moved == ([(alias, each.name) for each in linked] if outcome == "moved" else []), "of all agents or of none"
    assert client.tags.get(champion.PROMOTED_TAG) == outcome
    if outcome:
        assert champion.promote_champion(parent(client), made) is None, "each tuning run does so once"


def test_a_proposal_s_page_has_everything_that_is_known_of_it(tmp_path: Path) -> None:
    fresh = {"candidate_id": "c001", "fresh_score": 0.5, "fresh_ci95": [0.4, 0.6]}
    proposals = [a_proposal(1, agents=["planner", "finalizer"], parent="c009"), a_proposal(2, "rejected", spend={})]
    made = read(tmp_path / "run", shortlist=[fresh], proposals=proposals, simulated=True)
    first, second = (_build_page(parent(Client()), made, each) for each in made.proposals)
    assert first.tags == {
        "mlflow.parentRunId": "parent", "candidate_id": "c001", "parent_ids": "c009", "agents": "planner, finalizer",
        "decision": "accepted", "reason": "reason 1", "origin": "reflection", "simulated": "true", "winner": "true",
        "harness.kind": "candidate", "mlflow.note.content": f"**{SIMULATED_NOTICE}**\n\nreason 1",
    }  # fmt: skip
    spend = {f"spend.{name}": float(value) for name, value in made.proposals[0].spend.items()}
    assert first.metrics == {
        "val_score": 0.25, "minibatch_before": 0.25, "minibatch_after": 0.5, "iteration": 1.0, **spend,
        "fresh_score": 0.5, "fresh_ci95_low": 0.4, "fresh_ci95_high": 0.6,
    }  # fmt: skip
    assert second.metrics == {"minibatch_before": 0.25, "minibatch_after": 0.5, "iteration": 2.0}
    assert [_build_name(made, each) for each in made.proposals] == [
        "c001 val 25.0%, winner: planner finalizer (simulated)",
        "c002 rejected: finalizer (simulated)",
    ]
    assert _build_files(made, made.proposals[0]) == {}, "without the prompts of its parent there is no difference"


def test_demos_that_differ_are_files_of_a_proposal(tmp_path: Path) -> None:
    made = read(tmp_path / "run", demos={"finalizer": [{"question": "é?", "answer": "4"}]})
    files = _build_files(made, made.proposals[0])
    assert list(files) == ["prompts/finalizer_system_prompt.txt", "prompts/finalizer_demos.json", "prompt_diff.txt"]
    assert json.loads(files["prompts/finalizer_demos.json"]) == [{"question": "é?", "answer": "4"}]
    assert "é" in files["prompts/finalizer_demos.json"]
    assert files["prompts/finalizer_system_prompt.txt"] == f"You answer, as c001 of {made.info.system} does.\n"
    assert files["prompt_diff.txt"].startswith("--- a/finalizer_system_prompt.txt\n+++ b/finalizer_system_prompt.txt\n")
    second = _build_files(made, made.proposals[1])
    assert list(second) == ["prompts/finalizer_system_prompt.txt", "prompt_diff.txt"], "its parent has the same demos"


def test_the_headroom_is_a_tag_and_two_numbers(tmp_path: Path) -> None:
    made = read(tmp_path / "run", verdict=None, shortlist=(), spend={"lm_calls": 4})
    found = {"worth_it": True, "n_answers": 90, "rewrites": [{"gain": 0.05}, {"gain": 0.1}]}
    (made.folder / "headroom.json").write_text(json.dumps(found))
    known = build_tuning_page(made, 0)
    assert known.tags["headroom"] == "worth it"
    assert known.metrics == {
        "spend.lm_calls": 4.0, "sealed_opened_before": 2.0, "headroom.gain": 0.1, "headroom.answers": 90.0,
        "proposals.accepted": 1.0, "proposals.rejected": 1.0, "proposals.cut_off": 1.0, "best_val_score": 0.25,
    }  # fmt: skip
    (made.folder / "headroom.json").write_text(json.dumps({**found, "worth_it": False, "rewrites": []}))
    known = build_tuning_page(made, 0)
    assert known.tags["headroom"] == "not here" and "headroom.gain" not in known.metrics
    (made.folder / "headroom.json").unlink()
    assert "headroom" not in build_tuning_page(made, 0).tags


def test_the_description_of_a_run_is_whole(tmp_path: Path) -> None:
    text = describe_tuning(read(tmp_path / "run"), 3)
    place = "run/sealed"
    assert text.split("\n\n") == [
        "Tuning of toy with gepa: published as prompts/tuned.",
        "On 8 sealed questions, 5 answers each: accuracy 25.0 % before (95% interval 20.0 to 30.0), 37.5 % with c001 "
        "(95% interval 30.0 to 45.0); gain +12.5 % (95% interval 1.0 to 24.0), p = 0.03; 4 questions won, 1 lost, 3 "
        "tied.",
        "Proposals: 3, of which 1 accepted, 1 rejected, 1 cut off; each is a run below this one.",
        "The sealed questions were opened by this run. Earlier openings: 2 in this machine's own log, 3 by tuning runs "
        "in this MLflow.",
        f"The answers to them are ordinary runs in {place}/parent and {place}/winner; "
        f"`python eval/sync.py {place}/winner` brings one into MLflow.",
    ]
