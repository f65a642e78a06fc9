"""The SQL agent in the whole system: settings, server, a tool call of the model, answer and table."""

import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.settings import DatabaseSettings, SqlSettings
from mas.systems.bos.system import BosSystem
from mas.tools.settings import ToolSettings
from tests.mas.systems.bos.building import choose
from tests.mas.systems.bos.sql.hostile_queries import TABLES
from tests.mas.systems.bos.sql.sql_databases import make_sqlite
from tests.mas.systems.bos.sql.test_session import find_servers
from tests.scripted_model import Call, ScriptedModel, answering, in_turn


def make_system(**databases: DatabaseSettings) -> BosSystem:
    system = BosSystem(sql=SqlSettings(databases))
    system.check()
    return system


def call(query: str) -> list[Call]:
    return [Call("mcp_db_query", {"query": query})]


@pytest.mark.slow
def test_q05_q26_q27_samples_of_a_run_share_a_server_that_may_die(tmp_path: Path) -> None:
    queries = [call(f"SELECT name AS who FROM customers WHERE id = {n}") for n in (1, 2, 3)]
    model = ScriptedModel(
        answering(
            bos_planner=choose("sql"),
            sql_generate=in_turn("SELECT 1 FROM customers", *queries),  # a text is no call: it is asked again
            sql_answer=in_turn(*({"rows_answer": f"answer {n}"} for n in (1, 2, 3))),
        )
    )
    system = make_system(shop=DatabaseSettings(str(make_sqlite(tmp_path / "shop.sqlite")), tables=TABLES))
    with system.open_resources(ToolSettings(), print) as resources:
        program = system.build(cast(Any, model), None, resources)
        for n, name in enumerate(("Ann", "Bob", "Eve"), 1):
            (result,) = program(question="List the customers of the table.", file=None).state["agent_results"]
            assert result.error is None, result.error
            assert (result.answer, result.tabular.rows) == (f"answer {n}", [{"who": name}])
            (server,) = find_servers()
            os.kill(server, signal.SIGKILL)
    assert find_servers() == []
    assert model.agents_asked[:7] == [
        *("bos_planner", "sql_schema", "sql_generate", "sql_generate", "sql_check", "sql_answer", "composer"),
    ]


def test_without_a_database_there_is_no_sql_agent() -> None:
    assert make_system().find_gaps()["sql"] == "no database is configured (system.sql.databases)"
    assert "sql" not in make_system(shop=DatabaseSettings("shop.sqlite", tables=["x"])).find_gaps()


def test_addresses_of_databases_and_their_passwords_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", "postgresql://reader:pa%40ss-canary@host/shop")
    secrets = make_system(shop=DatabaseSettings(url_env="SHOP_URL", tables=["x"])).secrets()
    assert {"postgresql://reader:pa%40ss-canary@host/shop", "pa%40ss-canary", "pa@ss-canary"} <= set(secrets)


def test_wrong_settings_are_refused_before_anything_starts() -> None:
    with pytest.raises(UserError, match=r"system\.sql\.databases\.shop lists no tables"):
        make_system(shop=DatabaseSettings("shop.sqlite"))
    for neither_or_both in (DatabaseSettings(tables=["*"]), DatabaseSettings("x.sqlite", "URL", ["*"])):
        with pytest.raises(UserError, match=r"needs either a path \(SQLite\) or url_env \(PostgreSQL\)"):
            make_system(shop=neither_or_both)
