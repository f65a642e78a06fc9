"""The second system behind a real server: streams of many clients, signals, and mistakes of the command line."""

import asyncio
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.mas.systems.bos.sql.sql_databases import make_sqlite
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.process import Running, started
from tests.servers.bos_model import BosModel
from tests.servers.loopback import running

TOKEN = "token-of-the-service-1"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
SECONDS, N_CLIENTS = float(os.environ.get("BOS_SERVICE_SECONDS", "5")), int(os.environ.get("BOS_SERVICE_CLIENTS", "20"))


@dataclass
class RunningService:
    url: str
    running: Running

    def count_open(self) -> int:
        return int(httpx.get(f"{self.url}/health", timeout=PATIENCE_SECONDS).json()["open_requests"])

    def listens_no_more(self) -> bool:
        try:
            self.count_open()
        except httpx.TransportError as error:
            return isinstance(error, httpx.ConnectError)
        return False

    def read_memory_mb(self) -> float:
        status = Path(f"/proc/{self.running.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024


@contextmanager
def running_service(folder: Path, *options: str) -> Iterator[RunningService]:
    database = make_sqlite(folder / "shop.sqlite")
    tables = [f"+system.sql.databases.shop.path={database}", "+system.sql.databases.shop.tables=[customers]"]
    with running(BosModel()) as model:
        asked = ["system=bos", "model=openai_compatible", f"model.base_url={model.base_url}", "system.service.port=0"]
        how = {"script": "eval/serve.py", "environment": {"BOS_SERVICE_TOKEN": TOKEN}}
        with started(folder, *asked, *tables, *options, **how) as service:
            yield RunningService(service.address(), service)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, f"system.service.max_requests={N_CLIENTS}") as service:
        yield service


def read_events(text: str) -> list[tuple[str, Any]]:
    blocks = [each.split("\n") for each in text.split("\n\n") if each.startswith("event: ")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


@pytest.mark.slow
def test_streams_of_many_clients_are_complete_and_never_mixed_up(service: RunningService) -> None:
    done: list[float] = []
    first = {"json": {"question": "List the marker-first table"}, "headers": HEADERS, "timeout": PATIENCE_SECONDS}
    httpx.post(f"{service.url}/stream", **first)  # the database's server is started
    before = service.read_memory_mb()

    async def ask(client: httpx.AsyncClient, marker: str) -> None:
        began = time.monotonic()
        response = await client.post(
            f"{service.url}/stream", json={"question": f"List the {marker} table"}, headers=HEADERS
        )
        events = read_events(response.text)
        assert [name for name, _ in events] == ["plan", "agent", "answer"], (response.status_code, response.text)
        assert len({data["request_id"] for _, data in events}) == 1
        assert events[-1][1]["answer"] == f"answer to {marker}"
        assert set(re.findall(r"marker-[\w-]+", response.text)) == {marker}
        assert {row["marker"] for row in events[1][1]["tabular"]["rows"]} == {marker}
        done.append(time.monotonic() - began)

    async def run_client(client: httpx.AsyncClient, number: int, until: float) -> None:
        n = 0
        while time.monotonic() < until:
            n += 1
            await ask(client, f"marker-{number}-{n}")

    async def run_clients() -> None:
        limits = httpx.Limits(max_connections=N_CLIENTS)
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, limits=limits) as client:
            until = time.monotonic() + SECONDS
            await asyncio.gather(*(run_client(client, number, until) for number in range(N_CLIENTS)))

    asyncio.run(run_clients())
    grown = service.read_memory_mb() - before
    print(f"{len(done)} answers, slowest {max(done):.1f} s, memory {before:.0f} MB + {grown:.0f} MB")
    assert len(done) >= N_CLIENTS
    assert service.count_open() == 0
    assert grown < 60


@pytest.mark.slow
def test_sigterm_lets_requests_end_in_their_time(tmp_path: Path) -> None:
    async def ask(url: str, question: str) -> str:
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client:
            return (await client.post(f"{url}/stream", json={"question": question}, headers=HEADERS)).text

    async def stop_while_asked(service: RunningService) -> str:
        asked = asyncio.create_task(ask(service.url, "slow 2 marker-a"))
        await asyncio.to_thread(wait_for, lambda: service.count_open() == 1)
        service.running.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(wait_for, service.listens_no_more)
        with pytest.raises(httpx.ConnectError):
            await ask(service.url, "marker-late")
        return await asked

    with running_service(tmp_path) as service:
        answered = asyncio.run(stop_while_asked(service))
        ended = service.running.end()
    assert ended.code == 0
    assert read_events(answered)[-1][1]["answer"] == "answer to marker-a"
    assert "stopped by SIGTERM" in ended.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["system=toy", "model=offline"], "error: system=toy has no service; choose one that has: system=bos."),
        (["system=bos", "model=offline", "system.service.host=0.0.0.0"], "who need a token"),
        (["system=bos", "model=offline", "--port"], "usage: python eval/serve.py"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from eval.cli.command import run_cli
    from eval.serve import task

    monkeypatch.delenv("BOS_SERVICE_TOKEN", raising=False)
    assert run_cli(lambda: task(arguments)) == 1
    assert words in capsys.readouterr().err


def test_an_address_in_use_is_one_sentence() -> None:
    from eval.workflows.service import open_listener
    from mas.runtime.errors import UserError

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UserError, match=r"choose another system\.service"),
    ):
        open_listener("127.0.0.1", taken.getsockname()[1], "system.service.port")
