"""Settings of the whole system."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from mas.agents.spec import ModelSettings
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleLimits
from mas.system import Service, ServiceOptions
from mas.systems.bos.agents import API, SQL
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.serving.settings import ServiceSettings
from mas.systems.bos.system import BosSystem
from mas.systems.bos.temporal import read_clock
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources


def test_the_time_in_all_requests_can_be_fixed() -> None:
    def clock(current_time: str | None) -> object:
        return BosSystem(current_time=current_time).make_program({}, Resources()).shared.clock  # type: ignore[attr-defined]

    assert clock(None) is read_clock
    for given in ("2026-11-22T09:30:00+00:00", "2026-11-22T10:30:00+01:00", "2026-11-22T09:30:00Z"):
        fixed = clock(given)
        assert callable(fixed) and fixed() == datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
        assert fixed().isoformat().endswith("+00:00"), "the context is said to be in UTC"


@pytest.mark.parametrize("current_time", ["", "noon", "2026-11-22T09:30:00", "2026-11-22"])
def test_a_time_that_means_no_moment_is_refused(current_time: str) -> None:
    with pytest.raises(UserError, match=f"^system.current_time={current_time} is not a time with a UTC offset"):
        BosSystem(current_time=current_time).check()


def test_the_settings_without_a_configuration_are_the_careful_ones() -> None:
    system = BosSystem()
    assert (system.name, system.default_prompts, system.execution) == ("bos", "bos_baseline", "sequential")
    assert (system.share_results, system.current_time, system.needs_model) == (False, None, True)


def test_a_service_is_served_with_the_settings_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = SimpleNamespace(begin_shutdown=object())
    make = Mock(return_value=("application", desk))
    monkeypatch.setattr("mas.systems.bos.serving.application.make_application", make)
    settings = ServiceSettings(host="::1", port=0, max_requests=7, drain_seconds=2.5)
    options = ServiceOptions(SampleLimits(lm_calls=3), str.upper, print)
    program: Any = object()
    served = BosSystem(service=settings).serve_application(program, options)
    make.assert_called_once_with(program, settings, options.limits, str.upper, print)
    assert served == Service("application", "::1", 0, 114, 2.5, desk.begin_shutdown)  # type: ignore[arg-type]


def test_a_service_needs_its_packages_and_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("fastapi", "uvicorn"):
        with monkeypatch.context() as patched:
            patched.setattr("mas.systems.bos.system.find_spec", lambda name, gone=missing: None if name == gone else 1)
            with pytest.raises(UserError) as caught:
                BosSystem().check_service()
        assert str(caught.value) == (
            f"The package {missing} is missing; install the extra: pip install -e '.[service]'."
        )
    monkeypatch.delenv("BOS_SERVICE_TOKEN", raising=False)
    BosSystem().check_service()
    with pytest.raises(UserError, match="BOS_SERVICE_TOKEN"):
        BosSystem(service=ServiceSettings(host="0.0.0.0")).check_service()


def test_secrets_are_those_of_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOS_API_TOKEN", "FIREBASE_WEB_API_KEY", "FIREBASE_EMAIL", "FIREBASE_PASSWORD", "BOS_SERVICE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert list(BosSystem().secrets()) == []
    api, sql, service = Mock(), Mock(), Mock(token="of the service")
    api.list_secrets.return_value, sql.list_secrets.return_value = ["of the API"], ["of a database"]
    system = BosSystem(api=api, sql=sql, service=service)
    assert list(system.secrets()) == ["of the API", "of a database", "of the service"]


@pytest.mark.parametrize("part", ["planner", "computation", "api", "sql", "service"])
def test_every_part_of_the_settings_is_checked(part: str) -> None:
    wrong = Mock(documentation=None)
    wrong.check.side_effect = UserError(f"{part} is wrong")
    with pytest.raises(UserError, match=f"^{part} is wrong$"):
        BosSystem(**{part: wrong}).check()


def test_models_of_agents_that_there_are_not_are_refused() -> None:
    with pytest.raises(UserError, match=r"^system\.agents"):
        BosSystem(agents={"nobody": ModelSettings()}).check()


@pytest.mark.parametrize("execution", ["sequential", "parallel"])
def test_both_ways_to_execute_agents_are_known(execution: str) -> None:
    BosSystem(execution=execution).check()


def test_documentation_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    place = tmp_path / "none.yaml"
    with pytest.raises(UserError) as caught:
        BosSystem(api=ApiSettings(documentation=str(place))).check()
    assert str(caught.value).startswith(f"system.api.documentation={place}: ") and str(caught.value).endswith(".")


def test_what_is_configured_is_open_as_long_as_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    def opening(name: str) -> Any:
        @contextmanager
        def opened(settings: object) -> Iterator[object]:
            log.append(f"open {name} {settings}")
            yield name
            log.append(f"close {name}")

        return opened

    monkeypatch.setattr("mas.systems.bos.api.services.open_api", opening("the API"))
    monkeypatch.setattr("mas.systems.bos.sql.session.open_sql_session", opening("the session"))
    api, sql = MagicMock(documentation="docs.yaml"), MagicMock()
    api.__str__.return_value, sql.__str__.return_value = "of api", "of sql"
    sql.list_databases.return_value = {"shop": 1}
    settings = ToolSettings()
    with BosSystem(api=api, sql=sql).open_resources(settings, log.append) as resources:
        assert resources == Resources(settings, {API: "the API", SQL: "the session"})
    assert log == [
        "open the API of api", "open the session of sql", "close the session", "close the API",
    ]  # fmt: skip
    with BosSystem().open_resources(settings, log.append) as resources:
        assert resources == Resources(settings, {})
    assert len(log) == 4


def test_an_agent_that_is_not_in_the_registry_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mas.systems.bos.system.REGISTRY", {})
    assert BosSystem().find_gaps() == dict.fromkeys(("api_docs", "sql", "computation"), "this version does not have it")
