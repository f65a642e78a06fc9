"""The runner around stand-in programs; the real ones run in test_run.py."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.execution.runner import SampleRunner
from eval.runs.record import Record
from eval.scorers.gaia import GaiaScorer
from eval.scorers.score import Score
from mas.runtime.lm_errors import TruncatedReplyError
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, current_context
from mas.runtime.trace import current_trace, event, span
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


def test_an_answer_that_only_reports_a_failure_of_the_model_is_an_error_of_its_class() -> None:
    """A scorer that expects a refusal never sees it."""

    async def body(question: str) -> dict[str, Any]:
        current_trace().step = "expert"
        current_trace().failure = (TruncatedReplyError("cut off"), "expert")
        current_trace().step = "finalizer"
        return {"final_answer": "The question could not be answered."}

    record = one(body)
    assert (record.error_class, record.error_component) == ("truncated", "expert")
    assert (record.answer, record.score, record.scored) == (None, None, True)
    assert record.error_details is not None
    assert (record.error_details.agent, record.error_details.step) == ("expert", "expert")


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
    assert 0.05 <= record.wall_seconds < 25


def test_a_scorer_may_wait_and_its_calls_are_counted_apart() -> None:
    async def body(question: str) -> dict[str, Any]:
        with span("lm", "m") as call:
            call.attributes |= {"input_tokens": 11, "output_tokens": 7}
        return {"final_answer": "42"}

    async def judge(question: str, answer: str | None, target: str) -> Score:
        with span("agent", "judging"), span("lm", "judge") as call:
            call.attributes |= {"input_tokens": 100, "output_tokens": 3}
            await asyncio.sleep(0.5)
        return Score(0.5, "half", {"rule": 1.0})

    record = one(body, scorer=judge)
    assert (record.score, record.explanation, record.parts, record.correct) == (0.5, "half", {"rule": 1.0}, False)
    answering, judging = record.usage, record.scorer_usage
    assert (answering.lm_calls, answering.input_tokens, answering.output_tokens) == (1, 11, 7)
    assert (judging.lm_calls, judging.input_tokens, judging.output_tokens) == (1, 100, 3)
    assert [step["kind"] for step in record.trajectory] == ["question", "lm", "scorer", "agent", "lm"]
    assert record.seconds_by_agent == {}
    assert record.wall_seconds < 0.5, "the time of the answer, not of its judging"
    assert Record.from_dict(asdict(record)) == record


def test_a_secret_is_taken_out_of_errors_steps_and_state() -> None:
    async def body(question: str) -> dict[str, Any]:
        current_trace().state = {"notes": ["sk-123 was refused"], "sk": 1}
        with span("agent", "planner", inputs={"tries": [{"key": "sk-123"}]}):
            event("refused", key="sk-123")
            raise RuntimeError("bad key sk-123")

    record = one(body, redact=lambda text: text.replace("sk-123", "***"))
    assert record.error == "RuntimeError: bad key ***"
    assert record.state["notes"] == ["*** was refused"]
    assert record.trajectory[1]["inputs"] == {"tries": [{"key": "***"}]}
    assert "sk-123" not in str(record)


def test_what_the_store_raises_stops_the_run_as_it_is() -> None:
    class FullDiskError(Exception):
        pass

    def finished(record: Record) -> None:
        raise FullDiskError("no room")

    runner, _ = runner_of(answer_42, finished)
    with pytest.raises(FullDiskError, match="no room"):
        asyncio.run(runner.run(once(samples(5))))


def test_the_gold_answer_is_not_handed_to_the_program() -> None:
    seen: list[dict[str, Any]] = []

    class Nosy:
        async def acall(self, **inputs: Any) -> dict[str, Any]:
            seen.append(inputs)
            return {"final_answer": "1"}

    run(answer_42, [Sample("a", "a?", target="CANARY")], program=Nosy())
    assert seen == [{"question": "a?", "file": None, "inputs": None}]


def limited(body: Body, **limits: Any) -> Record:
    return one(body, open_context=lambda sample: SampleContext(sample, SampleLimits(**limits)))


async def two_calls(question: str) -> dict[str, Any]:
    current = current_context()
    assert current is not None
    for number in range(2):
        with span("agent", "expert"):
            current.count_lm_call()
        if question == "kept?":
            current_trace().answer = "42" if number == 0 else "43"
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


@pytest.mark.parametrize("way", ["answers", "raises"])
@pytest.mark.parametrize("kept", ["42", None])
def test_an_answer_that_comes_after_the_deadline_does_not_count(way: str, kept: str | None) -> None:
    async def body(question: str) -> dict[str, Any]:
        if kept:
            current_trace().answer = kept
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            if way == "raises":
                raise RuntimeError("interrupted") from None
        return {"final_answer": "late", "final_reasoning_trace": "late"}

    record = one(body, deadline_seconds=0.05)
    assert (record.answer, record.reasoning_trace, record.limit) == (kept, "", "deadline_seconds")
    assert (record.score, record.error_class) == ((1.0, None) if kept else (None, "limit"))


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
