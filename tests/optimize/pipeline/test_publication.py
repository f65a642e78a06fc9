"""The verdict on a tuning run as it is written, and where its set goes."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.analysis.comparison.answers import build_answers
from eval.analysis.comparison.comparison import compare_answers
from eval.execution.termination import RunStoppedError
from eval.runs.record import Record, Usage
from eval.runs.run_info import TuningInfo, TuningState
from eval.scorers.labels import LabelSet
from mas.prompt_sets.prompt_set import PromptSet, digest, read_set_folder
from optimize.gate.gate import GateSettings, judge
from optimize.gate.sequential import Look
from optimize.gate.verdict import EarlyVerdictError
from optimize.pipeline import publication
from optimize.pipeline.publication import judge_winner, publish_winner, write_early_verdict
from optimize.pipeline.shortlist import ApprovedSet
from optimize.publishing.leaks import LeakReport
from optimize.search.budget import Spend
from optimize.session.run_files import RunFiles
from optimize.session.tuning_run import TuningRun

PARENT = PromptSet("base", "toy", {"plan": "Plan."}, Path("base"))
WINNER = PromptSet("c002", "toy", {"plan": "Plan well."}, Path("c002"))
SPEND = Spend(metric_calls=3, lm_calls=9, cost_usd=0.5)
PROPOSALS = [
    {"candidate_id": "c001", "decision": "accepted", "val_score": 0.75},
    {"candidate_id": "c002", "decision": "accepted", "val_score": 0.5},
    {"candidate_id": "c003", "decision": "cut_off", "val_score": 1.0},
]
SHORTLIST = [
    {"candidate_id": "c002", "fresh_score": 0.9, "val_score": 0.5},
    {"candidate_id": "parent", "fresh_score": 0.375, "val_score": 0.25},
]
HEAD = {
    "simulated": True,
    "spend": SPEND.to_dict(),
    "best_val": {"candidate_id": "c001", "val_gain": 0.5},
    "null_gain": 0.125,
    "labels": ["yes", "no"],
}


@pytest.fixture
def run(tmp_path: Path) -> Any:
    folder = tmp_path / "run"
    folder.mkdir()
    files = RunFiles(folder)
    files.write("baseline", {"val_score": 0.25})
    files.write("shortlist", SHORTLIST)
    files.finish_proposals(cast(Any, PROPOSALS))
    files.write_info(TuningInfo(run_id="r1", optimizer="gepa", parent_set="base"))
    shown: list[str] = []
    splits = SimpleNamespace(
        sealed=["q"] * 60, labels=LabelSet(("yes", "no")), count_known_to=lambda tuned_on: 7 if tuned_on is None else 0
    )
    config = SimpleNamespace(gate=GateSettings(epochs=1, looks=1), base=SimpleNamespace(simulated=True), name="mine",
                             redact=str)  # fmt: skip
    return SimpleNamespace(
        files=files, splits=splits, config=config, parent=SimpleNamespace(prompts=PARENT), show=shown.append,
        shown=shown, ledger=SimpleNamespace(spend=lambda: SPEND), request=SimpleNamespace(shelf=tmp_path / "prompts"),
    )  # fmt: skip


def answers(n_right: int) -> list[Record]:
    return [
        Record("r", f"q{at}", 1, 1, "t", "?", None, "1", "17", answer="17", score=float(at < n_right), usage=Usage(1))
        for at in range(53)
    ]


def sealed_test(n_right: int = 30) -> Any:
    """Of 53 questions, 10 were right before."""
    return SimpleNamespace(
        winner=ApprovedSet("c002", WINNER, LeakReport([], {"val": 3})),
        parent_records=answers(10),
        winner_records=answers(n_right),
        allowance=SimpleNamespace(level=0.03, left=0.02, n_earlier=2, n_questions_used=5),
        look=Look.only(0.03),
        decision="success",
    )


def judged(run: Any, found: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, list[float]]:
    comparison = compare_answers(*map(build_answers, (found.parent_records, found.winner_records)))
    imputed = SimpleNamespace(n_failed={"parent": 1, "winner": 0}, questions=["q9"])
    compared, finished = SimpleNamespace(imputed=imputed, comparison=comparison), list[float]()
    monkeypatch.setattr(publication, "compare_sides", lambda *given: compared)
    monkeypatch.setattr(publication, "finish_test", lambda run, found, p: finished.append(p))
    monkeypatch.setattr(publication, "count_test_answers", lambda run: 120)
    return judge_winner(cast(TuningRun, run), found), comparison, finished


def test_the_verdict_has_every_number_of_the_sealed_test(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sealed_test()
    verdict, comparison, finished = judged(run, found, monkeypatch)
    gate, paired = judge(run.config.gate, comparison, found.look), comparison.score
    first, second = comparison.first, comparison.second
    assert verdict == {
        "published": True,
        "finish_reason": "improved",
        **HEAD,
        "metric": "accuracy",
        "gain": 20 / 53,
        "gain_ci95": list(gate.gain_ci95 or ()),
        "gain_shrunken": gate.gain_shrunken,
        "p": paired.p,
        "baseline": {
            "accuracy": 10 / 53, "ci95": list(first.ci95), "score": 10 / 53, "score_ci95": list(first.score_ci95),
            "errors": {},
        },
        "winner": {
            "candidate_id": "c002", "prompts_sha256": digest(WINNER), "accuracy": 30 / 53, "ci95": list(second.ci95),
            "score": 30 / 53, "score_ci95": list(second.score_ci95), "errors": {},
        },
        "sealed": {
            "n_questions": 53, "n_sealed": 60, "n_answers": 106, "n_answers_saved": 14, "looks": 1, "look": 1,
            "look_level": 0.03, "stopped": "success", "epochs": 1, "wins": 20, "losses": 0, "ties": 33,
            "test": paired.test, "smallest_difference": gate.smallest_difference, "level": 0.03, "level_left": 0.02,
            "gain_interval": list(gate.gain_interval or ()), "opened_before": 2, "questions_opened_before": 5,
            "known_to_parent": 7, "failed_answers": {"parent": 1, "winner": 0},
        },
        "failed_questions": ["q9"],
        "cost": {
            name: each.to_dict() if (each := getattr(comparison, name)) else None
            for name in ("cost_usd", "seconds", "tokens", "format_losses", "unreadable")
        },
        "gate": {"settings": asdict(run.config.gate), "checks": gate.checks},
        "reasons": gate.reasons,
        "resumable": False,
    }  # fmt: skip
    assert finished == [paired.p] and len(run.files.read("flips")) == 20
    assert verdict["cost"]["cost_usd"] is None, "unknown"


def test_without_a_shortlist_or_a_baseline_there_is_nothing_to_compare_with(run: Any) -> None:
    for name in ("shortlist", "baseline"):
        run.files.remove(name)
    write_early_verdict(cast(TuningRun, run), EarlyVerdictError("no_accepted_candidate", "none was better"))
    assert run.files.read("verdict") == {
        "published": False,
        "finish_reason": "no_accepted_candidate",
        **HEAD,
        "best_val": None,
        "null_gain": None,
        "gain": None,
        "gain_ci95": None,
        "p": None,
        "reasons": ["none was better"],
        "resumable": False,
    }


@pytest.mark.parametrize(
    ("state", "sealed"),
    [
        (TuningState(), None),
        (TuningState(sealed_opened_before=0), {"opened_before": 0, "questions_opened_before": 0}),
        (
            TuningState(sealed_opened_before=2, sealed_questions_opened_before=5, sealed_level=0.03,
                        sealed_level_left=0.01),
            {"opened_before": 2, "questions_opened_before": 5, "level": 0.03, "level_left": 0.01},
        ),
        (
            TuningState(sealed_opened_before=2, sealed_level=0.03),
            {"opened_before": 2, "questions_opened_before": 0, "level": 0.03, "level_left": 0.0},
        ),
    ],
)  # fmt: skip
def test_a_budget_that_ends_a_run_leaves_a_verdict_that_can_be_resumed(
    run: Any, state: TuningState, sealed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "count_asked_questions", lambda run: 6)
    run.files.write_info(TuningInfo(run_id="r1", state=state))
    write_early_verdict(cast(TuningRun, run), EarlyVerdictError("budget", "used up"))
    verdict = run.files.read("verdict")
    assert verdict["resumable"] is True and verdict["best_val"] == HEAD["best_val"] and verdict["null_gain"] == 0.125
    assert verdict.get("sealed") == (sealed and {"n_questions": 6, "n_sealed": 60, "looks": 1, **sealed})


def test_a_published_set_lies_on_the_shelf_and_a_rejected_one_in_the_run(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n_right, place, line in ((30, "prompts/mine", "8/8 publish"),
                                 (12, "rejected/c002", "8/8 publish: not this one, see rejected/c002")):  # fmt: skip
        found = sealed_test(n_right)
        verdict, _, _ = judged(run, found, monkeypatch)
        publish_winner(cast(TuningRun, run), found, verdict)
        written = run.files.read("verdict")
        assert written == {**verdict, "set": place} and run.shown[-1] == line
        folder = run.request.shelf.parent / place if n_right == 30 else run.files.folder / place
        made = read_set_folder(folder)
        assert made.texts == WINNER.texts and made.provenance["gated"] is (n_right == 30)
        about = ("candidate_id", "run", "optimizer", "labels")
        assert [made.provenance[name] for name in about] == ["c002", "run", "gepa", ["yes", "no"]]
        assert made.provenance["parent"] == {"name": "base", "digest": digest(PARENT)}
        assert made.provenance["leaks"] == {"blocked": False, "hits": {}, "checked": {"val": 3}}


def test_a_name_that_is_taken_stops_the_run_and_keeps_the_test(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sealed_test()
    verdict, _, _ = judged(run, found, monkeypatch)
    (run.request.shelf / "mine").mkdir(parents=True)
    with pytest.raises(RunStoppedError, match=r"The sealed test is done and kept: none of it is asked again$") as stop:
        publish_winner(cast(TuningRun, run), found, verdict)
    assert stop.value.options == ("name=ANOTHER_NAME", "run.failed_answers=against")
    verdict["failed_questions"] = []
    with pytest.raises(RunStoppedError) as stop:
        publish_winner(cast(TuningRun, run), found, verdict)
    assert stop.value.options == ("name=ANOTHER_NAME",) and run.files.read("verdict") is None
