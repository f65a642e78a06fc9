"""The runner around stand-in programs; the real ones run in test_run.py."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.execution.runner import SampleRunner
from eval.execution.termination import StopController
from eval.runs.record import Record, Usage
from eval.scorers.gaia import GaiaScorer
from eval.scorers.labels import LabelSet
from eval.scorers.score import Score
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, current_context
from mas.runtime.trace import event, keep_answer, keep_state, note_limit, note_review, span
from mas.tools.results import ToolResult
from tests.eval.execution.sample_run import SampleRun

Body = Callable[[str], Awaitable[dict[str, Any]]]


@dataclass
class Program:
    """What the runner needs of a program, with a body that the test writes."""

    body: Body
    at_once: int = 0
    most_at_once: int = 0
    started: list[str] = field(default_factory=list)

    async def acall(self, question: str, file: object = None, inputs: object = None) -> dict[str, Any]:
        self.started.append(question)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self.body(question)
        finally:
            self.at_once -= 1


async def answer_42(question: str) -> dict[str, Any]:
    await asyncio.sleep(0.005)
    return {"final_answer": "42", "final_reasoning_trace": "because"}


def runner_of(body: Body, finished: Callable[[Record], None], **changes: Any) -> tuple[SampleRun, Program]:
    program = Program(body)
    own = {name: changes.pop(name) for name in ("concurrency", "stop") if name in changes}
    settings: dict[str, Any] = {
        "run_id": "run-1",
        "program": program,
        "scorer": GaiaScorer(),
        "deadline_seconds": 5.0,
        "redact": lambda text: text,
    }
    return SampleRun(SampleRunner(**{**settings, **changes}), finished, **own), program


def once(samples: list[Sample]) -> list[tuple[Sample, SampleKey]]:
    return [(sample, SampleKey(sample.id)) for sample in samples]


def run(body: Body, samples: list[Sample], **changes: Any) -> list[Record]:
    records: list[Record] = []
    runner, _ = runner_of(body, records.append, **changes)
    asyncio.run(runner.run(once(samples)))
    return records


def one(body: Body, target: str | None = "42", **changes: Any) -> Record:
    (record,) = run(body, [Sample("a", "a?", target=target)], **changes)
    return record


def samples(number: int) -> list[Sample]:
    return [Sample(str(n), f"{n}?", target="42", level="1") for n in range(number)]


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_as_many_questions_run_at_once_as_asked_for_and_no_more(concurrency: int) -> None:
    records: list[Record] = []
    runner, program = runner_of(answer_42, records.append, concurrency=concurrency)
    asyncio.run(runner.run(once(samples(12))))
    assert program.most_at_once == min(concurrency, 12)
    assert sorted(record.sample_id for record in records) == sorted(str(n) for n in range(12))


def test_a_record_is_kept_before_the_next_question_starts_in_its_place() -> None:
    steps: list[str] = []

    async def body(question: str) -> dict[str, Any]:
        steps.append(f"start {question}")
        await asyncio.sleep(0)
        return {"final_answer": "42"}

    runner, _ = runner_of(body, lambda record: steps.append(f"kept {record.question}"), concurrency=1)
    asyncio.run(runner.run(once(samples(3))))
    assert steps == ["start 0?", "kept 0?", "start 1?", "kept 1?", "start 2?", "kept 2?"]


def test_a_slow_question_does_not_hold_up_the_others() -> None:
    async def body(question: str) -> dict[str, Any]:
        await asyncio.sleep(0.2 if question == "0?" else 0.001)
        return {"final_answer": "42"}

    records = run(body, samples(8), concurrency=2)
    assert records[-1].sample_id == "0"


def test_an_answer_is_scored_and_its_record_is_whole() -> None:
    record = one(answer_42)
    assert (record.run_id, record.sample_id, record.epoch, record.attempt) == ("run-1", "a", 1, 1)
    assert (record.answer, record.reasoning_trace, record.score, record.error) == ("42", "because", 1.0, None)
    assert record.explanation and record.parts == {"format_loss": 0.0}
    assert record.wall_seconds >= 0.005
    assert len(record.thread_id) == 32


def test_thread_ids_are_each_questions_own() -> None:
    given: dict[str, str] = {}

    def listener(thread_id: str, sample: SampleKey) -> Any:
        given[sample.sample_id] = thread_id
        return lambda level, event, fields: None

    records = run(answer_42, samples(6), open_listener=listener)
    assert {record.sample_id: record.thread_id for record in records} == given
    assert len(set(given.values())) == 6


def test_a_failing_question_is_a_row_and_the_others_go_on() -> None:
    async def body(question: str) -> dict[str, Any]:
        if question == "1?":
            raise RuntimeError("the disk\nis on fire")
        return {"final_answer": "42"}

    records = {record.sample_id: record for record in run(body, samples(4))}
    assert [records[str(n)].correct for n in range(4)] == [True, False, True, True]
    failed = records["1"]
    assert failed.error == "RuntimeError: the disk is on fire", "one sentence on one line"
    assert (failed.error_class, failed.error_component, failed.limit) == ("internal", "system", None)
    assert failed.scored and failed.score is None
    assert failed.state == {"error": failed.error, "error_component": "system"}


def test_the_work_of_a_failed_question_is_still_counted() -> None:
    async def body(question: str) -> dict[str, Any]:
        with span("agent", "expert"):
            with span("lm", "m") as call:
                call.attributes |= {"input_tokens": 11, "output_tokens": 7}
            with span("tool", "calculator"):
                raise ValueError("no such number")

    record = one(body)
    usage = record.usage
    assert (usage.lm_calls, usage.tool_calls, usage.input_tokens, usage.output_tokens) == (1, 1, 11, 7)
    assert (record.error_class, record.error_component) == ("tool", "calculator")
    assert record.seconds_by_agent.keys() == {"expert"}
    assert [step["kind"] for step in record.trajectory] == ["question", "agent", "lm", "tool"]


@pytest.mark.parametrize("gold", ["inf", "None", "none", ""])
def test_a_failed_question_never_reaches_the_scorer(gold: str) -> None:
    """By the official rule alone no answer at all would match each of these."""

    async def body(question: str) -> dict[str, Any]:
        raise RuntimeError("no")

    asked: list[str] = []

    def scorer(question: str, answer: str | None, target: str) -> Score:
        asked.append(target)
        return GaiaScorer()(question, answer, target)

    record = one(body, target=gold, scorer=scorer)
    assert asked == []
    assert record.score is None and not record.correct


def test_a_question_without_gold_is_answered_and_not_scored() -> None:
    def scorer(question: str, answer: str | None, target: str) -> Score:
        raise AssertionError("scored without a gold answer")

    record = one(answer_42, target=None, scorer=scorer)
    assert (record.answer, record.score, record.error) == ("42", None, None)
    assert not record.scored


def test_a_question_beyond_its_deadline_is_cut_off_and_says_so() -> None:
    cut: list[str] = []

    async def body(question: str) -> dict[str, Any]:
        with span("agent", "researcher"):
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cut.append(question)
                raise
        return {}

    record = one(body, deadline_seconds=0.05)
    assert cut == ["a?"]
    assert record.error == "no answer within 0.05 s (run.deadline_seconds)"
    assert (record.error_class, record.error_component, record.limit) == ("limit", "researcher", "deadline_seconds")
    assert 0.05 <= record.wall_seconds < 5


def test_a_tools_own_timeout_is_not_taken_for_the_deadline() -> None:
    class PageTimeoutError(TimeoutError):
        pass

    async def body(question: str) -> dict[str, Any]:
        with span("tool", "browser"):
            raise PageTimeoutError("the page did not load")

    record = one(body)
    assert (record.error_class, record.error_component, record.limit) == ("tool", "browser", None)


def test_a_scorer_that_fails_costs_its_question_alone() -> None:
    def scorer(question: str, answer: str | None, target: str) -> Score:
        if question == "1?":
            raise KeyError("gold")
        return Score(1.0, "fine")

    records = {record.sample_id: record for record in run(answer_42, samples(3), scorer=scorer)}
    assert (records["1"].error_class, records["1"].error_component) == ("scorer", "scorer")
    assert records["1"].answer == "42", "the answer is kept"
    assert records["0"].correct and records["2"].correct


def test_a_scorer_may_wait_and_its_calls_are_counted_apart() -> None:
    async def body(question: str) -> dict[str, Any]:
        with span("lm", "m") as call:
            call.attributes |= {"input_tokens": 11, "output_tokens": 7}
        return {"final_answer": "42"}

    async def judge(question: str, answer: str | None, target: str) -> Score:
        with span("agent", "judging"), span("lm", "judge") as call:
            call.attributes |= {"input_tokens": 100, "output_tokens": 3}
            await asyncio.sleep(0.05)
        return Score(0.5, "half", {"rule": 1.0})

    record = one(body, scorer=judge)
    assert (record.score, record.explanation, record.parts, record.correct) == (0.5, "half", {"rule": 1.0}, False)
    answering, judging = record.usage, record.scorer_usage
    assert (answering.lm_calls, answering.input_tokens, answering.output_tokens) == (1, 11, 7)
    assert (judging.lm_calls, judging.input_tokens, judging.output_tokens) == (1, 100, 3)
    assert [step["kind"] for step in record.trajectory] == ["question", "lm", "scorer", "agent", "lm"]
    assert record.seconds_by_agent == {}
    assert record.wall_seconds < 0.05, "the time of the answer, not of its judging"
    assert Record.from_dict(record.to_dict()) == record


def test_a_scorer_that_waits_too_long_or_gives_no_score_costs_its_question_alone() -> None:
    async def slow(question: str, answer: str | None, target: str) -> Score:
        await asyncio.sleep(30)
        raise AssertionError

    async def none(question: str, answer: str | None, target: str) -> Any:
        return None

    late = one(answer_42, scorer=slow, deadline_seconds=0.1)
    assert late.error == "no verdict of the scorer within 0.1 s (run.deadline_seconds)"
    assert (late.error_class, late.error_component, late.limit) == ("scorer", "scorer", "deadline_seconds")
    assert (late.answer, late.score) == ("42", None)
    for scorer in (none, lambda question, answer, target: True):
        assert one(answer_42, scorer=scorer).error_component == "scorer"


def test_a_secret_is_taken_out_of_errors_steps_and_state() -> None:
    async def body(question: str) -> dict[str, Any]:
        keep_state({"notes": ["sk-123 was refused"], "sk": 1})
        with span("agent", "planner", inputs={"tries": [{"key": "sk-123"}]}):
            event("refused", key="sk-123")
            raise RuntimeError("bad key sk-123")

    record = one(body, redact=lambda text: text.replace("sk-123", "***"))
    assert record.error == "RuntimeError: bad key ***"
    assert record.state["notes"] == ["*** was refused"]
    assert record.trajectory[1]["inputs"] == {"tries": [{"key": "***"}]}
    assert "sk-123" not in str(record)


def test_fail_fast_stops_at_the_first_error_and_keeps_what_is_done() -> None:
    async def body(question: str) -> dict[str, Any]:
        if question == "2?":
            raise RuntimeError("no")
        return {"final_answer": "42"}

    records: list[Record] = []
    runner, program = runner_of(body, records.append, concurrency=1, stop=StopController(fail_fast=True))
    asyncio.run(runner.run(once(samples(5))))
    assert str(runner.stop.reason).startswith("question 2 failed")
    assert [record.sample_id for record in records] == ["0", "1", "2"]
    assert program.started == ["0?", "1?", "2?"]


def test_what_the_store_raises_stops_the_run_as_it_is() -> None:
    class FullDiskError(Exception):
        pass

    def finished(record: Record) -> None:
        raise FullDiskError("no room")

    runner, _ = runner_of(answer_42, finished)
    with pytest.raises(FullDiskError, match="no room"):
        asyncio.run(runner.run(once(samples(5))))


def test_questions_side_by_side_keep_their_traces_apart() -> None:
    async def body(question: str) -> dict[str, Any]:
        for step in range(3):
            with span("agent", f"{question} {step}"):
                await asyncio.sleep(0.001)
                event("moment", of=question)
        return {"final_answer": question}

    for record in run(body, samples(6), concurrency=6):
        agents = [step for step in record.trajectory if step["kind"] == "agent"]
        assert [step["name"] for step in agents] == [f"{record.question} {n}" for n in range(3)]
        assert {moment["of"] for step in agents for moment in step["events"]} == {record.question}


def test_the_gold_answer_is_not_handed_to_the_program() -> None:
    seen: list[dict[str, Any]] = []

    class Nosy:
        async def acall(self, **inputs: Any) -> dict[str, Any]:
            seen.append(inputs)
            return {"final_answer": "1"}

    run(answer_42, [Sample("a", "a?", target="CANARY")], program=Nosy())
    assert seen == [{"question": "a?", "file": None, "inputs": None}]


def test_each_epoch_is_a_question_of_its_own() -> None:
    asked: list[SampleKey] = []

    async def body(question: str) -> dict[str, Any]:
        current = current_context()
        assert current is not None
        asked.append(current.key)
        await asyncio.sleep(0)
        assert current_context() is current
        return {"final_answer": "42"}

    records: list[Record] = []
    runner, _ = runner_of(body, records.append)
    tries = [(sample, SampleKey(sample.id, epoch, 2)) for epoch in (1, 2) for sample in samples(3)]
    asyncio.run(runner.run(tries))
    assert asked == [sample for _, sample in tries]
    assert {(record.sample_id, record.epoch, record.attempt) for record in records} == {
        (str(n), epoch, 2) for n in range(3) for epoch in (1, 2)
    }


def limited(body: Body, **limits: Any) -> Record:
    return one(body, open_context=lambda sample: SampleContext(sample, SampleLimits(**limits)))


async def two_calls(question: str) -> dict[str, Any]:
    current = current_context()
    assert current is not None
    for number in range(2):
        with span("agent", "expert"):
            current.count_lm_call()
        if question == "kept?":
            keep_answer("42" if number == 0 else "43")
    return {"final_answer": "44"}


def test_a_limit_that_fires_without_an_answer_makes_the_question_wrong() -> None:
    record = limited(two_calls, lm_calls=1)
    assert (record.error_class, record.limit, record.answer, record.score) == ("limit", "lm_calls", None, None)
    assert record.error == "the question has used its 1 calls to language models (limits.lm_calls)"
    assert limited(two_calls, lm_calls=2).answer == "44"


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_limit_that_fires_behind_an_answer_scores_that_answer(wrapped: bool) -> None:
    async def body(question: str) -> dict[str, Any]:
        try:
            return await two_calls("kept?")
        except LimitReachedError as error:
            if wrapped:  # as DSPy does
                raise RuntimeError("the call failed") from error
            raise

    record = limited(body, lm_calls=1)
    assert (record.answer, record.score, record.error, record.limit) == ("42", 1.0, None, "lm_calls")
    assert record.error_class is None


def test_an_answer_that_was_there_before_the_deadline_is_scored() -> None:
    async def body(question: str) -> dict[str, Any]:
        keep_answer("42")
        await asyncio.sleep(30)
        return {}

    record = one(body, deadline_seconds=0.05)
    assert (record.answer, record.score, record.error, record.limit) == ("42", 1.0, None, "deadline_seconds")


def own_timeout() -> None:
    raise TimeoutError("the page did not load")


def test_a_timeout_of_the_programs_own_is_not_the_deadline() -> None:
    async def body(question: str) -> dict[str, Any]:
        keep_answer("42")
        with span("tool", "browser"):
            own_timeout()
        return {}

    record = one(body)
    assert (record.error, record.error_class) == ("TimeoutError: the page did not load", "tool")
    assert (record.limit, record.answer, record.score) == (None, None, None)


def test_a_timeout_of_the_scorers_own_is_not_the_deadline() -> None:
    def scorer(question: str, answer: str | None, target: str) -> Score:
        own_timeout()
        raise AssertionError

    record = one(answer_42, scorer=scorer)
    assert (record.error_class, record.limit) == ("scorer", None)
    assert "the page did not load" in str(record.error)


@pytest.mark.parametrize("limits", [{"deadline_seconds": 0.05}, {"working_seconds": 0.05}], ids=str)
@pytest.mark.parametrize("way", ["answers", "raises"])
@pytest.mark.parametrize("kept", ["42", None])
def test_an_answer_that_comes_after_the_deadline_does_not_count(
    limits: dict[str, float], way: str, kept: str | None
) -> None:
    async def body(question: str) -> dict[str, Any]:
        if kept:
            keep_answer(kept)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            if way == "raises":
                raise RuntimeError("interrupted") from None
        return {"final_answer": "late", "final_reasoning_trace": "late"}

    (limit,) = limits
    record = limited(body, **limits) if limit == "working_seconds" else one(body, **limits)
    assert (record.answer, record.reasoning_trace, record.limit) == (kept, "", limit)
    assert (record.score, record.error_class) == ((1.0, None) if kept else (None, "limit"))


def test_a_verdict_that_comes_after_the_deadline_does_not_count() -> None:
    async def late(question: str, answer: str | None, target: str) -> Score:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        return Score(1.0, "fine")

    record = one(answer_42, scorer=late, deadline_seconds=0.05)
    assert (record.score, record.error_class, record.limit) == (None, "scorer", "deadline_seconds")


def test_an_answer_in_spite_of_a_limit_is_scored_and_the_limit_is_told() -> None:
    async def body(question: str) -> dict[str, Any]:
        with contextlib.suppress(LimitReachedError):
            await two_calls(question)
        return {"final_answer": "42"}

    record = limited(body, lm_calls=1)
    assert (record.answer, record.score, record.error, record.limit) == ("42", 1.0, None, "lm_calls")


def test_what_is_left_behind_by_a_question_or_its_scorer_spends_nothing_more() -> None:
    seen: list[SampleContext] = []

    def see() -> None:
        current = current_context()
        assert current is not None
        current.count_lm_call()
        seen.append(current)

    async def body(question: str) -> dict[str, Any]:
        see()
        return {"final_answer": "42"}

    async def judge(question: str, answer: str | None, target: str) -> Score:
        with pytest.raises(LimitReachedError):
            seen[0].count_lm_call()
        see()
        return Score(1.0, "fine")

    record = one(body, scorer=judge)
    assert (record.score, record.limit, len(seen)) == (1.0, None, 2)
    for question in seen:
        with pytest.raises(LimitReachedError):
            question.count_lm_call()


def test_a_refusal_that_is_swallowed_ends_the_run_without_a_row() -> None:
    async def body(question: str) -> dict[str, Any]:
        current = current_context()
        assert current is not None
        if question == "1?":
            current.server_refusal = "LMAuthError: no such key"
        return {"final_answer": "42"}

    records: list[Record] = []
    runner, program = runner_of(body, records.append, concurrency=1)
    asyncio.run(runner.run(once(samples(4))))
    assert ([record.sample_id for record in records], program.started) == (["0"], ["0?", "1?"])
    assert "LMAuthError: no such key" in str(runner.stop.reason)


def test_waiting_is_no_work_and_is_told_in_the_record() -> None:
    async def body(question: str) -> dict[str, Any]:
        current = current_context()
        assert current is not None
        with current.pause_working_time():
            await asyncio.sleep(0.15)
        await asyncio.sleep(10 if question == "works?" else 0)
        return {"final_answer": "42"}

    record = limited(body, working_seconds=0.1)
    assert (record.answer, record.limit) == ("42", None)
    assert 0.15 <= record.waited_seconds <= record.wall_seconds

    async def working(question: str) -> dict[str, Any]:
        return await body("works?")

    assert limited(working, working_seconds=0.1).limit == "working_seconds"


def test_judging_is_not_the_questions_own_spending() -> None:
    async def body(question: str) -> dict[str, Any]:
        await two_calls(question)
        return {"final_answer": "42"}

    async def judge(question: str, answer: str | None, target: str) -> Score:
        current = current_context()
        assert current is not None
        current.count_lm_call()
        with current.pause_working_time():
            await asyncio.sleep(0)
        return Score(1.0, "fine")

    limits = SampleLimits(lm_calls=2, working_seconds=5.0)
    assert one(body, scorer=judge, open_context=lambda sample: SampleContext(sample, limits)).score == 1.0


@pytest.mark.parametrize(
    ("costs", "total"), [([0.25, 0.5], 0.75), ([0.25, None], None), ([0.0], 0.0), ([], 0.125)], ids=str
)
def test_the_cost_is_known_if_every_calls_is(costs: list[float | None], total: float | None) -> None:
    async def body(question: str) -> dict[str, Any]:
        for cost in costs:
            with span("lm", "m") as call:
                call.attributes |= {"cost_usd": cost, "retry": cost == 0.5, "replayed": cost == 0.25}
        return {"final_answer": "42"}

    usage = one(body, cost_without_calls=0.125).usage
    assert usage.cost_usd == total
    assert (usage.retries, usage.replayed_calls) == (costs.count(0.5), costs.count(0.25))


def test_a_call_that_was_refused_cost_nothing() -> None:
    async def body(question: str) -> dict[str, Any]:
        with pytest.raises(ValueError, match="busy"), span("lm", "m"):
            raise ValueError("busy")
        with span("lm", "m") as call:
            call.attributes["cost_usd"] = 0.5
        return {"final_answer": "42"}

    assert one(body).usage.cost_usd == 0.5


def test_no_questions_are_no_work() -> None:
    assert run(answer_42, []) == []


@pytest.mark.parametrize("labels", [LabelSet(), LabelSet(("no", "yes"))])
def test_a_label_far_from_the_question_on_a_page_is_no_leak(labels: LabelSet) -> None:
    question = "Did the tallest windmill of Pelgrave survive the flood of that autumn?"

    async def read(asked: str) -> dict[str, Any]:
        page = f"{question} {'Nobody wrote it down. ' * 10} yes"
        shown = ToolResult(page, kind="web_page").to_observation("read_page", 20_000)
        with span("tool", "read_page", inputs={"url": "https://example.org/1"}, **shown.describe()) as current:
            current.outputs = {"observation": str(shown)}
        return {"final_answer": "yes"}

    (record,) = run(read, [Sample("a", question, target="yes")], labels=labels)
    assert bool(record.leaks) is not bool(labels)


WHOLE = Sample("q7", "What is hidden?", Path("/data/table.csv"), "42", "2", {"kind": "x"}, {"a": "b"})


class Asked:
    """A program that keeps what it was asked with; it has reviews, steps of agents and tools, and a secret."""

    def __init__(self, fails: bool = False, answer: object = 42) -> None:
        self.given: list[dict[str, Any]] = []
        self.fails, self.answer = fails, answer

    async def acall(self, **given: Any) -> dict[str, Any]:
        self.given.append(given)
        for _ in range(2):
            with span("agent", "solver"), span("lm", "m") as call:
                call.attributes |= {"cost_usd": 0.25, "input_tokens": 3}
        with span("agent", "planner"), contextlib.suppress(OSError), span("tool", "search"):
            raise OSError("no reply")
        note_review("solver", approved=False)
        note_review("solver", approved=True)
        note_limit("tokens")
        keep_state({"draft": "the secret"})
        if self.fails:
            raise ValueError("the secret is out")
        return {"final_answer": self.answer, "final_reasoning_trace": "with the secret"}


async def spend(question: str, answer: str | None, target: str) -> Score:
    with span("agent", "judge"), span("lm", "j") as call:
        call.attributes |= {"cost_usd": 1.0}
    return Score(1.0, "equal", {"form": 0.5})


def whole_record(program: Asked, **changes: Any) -> Record:
    settings: dict[str, Any] = {
        "run_id": "r", "program": program, "scorer": spend, "deadline_seconds": 5.0,
        "redact": lambda text: text.replace("secret", "***"), "extra_scorers": {"second": spend}, **changes,
    }  # fmt: skip
    return asyncio.run(SampleRunner(**settings).run_sample(WHOLE, SampleKey("q7", 2, 3)))


def test_all_that_an_answer_tells_is_in_its_record() -> None:
    program, began = Asked(), datetime.now(UTC)
    record = whole_record(program)
    assert program.given == [{"question": WHOLE.question, "file": WHOLE.file, "inputs": {"a": "b"}}]
    assert began <= datetime.fromisoformat(record.started_at) <= datetime.now(UTC)
    assert set(record.seconds_by_agent) == {"solver", "planner"}, "not the judge"
    solver = [each for each in record.trajectory if each["name"] == "solver"]
    assert record.seconds_by_agent["solver"] == sum(each["end_seconds"] - each["start_seconds"] for each in solver)
    found = record.to_dict()
    for measured in ("thread_id", "started_at", "wall_seconds", "seconds_by_agent", "trajectory"):
        assert found.pop(measured)
    usage, nothing = Usage(lm_calls=2, tool_calls=1, input_tokens=6, cost_usd=0.5, known_cost_usd=0.5), Usage()
    judging = Usage(lm_calls=2, cost_usd=2.0, known_cost_usd=2.0)
    assert nothing.cost_usd is None and found == {
        "run_id": "r", "sample_id": "q7", "epoch": 2, "attempt": 3, "question": "What is hidden?", "file": "table.csv",
        "level": "2", "target": "42", "answer": "42", "reasoning_trace": "with the ***", "score": 1.0,
        "explanation": "equal", "parts": {"form": 0.5},
        "extra_scores": {"second": {"value": 1.0, "explanation": "equal", "error": None}},
        "error": None, "error_class": None, "error_component": None, "error_details": None, "limit": "tokens",
        "usage": vars(usage), "scorer_usage": vars(judging), "waited_seconds": 0.0,
        "calls_by_tool": {"search": 1}, "tool_errors": {"search": 1},
        "reviews": {"solver": {"reviews": 2, "rejected": 1, "retried": 1, "recovered": 1}},
        "leaks": [], "blocked_pages": {}, "human": [], "state": {"draft": "the ***"},
    }  # fmt: skip


def test_a_failed_answer_has_neither_trace_nor_score_and_its_state_says_why() -> None:
    record = whole_record(Asked(fails=True))
    assert (record.answer, record.reasoning_trace, record.score, record.extra_scores) == (None, "", None, {})
    assert (record.error, record.error_class, record.error_component, record.limit) == (
        "ValueError: the *** is out", "internal", "system", "tokens",
    )  # fmt: skip
    assert record.state == {"draft": "the ***", "error": "ValueError: the *** is out", "error_component": "system"}
    assert record.error_details is not None and "secret" not in record.error_details.stack
    assert record.usage.cost_usd == 0.5 and record.scorer_usage == Usage()
    assert whole_record(Asked(answer=None)).answer is None
    assert whole_record(Asked(answer="")).answer == ""


def test_each_scorer_has_a_context_of_its_own_without_the_limits_of_the_answer() -> None:
    seen: list[SampleContext] = []

    async def look(question: str, answer: str | None, target: str) -> Score:
        current = current_context()
        assert current is not None
        assert 0 < current.seconds_left <= 5.0
        seen.append(current)
        if len(seen) == 3:
            current.server_refusal = "no credit"
        return Score(1.0, "fine")

    opened: list[SampleContext] = []

    def open_context(key: SampleKey) -> SampleContext:
        opened.append(SampleContext(key, SampleLimits(lm_calls=7)))
        return opened[-1]

    scorers = {"second": look, "third": look}
    record = whole_record(Asked(), scorer=look, extra_scorers=scorers, open_context=open_context)
    assert [each.key for each in (*opened, *seen)] == [SampleKey("q7", 2, 3)] * 4
    assert [each.limits for each in seen] == [SampleLimits()] * 3
    assert len({id(each.usage) for each in seen}) == 3 and all(each._is_closed for each in seen)
    assert (record.error, record.score) == (None, 1.0), "the refusal of an extra judge does not end the run"


def test_the_refusal_of_the_deciding_judge_is_one_of_the_provider() -> None:
    async def refuse(question: str, answer: str | None, target: str) -> Score:
        current = current_context()
        assert current is not None
        current.server_refusal = "no credit for the secret"
        return Score(1.0, "fine")

    record = whole_record(Asked(), scorer=refuse)
    assert (record.error, record.error_class, record.score, record.answer) == (
        "no credit for the ***", "quota_or_key", None, None,
    )  # fmt: skip


def test_the_listener_and_the_observer_of_a_sample_get_its_events_and_spans() -> None:
    opened: list[tuple[str, SampleKey]] = []
    events: list[str] = []
    spans: list[str] = []

    def open_listener(thread_id: str, key: SampleKey) -> Callable[..., None]:
        opened.append((thread_id, key))
        return lambda level, name, fields: events.append(name)

    record = whole_record(
        Asked(), open_listener=open_listener, observer=lambda seen: spans.append(f"{seen.kind} {seen.name}")
    )
    assert opened == [(record.thread_id, SampleKey("q7", 2, 3))] and len(record.thread_id) == 32
    assert events and {"question q7", "agent solver", "tool search"} <= set(spans)
