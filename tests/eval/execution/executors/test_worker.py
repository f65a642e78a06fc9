"""What a worker tells the run's process, and what it keeps of its own."""

import asyncio
import contextvars
import functools
import json
import os
import pickle
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dspy
import pytest
from omegaconf import OmegaConf

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.execution.executors import worker
from eval.execution.executors.channel import (
    Answer,
    Answered,
    Cancel,
    Channel,
    Failed,
    Logged,
    Message,
    Paid,
    Prompts,
    Ready,
    Replied,
    Reserve,
    Reserved,
    Start,
    identify_folder,
    send_start,
)
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import LimitReachedError, Payment, SampleContext, SampleKey, use_context
from tests.eval.stored_run import answered


def test_a_payment_is_reported_unless_it_was_refused_and_was_not_reserved() -> None:
    paid, refused = Payment(10, cost_usd=0.5), Payment(refused=True)
    sent: list[Any] = []
    plain = worker._Account(7, sent.append, reports_all=False)
    plain.reserve()
    for payment in (paid, refused, None):
        plain.settle(payment)
    assert sent == [Paid(7, paid)]
    asking = worker._Account(8, sent.append, reports_all=True)
    for payment in (refused, None):
        asking.settle(payment)
    assert sent[1:] == [Paid(8, refused), Paid(8, None)]


def test_a_kept_reply_is_found_and_a_new_one_is_reported_and_kept() -> None:
    sent: list[Any] = []
    replies = worker._Replies(7, sent.append, {"a": "1"})
    assert (replies.get("a"), replies.get("b"), sent) == ("1", None, [])
    replies.put("b", "2")
    assert replies.get("b") == "2" and sent == [Replied(7, "b", "2")]


@pytest.mark.anyio
async def test_each_request_waits_for_its_own_permission() -> None:
    sent: list[Any] = []
    questions = worker._BudgetQuestions(sent.append)
    first, second = (asyncio.create_task(questions.ask(lease)) for lease in (3, 4))
    await asyncio.sleep(0)
    assert sent == [Reserve(3, 0), Reserve(4, 1)]
    questions.answer(Reserved(1))
    await second
    assert not first.done() and list(questions.waiting) == [0]
    questions.answer(Reserved(0, "max_cost_usd", "$1.00 is used up"))
    questions.answer(Reserved(0))  # too late, and no error
    questions.answer(Reserved(99))
    with pytest.raises(LimitReachedError, match=r"\$1.00 is used up") as caught:
        await first
    assert caught.value.limit == "max_cost_usd" and not questions.waiting


@pytest.mark.anyio
async def test_a_request_that_no_longer_waits_is_forgotten() -> None:
    questions = worker._BudgetQuestions(lambda message: None)
    asking = asyncio.create_task(questions.ask(3))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    assert not questions.waiting


@pytest.mark.anyio
@pytest.mark.parametrize("refusal", ["the account is empty", None])
async def test_a_refusal_of_the_server_is_noted_for_the_sample(refusal: str | None) -> None:
    questions = worker._BudgetQuestions(lambda message: None)
    with use_context(SampleContext(SampleKey("q1"))) as context:
        asking = asyncio.create_task(questions.ask(3), context=contextvars.copy_context())
        await asyncio.sleep(0)
        questions.answer(Reserved(0, "stopped", "no more", refusal))
        with pytest.raises(LimitReachedError):
            await asking
        assert context.server_refusal == refusal


class Copied:
    """A program that counts its copies."""

    def __init__(self) -> None:
        self.n_copies = 0

    def deepcopy(self) -> "SimpleNamespace":
        self.n_copies += 1
        return SimpleNamespace(number=self.n_copies)


def samples(monkeypatch: pytest.MonkeyPatch, send: Callable[[Any], None] | None = None, **parts: Any) -> Any:
    channel = SimpleNamespace(send=send)
    given = {"config": None, "caches": None, "asks_budget": False, "program": Copied(), "runner": None, **parts}
    return worker._Samples(**{"channel": channel, "begin_log": None, "write_log": None, **given})


@pytest.mark.anyio
async def test_the_programs_of_the_last_prompts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[Any] = []
    monkeypatch.setattr(worker, "apply_prompt_set", lambda program, prompts: applied.append((program.number, prompts)))
    monkeypatch.setattr(worker, "_MAX_PROGRAMS", 2)
    made = samples(monkeypatch, prompts={"a": "A", "b": "B", "c": "C"})
    a, b = made._build_program("a"), made._build_program("b")
    assert made._build_program("a") is a and applied == [(1, "A"), (2, "B")]
    made._build_program("c")
    assert isinstance(made.programs, OrderedDict) and list(made.programs) == ["a", "c"], "b was used longest ago"
    assert made._build_program("a") is a and made._build_program("b") is not b


@pytest.mark.anyio
async def test_messages_from_other_threads_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    made = samples(monkeypatch, lambda message: sent.append((message, threading.get_ident())))
    messages = [Logged("calls", str(n)) for n in range(5)]
    await asyncio.to_thread(lambda: [made.send(each) for each in messages])
    await asyncio.sleep(0)
    made.send(messages[0])
    assert sent == [(each, threading.get_ident()) for each in [*messages, messages[0]]]


@pytest.mark.anyio
async def test_what_a_predictor_returned_is_sent_without_parts_of_dspy(monkeypatch: pytest.MonkeyPatch) -> None:
    made = samples(monkeypatch)
    prediction = dspy.Prediction(answer="5")
    prediction.set_lm_usage({"unsendable": lambda: None})
    record = answered("q1", "5")
    packed = made._pack(7, record, [("solve", {"question": "?"}, prediction)])
    assert isinstance(packed, Answered) and (packed.lease, packed.record) == (7, record)
    [(name, inputs, outputs)] = pickle.loads(packed.calls)
    assert (name, inputs, outputs.answer) == ("solve", {"question": "?"}, "5")
    failed = made._pack(7, record, [("solve", {"question": lambda: None}, prediction)])
    assert isinstance(failed, Failed) and failed.message.endswith("use executor=local")


@pytest.mark.anyio
async def test_the_log_of_an_answer_is_written_before_the_answer_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's process logs the end: a worker that is killed then must not take the beginning with it."""
    done: list[Any] = []

    @dataclass
    class Runner:
        open_context: Any = None
        program: Any = None
        open_listener: Any = None

        async def run_sample(self, sample: Any, key: Any) -> str:
            return "record"

    made = samples(monkeypatch, done.append, runner=Runner(), begin_log=print, write_log=lambda: done.append("log"))
    monkeypatch.setattr(worker._Samples, "_open_context", lambda self, answer, replies: SampleContext(SampleKey("q1")))
    monkeypatch.setattr(worker._Samples, "_build_program", lambda self, prompts: None)
    monkeypatch.setattr(worker._Samples, "_pack", lambda self, lease, record, calls: (lease, record, list(calls)))
    monkeypatch.setattr(worker, "TracedProgram", lambda program: SimpleNamespace(name_calls=list))
    made.caches, made.config = SimpleNamespace(replies=None, results=None), SimpleNamespace(secrets=())
    await made._answer(SimpleNamespace(lease=3, replies={}, sample="s", key="k"))
    await made._try(SimpleNamespace(lease=4, replies={}, sample="s", key="k", prompts="p"))
    assert done == ["log", Answered(3, cast(Any, "record")), "log", (4, "record", [])]


@pytest.mark.anyio
async def test_what_is_in_flight_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    made = samples(monkeypatch)
    await made.cancel()
    waiting = asyncio.create_task(asyncio.sleep(60))
    made.tasks.add(waiting)
    await made.cancel()
    assert waiting.cancelled()


@pytest.mark.anyio
async def test_a_task_knows_that_it_was_cancelled_although_its_program_ignores_it() -> None:
    seen = []

    async def stubborn() -> None:
        seen.append(worker._is_cancelled())
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(worker._is_cancelled())

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert seen == [False, True]


def test_lines_of_a_log_are_sent_between_its_opening_and_its_end() -> None:
    sent: list[Any] = []
    log = worker._SentLog("calls")
    log.write("before there is a connection")
    log.send = sent.append
    log.write("a line")
    log.flush()
    log.close()
    log.write("after its end")
    assert sent == [Logged("calls", "a line")]


def start(folder: Path, identity: str | None) -> Start:
    return Start({}, None, RunInfo(run_id="r1"), str(folder), (), identity=identity)


def test_a_worker_on_the_same_machine_works_in_the_run_s_folder(tmp_path: Path) -> None:
    for identity in (None, identify_folder(str(tmp_path))):
        with worker._open_place(start(tmp_path, identity)) as place:
            assert (place.folder, place.sent) == (tmp_path, None)
            sink = place.open_sink(tmp_path / "calls.jsonl")
            sink.write("a line\n")
            sink.close()
            assert (tmp_path / "calls.jsonl").read_text().endswith("a line\n")


def test_a_worker_on_another_machine_works_in_a_folder_that_goes_with_it(tmp_path: Path) -> None:
    with worker._open_place(start(tmp_path, "another machine's")) as place:
        folder = place.folder
        assert folder.is_dir() and folder != tmp_path and place.sent == []
        sink = place.open_sink(folder / "calls.jsonl")
        assert place.sent == [sink] and place.sent[0].name == "calls"
    assert not folder.exists()


@pytest.mark.anyio
async def test_a_program_that_cannot_be_built_is_reported() -> None:
    ours, its = socket.socketpair()
    send_start(ours, Start({"system": {}}, None, RunInfo(run_id="r1"), "", ()))
    await asyncio.to_thread(worker.run_worker, its)
    channel = await Channel.open(ours)
    messages = [each async for each in channel]
    await channel.close()
    assert [type(each) for each in messages] == [Failed]


def test_a_worker_without_a_run_ends_at_once() -> None:
    ours, its = socket.socketpair()
    ours.close()
    with its:
        worker.run_worker(its)


@pytest.mark.anyio
async def test_files_of_samples_are_absolute_and_tasks_are_kept_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, Answer]] = []

    for name in ("_answer", "_try"):
        monkeypatch.setattr(worker._Samples, name, noting(name, begun))
    made = samples(monkeypatch)
    plain, with_file = Sample("q1", "?"), Sample("q2", "?", Path("files") / "a.csv")
    made.begin(Answer(1, plain, SampleKey("q1"), {}))
    made.begin(Answer(2, with_file, SampleKey("q2"), {}, "digest"))
    assert len(made.tasks) == 2
    await asyncio.wait(made.tasks)
    await asyncio.sleep(0)
    assert made.tasks == set()
    moved = replace(with_file, file=Path.cwd() / "files" / "a.csv")
    assert begun == [
        ("_answer", Answer(1, plain, SampleKey("q1"), {})),
        ("_try", Answer(2, moved, SampleKey("q2"), {}, "digest")),
    ]


def noting(name: str, begun: list[tuple[str, Answer]]) -> Callable[..., Any]:
    async def note(made: object, answer: Answer) -> None:
        begun.append((name, answer))

    return note


# A whole worker in a thread, with a program and a model that are simulated.


@functools.cache
def toy_run() -> tuple[dict[str, object], PromptSet, Sample]:
    composed = compose_config(["system=toy", "data=toy", "model=offline"])
    config, resolved = read_config(composed), OmegaConf.to_container(composed, resolve=True)
    prompts = config.read_prompts()
    assert prompts is not None
    return cast(dict[str, object], resolved), prompts, config.data.load("val").samples[0]


@dataclass
class Talk:
    """What is said to a worker once it is ready, and what it says; it ends with the last answer."""

    folder: Path
    said: list[Message] = field(default_factory=list)
    timers: list[tuple[object, ...]] = field(default_factory=list)

    def __call__(
        self,
        *messages: Message,
        asks_budget: bool = False,
        identity: str | None = None,
        reserve: Callable[[int], Reserved | Cancel] = Reserved,
        path: tuple[str, ...] = (),
        ends_by_closing: bool = False,
        config: dict[str, object] | None = None,
    ) -> list[Message]:
        self.said = []
        left = sum(isinstance(each, Answer) for each in messages)

        async def talk() -> None:
            nonlocal left
            ours, its = socket.socketpair()
            resolved, prompts, _ = toy_run()
            send_start(
                ours,
                Start(config or resolved, prompts, RunInfo(run_id="r"), str(self.folder), path, asks_budget, identity),
            )
            working = asyncio.create_task(asyncio.to_thread(worker.run_worker, its))
            channel = await Channel.open(ours)
            async for message in channel:
                self.said.append(message)
                match message:
                    case Ready():
                        for each in messages:
                            channel.send(each)
                        if not messages:
                            channel.send(Cancel())
                    case Reserve():
                        channel.send(reserve(message.number))
                    case Answered():
                        left -= 1
                        if not left and ends_by_closing:
                            channel.abandon()
                        elif not left:
                            channel.send(Cancel())
            await channel.close()
            await working

        asyncio.run(asyncio.wait_for(talk(), 60))
        return self.said

    def of(self, kind: type[Message]) -> list[Any]:
        return [each for each in self.said if isinstance(each, kind)]


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Talk:
    made = Talk(tmp_path)

    def make_timer(seconds: float, leave: object, given: list[int]) -> SimpleNamespace:
        timer = SimpleNamespace(daemon=False)
        timer.start = lambda: made.timers.append((seconds, leave, given, timer.daemon))
        return timer

    monkeypatch.setattr(worker, "threading", SimpleNamespace(Timer=make_timer, get_ident=threading.get_ident))
    return made


def read_log(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "logs" / f"{name}.log").read_text("utf-8").splitlines()]


def test_a_worker_answers_a_sample_and_reports_all_that_it_paid(talk: Talk) -> None:
    _, _, sample = toy_run()
    key = SampleKey(sample.id, 2)
    first, *_, last = talk(Answer(5, sample, key, {}))
    assert first == Ready(os.getpid(), socket.gethostname())
    record = last.record  # type: ignore[union-attr]
    assert (record.run_id, record.sample_id, record.epoch, record.score, record.error) == ("r", sample.id, 2, 1.0, None)
    paid, replies = talk.of(Paid), talk.of(Replied)
    assert len(paid) == len(replies) == record.usage.lm_calls == 3
    assert {each.lease for each in (*paid, *replies, last)} == {5}  # type: ignore[union-attr]
    assert sum(each.payment.input_tokens for each in paid) == record.usage.input_tokens
    assert last == Answered(5, record) and talk.of(Reserve) == talk.of(Logged) == []
    assert talk.timers == [(10.0, os._exit, [1], True)], "a program may not end when it is cancelled"
    (started,) = read_log(talk.folder, "entry_point")
    assert (started["event"], started["task_id"], started["epoch"]) == ("question started", sample.id, 2)
    assert (talk.folder / "tools.db").exists()
    talk(Answer(6, sample, key, {each.request: each.reply for each in replies}), ends_by_closing=True)
    (again,) = talk.of(Answered)
    assert (talk.of(Paid), talk.of(Replied)) == ([], [])
    assert (again.record.usage.replayed_calls, again.record.answer) == (3, record.answer)


def test_a_worker_on_another_machine_sends_its_logs_and_leaves_nothing(talk: Talk) -> None:
    _, _, sample = toy_run()
    talk(Answer(5, sample, SampleKey(sample.id), {}), identity="of another machine")
    assert list(talk.folder.iterdir()) == []
    logged = talk.of(Logged)
    assert {each.name for each in logged} == {"entry_point", "multi_agent_system"}
    events = [json.loads(each.text)["event"] for each in logged if each.name == "multi_agent_system"]
    assert (events[0], events[-1]) == ("question started", "question finished")


def test_a_worker_asks_before_each_request_where_the_budget_may_refuse(talk: Talk) -> None:
    _, _, sample = toy_run()
    talk(Answer(5, sample, SampleKey(sample.id), {}), asks_budget=True)
    assert talk.of(Reserve) == [Reserve(5, number) for number in range(3)]
    (answered_one,) = talk.of(Answered)
    assert answered_one.record.error is None

    def refuse(number: int) -> Reserved:
        return Reserved(number, "budget.lm_calls", "used up") if number else Reserved(number)

    talk(Answer(5, sample, SampleKey(sample.id), {}), asks_budget=True, reserve=refuse)
    (refused,) = talk.of(Answered)
    assert (refused.record.limit, len(talk.of(Paid))) == ("budget.lm_calls", 1)


def test_a_worker_that_is_cancelled_sends_no_record(talk: Talk) -> None:
    _, _, sample = toy_run()
    talk(Answer(5, sample, SampleKey(sample.id), {}), asks_budget=True, reserve=lambda number: Cancel())
    assert (talk.of(Reserve), talk.of(Answered)) == ([Reserve(5, 0)], [])
    assert len(talk.timers) == 1


def test_a_worker_answers_a_trial_with_prompts_that_came_before_it_and_sends_its_calls(talk: Talk) -> None:
    _, prompts, sample = toy_run()
    digest = "0123456789abcdef"
    texts = {agent: f"{text}\nMark it." for agent, text in prompts.texts.items()}
    own = replace(prompts, texts=texts)
    talk(
        Prompts(digest, own), Answer(5, sample, SampleKey(sample.id), {}, digest), Answer(6, sample, SampleKey("b"), {})
    )
    trial, plain = sorted(talk.of(Answered), key=lambda each: int(each.lease))
    assert [name for name, _, _ in pickle.loads(trial.calls)] == list(texts)
    assert (plain.calls, trial.record.error, plain.record.error) == (b"", None, None)
    assert {each.request for each in talk.of(Replied) if each.lease == 5}.isdisjoint(
        {each.request for each in talk.of(Replied) if each.lease == 6}
    ), "other prompts are other requests"
    labels = {line["task_id"]: line.get("prompts_sha256") for line in read_log(talk.folder, "entry_point")}
    assert labels == {sample.id: digest[:12], "b": None}


def test_a_worker_finds_modules_where_the_run_does(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    talk(path=(*before, "/of/the/user"))
    assert sys.path == [*before, "/of/the/user"]
    talk()
    assert sys.path == [*before, "/of/the/user"]
    assert talk.said == [Ready(os.getpid(), socket.gethostname())]


def test_a_model_that_cannot_be_used_on_another_machine_is_told_by_it(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEY_OF_THE_NODES", raising=False)
    options = ["model=openai_compatible", "model.base_url=http://127.0.0.1:1/v1", "model.api_key_env=KEY_OF_THE_NODES"]
    composed = compose_config(["system=toy", "data=toy", *options])
    config = cast(dict[str, object], OmegaConf.to_container(composed, resolve=True))
    (failed,) = talk(config=config, identity="of another machine")
    assert isinstance(failed, Failed) and "KEY_OF_THE_NODES" in failed.message
    talk(config=config)
    assert talk.of(Failed) == [] and len(talk.said) == 1, "the run's own process has checked it"
