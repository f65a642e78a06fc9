"""The system with agents for a database, an API and computations is tuned by the same command as the others."""

from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.prompt_set import read_prompt_set
from mas.systems.bos.agents import SPECS
from tests.command import TUNED_SET, tuning_command
from tests.eval.command_line import EvalCommand

pytestmark = pytest.mark.slow

SAMPLE = ("system=bos", "data=bos_sample", "model=offline")
FEWER = ("budget.metric_calls=240", "shortlist.epochs=1", "gate.epochs=2")  # answers


def test_a_search_with_the_optimizers_own_settings_publishes_a_set_that_an_evaluation_loads(
    tmp_path: Path, eval_command: EvalCommand
) -> None:
    tuned = tuning_command(tmp_path, *SAMPLE, *FEWER, "optimizer=gepa", "seed=0")
    assert "contain text of validation" not in tuned.out, "the starting prompts hold no gold answer"
    verdict = tuned.verdict
    assert (tuned.code, verdict["published"], verdict["finish_reason"]) == (0, True, "improved"), tuned.out
    assert verdict["simulated"] and verdict["gain_ci95"][0] > 0

    names = [spec.name for spec in SPECS]
    baseline = read_prompt_set("bos_baseline", names, "bos", PROJECT_ROOT)
    published = read_prompt_set(str(tuned.shelf / TUNED_SET), names, "bos", PROJECT_ROOT)
    changed = {name for name in names if published.texts[name] != baseline.texts[name]}
    assert {"planner", "sql_generate", "composer"} <= changed, "every agent is shown what it has done, queries too"
    scores = {
        name: eval_command(*SAMPLE, "split=test", f"prompts={name}").summary["score"]
        for name in ("bos_baseline", str(tuned.shelf / TUNED_SET))
    }
    assert scores[str(tuned.shelf / TUNED_SET)] > scores["bos_baseline"] + 0.05
