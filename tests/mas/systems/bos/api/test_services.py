"""The API-docs agent in the system: offered if it is documented, checked before a run, its services open in a run."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.agents import API
from mas.systems.bos.api.catalogue import Catalogue
from mas.systems.bos.api.services import ApiServices, open_api
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.contracts.result import AgentFailureError
from mas.systems.bos.system import BosSystem
from mas.tools.settings import ToolSettings
from tests.servers.orders_api import DOCUMENTATION


def make_system(folder: Path, content: object = DOCUMENTATION, **settings: Any) -> BosSystem:
    path = folder / "docs.json"
    path.write_text(json.dumps(content))
    return BosSystem(api=ApiSettings(documentation=str(path), **settings))


def test_without_documentation_the_agent_is_not_offered(tmp_path: Path) -> None:
    assert BosSystem().find_gaps()["api_docs"] == "no API is configured (system.api.documentation)"
    assert "api_docs" not in make_system(tmp_path).find_gaps()


def test_a_run_has_the_catalogue_and_a_client(tmp_path: Path) -> None:
    with make_system(tmp_path).open_resources(ToolSettings(), print) as resources:
        services = resources.services[API]
        assert isinstance(services, ApiServices)
        assert len(services.catalogue.endpoints) == len(DOCUMENTATION["endpoints"])
        assert not services.client.is_closed
    assert services.client.is_closed


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"timeout_seconds": 0}, "system.api.timeout_seconds=0 must be more than 0"),
        ({"top_k": 0}, "system.api.top_k=0 is too small"),
        ({"max_response_bytes": 0}, "system.api.max_response_bytes=0 is too small"),
        ({"methods": ["FETCH"]}, "system.api.methods names FETCH"),
        ({"base_url": "api.example"}, "system.api.base_url=api.example is no address"),
        ({"identity_url": "http://u:p@x"}, "system.api.identity_url"),
    ],
)
def test_a_wrong_setting_is_refused_before_a_run(tmp_path: Path, settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        make_system(tmp_path, **settings).check()
    make_system(tmp_path).check()


def test_malformed_documentation_is_refused_before_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"docs\.json cannot be used: endpoints: .*at least 1 item"):
        make_system(tmp_path, {"endpoints": []}).check()


def test_the_environments_credentials_are_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOS_API_TOKEN", "environment-token-0123")
    monkeypatch.setenv("FIREBASE_PASSWORD", "environment-password")
    assert {"environment-token-0123", "environment-password"} <= set(make_system(tmp_path).secrets())


def test_the_services_are_made_of_the_settings_and_idle_connections_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[httpx.Limits] = []
    settings = make_system(tmp_path, base_url="https://own.example", token_file=str(tmp_path / "t.json")).api
    client = httpx.AsyncClient()
    monkeypatch.setattr(httpx, "AsyncClient", lambda **given: limits.append(given.pop("limits")) or client)
    with open_api(settings) as services:
        assert (services.settings, services.client) == (settings, client)  # no command: nothing is started
        assert services.catalogue == Catalogue.model_validate(DOCUMENTATION)
        assert services.tokens._file == tmp_path / "t.json"
    assert limits == [httpx.Limits(max_connections=None, max_keepalive_connections=20)]
    assert client.is_closed


def test_an_api_that_is_started_is_asked_at_its_own_address_and_ended_after_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, noted = httpx.AsyncClient(), list[object]()

    @contextmanager
    def run(command: list[str]) -> Iterator[str]:
        noted.append(command)
        yield "http://127.0.0.1:1"
        noted.append(client.is_closed)

    monkeypatch.setattr("mas.systems.bos.api.services.run_api", run)
    monkeypatch.setattr(httpx, "AsyncClient", lambda **given: client)
    settings = make_system(tmp_path, base_url="https://own.example", command=["serve", "it"]).api
    with open_api(settings) as services:
        assert services.settings == replace(settings, base_url="http://127.0.0.1:1", base_url_env="")
    assert noted == [["serve", "it"], True]


def test_documentation_is_needed() -> None:
    with pytest.raises(AgentFailureError, match="cannot be used"), open_api(ApiSettings()):
        pass
