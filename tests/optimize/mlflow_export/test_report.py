"""The words about a tuning run: each of its numbers stands where it belongs, and what is not known is not told."""

from pathlib import Path
from typing import Any

import pytest

from mas.simulation import SIMULATED_NOTICE
from optimize.mlflow_export.report import build_notice, build_report, describe_tuning
from optimize.reports.snapshot import TuningSnapshot, read_tuning
from tests.optimize.mlflow_export.tuning_folder import LOOKS, PROPOSALS, a_proposal, a_tuning, verdict

SEALED = verdict()["sealed"]
NOT_OPENED = (
    "The sealed questions have not been opened by this run. Earlier openings: 2 in this machine's own log, 3 by "
    "tuning runs in this MLflow."
)
OPENED = (
    "The sealed questions were opened by this run. Earlier openings: 2 in this machine's own log, 3 by tuning runs in "
    "this MLflow."
)
PLACES = (
    "The answers to them are ordinary runs in run/sealed/parent and run/sealed/winner; "
    "`python eval/sync.py run/sealed/winner` brings one into MLflow."
)
RESULT = (
    "On 8 sealed questions, 5 answers each: accuracy 25.0 % before (95% interval 20.0 to 30.0), 37.5 % with c001 (95% "
    "interval 30.0 to 45.0); gain +12.5 % (95% interval 1.0 to 24.0), p = 0.03; 4 questions won, 1 lost, 3 tied."
)


def a_run(tmp_path: Path, *proposals: Any, **parts: Any) -> TuningSnapshot:
    return read_tuning(a_tuning(tmp_path / "run", proposals, **{"system": "toy", "name": "set_a", **parts}))


def paragraphs(tmp_path: Path, *proposals: Any, **parts: Any) -> list[str]:
    return describe_tuning(a_run(tmp_path, *proposals, **parts), openings=3).split("\n\n")


def test_a_published_run_is_described_whole(tmp_path: Path) -> None:
    more = (a_proposal(4), a_proposal(5), a_proposal(6, "rejected"))
    assert paragraphs(tmp_path, *PROPOSALS, *more, verdict=verdict()) == [
        "Tuning of toy with gepa: published as prompts/set_a.",
        RESULT,
        "Proposals: 6, of which 3 accepted, 2 rejected, 1 cut off; each is a run below this one.",
        OPENED,
        PLACES,
    ]


def test_a_run_without_a_verdict_tells_its_phase_and_not_more(tmp_path: Path) -> None:
    assert paragraphs(tmp_path, phase="search") == [
        "Tuning of toy with gepa: no verdict yet, last seen in its phase search.",
        NOT_OPENED,
    ]


def test_a_verdict_without_a_winner_has_no_result(tmp_path: Path) -> None:
    assert paragraphs(tmp_path, verdict=verdict(False, None, sealed=None), sealed_opened_before=None) == [
        "Tuning of toy with gepa: not published (not_significant).",
        NOT_OPENED.replace("2 in this machine", "0 in this machine"),
    ]


def test_a_simulation_says_so_before_everything_else(tmp_path: Path) -> None:
    simulated = a_run(tmp_path, simulated=True, phase="search")
    notice = f"**{SIMULATED_NOTICE}**"
    assert describe_tuning(simulated, 3).split("\n\n")[:2] == [
        notice,
        "Tuning of toy with gepa: no verdict yet, last seen in its phase search.",
    ]
    assert build_notice(simulated) == notice
    assert build_report(simulated, 3) == f"# set_a (simulated)\n\n{describe_tuning(simulated, 3)}\n"


def test_the_metric_has_its_own_name_and_is_shown_in_place_of_the_accuracy(tmp_path: Path) -> None:
    winner = {"candidate_id": "c002", "accuracy": 0.3, "ci95": [0.3, 0.45], "score": 0.75, "score_ci95": None}
    baseline = {"accuracy": 0.25, "ci95": [0.2, 0.3], "score": 0.5, "score_ci95": [0.4, 0.6]}
    numbers = verdict(metric="mean score", gain=-0.25, gain_ci95=None, gain_shrunken=0.0625, p=None)
    assert paragraphs(tmp_path, verdict={**numbers, "winner": winner, "baseline": baseline})[1] == (
        "On 8 sealed questions, 5 answers each: mean score 50.0 % before (95% interval 40.0 to 60.0), 75.0 % with "
        "c002; gain -25.0 %, p = -, estimated true gain +6.2 %; 4 questions won, 1 lost, 3 tied."
    )


def test_an_unknown_gain_is_called_unknown(tmp_path: Path) -> None:
    found = paragraphs(tmp_path, verdict=verdict(gain=None, gain_ci95=None, p=0.012345, baseline={}))
    assert "accuracy unknown before, 37.5 % with" in found[1]
    assert "; gain unknown, p = 0.0123; 4 questions won" in found[1]


@pytest.mark.parametrize(
    ("sealed", "told"),
    [
        (
            {"level": 0.0123, "level_left": 0.0377},
            " The gate requires p of at most 0.0123 (two-sided); 0.0377 of 0.05 is left for later tests with these "
            "questions.",
        ),
        (
            {"level": 0.05},
            " The gate requires p of at most 0.05 (two-sided); nothing is left for later tests: seal other questions "
            "for them.",
        ),
        (
            {"level": 0.025, "level_left": 0.025, **LOOKS},
            " Stopped at look 2 of 4, after 8 of 16 questions: a gain was shown; 80 of 160 answers were saved; the "
            "intervals are adjusted for the looks. The gate's level is 0.025 (two-sided), spent over 4 looks; 0.025 of "
            "0.05 is left for later tests with these questions.",
        ),
    ],
)
def test_the_level_of_the_test_and_where_it_stopped_follow_the_numbers(
    tmp_path: Path, sealed: dict[str, Any], told: str
) -> None:
    assert paragraphs(tmp_path, verdict=verdict(sealed={**SEALED, **sealed}))[1] == RESULT + told


def test_failed_answers_are_a_paragraph_that_begins_with_a_capital(tmp_path: Path) -> None:
    sealed = {**SEALED, "failed_answers": {"parent": 5, "winner": 4, "as_right": 0}}
    assert paragraphs(tmp_path, verdict=verdict(sealed=sealed, failed_questions=["q3"]))[2] == (
        "Answers that the server failed each time: 5 before, 4 with c001 (to q3); all count as wrong."
    )


def test_the_report_has_the_checks_and_a_row_for_each_proposal(tmp_path: Path) -> None:
    odd = a_proposal(
        2,
        "rejected",
        parent_ids=["c001", "c000"],
        agents=["planner", "finalizer"],
        reason="worse | in\ntwo  lines",
        minibatch_before=None,
        minibatch_after=0.0,
        val_score=0.12345,
    )
    checks = {"checks": ["passed: one", "failed: two"]}
    fresh = [{"candidate_id": "c001", "fresh_score": 0.5}, {"candidate_id": "c002"}]
    tuning = a_run(tmp_path, a_proposal(1), odd, verdict=verdict(gate=checks), shortlist=fresh)
    assert build_report(tuning, 3) == "\n".join([
        "# set_a",
        "",
        describe_tuning(tuning, 3),
        "",
        "## Gate",
        "",
        "- passed: one",
        "- failed: two",
        "",
        "## Proposals",
        "",
        "| candidate | from | agents | decision | minibatch | validation | fresh | reason |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| c001 | parent | finalizer | accepted | 0.25 → 0.5 | 0.25 | 0.5 | reason 1 |",
        "| c002 | c001, c000 | planner, finalizer | rejected | - → 0 | 0.123 | - | worse \\| in two lines |",
        "",
    ])  # fmt: skip
    assert build_notice(tuning) == ""


def test_a_verdict_that_did_not_come_to_the_gate_has_no_checks(tmp_path: Path) -> None:
    reasons = verdict(False, None, gate=None, reasons=["no candidate"])
    assert "## Gate" not in build_report(a_run(tmp_path, verdict=reasons), 0)
