"""The system with agents for a database, an API and computations is tuned by the same command as the others."""

from pathlib import Path

import pytest

from tests.optimize.tuning_command import tuning_command

GIVEN = ("system=bos", "data=bos_sample", "model=offline", "optimizer=gepa")


@pytest.mark.slow
def test_a_search_runs_to_its_verdict_and_the_starting_prompts_hold_no_gold_answer(tmp_path: Path) -> None:
    tuned = tuning_command(tmp_path, *GIVEN, "budget.metric_calls=150")
    assert "near-duplicates" in tuned.out and "contain text of validation" not in tuned.out
    assert tuned.code == 0, tuned.err
    assert tuned.verdict["finish_reason"] != "leak_blocked"
    assert len(tuned.proposals) > 1
    assert {"planner", "sql_generate", "api_plan", "compute_code", "composer"} <= {
        agent for proposal in tuned.proposals for agent in proposal["agents"]
    }
