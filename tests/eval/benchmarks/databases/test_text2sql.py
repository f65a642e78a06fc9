"""Questions with a gold query each, in the layouts of BIRD and Spider, and a run on them."""

import json
import shutil
from pathlib import Path

import pytest

from eval.benchmarks.databases.bundled import SHOP
from eval.benchmarks.databases.text2sql import Text2SqlDataset
from eval.benchmarks.dataset import EXPECTED
from mas.runtime.errors import UserError
from mas.simulation.behaviour import Behaviour
from tests.eval.command_line import EvalCommand

QUERY = "SELECT count(*) FROM customers WHERE city = 'Oslo' AND joined_on LIKE '2022-%'"
QUESTION = "How many customers in the database are from Oslo and joined in 2022?"
BIRD = {"question_id": 17, "db_id": "shop", "question": QUESTION, "evidence": "joined_on", "SQL": QUERY}
SPIDER = {"db_id": "shop", "question": QUESTION, "query": QUERY}


def write(folder: Path, *entries: object, databases: str = "dev_databases/shop") -> Path:
    (folder / databases).mkdir(parents=True)
    shutil.copy(SHOP / "shop.sqlite", folder / databases)
    (folder / "dev.json").write_text(json.dumps(entries))
    return folder


def test_the_layouts_of_bird_and_spider_are_read(tmp_path: Path) -> None:
    dataset = Text2SqlDataset(path=str(write(tmp_path, {**BIRD, "difficulty": "simple"}, SPIDER)))
    bird, spider = dataset.load("dev").samples
    assert (bird.id, bird.level, bird.question, bird.target) == ("17", "simple", QUESTION, QUERY)
    assert bird.inputs == {"question": QUESTION, "database": "shop", "evidence": "joined_on"}
    assert (spider.id, spider.level, spider.inputs) == ("2", None, {"question": QUESTION, "database": "shop"})
    assert json.loads(spider.tags[EXPECTED])["tables"][0]["query"] == QUERY


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT name FROM customers ORDER BY name", True),
        ("SELECT name FROM customers UNION SELECT name FROM products ORDER BY 1 LIMIT 3", True),
        ("WITH c AS (SELECT name FROM customers ORDER BY name) SELECT name FROM c", False),
        ("SELECT name FROM customers WHERE id IN (SELECT id FROM orders ORDER BY id LIMIT 3)", False),
        ("SELECT name, row_number() OVER (ORDER BY id) FROM customers", False),
        ("SELECT 'ORDER BY' FROM customers", False),
        ("this is no query ORDER BY", False),
    ],
)
def test_the_order_of_rows_counts_where_the_gold_query_itself_orders_them(
    tmp_path: Path, query: str, ordered: bool
) -> None:
    (sample,) = Text2SqlDataset(path=str(write(tmp_path, {**SPIDER, "query": query}))).load("dev").samples
    assert json.loads(sample.tags[EXPECTED])["tables"][0]["ordered"] is ordered


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({**SPIDER, "db_id": "zoo"}, "no database 'zoo'"),
        ({**SPIDER, "query": ""}, "SQL or query is missing"),
        ({**SPIDER, "question": 3}, "question is missing or no text"),
        ("text", "it is a str"),
    ],
)
def test_a_bad_entry_is_refused_or_left_out_and_counted(tmp_path: Path, entry: object, reason: str) -> None:
    dataset = Text2SqlDataset(path=str(write(tmp_path, entry, SPIDER)))
    with pytest.raises(UserError, match=f"entry 1: .*{reason}"):
        dataset.load("dev")
    dataset.on_bad_row = "skip"
    split = dataset.load("dev")
    assert len(split.samples) == len(split.bad_rows) == 1


@pytest.mark.parametrize("content", ["{", "{}", "[]"])
def test_a_file_without_questions_is_one_sentence(tmp_path: Path, content: str) -> None:
    write(tmp_path)
    (tmp_path / "dev.json").write_text(content)
    with pytest.raises(UserError, match=r"dev\.json"):
        Text2SqlDataset(path=str(tmp_path)).load("dev")
    with pytest.raises(UserError, match=r"split=…: dev"):
        Text2SqlDataset(path=str(tmp_path)).load("train")


@pytest.mark.slow
def test_a_run_asks_each_question_of_its_own_database(
    eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)
    folder = write(tmp_path / "bird", BIRD, {**SPIDER, "query": QUERY.replace("2022", "2023")})
    (folder / "other").mkdir()
    shutil.copy(SHOP / "shop.sqlite", folder / "other" / "other.sqlite")
    finished = eval_command("system=bos", "model=offline", "data=text2sql", f"data.path={folder}")
    assert (finished.code, finished.summary["n"], finished.summary["n_correct"]) == (0, 2, 1)
