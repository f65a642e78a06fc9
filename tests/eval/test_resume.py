"""`run.resume`: exactly what is missing, under the same configuration, and nothing heavy for a run that is complete."""

import json
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_dataset_digest
from eval.cli.command import add_original_arguments
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.config.measured import RESUME
from eval.execution.console import KeptOutput
from eval.execution.run_session import Session, SessionRequest, open_session
from eval.runs.own_runs import note_run
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore, list_pending
from eval.workflows.resume import check_unchanged, read_original_arguments
from mas.runtime.errors import UserError
from mas.runtime.sample_context import Payment, SampleKey
from tests.eval.command_line import CONTACT, NO_BROWSER, EvalCommand, dataset, question
from tests.eval.obedient_agent import AGENT, told
from tests.process import finish, started
from tests.servers.faults import fault_server


@pytest.fixture
def interrupted(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run whose store knows a command line and nothing else."""
    with RunStore(tmp_path / "old" / "run.db") as store:
        command = ["model=offline", "limit=3", "+x.y=1", "run.epochs=2", "~a.b"]
        store.write_info(RunInfo(run_id="old", command=command))
    note_run("old", tmp_path / "old", command)
    yield tmp_path / "old"


def add_original(arguments: list[str]) -> list[str]:
    return add_original_arguments(arguments, RESUME, read_original_arguments)


def test_a_resumed_run_is_given_its_own_command_line_first(interrupted: Path) -> None:
    resume = f"run.resume={interrupted}"
    original = ["model=offline", "limit=3", "+x.y=1", "run.epochs=2", "~a.b"]
    assert add_original([resume]) == [*original, resume]
    assert add_original(["--cfg", "job", resume]) == ["--cfg", "job", *original, resume]
    given = ["limit=5", resume, "++x.y=2", "run.epochs=3", "+a.b=1"]
    assert add_original(given) == ["limit=5", "model=offline", *given[1:]]
    assert add_original([f"+run.resume='{interrupted}'"])[0] == "model=offline"


@pytest.mark.parametrize("arguments", [[], ["limit=3"], ["run.resume=null"], ["-h"], ["-m", "a=1,2"]])
def test_other_command_lines_stay_as_they_are(arguments: list[str]) -> None:
    assert add_original(arguments) == arguments


def test_the_run_to_go_on_with_may_be_named_by_another_key() -> None:
    def add(*arguments: str) -> list[str]:
        return add_original_arguments(arguments, "resume", lambda run, given: [f"name={run}", "b=1", "~d"])

    assert add("a=1", "resume=old", "b=2") == ["a=1", "name=old", "~d", "resume=old", "b=2"]
    for other in (["a=1", "run.resume=old"], ["resume=", "resume.x=1"]):
        assert add(*other) == other
    with pytest.raises(UserError, match="resume is given 2 times"):
        add("resume=a", "+resume=b")
    with pytest.raises(UserError, match="resume goes on with one run; leave --multirun out"):
        add("-m", "resume=a")


def test_another_executor_takes_no_options_of_the_earlier_one() -> None:
    earlier = ["limit=3", "executor=ray", "executor.workers=2", "tracking.uri=http://a"]
    added = add_original_arguments(["run.resume=old", "executor=local"], RESUME, lambda run, given: earlier)
    assert added == ["limit=3", "tracking.uri=http://a", "run.resume=old", "executor=local"]


def test_what_cannot_be_resumed_is_said(interrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leave --multirun out"):
        add_original(["-m", f"run.resume={interrupted}"])
    with pytest.raises(UserError, match=r"run\.resume is given 2 times"):
        add_original([f"run.resume={interrupted}", "limit=3", "+run.resume=another"])
    with pytest.raises(UserError, match="nope is no run"):
        add_original(["run.resume=nope"])
    RunStore(tmp_path / "empty" / "run.db").close()
    with pytest.raises(UserError, match="ended before it began"):
        add_original([f"run.resume={tmp_path / 'empty'}"])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(b"no database at all, but long enough to look like one" * 40)
    with pytest.raises(UserError, match="is damaged"):
        add_original([f"run.resume={tmp_path / 'broken'}"])


def test_what_is_left_comes_epoch_by_epoch() -> None:
    done: dict[tuple[str, int], tuple[int, str | None]] = {
        ("a", 1): (1, None), ("b", 1): (1, "infrastructure"), ("c", 1): (1, "internal"), ("a", 2): (3, "quota_or_key"),
    }  # fmt: skip
    ids = ["a", "b", "c"]
    assert list_pending(ids, 2, done, retry_errors=False) == [
        SampleKey("a", 2, 4),
        SampleKey("b", 2),
        SampleKey("c", 2),
    ]
    assert list_pending(ids, 1, done, retry_errors=True) == [SampleKey("b", 1, 2)]
    assert list_pending(ids, 1, {}, retry_errors=True) == [SampleKey("a"), SampleKey("b"), SampleKey("c")]


def test_the_digest_of_a_dataset_is_of_all_that_matters_in_it(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("1")
    (tmp_path / "g.csv").write_text("1")
    base = Sample("a", "a?", tmp_path / "f.csv", target="1")
    other = Sample("b", "lone \udc80?", target="1")
    digest = compute_dataset_digest([base, other])
    assert digest == compute_dataset_digest([Sample("a", "a?", tmp_path / "g.csv", target="1"), other])
    others = [
        [base],
        [other, base],
        [Sample("a", "b?", base.file, target="1"), other],
        [Sample("a", "a?", base.file, target="2"), other],
        [Sample("a", "a?", target="1"), other],
    ]
    for changed in others:
        assert compute_dataset_digest(changed) != digest
    (tmp_path / "f.csv").write_text("2")
    assert compute_dataset_digest([base, other]) != digest


def record_of(id: str) -> Record:
    return Record("r", id, 1, 1, "t", f"{id}?", None, None, "1", answer="1", score=1.0)


@contextmanager
def session(folder: Path, info: RunInfo, **changes: str) -> Iterator[Session]:
    composed = compose_config(["system=toy", "data=toy", "model=offline", f"run.dir={folder}"])
    config, resumed = read_config(composed), folder if folder.exists() else None
    asked = SessionRequest(config=config, prompts=config.check(), resumed=resumed)
    with open_session(asked, KeptOutput(progress=False)) as opened:
        opened.begin(info, changes=changes)
        yield opened


def test_the_time_of_sessions_adds_up_also_of_one_that_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with session(folder, RunInfo()) as first:
        time.sleep(0.05)
        first.end("interrupted")
        after_first = first.store.read_state().wall_seconds
    with session(folder, RunInfo()) as killed:  # after its first answer
        time.sleep(0.05)
        killed.store.write(record_of("a"))
    with session(folder, RunInfo(), limit="1 → 2") as last:
        last.end(None)
        info, state = last.store.read_info(), last.store.read_state()
    sessions = state.sessions
    assert after_first >= 0.05
    assert after_first + 0.05 <= state.wall_seconds < after_first + 5
    assert [each.stopped for each in sessions] == ["interrupted", "its process ended without notice", None]
    assert all(each.ended_at for each in sessions)
    assert sessions[2].changes == {"limit": "1 → 2"}
    assert info.started_at == sessions[0].started_at
    assert state.finished


def test_payments_of_a_run_from_elsewhere_that_are_none_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with session(tmp_path / "run", RunInfo()) as killed:
        killed.call_log.pay(SampleKey("a"), Payment(1, 0, 1, cost_usd=0.1))
    theirs = (tmp_path / "run").rename(tmp_path / "theirs")
    with closing(sqlite3.connect(theirs / "run.db")) as database, database:
        database.execute("UPDATE payments SET known_cost_usd = 1, lm_calls = 9e999")
    refused = pytest.raises(UserError, match="made elsewhere, or moved since, and cannot be read")
    with refused, session(theirs, RunInfo()):
        pass


def keys(folder: Path) -> list[tuple[str, int, int]]:
    with RunStore(folder / "run.db", read_only=True) as store:
        return [(record.sample_id, record.epoch, record.attempt) for record in store.records()]


@pytest.fixture
def half(eval_command: EvalCommand, tmp_path: Path) -> Path:
    """A run of two epochs that stopped in the first of them, at its second question."""
    rows = told("a", "sleep 0 say 7"), told("b", "sleep 0 fail once"), told("c", "sleep 0 say 8")
    data = dataset(tmp_path / "data", *rows)
    finished = eval_command(*AGENT, *data, "run.concurrency=1", "run.epochs=2", "run.max_errors=1")
    assert finished.code == 3
    assert finished.out.splitlines()[-1] == f"continue with: python eval/run.py run.resume={finished.folder}"
    assert keys(finished.folder) == [("a", 1, 1), ("b", 1, 1)]
    return finished.folder


def summary(folder: Path) -> Any:
    return json.loads((folder / "summary.json").read_text("utf-8"))


def test_resuming_runs_exactly_what_is_missing(eval_command: EvalCommand, half: Path) -> None:
    before = summary(half)
    finished = eval_command(f"run.resume={half}", "run.max_errors=null")
    assert (finished.code, finished.err) == (2, "")
    assert not finished.folder.exists(), "it goes on in its own folder"
    assert keys(half) == [("a", 1, 1), ("b", 1, 1), ("c", 1, 1), ("a", 2, 1), ("b", 2, 1), ("c", 2, 1)]
    after = summary(half)
    assert (after["run_id"], after["stopped"], after["n"], after["n_error"]) == (before["run_id"], None, 6, 1)
    assert after["wall_seconds"] > before["wall_seconds"]
    assert [session["stopped"] is None for session in after["sessions"]] == [False, True]
    answers = [json.loads(line) for line in (half / "answers.jsonl").read_text().splitlines()]
    assert [answer["task_id"] for answer in answers] == ["a", "a", "b", "b", "c", "c"]


def test_a_complete_run_is_shown_again(eval_command: EvalCommand, half: Path) -> None:
    eval_command(f"run.resume={half}", "run.max_errors=null")
    written = (half / "run.db").stat().st_mtime_ns
    again = eval_command(f"run.resume={half}", "run.concurrency=9")  # it changes no answer
    assert (again.code, again.err) == (2, "")
    assert "nothing is left to run" in again.out and "accuracy" in again.out
    assert (half / "run.db").stat().st_mtime_ns == written
    assert len(summary(half)["sessions"]) == 2


def test_another_configuration_is_refused_unless_it_is_wanted(
    eval_command: EvalCommand, half: Path, tmp_path: Path
) -> None:
    refused = eval_command(f"run.resume={half}", "run.deadline_seconds=5", "scorer=exact")
    assert (refused.code, refused.out) == (1, "")
    assert "run.deadline_seconds: 900 → 5" in refused.err and "scorer._target_: " in refused.err
    assert "run.allow_config_change=true" in refused.err
    assert len(keys(half)) == 2
    allowed = eval_command(f"run.resume={half}", "run.deadline_seconds=5", "run.allow_config_change=true")
    assert (allowed.code, len(keys(half))) == (2, 6)
    assert summary(half)["sessions"][1]["changes"] == {"run.deadline_seconds": "900 → 5"}
    assert eval_command(f"run.resume={half}").code == 2, "the change is the run's own from now on"


def test_the_source_of_a_system_of_the_harness_is_compared() -> None:
    config = {"system": {"name": "toy"}}
    before, now = (RunInfo(system="toy", config=config, program_sha256=each * 64) for each in "ab")
    assert check_unchanged(before, config, before, allow=False) == {}
    with pytest.raises(UserError, match=r"source of system=toy: a{12} → b{12}\); start a new run"):
        check_unchanged(before, config, now, allow=False)
    assert check_unchanged(before, config, now, allow=True) == {"source of system=toy": f"{'a' * 12} → {'b' * 12}"}
    assert check_unchanged(RunInfo(system="toy", config=config), config, now, allow=False) == {}, "it was not recorded"


def test_other_prompts_are_refused_whatever_else_may_change() -> None:
    before, now = (RunInfo(prompts_sha256=each * 64) for each in "ab")
    with pytest.raises(UserError, match=r"prompts_sha256: a{12} → b{12}\); start a new run\."):
        check_unchanged(before, {}, now, allow=True)


def test_what_a_smaller_plan_leaves_out_is_paid_for_and_nothing_else(eval_command: EvalCommand, half: Path) -> None:
    eval_command(f"run.resume={half}", "run.max_errors=null")
    assert summary(half)["accuracy"] == pytest.approx(2 / 6), "a in both epochs"
    smaller = eval_command(f"run.resume={half}", "run.epochs=1", "limit=1", "run.allow_config_change=true")
    assert (smaller.code, smaller.err) == (0, "")
    after = summary(half)
    assert (after["n"], after["n_questions"], after["epochs"]) == (1, 1, 1)
    assert (after["accuracy"], after["by_epochs"], after["n_error"]) == (1.0, None, 0)
    answers = [json.loads(line) for line in (half / "answers.jsonl").read_text().splitlines()]
    assert [answer["task_id"] for answer in answers] == ["a"]
    assert len(keys(half)) == 6


def test_changed_data_and_prompts_are_seen(eval_command: EvalCommand, half: Path, tmp_path: Path) -> None:
    dataset(tmp_path / "data", told("a", "sleep 0 say 7"), told("b", "sleep 0 say 9"), told("d", "sleep 0 say 7"))
    refused = eval_command(f"run.resume={half}")
    assert refused.code == 1 and "dataset_sha256: " in refused.err
    assert eval_command(f"run.resume={half}", "run.allow_config_change=true").code == 2
    assert {id for id, _, _ in keys(half)} == {"a", "b", "d"}


@pytest.mark.slow
def test_two_processes_do_not_run_one_run(eval_command: EvalCommand, half: Path) -> None:
    with RunStore(half / "run.db"):
        refused = eval_command(f"run.resume={half}")
    assert refused.code == 1
    assert "in use by another process" in refused.err


@pytest.mark.slow
def test_a_run_that_another_process_has_made_meanwhile_is_not_mixed_with_a_new_one(
    eval_command: EvalCommand, half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.workflows.evaluate.check_free", lambda folder: None)  # before that process had begun
    before = (half / "run.jsonl").read_bytes()
    refused = eval_command(f"run.dir={half}", "experiment=offline", "limit=1", "tracking=off")
    assert refused.code == 1
    assert "already holds a run; resume it with run.resume=" in refused.err
    assert (half / "run.jsonl").read_bytes() == before


def test_infrastructure_errors_are_run_again_if_wanted(eval_command: EvalCommand, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", question("a", "What is 6 * 7?", "42"))
    model = ["system=toy", "model=openai_compatible", "model.num_retries=0"]
    with fault_server({"every": 1, "fault": "500"}) as server:
        failed = eval_command(*model, *data, f"model.base_url={server.base_url}")
        assert (failed.code, failed.records["a"]["error_class"]) == (2, "infrastructure")
        server.start_over([])
        assert eval_command(f"run.resume={failed.folder}").code == 2
        assert server.requests() == [], "only if wanted"
        again = eval_command(f"run.resume={failed.folder}", "run.retry_errors=true")
    assert again.code == 0
    assert keys(failed.folder) == [("a", 1, 1), ("a", 1, 2)]
    with RunStore(failed.folder / "run.db", read_only=True) as store:
        assert "run.retry_errors=true" not in (store.read_info().command or []), "it was for one session"
    after = summary(failed.folder)
    assert (after["n"], after["accuracy"], after["n_retried"]) == (1, 1.0, 1)


@pytest.mark.slow
def test_a_question_that_was_killed_goes_on_with_the_replies_it_has(eval_command: EvalCommand, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", question("a", "What is 6 * 7?", "42"))
    folder = tmp_path / "run"
    with fault_server(["ok", "ok", "hang"]) as server:
        model = ["system=toy", "model=openai_compatible", f"model.base_url={server.base_url}"]
        with started(folder, *model, *data, "tracking=off", NO_BROWSER, CONTACT) as running:
            assert running.wait_until(lambda: server.asked >= 3)
            running.end(signal.SIGKILL)
        finished = eval_command(f"run.resume={folder}")
        assert len(server.requests()) == 4, "two replies are the call log's"
    assert finished.code == 0
    after = summary(folder)
    assert (after["n"], after["accuracy"], after["usage"]["replayed_calls"]) == (1, 1.0, 2)
    with closing(sqlite3.connect(folder / "run.db")) as database:
        assert database.execute("SELECT sample FROM replies UNION SELECT sample FROM payments").fetchall() == []


HEAVY = ("dspy", "langgraph", "litellm", "openai", "pandas", "mlflow", "datasets", "scipy")


def test_nothing_heavy_is_loaded_for_a_complete_run(eval_command: EvalCommand, tmp_path: Path) -> None:
    finished = eval_command(*AGENT, *dataset(tmp_path / "data", told("a", "sleep 0 say 7")))
    code = (
        "import sys; from eval.cli.command import run_command; from eval.run import task\n"
        "from eval.workflows.resume import check_unchanged, read_original_arguments\n"
        "code = run_command(task, 'eval', 'run.resume', read_original_arguments)\n"
        f"print([name for name in {HEAVY} if name in sys.modules], code)"
    )
    ended = finish(finished.folder, "-c", code, f"run.resume={finished.folder}", script="")
    assert ended.out.splitlines()[-1] == "[] 0", ended.err
