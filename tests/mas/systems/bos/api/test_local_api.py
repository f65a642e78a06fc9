"""An API that is started for the time of a run."""

import sys
from pathlib import Path

import httpx
import pytest

from mas.runtime.errors import UserError
from mas.systems.bos.api import services as module
from mas.systems.bos.api.catalogue import find_base_url
from mas.systems.bos.api.services import open_api, run_api
from mas.systems.bos.settings import ApiSettings
from tests.patience import PATIENCE_SECONDS

SHOP_API = ["python", "-m", "eval.benchmarks.databases.shop_api"]
DOCUMENTATION = Path(__file__).parents[5] / "eval" / "benchmarks" / "databases" / "shop" / "api_docs_context.yaml"


def test_the_sample_api_runs_as_long_as_it_is_needed_and_counts_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BOS_API_BASE_URL", "https://api.example.org")
    with open_api(ApiSettings(documentation=str(DOCUMENTATION), command=SHOP_API)) as services:
        address = services.settings.base_url
        assert address is not None and address.startswith("http://127.0.0.1:")
        assert find_base_url({}, services.settings, services.catalogue)[0] == address
        assert httpx.get(f"{address}/rates/nok").json() == {"currency": "NOK", "per_euro": 11.52}
        assert httpx.get(f"{address}/reports/margin").status_code == 500
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/rates/nok")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["no-such-program"], "cannot be started"),
        ([sys.executable, "-c", "print('ready')"], "expected an address"),
        ([sys.executable, "-c", "print('http://api.example.org')"], "expected an address of this machine"),
        ([sys.executable, "-c", ""], "expected an address"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "expected an address"),
    ],
)
def test_a_command_that_serves_nothing_is_the_users_mistake(
    command: list[str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.5 if "sleep" in command[-1] else PATIENCE_SECONDS)
    with pytest.raises(UserError, match=reason), run_api(command):
        pass


def test_a_started_api_sees_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOS_API_TOKEN", "s3cret")
    code = "import os; print('http://127.0.0.1:1/' + os.environ.get('BOS_API_TOKEN', 'none'), flush=True)"
    with run_api([sys.executable, "-c", code]) as address:
        assert address == "http://127.0.0.1:1/none"
