"""Runs against a real MLflow server with accounts on a real PostgreSQL, and against the local store in SQLite.

What MLflow has is read back through its public client and compared with the run's own store; the server is killed, its
disk fills up, its database is locked.
"""

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from eval.config.tracking import LocalTracking
from tests.eval.command_line import Finished
from tests.mlflow_runs import CopyInMlflow, counts_in_store, many_questions, model, records_in_store, sync, texts
from tests.patience import PATIENCE_SECONDS
from tests.process import finish, started
from tests.servers.mlflow_server import MlflowServer, running_mlflow
from tests.servers.postgres import RunningPostgres, running_postgres, why_not
from tests.test_secrets_stay_secret import list_in_text, list_leaks, run_with_secrets

QUESTIONS = 32
SPANS = 23  # of a question: eight LM calls, and three more for the researcher's second to fourth tool call
TOOL_CALLS = 4
LATENCY_SECONDS = 0.05
ALWAYS_READ_BACK = 20  # characters: shorter texts in an LM's messages say what a part of them is

PATIENT = ("tracking=server", f"++tracking.wait_seconds={PATIENCE_SECONDS}")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def postgres() -> Iterator[RunningPostgres]:
    if reason := why_not():
        pytest.skip(reason)
    with running_postgres() as running:
        yield running


@pytest.fixture(scope="module")
def server(postgres: RunningPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    accounts = postgres.new_database("accounts")
    with running_mlflow(tmp_path_factory.mktemp("server"), postgres.new_database("mlflow"), accounts) as running:
        yield running


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What MLflow's client in this process needs; undone, as what the code sets is."""
    for name, value in LocalTracking().environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")


@pytest.fixture
def as_user(server: MlflowServer, environment: None, monkeypatch: pytest.MonkeyPatch) -> MlflowServer:
    """This process and all commands it starts have the server's address and an account there."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@contextmanager
def llm(latency_seconds: float = LATENCY_SECONDS) -> Iterator[str]:
    script = Path(__file__).parent / "servers" / "fixed_llm.py"
    options = ("--port", "0", "--latency-seconds", str(latency_seconds), "--tool-calls", str(TOOL_CALLS))
    with subprocess.Popen([sys.executable, str(script), *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def check_complete(finished: Finished) -> None:
    """The run is right in itself, and MLflow has all of it: counted, and ten spans read."""
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0), finished.err
    copy = CopyInMlflow.of(finished.folder)
    assert copy.counts == counts_in_store(finished.folder)
    assert copy.status == "FINISHED"
    assert copy.metrics["accuracy"] == finished.summary["accuracy"]
    assert copy.metrics["lm_calls"] == finished.summary["usage"]["lm_calls"]
    check_spans(copy, finished.folder)


def check_spans(copy: CopyInMlflow, folder: Path) -> None:
    """Ten random ones: what was asked, what was answered, tokens, times."""
    draw = random.Random(str(folder))
    for record in draw.sample(records_in_store(folder), 10):
        place = draw.choice([n for n, each in enumerate(record.trajectory) if each["kind"] != "orchestrator"])
        step, span = record.trajectory[place], copy.span_of(record, place)
        is_lm = step["kind"] == "lm"
        assert span.name == ("question" if place == 0 else step["name"].rpartition("/")[2])
        assert (span.end_time_ns - span.start_time_ns) / 1e9 == pytest.approx(
            step["end_seconds"] - step["start_seconds"], abs=1e-6
        )
        wanted = {
            text
            for text in texts([step.get("inputs") or {}, step.get("outputs") or {}])
            if len(text) >= ALWAYS_READ_BACK or not is_lm
        }
        assert wanted <= texts([span.inputs or {}, span.outputs or {}])
        if is_lm:
            assert span.attributes["mlflow.chat.tokenUsage"]["input_tokens"] == step["attributes"]["input_tokens"]


def two_at_once(folder: Path, options: Sequence[str]) -> list[Finished]:
    questions = many_questions(folder / "questions", QUESTIONS)
    with llm() as url:
        given = [*model(url), *questions, *options, f"run.concurrency={QUESTIONS}"]
        with started(folder / "one", *given) as one, started(folder / "two", *given) as two:
            return [one.end(), two.end()]


def test_two_runs_at_once_arrive_whole_on_the_server(as_user: MlflowServer, tmp_path: Path) -> None:
    for finished in two_at_once(tmp_path, [*PATIENT, "tracking.experiment=two at once"]):
        check_complete(finished)
        assert counts_in_store(finished.folder)[1] == QUESTIONS * SPANS


def test_the_server_lets_nobody_in_without_an_account(as_user: MlflowServer, tmp_path: Path) -> None:
    path = "/api/2.0/mlflow/experiments/get?experiment_id=0"
    assert (as_user.status_of(path), as_user.status_of(path, signed_in=False)) == (200, 401)
    with llm() as url:
        stranger = {"MLFLOW_TRACKING_PASSWORD": "not-the-password"}
        options = [*many_questions(tmp_path / "questions", 2), "tracking=server", "++tracking.wait_seconds=5"]
        finished = finish(tmp_path / "run", *model(url), *options, environment=stranger)
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0)
    assert "not written to MLflow" in finished.err or "eval/sync.py" in finished.err


def test_a_server_killed_and_restarted_in_mid_run_costs_nothing(
    as_user: MlflowServer, postgres: RunningPostgres, tmp_path: Path
) -> None:
    options = [*PATIENT, "tracking.experiment=killed", "run.concurrency=8"]
    with llm(latency_seconds=0.3) as url:
        questions = many_questions(tmp_path / "questions", QUESTIONS)
        with started(tmp_path / "run", *model(url), *questions, *options) as running:
            assert running.wait_until(lambda: count_records(running.folder) >= 8)
            as_user.kill()
            assert running.wait_until(lambda: count_records(running.folder) >= 16)
            as_user.start()
            finished = running.end()
    check_sync_completes(finished)
    before = postgres.dump("mlflow")
    second = sync(finished.folder)
    assert (second.code, "nothing new" in second.out) == (0, True), second.err
    assert sort_dump(postgres.dump("mlflow")) == sort_dump(before)


def check_sync_completes(finished: Finished) -> None:
    """The run's own numbers are as ever; whatever MLflow lacks comes with the sync."""
    assert (finished.code, finished.summary["accuracy"], finished.summary["n_error"]) == (0, 1.0, 0), finished.err
    first = sync(finished.folder)
    assert first.code == 0, first.err
    check_complete(finished)


def count_records(folder: Path) -> int:
    copies = folder / "records.jsonl"
    return copies.read_bytes().count(b"\n") if copies.exists() else 0


def sort_dump(dump: str) -> list[str]:
    """Without the key that pg_dump marks each dump with."""
    return sorted(line for line in dump.splitlines() if "restrict " not in line)


def test_no_secret_of_a_run_is_left_on_the_server_or_in_its_database(
    as_user: MlflowServer, postgres: RunningPostgres, tmp_path: Path
) -> None:
    printed = run_with_secrets(tmp_path, *PATIENT)
    dumps = postgres.dump("mlflow") + postgres.dump("accounts")
    assert not list_in_text(printed)
    assert "***" in dumps, "the run has arrived, and what its model repeated was taken out"
    assert not list_in_text(dumps)
    assert list_leaks(tmp_path) + list_leaks(as_user.folder) == []
