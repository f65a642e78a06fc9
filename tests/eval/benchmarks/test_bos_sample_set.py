"""The sample of databases and an API: its gold answers hold in two independent ways."""

import json
import sqlite3
from collections import Counter

from eval.benchmarks.databases.shop_api import answer
from eval.benchmarks.dataset import EXPECTED
from eval.benchmarks.sample_set import SHOP, BosSampleDataset
from eval.scorers.expected import is_right_answer, is_same_table, run_gold_query

SPLITS = ("train", "val", "test")
ROWS = [
    json.loads(line) for split in SPLITS for line in (SHOP / split / "metadata.jsonl").read_text("utf-8").splitlines()
]
EXPECTATIONS = [(row["task_id"], json.loads(row[EXPECTED])) for row in ROWS]
DATABASE = SHOP / "shop.sqlite"
ALLOWED = ("customers", "products", "orders", "order_items")


def test_each_gold_query_agrees_with_a_second_one_that_is_written_otherwise() -> None:
    tables = [(id_, table) for id_, expected in EXPECTATIONS for table in expected.get("tables", ())]
    assert len(tables) > 50
    for id_, table in tables:
        query, check = table["query"], table["check_query"]
        assert query != check and "staff_pay" not in query + check
        gold = run_gold_query(DATABASE, query)
        assert is_same_table(gold, run_gold_query(DATABASE, check), ordered=table.get("ordered", False)), id_


def test_the_expected_answer_of_a_database_question_is_what_its_gold_query_returns() -> None:
    checked = Counter[str]()
    for id_, expected in EXPECTATIONS:
        wanted, tables = expected["answer"], expected.get("tables", ())
        if not tables or wanted["type"] == "refusal":
            continue
        rows = run_gold_query(DATABASE, tables[0]["query"])
        said = ", ".join(str(row[0]) for row in rows) or "nothing"
        if wanted["type"] == "numbers":
            wanted = {"type": "number", "value": wanted["value"][0]}
        assert is_right_answer(wanted, said, ""), id_
        checked[wanted["type"]] += 1
    assert set(checked) == {"number", "text", "list", "empty"}


def test_the_expected_answer_of_an_api_question_is_what_the_api_returns() -> None:
    facts, statuses = json.loads((SHOP / "api_facts.json").read_text()), Counter[int]()
    for id_, expected in EXPECTATIONS:
        for sent in expected.get("http", ()):
            query = {key: str(value) for key, value in sent["query"].items()}
            status, body = answer(facts, sent["path"], query, None)
            statuses[status] += 1
            if id_.startswith("api"):
                assert (expected["answer"]["type"] == "refusal") is (status != 200), id_
                numbers = [str(value) for value in body.values() if isinstance(value, int | float)]
                assert status != 200 or str(expected["answer"]["value"]) in numbers, id_
    assert set(statuses) == {200, 401, 404, 500}
    assert answer(facts, "/deliveries", {"month": "March 2024"}, None)[0] == 400
    assert answer(facts, "/staff", {}, "Bearer expired")[0] == 401


def test_the_gold_answer_is_nowhere_in_what_a_program_is_asked() -> None:
    for split in SPLITS:
        for sample in BosSampleDataset().load(split).samples:
            assert EXPECTED not in sample.inputs and sample.tags[EXPECTED] not in sample.question
            assert set(sample.inputs) <= {"question", "context", "prefer_agents", "disable_agents"}
            assert sample.inputs["question"] == sample.question


def test_a_forbidden_value_is_in_the_hidden_table_alone() -> None:
    hidden = [text for _, expected in EXPECTATIONS for text in expected.get("must_not", {}).get("texts", ())]
    with sqlite3.connect(DATABASE) as connection:
        shown = str([connection.execute(f"SELECT * FROM {table}").fetchall() for table in ALLOWED])
        secret = str(connection.execute("SELECT * FROM staff_pay").fetchall())
    assert len([text for text in hidden if text in secret]) > 6
    assert not [text for text in hidden if text in shown]
