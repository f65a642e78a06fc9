"""Each budget made small in turn: how far a tuning run exceeds it, what it says, how it goes on with a larger one."""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eval.execution.budget import Spend
from eval.runs.store import open_run
from eval.workflows.estimate import AnswerMeans
from tests.command import Finished, read_side, tuning_command
from tests.optimize.tuned import MINI_GEPA, SimulatedServer, over_http, simulated_server

pytestmark = pytest.mark.slow  # whole runs, or whole stores

CONCURRENCY = 8
GOING_ON = re.compile(r"^continue with: python \S*optimize/run\.py resume=\S+$", re.MULTILINE)
LARGE = ("budget.lm_calls=100000", "budget.tokens=100000000", "budget.usd=1000", "budget.seconds=100000")


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with simulated_server(0.005) as server:
        yield server


@dataclass(frozen=True)
class LeftAlone:
    """What the run takes without a budget."""

    verdict: dict[str, Any]
    sent: Counter[bytes]

    @property
    def spend(self) -> Spend:
        return Spend(**self.verdict["spend"])

    def taken(self, option: str) -> float:
        names = {"usd": "cost_usd"}
        return float(getattr(self.spend, names.get(option, option)))


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> LeftAlone:
    with simulated_server() as server:
        run = tuning_command(tmp_path_factory.mktemp("left-alone"), *over_http(server, *MINI_GEPA))
        assert run.code == 0, run.err
        return LeftAlone(run.verdict, server.counted)


def dearest(folder: Path) -> tuple[int, float]:
    """Tokens and US dollars of the dearest question's requests: at least as much as any one request."""
    with closing(sqlite3.connect(folder / "run.db")) as database:
        query = "SELECT max(input_tokens + output_tokens), max(known_cost_usd) FROM payments"
        tokens, usd = database.execute(query).fetchone()
    return int(tokens), float(usd)


@pytest.mark.parametrize(("option", "share"), [("lm_calls", 0.55), ("lm_calls", 0.97), ("tokens", 0.97), ("usd", 0.55)])
def test_a_budget_is_exceeded_by_no_more_than_what_is_in_flight_and_a_larger_one_ends_in_a_verdict(
    option: str, share: float, left_alone: LeftAlone, server: SimulatedServer, tmp_path: Path
) -> None:
    budget = left_alone.taken(option) * share
    given = f"budget.{option}={budget if option == 'usd' else int(budget)}"
    run = tuning_command(tmp_path, *over_http(server, *MINI_GEPA, given))
    spend = read_spend(run.folder)
    tokens, usd = dearest(run.folder)
    beyond = {"lm_calls": 0, "tokens": CONCURRENCY * tokens, "usd": CONCURRENCY * usd}[option]
    assert server.asked == spend.lm_calls == run.paid()
    assert {"lm_calls": spend.lm_calls, "tokens": spend.tokens, "usd": spend.cost_usd}[option] <= budget + beyond
    if run.code == 0:
        assert run.verdict["finish_reason"] in ("not_significant", "improved", "no_accepted_candidate")
        return
    assert run.code == 3 and run.read("verdict") is None
    assert re.search(rf"^stopped: .*budget\.{option}=.*; raise that budget$", run.err, re.MULTILINE), run.err
    assert GOING_ON.search(run.err), run.err
    assert run.sealed_rows() == 0
    assert run.openings() == 0, "no sealed test is counted"
    assert tuning_command(tmp_path, f"resume={run.folder}", *LARGE).code == 0
    assert run.verdict["finish_reason"] in ("not_significant", "no_accepted_candidate")
    assert not server.counted - _at_most(left_alone.sent, server.counted), "nothing was asked twice"


def _at_most(sent: Counter[bytes], now: Counter[bytes]) -> Counter[bytes]:
    """How often each request may have come: as often as without a budget; others than those are of fresh answers."""
    return Counter({body: sent.get(body, 2) for body in now})


def test_a_budget_that_not_even_the_sealed_test_fits_into_is_refused_before_anything_is_asked(
    server: SimulatedServer, tmp_path: Path
) -> None:
    refused = tuning_command(tmp_path, *over_http(server, *MINI_GEPA, "budget.lm_calls=60"))
    assert refused.code == 1 and "budget.lm_calls=60 " in refused.err
    assert server.asked == 0


# ---------------------------------------------------------------- in the sealed test


@pytest.fixture
def stopped_in_the_test(
    left_alone: LeftAlone, server: SimulatedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Finished:
    """A run whose estimate was far too low, so that its budget runs out there."""
    with monkeypatch.context() as patched:
        patched.setattr(AnswerMeans, "estimate_spend", lambda *given: Spend())
        budget = f"budget.lm_calls={left_alone.spend.lm_calls - 40}"
        run = tuning_command(tmp_path, *over_http(server, *MINI_GEPA, budget))
    assert run.code == 3, run.err
    return run


def test_a_budget_that_runs_out_in_the_sealed_test_scores_nothing_wrong_and_goes_on_there(
    left_alone: LeftAlone, stopped_in_the_test: Finished, server: SimulatedServer, tmp_path: Path
) -> None:
    run = stopped_in_the_test
    budget = left_alone.spend.lm_calls - 40
    assert server.asked == budget
    assert run.read("verdict") is None
    used = f"the run has used its {budget} requests (budget.lm_calls={budget})"
    assert f"stopped: {used}, in the middle of the sealed test; raise that budget\n" in run.err
    assert GOING_ON.search(run.err)
    rows = run.sealed_rows()
    assert 0 < rows < 32
    assert errors(run.folder) == []
    # A budget for the rest of the test is enough, if not for a whole one.
    enough = f"budget.lm_calls={left_alone.spend.lm_calls + 40}"
    assert tuning_command(tmp_path, f"resume={run.folder}", enough).code == 0
    assert run.sealed_rows() == 32
    assert errors(run.folder) == []
    assert server.counted == left_alone.sent
    for name in ("finish_reason", "gain", "p", "winner", "baseline", "reasons"):
        assert run.verdict[name] == left_alone.verdict[name]
    assert run.verdict["sealed"]["opened_before"] == 0
    assert run.openings() == 1


def read_spend(folder: Path) -> Spend:
    with open_run(folder) as store:
        return Spend(**store.read_state().spend)  # type: ignore[arg-type]


def errors(folder: Path) -> list[str | None]:
    """Classes of the errors among the sealed test's answers."""
    found = [each.error_class for side in ("parent", "winner") for each in read_side(folder, side)]
    return [each for each in found if each not in (None, "malformed")]
