"""The address that a system is served at."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import uvicorn

from eval.cli.command import FINISHED
from eval.workflows import service
from eval.workflows.service import open_listener, serve
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from mas.system import ServiceOptions
from tests.eval.config.test_evaluation import config as read


def test_a_listener_takes_any_free_port_or_the_one_that_is_named() -> None:
    with open_listener("127.0.0.1", 0, "system.service.port") as listener:
        assert listener.family == socket.AF_INET
        host, port = listener.getsockname()
        assert host == "127.0.0.1" and port > 0
        with pytest.raises(UserError) as caught:
            open_listener("127.0.0.1", port, "system.service.port")
    message = str(caught.value)
    assert message.startswith(f"127.0.0.1 port {port} cannot be used ({os.strerror(errno.EADDRINUSE)}")
    assert message.endswith("; choose another system.service.port, or 0 for any that is free.")
    with open_listener("127.0.0.1", port, "system.service.port") as listener:
        assert listener.getsockname() == ("127.0.0.1", port)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_address_with_colons_is_one_of_ipv6() -> None:
    try:
        with open_listener("::1", 0, "port") as listener:
            assert listener.family == socket.AF_INET6
    except UserError as error:
        assert "::1 port 0 cannot be used" in str(error)


class Server:
    """In place of a server: it takes signals until the second one."""

    made: ClassVar[list["Server"]] = []
    stop: ClassVar[Callable[[str], None]]

    def __init__(self, config: uvicorn.Config) -> None:
        self.config, self.should_exit, self.force_exit = config, False, False
        self.addresses: list[tuple[str, int]] = []
        self.states: list[tuple[bool, bool]] = []
        self.made.append(self)

    async def serve(self, listeners: list[socket.socket]) -> None:
        self.addresses = [each.getsockname()[:2] for each in listeners]
        for name in ("SIGTERM", "Ctrl-C"):
            Server.stop(name)
            self.states.append((self.should_exit, self.force_exit))


class Served:
    """A system with an application; it keeps what it was given."""

    def __init__(self, port: int = 0) -> None:
        self.calls: list[Any] = []
        self.port = port

    @contextmanager
    def open_resources(self, settings: object, report_missing: Callable[[str], None]) -> Iterator[str]:
        report_missing("there is no search")
        self.calls.append(settings)
        yield "the resources"
        self.calls.append("closed")

    def build(self, *parts: object) -> str:
        self.calls.append(parts)
        return "the program"

    def serve_application(self, program: object, options: ServiceOptions) -> Any:
        self.calls.append((program, options))
        options.report("key was used")  # type: ignore[attr-defined]
        return SimpleNamespace(
            application=lambda: None,
            host="127.0.0.1",
            port=self.port,
            max_connections=9,
            drain_seconds=2.5,
            begin_shutdown=lambda: self.calls.append("begin shutdown"),
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> type[Server]:
    @contextmanager
    def handle(stop: Callable[[str], None]) -> Iterator[None]:
        Server.stop = staticmethod(stop)
        yield

    Server.made.clear()
    monkeypatch.setattr(uvicorn, "Server", Server)
    monkeypatch.setattr(service, "handle_signals", handle)
    loop = SimpleNamespace(call_soon_threadsafe=lambda function: function())
    monkeypatch.setattr(service, "background_loop", lambda: loop)
    return Server


def test_a_system_is_served_until_a_signal_and_a_second_one_ends_it_at_once(
    server: type[Server], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    system, config = Served(), read("system=toy", "limits.lm_calls=7")
    monkeypatch.setattr(type(config), "simulated", False)
    monkeypatch.setattr(type(config), "redact", lambda self, text: text.replace("key", "***"))
    assert serve(system, config, "the prompts") == FINISHED  # type: ignore[arg-type]
    (made,) = server.made
    settings, parts, (program, options), *shutdowns, closed = system.calls
    assert (settings, parts, program) == (
        config.tools, (config.model, "the prompts", "the resources"), "the program",
    )  # fmt: skip
    assert (options.limits, shutdowns, closed) == (config.limits, ["begin shutdown"] * 2, "closed")
    used = made.config
    assert (used.log_config, used.access_log, used.server_header) == (None, False, False)
    assert (used.limit_concurrency, used.timeout_graceful_shutdown) == (9, 7)
    assert made.states == [(True, False), (True, True)]
    ((host, port),) = made.addresses
    assert (host, port > 0) == ("127.0.0.1", True)
    said = capsys.readouterr()
    assert said.out == f"{SIMULATED_NOTICE}\ntoy is served at http://127.0.0.1:{port} (Ctrl-C ends it).\n"
    assert said.err == "*** was used\nnote: there is no search\n" + "".join(
        f"stopped by {name}: requests in flight have 2.5 s; once more: stop now.\n" for name in ("SIGTERM", "Ctrl-C")
    )


def test_a_real_model_has_no_notice_and_an_address_in_use_is_a_mistake(
    server: type[Server], capsys: pytest.CaptureFixture[str]
) -> None:
    config = read("system=toy")
    model = read("model=openai_compatible", "model.base_url=http://h", "model.name=m").model
    with open_listener("127.0.0.1", 0, "port") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError) as refused:
            serve(Served(port), replace(config, model=model), None)  # type: ignore[arg-type]
    assert str(refused.value).endswith("; choose another system.service.port, or 0 for any that is free.")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "key was used\nnote: there is no search\n")
