"""Versions of the Prompt Registry that a tuning run makes of the set that it publishes."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eval.config.tracking import LocalTracking
from eval.mlflow_export.prompt_registry import DEMOS_MARK, register_prompts
from eval.mlflow_export.tracked_run import open_run
from eval.runs.logs import open_log
from mas.prompt_sets.prompt_set import PromptSet
from optimize.mlflow_export.tuning_export import TuningExport, find_children
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_tuning, client, send, verdict

pytestmark = pytest.mark.slow  # whole runs, or whole stores


def version(settings: LocalTracking, system: str, agent: str, alias: str) -> Any:
    return client(settings).get_prompt_version_by_alias(f"{system}.{agent}", alias)


def test_a_published_set_is_registered_under_its_name(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), system="crown_a", name="tuned")
    sent = send(folder, local)
    for agent, text in {"planner": "You plan.", "finalizer": "You answer, as c001 of crown_a does."}.items():
        assert version(local, "crown_a", agent, "tuned").template == text
    tags = client(local).get_run(sent.run.run_id).data.tags
    assert sorted((each["name"], each["version"]) for each in json.loads(tags["mlflow.linkedPrompts"])) == [
        ("crown_a.finalizer", "1"),
        ("crown_a.planner", "1"),
    ]


def test_demos_are_a_part_of_the_version_that_an_evaluation_of_the_set_finds_again(
    tmp_path: Path, local: LocalTracking
) -> None:
    demos = {"finalizer": [{"answer_request": "2 + 2 {{ x }}?", "final_answer": "4 ä"}]}
    send(a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), system="crown_f", name="tuned", demos=demos), local)
    registered = version(local, "crown_f", "finalizer", "tuned")
    text, _, samples = registered.template.partition(DEMOS_MARK)
    assert text == "You answer, as c001 of crown_f does."
    assert json.loads(samples.removeprefix("```json\n").removesuffix("\n```")) == demos["finalizer"]
    assert version(local, "crown_f", "planner", "tuned").template == "You plan."
    run = open_run(local, "an evaluation", name="any", start_ms=0, has_traces=False)
    published = PromptSet("tuned", "crown_f", {"planner": "You plan.", "finalizer": text}, Path("tuned"), demos=demos)
    assert {each.name: each.version for each in register_prompts(run, published)} == {
        "crown_f.planner": "1",
        "crown_f.finalizer": str(registered.version),
    }


def test_a_proposal_that_somebody_deletes_while_the_run_goes_on_is_sent_again_at_its_end(
    tmp_path: Path, local: LocalTracking
) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict(), system="crown_d", name="tuned")
    with closing(TuningExport(folder, local, str)) as export:
        while export.send_new():
            pass
        export.run.client.delete_run(find_children(export.run)["c002"].info.run_id)
        with closing(open_log(folder, "mlflow", ())) as log:
            state = export.export(None, log)
    assert (state.complete, state.warning) == (True, None)
    assert state.counts == {"proposals": {"store": 3, "mlflow": 3}}
