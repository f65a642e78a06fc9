"""The sample of databases and an API by the command: who makes no mistake gets all of it, who has no tool none."""

import json
from collections.abc import Mapping

import pytest

from eval.benchmarks.databases.bundled import SHOP
from eval.runs.store import RunStore
from mas.simulation.skills.behaviour import Behaviour
from tests.eval.command_line import EvalCommand, Finished

SAMPLE = ("system=bos", "data=bos_sample", "model=offline")


def read_scores(finished: Finished) -> Mapping[str, float | None]:
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        return {record.sample_id: record.score for record in store.final_records()}


def test_a_simulated_run_makes_mistakes_and_two_runs_make_the_same(eval_command: EvalCommand) -> None:
    first = eval_command(*SAMPLE)
    assert (first.code, first.summary["n"], first.summary["n_error"]) == (0, 24, 0)
    assert set(first.summary["by_tag"]) == {"kind"}
    assert set(first.summary["by_tag"]["kind"]) == {"sql", "api", "computation", "mixed"}
    assert 0.3 < first.summary["mean_score"] < 0.95
    assert read_scores(eval_command(*SAMPLE)) == read_scores(first), "the clock in the prompts decides nothing"


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_every_question_can_be_answered_from_what_the_tools_show(
    eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)
    scores = read_scores(eval_command(*SAMPLE, f"split={split}"))
    assert {sample_id: score for sample_id, score in scores.items() if score != 1} == {}


def test_without_its_tools_the_same_model_answers_none_of_their_questions(
    eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)
    away = ("data.databases=null", "data.api_documentation=null", "data.api_command=[]")
    finished = eval_command(*SAMPLE, *away, f"scorer.databases={SHOP}")
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        expected = {planned.id: json.loads(planned.tags["expected"]) for planned in store.read_plan()}
        answered = {record.sample_id for record in store.final_records() if record.parts.get("answer") == 1}
    assert {id_.partition("-")[0] for id_ in answered if expected[id_]["answer"]["type"] != "refusal"} == {
        "computation"
    }
