"""Settings of the whole system."""

from datetime import UTC, datetime

import pytest

from mas.agents.spec import ModelSettings
from mas.runtime.errors import UserError
from mas.systems.bos.contracts import read_clock
from mas.systems.bos.system import BosSystem
from mas.tools.settings import Resources


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


def test_models_of_agents_that_there_are_not_are_refused() -> None:
    with pytest.raises(UserError, match=r"^system\.agents"):
        BosSystem(agents={"nobody": ModelSettings()}).check()
