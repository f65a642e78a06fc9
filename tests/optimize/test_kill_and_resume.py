"""Nothing is paid for twice: tuning runs under `kill -9` come to the verdict of one that is left alone."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.command import copy_run
from tests.optimize.killed_runs import CONCURRENCY, check_killed_run, compare_killed, requests_by_phase
from tests.optimize.tuned import MINI, Moment, SimulatedServer, TunedRun, over_http, simulated_server

pytestmark = pytest.mark.slow  # whole runs, in processes of their own

PUBLISHES = ("data.n_train=16", "data.n_val=16", "budget.metric_calls=240", "seed=7")
TESTS_IN_VAIN = ("seed=3",)

NewRun = Callable[..., TunedRun]


@pytest.fixture(scope="module")
def server() -> Iterator[SimulatedServer]:
    with simulated_server(0.02) as server:
        yield server


@pytest.fixture
def new_run(tmp_path: Path, server: SimulatedServer) -> NewRun:
    def made(name: str, *options: str) -> TunedRun:
        return TunedRun(tmp_path / name / "run", over_http(server, f"run.concurrency={CONCURRENCY}", *options), server)

    return made


def test_two_kills_cost_no_more_than_what_was_in_flight(new_run: NewRun, server: SimulatedServer) -> None:
    left_alone = new_run("left-alone", *TESTS_IN_VAIN)
    began = requests_by_phase(left_alone, server)
    assert left_alone.openings() == 1
    sent = dict(server.counted)
    run = new_run("killed", *TESTS_IN_VAIN)
    server.counted.clear()
    for phase, others in (("search", "shortlist"), ("sealed", None)):
        end = began[others] if others else sum(sent.values())
        assert run.session(Moment(requests=(began[phase] + end) // 2)) is None
        assert run.phase == phase
        assert run.proposals, "the best so far is kept"
    assert 0 < run.sealed_rows() < 60
    assert run.session() == 0, run.printed[-1]
    check_killed_run(run, 2, left_alone, sent)
    assert run.verdict["finish_reason"] == "not_significant"


def test_kills_cost_no_more_than_what_was_in_flight_with_halving(new_run: NewRun, server: SimulatedServer) -> None:
    """Ten kills of each optimizer: `python -m tests.bench.kills 10 tuning`."""
    options = (*MINI, "optimizer=halving", "seed=5")
    left_alone = new_run("left-alone", *options)
    began = requests_by_phase(left_alone, server)
    compared = compare_killed(left_alone, new_run("killed", *options), began, kills=2, seed=3)
    assert compared.repeated <= 2 * CONCURRENCY + 2


# ---------------------------------------------------------------- at awkward places

PUBLISHING = (
    "after optimize.publishing.publish _move",
    "after optimize.pipeline.tuning publish",
)


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TunedRun]:
    """A run that was killed after its sealed test, and is about to publish."""
    with simulated_server() as server:
        asked = over_http(server, f"run.concurrency={CONCURRENCY}", *PUBLISHES)
        run = TunedRun(tmp_path_factory.mktemp("tested") / "run", asked, server)
        assert run.session(dies="before optimize.pipeline.sealed_test judge") is None
        assert run.sealed_rows() == 2 * run.read("looks")[-1]["n_questions"]
        yield run


@pytest.mark.parametrize("dies", PUBLISHING)
def test_a_kill_while_publishing_leaves_the_whole_set_or_none_and_is_made_good(
    dies: str, tested: TunedRun, tmp_path: Path
) -> None:
    run = TunedRun(copy_run(tested, tmp_path / "copy").folder, tested.options, tested.server)
    sent = run.server.asked
    assert run.session(dies=dies) is None
    assert run.read("verdict") is None
    assert (run.shelf / "w").exists() is dies.startswith("after")
    before = {path: path.stat().st_mtime_ns for path in run.shelf.glob("w/*")}
    assert run.session() == 0, run.printed[-1]
    assert run.server.asked == sent, "nothing was left to be asked"
    assert run.verdict["published"]
    assert run.verdict["spend"]["lm_calls"] == run.paid() == tested.paid()
    assert {path: path.stat().st_mtime_ns for path in run.shelf.glob("w/*")}.items() >= before.items()
    assert (run.shelf / "w" / "provenance.yaml").is_file()
    assert run.session() == 0
    assert "published: " in run.printed[-1]


def test_a_sealed_test_that_is_complete_comes_to_its_verdict_although_it_took_more_than_the_budget(
    tested: TunedRun, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tested.folder / "run.db")) as database:
        (usd,) = database.execute("SELECT total(known_cost_usd) FROM payments").fetchone()
    run = TunedRun(copy_run(tested, tmp_path / "copy").folder, tested.options, tested.server)
    # As if the requests in flight at its end had cost more than was expected.
    assert run.session(None, f"budget.usd={0.999 * usd}") == 0, run.printed[-1]
    assert run.verdict["published"]
