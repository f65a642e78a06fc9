"""How the viewer is served and ended; the server itself is one that only says what it was told."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from eval.viewer import server
from eval.viewer.application import Desk
from eval.viewer.catalogue import Catalogue
from eval.viewer.protection import Guard
from mas.runtime.errors import UserError


class Served:
    """What became of the one server that was started."""

    def __init__(self) -> None:
        self.stop: Callable[[str], None] = lambda name: None
        self.desks: list[Desk] = []
        self.niceness: list[int] = []
        self.ends: list[tuple[bool, bool]] = []  # should exit, at once: before any signal, after one, after two
        self.configs: list[uvicorn.Config] = []
        self.listener: socket.socket | None = None
        self.is_handling = False

    def nice(self, more: int) -> int:
        self.niceness.append(more)
        raise OSError("not allowed here")

    @contextmanager
    def handle_signals(self, stop: Callable[[str], None]) -> Iterator[None]:
        self.stop, self.is_handling = stop, True
        yield
        self.is_handling = False


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    found = Served()

    class Server:
        should_exit = force_exit = False

        def __init__(self, config: uvicorn.Config) -> None:
            found.configs.append(config)

        async def serve(self, sockets: list[socket.socket]) -> None:
            (found.listener,) = sockets
            assert found.is_handling and found.listener.fileno() >= 0
            found.ends.append((self.should_exit, self.force_exit))
            assert not found.desks[0].stopping.is_set()
            for _ in range(2):
                found.stop("SIGINT")
                found.ends.append((self.should_exit, self.force_exit))
            await asyncio.wait_for(found.desks[0].stopping.wait(), 5)  # open event streams wait for it as well

    def make_application(desk: Desk) -> Any:
        found.desks.append(desk)
        return application

    async def application(*_: object) -> None:
        raise AssertionError("nobody asks anything")

    monkeypatch.setattr(uvicorn, "Server", Server)
    monkeypatch.setattr(os, "nice", found.nice)
    monkeypatch.setattr(server, "handle_signals", found.handle_signals)
    monkeypatch.setattr(server, "make_application", make_application)
    return found


def test_the_viewer_is_served_to_its_user_alone_until_a_signal(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogue = Catalogue(tmp_path)
    assert server.serve_viewer(catalogue, port=0, user="ada") == 0
    assert served.ends == [(False, False), (True, False), (True, True)]
    assert served.niceness == [5], "a run on this machine comes first; where that is not allowed, nothing is lost"
    (desk,), (config,) = served.desks, served.configs
    assert (desk.catalogue, desk.user) == (catalogue, "ada") and desk.access.port > 0
    assert isinstance(config.app, Guard)
    assert (config.log_config, config.access_log, config.server_header, config.lifespan) == (None, False, False, "off")
    assert config.timeout_graceful_shutdown == 1
    assert served.listener is not None and served.listener.fileno() == -1, "it is closed"
    told = capsys.readouterr()
    assert told.out == f"{tmp_path} at {desk.access.url} (for you alone; Ctrl-C ends it)\n" and told.err == ""


def test_the_address_that_is_printed_has_the_port_that_was_free(served: Served, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=rf"^127\.0\.0\.1 port {port} cannot be used .*; choose another port, or 0"):
            server.serve_viewer(Catalogue(tmp_path), port, "ada")
    assert served.configs == []
    assert server.serve_viewer(Catalogue(tmp_path), port, "ada") == 0
    assert served.desks[0].access.port == port
    assert served.desks[0].access.url.startswith(f"http://127.0.0.1:{port}/open?token=")
