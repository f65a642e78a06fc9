"""What a worker tells the run's process, and what it keeps of its own."""

import asyncio
import contextvars
import pickle
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest

from eval.execution.executors import worker
from eval.execution.executors.channel import (
    Answered,
    Channel,
    Failed,
    Logged,
    Paid,
    Replied,
    Reserve,
    Reserved,
    Start,
    identify_folder,
    send_start,
)
from eval.runs.run_info import RunInfo
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
    return worker._Samples(channel=channel, begin_log=None, **given)


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
