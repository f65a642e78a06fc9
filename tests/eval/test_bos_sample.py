"""The sample of databases and an API by the command: who makes no mistake gets all of it, who has no tool none."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from eval.benchmarks.sample_set import SHOP
from eval.cli.paths import PROJECT_ROOT
from eval.runs.store import RunStore
from mas.simulation.behaviour import Behaviour
from tests.eval.command_line import EvalCommand, Finished, dataset
from tests.needs import needs
from tests.optimize.tuned import simulated_server

SAMPLE = ("system=bos", "data=bos_sample", "model=offline")


def read_scores(finished: Finished) -> Mapping[str, float | None]:
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        return {record.sample_id: record.score for record in store.final_records()}


def answered_with_tools_away(finished: Finished) -> set[str]:
    """Return the kinds of questions whose answer is right, without those that are to be refused."""
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        expected = {planned.id: json.loads(planned.tags["expected"]) for planned in store.read_plan()}
        answered = {record.sample_id for record in store.final_records() if record.parts.get("answer") == 1}
    return {id_.partition("-")[0] for id_ in answered if expected[id_]["answer"]["type"] != "refusal"}


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_every_question_can_be_answered_from_what_the_tools_show(
    eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)
    scores = read_scores(eval_command(*SAMPLE, f"split={split}"))
    assert {sample_id: score for sample_id, score in scores.items() if score != 1} == {}


@needs("bubblewrap")
def test_without_its_tools_the_same_model_answers_none_of_their_questions(
    eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)
    away = ("data.databases=null", "data.api_documentation=null", "data.api_command=[]")
    finished = eval_command(*SAMPLE, *away, f"scorer.databases={SHOP}")
    assert answered_with_tools_away(finished) == {"computation"}


@pytest.mark.slow
def test_over_http_a_perfect_model_answers_all_questions_with_tools_as_text_and_none_without_tools(
    eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)
    away = ("data.databases=null", "data.api_documentation=null", "data.api_command=[]", f"scorer.databases={SHOP}")
    with simulated_server() as server:
        model = ("model=openai_compatible", f"model.base_url={server.base_url}", "model.native_tools=false")
        scores = read_scores(eval_command("system=bos", "data=bos_sample", *model))
        assert {sample_id: score for sample_id, score in scores.items() if score != 1} == {}
        assert server.asked > 3 * len(scores)
        finished = eval_command("system=bos", "data=bos_sample", *away, *model)
    assert answered_with_tools_away(finished) == {"computation"}, "which needs none of the tools that are away"


@pytest.mark.slow
@pytest.mark.parametrize("share", [True, False])
def test_the_average_of_what_an_earlier_agent_found_needs_shared_results(
    eval_command: EvalCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: bool
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)

    def ask(category: str, least: int, wish: str, value: float) -> dict[str, str]:
        where = f"category = '{category}' AND price > {least}"
        table = {"database": "shop", "query": f"SELECT price FROM products WHERE {where}"}
        answer = {"type": "number", "value": value, "tolerance": 0.01}
        expected = {"answer": answer, "tables": [table], "agents": ["sql", "computation"]}
        asked = (
            f"List the prices in the database of the products of the category {category} that cost more than {least}"
        )
        question = f"{asked}, and calculate the {wish} of that."
        return {"id": category, "question": question, "Final answer": str(value), "expected": json.dumps(expected)}

    rows = [ask("kitchen", 30, "average", 52.003333), ask("sport", 30, "median", 54.21)]
    data = dataset(tmp_path / "two_steps", *rows)
    place = (f"system.sql.folder={SHOP}", "system.sql.folder_tables={shop: [products]}", f"scorer.databases={SHOP}")
    how = f"system.share_results={str(share).lower()}"
    finished = eval_command(
        "system=bos", "model=offline", *data, "data.tags=[expected]", "scorer=expected", *place, how
    )
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        parts = {record.sample_id: record.parts for record in store.final_records()}
    found = {"answer": float(share), "tables": 1.0, "agents": 1.0}
    assert parts == {"kitchen": found, "sport": found}


@pytest.mark.slow
def test_ones_own_database_and_questions_run_as_the_page_on_the_system_says(
    eval_command: EvalCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)
    page = (PROJECT_ROOT / "docs" / "how-to" / "second-system.md").read_text("utf-8")
    row = json.loads(re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0])
    row["question"] = "How many customers in the database are from Oslo and joined in 2022?"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "metadata.jsonl").write_text(json.dumps(row))
    shutil.copy(SHOP / "shop.sqlite", tmp_path / "own")
    tables = re.search(r"system\.sql\.folder_tables=\{shop: \[customers, orders\]\}", page)
    assert tables, "the page shows how tables are named"
    data = ("data=jsonl", f"data.path={tmp_path / 'own'}", "data.tags=[expected]")
    scorer = ("scorer=expected", f"scorer.databases={tmp_path / 'own'}")
    place = f"system.sql.folder={tmp_path / 'own'}"
    finished = eval_command("system=bos", "model=offline", place, tables[0], *data, *scorer)
    assert (finished.code, finished.summary["n"], finished.summary["n_error"]) == (0, 1, 0)
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        (record,) = store.final_records()
    assert record.answer == "6"
    assert record.parts == {"answer": 1, "tables": 0, "agents": 1}, "the gold query of the page counts all years"
