"""Runs in several processes, as the command runs them: the same records, one pace, one budget, nothing lost."""

import asyncio
import copy
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import EvalConfig, read_config
from eval.config.executor import ProcessesSettings
from eval.execution.executors.channel import (
    Answer,
    Answered,
    Ask,
    Cancel,
    Channel,
    Ended,
    Failed,
    Logged,
    Lost,
    Paid,
    Permitted,
    Prompts,
    Ready,
    Replied,
    Reserve,
    Reserved,
    Start,
    identify_folder,
)
from eval.execution.executors.contract import Host, PendingSample, SampleHooks
from eval.execution.executors.local import LocalExecutor
from eval.execution.executors.processes import (
    MAX_DEATHS,
    Job,
    Pool,
    WorkersExecutor,
    _Lease,
    _Worker,
    list_profiles,
)
from eval.execution.termination import StopController, StopReason
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import ModelProfile, Server
from mas.llm.rate_limiter import BackoffTooLongError
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.sample_context import Payment, ReplyLog, SampleContext, SampleKey
from tests.eval.command_line import SCRIPT, EvalCommand, dataset, question
from tests.eval.execution.executors.played_workers import (
    PlayedPlace,
    PlayedWorker,
    answer_all,
    let_others_run,
)
from tests.eval.stored_run import answered
from tests.killed_run import SlowServer, slow_server
from tests.servers.running import running_llm

WORKERS = ("executor=processes", "executor.workers=2")
PRICE = "+model.prices.default={input_usd_per_million: 1.0, output_usd_per_million: 2.0}"
OF_THE_COURSE = {  # of a record: times, ids, and what follows from them
    *("run_id", "thread_id", "started_at", "wall_seconds", "waited_seconds", "seconds_by_agent"),
    *("start_seconds", "end_seconds", "seconds", "timestamp", "correlation_id", "kept_at", "oldest_cached_tool_result"),
}


@pytest.mark.parametrize(
    ("settings", "resolved", "words"),
    [
        (ProcessesSettings(workers=0), {}, "executor.workers=0 is out of range; expected 1 to 256, or null"),
        (ProcessesSettings(), {"system": {"target": "in-memory:mine"}}, "system: an object of this Python program"),
        (ProcessesSettings(), {"scorer": {"target": "in-memory:mine"}}, "or use executor=local"),
    ],
)
def test_what_cannot_run_in_several_processes_is_refused(
    settings: ProcessesSettings, resolved: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=words.replace("(", r"\(")):
        settings.check(resolved)


def test_rows_of_a_python_program_may_be_answered_by_other_processes() -> None:
    ProcessesSettings(workers=2).check({"data": {"target": "in-memory:rows"}, "system": {"target": "os:getcwd"}})


def test_the_command_refuses_a_number_of_workers_before_anything_is_made(eval_command: EvalCommand) -> None:
    finished = eval_command("experiment=offline", "executor=processes", "executor.workers=1000")
    assert (finished.code, finished.err.count("\n")) == (1, 1)
    assert "executor.workers=1000 is out of range" in finished.err
    assert not finished.folder.exists()


def comparable(value: object) -> object:
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items() if key not in OF_THE_COURSE}
    return [comparable(each) for each in value] if isinstance(value, list) else value


@contextmanager
def command(folder: Path, environment: dict[str, str], *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The command in a session of its own; nothing of it is left at the end."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *options, "tracking=off", f"run.dir={folder}"],
        env={**environment, "PYTHONPATH": str(PROJECT_ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(folder: Path, environment: dict[str, str], *options: str) -> str:
    with command(folder, environment, *options) as process:
        output, _ = process.communicate(timeout=240)
    return output


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text("utf-8").splitlines()]


def ready_workers(process: "subprocess.Popen[str]", folder: Path) -> list[int]:
    """Ids of the running workers that have begun to answer, by the run's log."""
    log = folder / "logs" / "entry_point.log"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    ready = [line["pid"] for line in lines if line["event"] == "worker ready"]
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
    return sorted({*ready} & {int(each) for each in found.stdout.split()})


def wait_for_requests(server: SlowServer, number: int) -> None:
    until = time.monotonic() + 60
    while len(server.requests()) < number:
        assert time.monotonic() < until
        time.sleep(0.02)


def options(folder: Path, server: SlowServer, number: int) -> list[str]:
    rows = [question(f"q{n:03}", f"Number {n}: what is 6 * 7?", "42") for n in range(number)]
    model = ["model=openai_compatible", f"model.base_url={server.base_url}", PRICE]
    return ["system=toy", *model, *dataset(folder, *rows), "run.concurrency=8", "run.max_same_errors=null", *WORKERS]


@pytest.mark.slow
def test_records_are_those_of_a_single_process(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    asked = ["experiment=offline", "limit=24", "run.epochs=2", "cache.tools=off"]
    for name, more in (("local", ()), ("processes", WORKERS)):
        output = run(tmp_path / name, clean_environment, *asked, *more)
        assert "Traceback" not in output, output
    local, processes = (sorted(map(json.dumps, map(comparable, records(tmp_path / n)))) for n in ("local", "processes"))
    assert local == processes
    log = (tmp_path / "processes" / "logs" / "multi_agent_system.log").read_text("utf-8").splitlines()
    assert len({json.loads(line)["correlation_id"] for line in log}) == 48


@pytest.mark.slow
def test_workers_that_are_killed_lose_and_double_nothing(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    """20 kills; what their samples had paid is not paid again, but for requests in flight."""
    draw, kills, number = random.Random(7), 0, 120
    with slow_server(0.04) as server:
        with command(tmp_path / "run", clean_environment, *options(tmp_path / "data", server, number)) as process:
            before, wanted = 0, 4
            while process.poll() is None and kills < 20:
                time.sleep(draw.uniform(0.0, 0.1))
                if len(server.requests()) - before < wanted:
                    continue
                if workers := ready_workers(process, tmp_path / "run"):
                    os.kill(draw.choice(workers), signal.SIGKILL)
                    kills, before, wanted = kills + 1, len(server.requests()), draw.randint(4, 20)
            output, _ = process.communicate(timeout=240)
        sent = len(server.requests())
    assert kills >= 10, output
    done = records(tmp_path / "run")
    assert sorted(each["sample_id"] for each in done) == [f"q{n:03}" for n in range(number)], output
    lost = [each for each in done if each["error"]]  # those that three workers were killed with alone
    assert all("the worker process ended 3 times" in each["error"] for each in lost)
    assert len(lost) <= 2
    calls = sum(each["usage"]["lm_calls"] - each["usage"]["replayed_calls"] for each in done)
    assert 3 * (number - len(lost)) <= sent <= 3 * number + 4 * kills
    assert calls <= sent


@pytest.mark.slow
def test_workers_end_with_the_process_of_the_run(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    with slow_server(0.05) as server:
        asked = options(tmp_path / "data", server, 60)
        with command(tmp_path / "run", clean_environment, *asked) as process:
            wait_for_requests(server, 60)
            workers = ready_workers(process, tmp_path / "run")
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            until = time.monotonic() + 15
            while any(Path(f"/proc/{each}/cmdline").read_bytes() for each in workers if Path(f"/proc/{each}").exists()):
                assert time.monotonic() < until, "workers are left"
                time.sleep(0.05)
        assert len(workers) == 2
        output = run(tmp_path / "run", clean_environment, *asked, f"run.resume={tmp_path / 'run'}")
    assert len(records(tmp_path / "run")) == 60, output


@pytest.mark.slow
def test_one_budget_and_one_ctrl_c_are_for_all_workers(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    with slow_server(0.05) as server:
        asked = options(tmp_path / "data", server, 200)
        output = run(tmp_path / "budget", clean_environment, *asked, "executor.workers=4", "run.max_cost_usd=0.02")
        assert "run.max_cost_usd=0.02" in output
        usage = json.loads((tmp_path / "budget" / "summary.json").read_text("utf-8"))["usage"]
        spent = re.search(r"the run has spent \$([0-9.]+)", output)
        assert spent is not None, output
        cost = usage["known_cost_usd"] / usage["lm_calls"]
        assert 0.02 <= float(spent[1]) <= 0.02 + 8 * cost
        assert len(server.requests()) < 0.02 / cost + 8, "those in flight when the last dollar was spent, and no more"
        server.start_over([])
        with command(tmp_path / "stopped", clean_environment, *asked) as process:
            wait_for_requests(server, 30)
            os.killpg(process.pid, signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 3, output
        sent = len(server.requests())
    done = records(tmp_path / "stopped")
    assert 0 < len(done) < 200
    assert all(each["error"] is None for each in done)
    assert sent == 3 * len(done), "what was in flight has finished, and nothing new was started"


@pytest.mark.slow
def test_all_workers_together_keep_the_rate_of_a_server(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    script = PROJECT_ROOT / "tests" / "servers" / "rate_limited_llm.py"
    with running_llm("--requests-per-second", "50", "--burst", "50", script=script) as server:
        rows = [question(f"q{n:03}", f"Number {n}: what is 6 * 7?") for n in range(300)]
        model = ["model=openai_compatible", f"model.base_url={server.base_url}", "model.rate.requests_per_minute=3000"]
        asked = ["system=single_agent", "tools.browser.url=null", *model, *dataset(tmp_path / "data", *rows)]
        asked += ["run.concurrency=64"]
        output = run(tmp_path / "run", clean_environment, *asked, "executor=processes", "executor.workers=4")
        stats = server.stats()
    assert len(records(tmp_path / "run")) == 300, output
    assert stats["rejected"] <= 0.05 * stats["good"]


# Samples and workers, without processes: the tests play the workers.


HERE: Server = ("http://127.0.0.1:1/v1", None)
START = Start({"a": 1}, None, RunInfo(run_id="r"), "/folder", ())
PROMPTS = {name: PromptSet(name, "toy", {"solve": name}, Path(name)) for name in ("one", "two")}


@dataclass
class Account:
    """A RunBudget."""

    reserved: int = 0
    paid: list[Payment | None] = field(default_factory=list)

    def reserve(self) -> None:
        self.reserved += 1

    def settle(self, payment: Payment | None) -> None:
        self.reserved -= 1
        self.paid.append(payment)


@dataclass
class Turns:
    """A RateLimiter whose permits note the outcome; the test lets requests pass."""

    asked: list[tuple[int, float]] = field(default_factory=list)  # tokens, patience
    outcomes: list[object] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def acquire(self, tokens: int, get_patience: Callable[[], float]) -> "Turns":
        self.asked.append((tokens, get_patience()))
        await self.gate.wait()
        if get_patience() < 1:
            raise BackoffTooLongError(60)
        return self

    def record_success(self) -> None:
        self.outcomes.append("success")

    def record_rate_limit(self, retry_after_seconds: float | None) -> None:
        self.outcomes.append(retry_after_seconds)

    def record_server_error(self) -> None:
        self.outcomes.append("server_error")

    def __enter__(self) -> "Turns":
        return self

    def __exit__(self, *_: object) -> None:
        self.outcomes.append("end")


class Scene:
    """A pool, and what it has told the session."""

    def __init__(self, names: str = "", is_open: bool = False) -> None:
        self.place = PlayedPlace()
        self.notes: list[tuple[str, dict[str, object]]] = []
        self.logged: list[tuple[str, str]] = []
        self.finished: list[tuple[Record, bytes]] = []
        self.budget, self.turns = Account(), Turns()
        self.stop = StopController(say=lambda line: None)
        self.replies: dict[str, str] = {}
        model = SimpleNamespace(get_rate_limiter=lambda server: {HERE: self.turns}[server])
        hooks = SampleHooks(note=self.note, log=lambda name, text: self.logged.append((name, text)))
        profiles = cast(dict[str, ModelProfile], {"judge": model})
        queue = deque(self.job(name) for name in names)
        self.pool = Pool(self.place, START, profiles, hooks, self.stop, queue, is_open)

    def note(self, event: str, **fields: object) -> None:
        self.notes.append((event, fields))

    def job(self, name: str, prompts: str | None = None) -> Job:
        def open_context(key: SampleKey) -> SampleContext:
            replies = cast(ReplyLog, SimpleNamespace(put=self.replies.__setitem__))
            return SampleContext(key, budget=self.budget, call_log=None if name == "z" else replies)

        def finish(record: Record, calls: bytes) -> None:
            self.finished.append((record, calls))

        given = None if prompts is None else (f"digest of {prompts}", PROMPTS[prompts])
        return Job((sample(name), SampleKey(name, 2)), open_context, lambda key: {key.sample_id: "kept"}, finish, given)

    def keep(self, *shares: int) -> list["asyncio.Task[None]"]:
        return [asyncio.create_task(self.pool.keep_worker(each)) for each in shares]


def sample(name: str) -> Sample:
    return Sample(name, "?", Path("/here") / f"{name}.csv")


def asked(name: str, lease: int, prompts: str | None = None) -> Answer:
    moved = replace(sample(name), file=Path("there") / f"{name}.csv")
    return Answer(lease, moved, SampleKey(name, 2), {name: "kept"}, prompts and f"digest of {prompts}")


def done(name: str, lease: int, calls: bytes = b"") -> Answered:
    return Answered(lease, answered(name, "17"), calls)


READY = Ready(7, "here")


@pytest.mark.anyio
async def test_a_worker_has_as_many_samples_as_its_share_from_when_it_is_ready_until_none_is_left() -> None:
    scene = Scene("abc")
    (keeping,) = scene.keep(2)
    (worker,) = await scene.place.wait_for(1)
    assert (scene.place.starts, worker.sent) == ([START], [])
    await worker.say(READY)
    assert worker.sent == [asked("a", 1), asked("b", 2)]
    assert scene.notes == [("worker ready", {"worker": "worker 1", "pid": 7, "host": "here"})]
    await worker.say(Logged("calls", "a line"), done("b", 2, b"calls"))
    assert worker.sent[2:] == [asked("c", 3)]
    await worker.say(done("b", 2), done("a", 1))
    assert not keeping.done()
    await worker.say(done("c", 3))
    await keeping
    assert [(record.sample_id, calls) for record, calls in scene.finished] == [("b", b"calls"), ("a", b""), ("c", b"")]
    assert (worker.n_closed, worker.ended_within, scene.pool.workers) == (1, [10.0], [])
    assert (scene.logged, len(scene.notes), scene.stop.reason) == ([("calls", "a line")], 1, None)


@pytest.mark.anyio
async def test_prompts_of_a_trial_are_sent_once_to_each_worker() -> None:
    scene = Scene()
    scene.pool.queue.extend(scene.job(*each) for each in (("a", "one"), ("b", "two"), ("c", "one"), ("d", "two")))
    one, two = (Prompts(f"digest of {name}", PROMPTS[name]) for name in PROMPTS)
    scene.keep(3, 1)
    first, second = await scene.place.wait_for(2)
    await first.say(READY)
    assert first.sent == [one, asked("a", 1, "one"), two, asked("b", 2, "two"), asked("c", 3, "one")]
    await second.say(READY)
    assert second.sent == [two, asked("d", 4, "two")]


@pytest.mark.anyio
async def test_samples_of_a_worker_that_died_are_answered_alone_and_the_others_together_again() -> None:
    scene = Scene("abcd")
    (keeping,) = scene.keep(2)
    (first,) = await scene.place.wait_for(1)
    await first.say(READY, Reserve(1, 9))
    assert scene.budget.reserved == 1
    await first.say(Lost("out of memory"))
    await first.hang_up()
    died = ("worker died", {"worker": "worker 1", "how": "out of memory", "unfinished": 2})
    assert scene.notes[1:] == [died]
    assert (scene.budget.reserved, scene.budget.paid) == (0, [None])
    _, second = await scene.place.wait_for(2)
    await second.say(READY)
    assert second.sent == [asked("a", 3)]
    await second.say(done("a", 3))
    assert second.sent[1:] == [asked("b", 4)]
    await second.say(done("b", 4))
    assert second.sent[2:] == [asked("c", 5), asked("d", 6)]
    await second.say(done("d", 6), done("c", 5))
    await keeping
    assert [record.error for record, _ in scene.finished] == [None] * 4


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("by_its_host", "by_itself", "how"),
    [
        ("signal SIGKILL", "node lost", "signal SIGKILL"),
        ("", "node lost", "node lost"),
        ("", "", "its connection was lost"),
    ],
)
async def test_how_a_worker_ended_is_told_by_its_host_first(by_its_host: str, by_itself: str, how: str) -> None:
    scene = Scene("a")
    (keeping,) = scene.keep(1)
    (worker,) = await scene.place.wait_for(1)
    worker.how = by_its_host
    await worker.say(READY, *([Lost(by_itself)] if by_itself else []))
    await worker.hang_up()
    assert scene.notes[1] == ("worker died", {"worker": "worker 1", "how": how, "unfinished": 1})
    keeping.cancel()
    await asyncio.wait([keeping])


@pytest.mark.anyio
async def test_a_sample_that_three_workers_died_with_alone_is_an_error_of_the_worker() -> None:
    scene = Scene("a")
    (keeping,) = scene.keep(1)
    for number in range(1, 4):
        worker = (await scene.place.wait_for(number))[-1]
        worker.how = "signal SIGKILL"
        await worker.say(READY)
        assert not scene.finished
        await worker.hang_up()
    await keeping
    ((record, calls),) = scene.finished
    assert calls == b""
    assert record == Record(
        "r", "a", 2, 1, "", "?", "a.csv", None, None, started_at=record.started_at,
        error="the worker process ended 3 times while it answered this question alone (signal SIGKILL)",
        error_class="internal", error_component="worker",
    )  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("n_others", [0, 2])
async def test_workers_that_keep_dying_at_their_start_end_the_run(n_others: int) -> None:
    """One for each worker may be the fault of its machine."""
    scene = Scene("abc")
    others = [PlayedWorker() for _ in range(n_others)]
    scene.pool.workers += [_Worker(cast(Host, each), cast(Channel, each), 1, is_ready=True) for each in others]
    (keeping,) = scene.keep(1)
    for number in range(1, MAX_DEATHS + n_others + 2):
        assert scene.stop.reason is None
        worker = (await scene.place.wait_for(number))[-1]
        worker.how = "exit code 1"
        await worker.hang_up()
    await keeping
    n_died = MAX_DEATHS + n_others + 1
    assert scene.stop.reason == StopReason(
        "errors", f"{n_died} workers in a row ended while they started (exit code 1)"
    )
    assert len(scene.notes) == n_died and not scene.finished


@pytest.mark.anyio
async def test_a_worker_that_starts_ends_the_row_of_those_that_did_not() -> None:
    scene = Scene("a")
    scene.keep(1)
    for number in range(1, 9):
        worker = (await scene.place.wait_for(number))[-1]
        if number == MAX_DEATHS:
            await worker.say(READY)
            assert scene.pool.failed_starts == 0
        await worker.hang_up()
        assert scene.pool.failed_starts == (number if number < MAX_DEATHS else number - MAX_DEATHS)
        if number == 2 * MAX_DEATHS:
            break
    assert scene.stop.reason is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("is_ready", "reason"),
    [
        (True, StopReason("storage", "no room")),
        (False, StopReason("errors", "a worker process cannot answer: no room")),
    ],
)
async def test_a_worker_that_cannot_go_on_ends_the_run(is_ready: bool, reason: StopReason) -> None:
    scene = Scene("a")
    (keeping,) = scene.keep(1)
    (worker,) = await scene.place.wait_for(1)
    await worker.say(*([READY] if is_ready else []), Failed("no room"))
    assert scene.stop.reason == reason
    await worker.hang_up()
    await keeping
    assert len(scene.place.starts) == 1 and not scene.finished


@pytest.mark.anyio
async def test_without_a_place_for_workers_the_run_ends_for_its_reason() -> None:
    scene = Scene("a")
    scene.place.refusal = "the cluster has ended."
    await asyncio.gather(*scene.keep(1))
    assert scene.stop.reason == StopReason("errors", "the cluster has ended.")
    assert len(scene.place.starts) == 1


@pytest.mark.anyio
async def test_after_a_stop_no_sample_is_handed_out_and_those_in_flight_may_finish() -> None:
    scene = Scene("abc")
    (keeping,) = scene.keep(2)
    (worker,) = await scene.place.wait_for(1)
    await worker.say(READY)
    scene.stop.drain("enough")
    await worker.say(done("a", 1))
    assert not keeping.done()
    await worker.say(done("b", 2))
    await keeping
    assert worker.leases == {"a": 1, "b": 2}
    assert [record.sample_id for record, _ in scene.finished] == ["a", "b"]


@pytest.mark.anyio
async def test_a_worker_that_is_still_starting_is_given_up_when_nothing_is_left_for_it() -> None:
    scene = Scene("ab")
    keepers = scene.keep(1, 1, 1)
    first, second, third = await scene.place.wait_for(3)
    await first.say(READY)
    await second.say(READY)
    await first.say(done("a", 1))
    assert keepers[0].done() and not third.is_abandoned, "the second one's sample may come back"
    await second.say(done("b", 2))
    await asyncio.gather(*keepers)
    assert third.is_abandoned and not (first.is_abandoned or second.is_abandoned)
    assert [event for event, _ in scene.notes] == ["worker ready"] * 2
    assert scene.pool.failed_starts == 0 and not scene.finished[2:]


@pytest.mark.anyio
async def test_a_worker_that_is_still_starting_is_not_given_up_while_a_sample_waits() -> None:
    scene = Scene("abc")
    first, second = scene.keep(1, 1)
    starting = (await scene.place.wait_for(2))[1]
    scene.place.refusal = "no more"
    scene.pool._end_needless_starts()
    assert not starting.is_abandoned, "samples are in the queue"
    scene.pool.suspects.append(scene.pool.queue.popleft())
    scene.pool.queue.clear()
    scene.pool._end_needless_starts()
    assert not starting.is_abandoned, "one waits to be answered alone"
    scene.stop.drain("enough")
    scene.pool.queue.append(scene.pool.suspects.popleft())
    scene.pool._end_needless_starts()
    assert starting.is_abandoned, "what is in the queue is not handed out any more"
    await asyncio.gather(first, second)


@pytest.mark.anyio
async def test_a_cancelled_worker_reports_what_its_requests_have_cost() -> None:
    scene = Scene("az")
    (keeping,) = scene.keep(2)
    (worker,) = await scene.place.wait_for(1)
    await worker.say(READY, Reserve(1, 1), Reserve(1, 2), Reserve(2, 3), Reserve(9, 4))
    assert worker.sent[2:] == [Reserved(1), Reserved(2), Reserved(3)]
    worker.ends_by_itself = False
    keeping.cancel()
    await let_others_run()
    assert worker.sent[5:] == [Cancel()]
    paid = Payment(1, cost_usd=0.5)
    await worker.say(
        *(Paid(1, paid), Paid(9, paid), Replied(1, "request", "reply"), Replied(2, "lost", ""), Replied(9, "no", "")),
        *(done("a", 1), Logged("calls", "late")),
    )
    assert (scene.budget.paid, scene.replies) == ([paid], {"request": "reply"})
    await worker.hang_up()
    await asyncio.wait([keeping])
    assert keeping.cancelled() and scene.pool.workers == []
    assert (worker.ended_within, worker.n_closed) == ([2.0], 1)
    assert (scene.finished, scene.logged, scene.budget.reserved) == ([], [], 0)
    assert scene.budget.paid == [paid, None, None]
    assert [event for event, _ in scene.notes] == ["worker ready"]


@pytest.mark.anyio
async def test_requests_wait_for_their_turn_and_end_with_an_outcome() -> None:
    scene = Scene("a")
    scene.keep(1)
    (worker,) = await scene.place.wait_for(1)
    await worker.say(READY, *(Ask(number, "judge", HERE, 100 * number, math.inf) for number in range(1, 7)))
    assert scene.turns.asked == [(100 * number, math.inf) for number in range(1, 7)]
    await worker.say(Ended(6))  # it no longer waits
    assert worker.sent[1:] == []
    scene.turns.gate.set()
    await let_others_run()
    assert worker.sent[1:] == [Permitted(number) for number in range(1, 6)]
    outcomes = [("success", None), ("rate_limit", 1.5), ("server_error", None), (None, None), ("success", None)]
    await worker.say(*(Ended(number, *each) for number, each in enumerate(outcomes[:4], 1)), Ended(1, "success"))
    assert scene.turns.outcomes == ["success", "end", 1.5, "end", "server_error", "end", "end"]
    await worker.hang_up()
    assert scene.turns.outcomes[7:] == ["end"], "without an outcome, as its worker has died"


@pytest.mark.anyio
async def test_a_request_is_told_of_a_pause_that_it_cannot_wait_for() -> None:
    scene = Scene("a")
    scene.keep(1)
    (worker,) = await scene.place.wait_for(1)
    await worker.say(READY, Ask(1, "judge", HERE, 5, 0.5), Ask(2, "judge", HERE, 5, 900.0))
    (_, short), (_, long) = scene.turns.asked
    assert 0 < short <= 0.5 and 899 < long <= 900
    scene.turns.gate.set()
    await let_others_run()
    assert worker.sent[1:] == [Permitted(1, 60), Permitted(2)]
    scene.pool.refuse_requests()
    await worker.say(Ask(3, "judge", HERE, 5, 900.0))
    assert worker.sent[3:] == [] and scene.turns.outcomes == ["end"]


@pytest.mark.anyio
async def test_a_trial_is_given_to_the_worker_with_the_smallest_part_of_its_share() -> None:
    scene = Scene(is_open=True)
    scene.pool.submit(scene.job("a"))
    keepers = scene.keep(2, 4, 1)
    two, four, _ = await scene.place.wait_for(3)
    assert [job.pending for job in scene.pool.queue] == [scene.job("a").pending], "no worker is ready"
    await two.say(READY)
    await four.say(READY)
    for name in "bcdef":
        scene.pool.submit(scene.job(name))
    assert (two.leases, four.leases) == ({"a": 1, "d": 4}, {"b": 2, "c": 3, "e": 5, "f": 6})
    scene.pool.submit(scene.job("g"))
    assert len(scene.pool.queue) == 1
    await two.say(done("a", 1))
    assert list(two.leases) == ["a", "d", "g"]
    for task in keepers:
        task.cancel()


@pytest.mark.anyio
async def test_a_pool_of_trials_stays_open_without_a_sample_and_after_a_stop_until_it_is_closed() -> None:
    scene = Scene(is_open=True)
    (keeping,) = scene.keep(1)
    (worker,) = await scene.place.wait_for(1)
    await worker.say(READY)
    scene.pool.submit(scene.job("a"))
    await worker.say(done("a", 1))
    scene.stop.drain("enough")
    scene.pool.submit(scene.job("b"))
    assert worker.leases == {"a": 1, "b": 2} and not keeping.done()
    await worker.say(done("b", 2))
    await worker.hang_up()  # it died with nothing to do
    assert scene.notes[1:] == [
        ("worker died", {"worker": "worker 1", "how": "its connection was lost", "unfinished": 0})
    ]
    _, again = await scene.place.wait_for(2)
    scene.pool.is_open = False
    await again.say(READY)
    await keeping
    assert again.sent == []


def test_a_payment_for_a_request_that_was_not_reserved_leaves_nothing_to_release() -> None:
    budget, paid = Account(), Payment(1)
    lease = _Lease(Scene().job("a"), SampleContext(SampleKey("a"), budget=budget))
    lease.settle(paid)
    lease.release()
    assert budget.paid == [paid]
    lease.reserve(1)
    lease.release()
    assert budget.paid == [paid, None]


def test_models_with_a_limiter_are_listed_by_the_name_in_a_request() -> None:
    with_model = ["model=openai_compatible", f"model.base_url={HERE[0]}"]
    config = read_config(compose_config(["system=toy", "data=toy", *with_model]))
    judge, other = copy.copy(config.model), cast(ModelProfile, object())
    config.model, model = judge, config.model
    assert isinstance(judge, ModelProfile)
    judged = cast(EvalConfig, SimpleNamespace(model=model, judges={"judge": judge, "played": other}))
    assert list_profiles(judged) == {"": model, "judge": judge}
    assert list_profiles(judged)["judge"] is judge


class Alone:
    """A LocalExecutor."""

    program = "the program"

    def __init__(self, hooks: SampleHooks | None = None) -> None:
        self.hooks, self.runs = hooks, list[tuple[object, ...]]()
        self.made: list[Alone] = []

    def with_hooks(self, hooks: SampleHooks) -> "Alone":
        self.made.append(Alone(hooks))
        return self.made[-1]

    async def run(self, *given: object) -> None:
        self.runs.append(given)


def workers_executor(place: PlayedPlace, local: Alone, concurrency: int = 8, n_runs: int = 1) -> WorkersExecutor:
    run, model = SimpleNamespace(concurrency=concurrency), SimpleNamespace()
    config = cast(EvalConfig, SimpleNamespace(run=run, model=model, judges={}))
    return WorkersExecutor(cast(LocalExecutor, local), config, PROMPTS["one"], {"a": 1}, place, n_runs)


def pending(names: str) -> list[PendingSample]:
    return [(sample(name), SampleKey(name)) for name in names]


def test_a_single_sample_is_answered_by_the_run_s_own_process(tmp_path: Path) -> None:
    place, local, stop, hooks = PlayedPlace(), Alone(), StopController(), SampleHooks(tmp_path)
    executor = workers_executor(place, local)
    given = (RunInfo(), pending("a"), print, stop)
    asyncio.run(executor.with_hooks(hooks).run(*given))
    (made,) = local.made
    assert (made.hooks, made.runs, local.runs, place.starts) == (hooks, [given], [], [])
    assert executor.program == "the program"


@pytest.mark.parametrize(
    ("names", "concurrency", "n_workers", "n_runs", "shares"),
    [
        ("abcdefgh", 8, 2, 1, [4, 4]),
        ("abcdefgh", 7, 2, 1, [4, 3]),
        ("ab", 8, 5, 1, [1, 1]),
        ("abcdefgh", 8, 5, 2, [4, 4]),
        ("abcdefgh", 8, 3, 5, [8]),
    ],
)
def test_samples_are_answered_by_workers_that_know_the_run(
    names: str, concurrency: int, n_workers: int, n_runs: int, shares: list[int],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path.parent)
    place, records = PlayedPlace(n_workers, answer=answer_all), list[Record]()
    executor = workers_executor(place, Alone(), concurrency, n_runs)
    hooks, info = SampleHooks(Path(tmp_path.name), asks_budget=True), RunInfo(run_id="r")
    kept, shares_of_pool = Pool.keep_worker, list[int]()

    async def keep(pool: Pool, share: int) -> None:
        shares_of_pool.append(share)
        await kept(pool, share)

    monkeypatch.setattr(Pool, "keep_worker", keep)
    stop = StopController(say=lambda line: None)
    asyncio.run(executor.with_hooks(hooks).run(info, pending(names), records.append, stop))
    assert sorted(each.sample_id for each in records) == list(names)
    assert shares_of_pool == shares and stop.reason is None
    identity = identify_folder(str(tmp_path))
    start = Start({"a": 1}, PROMPTS["one"], info, str(tmp_path), tuple(sys.path), asks_budget=True, identity=identity)
    assert place.starts == [start] * len(shares)


def test_an_answer_that_a_used_up_quota_refused_is_not_kept_and_ends_the_run(tmp_path: Path) -> None:
    def refuse(message: Answer) -> Answered:
        error = {"error": "quota", "error_class": "quota_or_key"} if message.sample.id == "b" else {}
        return Answered(message.lease, answered(message.sample.id, None if error else "17", **error))

    place, records = PlayedPlace(answer=refuse), list[Record]()
    stop = StopController(say=lambda line: None)
    executor = workers_executor(place, Alone(), concurrency=1).with_hooks(SampleHooks(tmp_path))
    asyncio.run(executor.run(RunInfo(), pending("abc"), records.append, stop))
    assert [each.sample_id for each in records] == ["a"]
    assert stop.reason is not None and stop.reason.kind == "server"
