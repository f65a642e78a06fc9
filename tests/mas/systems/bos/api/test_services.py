"""The API-docs agent in the system: offered if it is documented, checked before a run, its services open in a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.settings import ApiSettings
from mas.systems.bos.system import BosSystem
from tests.servers.orders_api import DOCUMENTATION


def make_system(folder: Path, content: object = DOCUMENTATION, **settings: Any) -> BosSystem:
    path = folder / "docs.json"
    path.write_text(json.dumps(content))
    return BosSystem(api=ApiSettings(documentation=str(path), **settings))


def test_without_documentation_the_agent_is_not_offered(tmp_path: Path) -> None:
    assert BosSystem().find_gaps()["api_docs"] == "no API is configured (system.api.documentation)"
    assert "api_docs" not in make_system(tmp_path).find_gaps()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"timeout_seconds": 0}, "system.api.timeout_seconds=0 cannot be used; expected more than 0"),
        ({"top_k": 0}, "system.api.top_k=0 cannot be used; expected 1 or more"),
        ({"methods": ["FETCH"]}, "system.api.methods names FETCH"),
        ({"base_url": "api.example"}, "system.api.base_url=api.example cannot be used; expected an address"),
        ({"base_url": "http://u:p@x"}, "system.api.base_url=.* cannot be used; expected an address"),
    ],
)
def test_a_wrong_setting_is_refused_before_a_run(tmp_path: Path, settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        make_system(tmp_path, **settings).check()
    make_system(tmp_path).check()


def test_the_environments_credentials_are_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOS_API_TOKEN", "environment-token-0123")
    monkeypatch.setenv("FIREBASE_PASSWORD", "environment-password")
    assert {"environment-token-0123", "environment-password"} <= set(make_system(tmp_path).secrets())
