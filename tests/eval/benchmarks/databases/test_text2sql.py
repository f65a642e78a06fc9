"""Questions with a gold query each, in the layouts of BIRD and Spider, and a run on them."""

import json
import shutil
from pathlib import Path

import pytest

from eval.benchmarks.databases.bundled import SHOP
from eval.benchmarks.databases.text2sql import Text2SqlDataset, find_databases
from eval.benchmarks.dataset import EXPECTED
from mas.runtime.errors import UserError
from mas.simulation.skills.behaviour import Behaviour
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


def test_a_sample_has_its_gold_query_for_the_scorer_and_its_tables_for_the_program(tmp_path: Path) -> None:
    dataset = Text2SqlDataset(path=str(write(tmp_path, {**BIRD, "question": f" {QUESTION} ", "evidence": "é"})))
    (sample,) = dataset.load("dev").samples
    table = {"database": "shop", "query": QUERY, "ordered": False, "extra_columns": False}
    assert sample.tags == {"database": "shop", EXPECTED: json.dumps({"tables": [table]}, ensure_ascii=False)}
    assert sample.inputs == {"question": QUESTION, "database": "shop", "evidence": "é"}
    assert (sample.question, sample.file) == (QUESTION, None)


def test_databases_are_named_like_their_folder_or_lie_in_the_one_that_is_given(tmp_path: Path) -> None:
    names = ("a/a.sqlite", "b.db", "deep/c/c.sqlite3", "d/other.sqlite", "e/e.txt")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [each.relative_to(tmp_path).as_posix() for each in find_databases(tmp_path)]
    assert found == ["a/a.sqlite", "b.db", "deep/c/c.sqlite3"]


def test_databases_may_lie_in_another_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "asked", SPIDER, databases="none")
    elsewhere = write(tmp_path / "elsewhere", databases="shop")
    with pytest.raises(UserError, match="no database 'shop'"):
        Text2SqlDataset(path=str(folder)).load("dev")
    assert len(Text2SqlDataset(path=str(folder), databases=str(elsewhere)).load("dev").samples) == 1
    for key in ("path", "databases"):
        given = {"path": str(folder), "databases": str(elsewhere), key: str(tmp_path / "gone")}
        with pytest.raises(UserError) as refused:
            Text2SqlDataset(**given).check()
        assert str(refused.value) == (
            f"data.{key}={tmp_path}/gone is not a folder; give the one with the questions' JSON files."
        )


def test_bad_entries_are_counted_and_without_a_good_one_the_first_is_named(tmp_path: Path) -> None:
    dataset = Text2SqlDataset(path=str(write(tmp_path, SPIDER, 7, {**SPIDER, "db_id": " "})))
    with pytest.raises(UserError) as refused:
        dataset.load("dev")
    assert str(refused.value) == (
        "dev.json, entry 2: it is an int, not an object; correct it, or leave bad entries out with "
        "data.on_bad_row=skip (2 are bad)."
    )
    dataset.on_bad_row = "skip"
    assert dataset.load("dev").bad_rows == (
        "dev.json, entry 2: it is an int, not an object", "dev.json, entry 3: db_id is missing or no text"
    )  # fmt: skip
    for content, reason in (("[7]", "dev.json, entry 1: it is an int, not an object"), ("[]", "its list is empty")):
        (tmp_path / "dev.json").write_text(content)
        with pytest.raises(UserError) as refused:
            dataset.load("dev")
        assert str(refused.value) == f"{tmp_path}/dev.json has no question that can be used; {reason}."
    (tmp_path / "a.json").touch()
    (tmp_path / "dev.json").write_text('{"a": 1}')
    for split, said in (
        ("dev", f"{tmp_path}/dev.json holds a dict; expected a list of questions."),
        ("x", f"{tmp_path}/x.json is not there; give one of the folder's JSON files with split=…: a, dev."),
    ):
        with pytest.raises(UserError) as refused:
            dataset.load(split)
        assert str(refused.value) == said


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
