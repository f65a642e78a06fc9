"""Retries without the wait between them, which the tests of the client are about."""

import pytest

from mas.tools.http import client


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_SECONDS", 0.01)
