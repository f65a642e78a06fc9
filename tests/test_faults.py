"""What a model server can do wrong, each fault once in passing and once for good: its class, its requests, its score.

The toy system asks three times a question (plan, solve, finalize), over HTTP, against `tests/servers/faults.py`; two
retries are allowed. `LASTING` and `PASSING` are the table in docs/reference/errors.md.
"""

import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.execution.runner import SampleRunner
from eval.execution.termination import StopController
from eval.runs.record import Record
from eval.scorers.gaia import GaiaScorer
from mas.llm.engine import REFUSALS_PER_RETRY
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleKey
from mas.systems.toy.system import ToySystem
from mas.tools.settings import Resources
from tests.eval.command_line import EvalCommand, dataset, question
from tests.servers.fault_replies import ANSWER
from tests.servers.faults import fault_server

NUM_RETRIES = 2
STEPS = 3  # requests of a question that meets no fault
ALL = NUM_RETRIES + 1  # requests of a call that fails each time
REFUSED = NUM_RETRIES * REFUSALS_PER_RETRY + 1  # requests of a call that is refused each time
ONCE_MORE = 2  # requests of a call whose reply makes no sense
RETRIED = STEPS + 1
# Fault → error class of the question (None: it is answered, and right) and requests that the server saw.
Expected = dict[str, tuple[str | None, int]]
LASTING: Expected = {
    "429": ("infrastructure", REFUSED),
    "429_retry_after_1": ("infrastructure", REFUSED),
    "429_retry_after_3600": ("infrastructure", 1),  # longer than any deadline: no use in sleeping
    "quota": ("quota_or_key", 1),
    "400": ("internal", 1),
    "401": ("quota_or_key", 1),
    "403": ("quota_or_key", 1),
    "404": ("internal", 1),
    "500": ("infrastructure", ALL),
    "502": ("infrastructure", ALL),
    "503": ("infrastructure", REFUSED),
    "529": ("infrastructure", REFUSED),
    "hang": ("infrastructure", ALL),
    "drip": ("infrastructure", ALL),
    "reset": ("infrastructure", ALL),
    "cut": ("infrastructure", ALL),
    "html": ("infrastructure", ALL),
    "bad_json": ("infrastructure", ALL),
    "error_in_200": ("infrastructure", ALL),
    "no_choices": ("malformed", ONCE_MORE),
    "null_choices": ("malformed", ONCE_MORE),
    "null_content": ("malformed", ONCE_MORE),
    "empty_content": ("malformed", ONCE_MORE),
    "gibberish": ("malformed", 2),  # the second one is DSPy's, which asks for JSON
    "length": ("truncated", 1),
    "content_filter": ("refused", 1),
    "overflow_openai": ("context_overflow", 1),
    "overflow_vllm": ("context_overflow", 1),
    "overflow_llama_cpp": ("context_overflow", 1),
    "surrogates": (None, STEPS),
    "huge": ("truncated", 1),
}
# Once, then answers: what is retried is got over; the rest ends the question as if it had lasted.
PASSING: Expected = {
    name: (None, STEPS if kind is None else RETRIED) if requests > 1 else (kind, requests)
    for name, (kind, requests) in LASTING.items()
}


@dataclass
class Outcome:
    """One question against a server with one schedule."""

    served: list[str]  # the fault of each request
    record: Record  # also of one that is not kept
    stopped: str | None  # why the run ended before its questions did
    seconds: list[float]  # of each request, since the server's start


class Swallowing:
    """A program that answers whatever happens."""

    def __init__(self, program: Any) -> None:
        self.program = program

    async def acall(self, **inputs: Any) -> Any:
        try:
            return await self.program.acall(**inputs)
        except Exception:  # noqa: BLE001  as a careless agent does
            return {"final_answer": ANSWER}


async def ask(schedule: Any, *, deadline_seconds: float = 240.0, swallowing: bool = False, **model: Any) -> Outcome:
    """The toy system's one question, in a run of its own, against a server of its own."""
    settings = {"num_retries": NUM_RETRIES, "retry_base_seconds": 0.01, "call_deadline_seconds": 120.0, **model}
    with fault_server(schedule) as server:
        profile = OpenAIChatModel(name="faults", base_url=server.base_url, **settings)
        program = ToySystem().build(profile, None, Resources())
        runner = SampleRunner(
            run_id="run-1",
            program=Swallowing(program) if swallowing else program,
            scorer=GaiaScorer(),
            deadline_seconds=deadline_seconds,
            redact=lambda text: text,
        )
        stop = StopController()
        record = await runner.run_sample(Sample("q1", "What is 6 * 7?", target=ANSWER), SampleKey("q1"))
        stop.observe(record)
        requests = server.requests()
    reason = str(stop.reason) if stop.reason else None
    return Outcome([each["fault"] for each in requests], record, reason, [each["seconds"] for each in requests])


def lasting(name: str) -> dict[str, Any]:
    return {"every": 1, "fault": name}


WAITED_FOR = ("hang", "drip")  # faults that end with an attempt's timeout
REFUSING = ("429", "503", "529")  # faults after which the limiter waits


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], Outcome]:
    """Every fault in passing and for good, side by side; those with a short timeout while the others only wait."""
    cases: dict[tuple[str, str], Any] = {("lasting", name): lasting(name) for name in LASTING}
    cases |= {("passing", name): [name] for name in LASTING}

    def start(waited_for: bool, **seconds: float) -> dict[tuple[str, str], asyncio.Task[Outcome]]:
        chosen = [case for case in cases if (case[1] in WAITED_FOR) is waited_for]
        return {case: asyncio.create_task(ask(cases[case], **seconds)) for case in chosen}

    async def ask_all() -> dict[tuple[str, str], Outcome]:
        asked = start(False, attempt_timeout_seconds=100.0)
        await asyncio.wait([task for (_, name), task in asked.items() if not name.startswith(REFUSING)])
        asked |= start(True, attempt_timeout_seconds=2.5, call_deadline_seconds=15.0)
        return {case: await task for case, task in asked.items()}

    return run_blocking(ask_all())


@pytest.mark.parametrize("name", LASTING)
def test_a_lasting_fault_ends_the_question_in_its_class_after_its_requests(
    name: str, outcomes: dict[tuple[str, str], Outcome]
) -> None:
    kind, requests = LASTING[name]
    outcome = outcomes["lasting", name]
    assert outcome.served == [name] * requests
    check(outcome, kind, requests)


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_fault_is_got_over_where_asking_again_can_help(
    name: str, outcomes: dict[tuple[str, str], Outcome]
) -> None:
    kind, requests = PASSING[name]
    outcome = outcomes["passing", name]
    assert outcome.served == [name] + ["ok"] * (requests - 1)
    check(outcome, kind, requests)


def check(outcome: Outcome, kind: str | None, requests: int) -> None:
    """Class, component, score and counts of the record; a quota or a key stops the run as well."""
    record = outcome.record
    assert bool(outcome.stopped) is (kind == "quota_or_key")
    assert record.error_class == kind, record.error
    assert record.usage.lm_calls == requests
    if kind is None:
        assert (record.answer, record.score, record.error) == (ANSWER, 1.0, None)
        assert record.usage.retries == requests - STEPS
    else:
        assert (record.answer, record.score, record.error_component, record.limit) == (None, None, "plan", None)
        assert record.error
        assert record.usage.retries == requests - 1
    json.dumps(asdict(record), ensure_ascii=False).encode()  # no half of a surrogate pair has come this far


@pytest.mark.parametrize("name", ["no_choices", "null_choices", "null_content", "empty_content"])
def test_a_reply_that_says_nothing_is_called_empty_not_unreadable(
    name: str, outcomes: dict[tuple[str, str], Outcome]
) -> None:
    assert str(outcomes["lasting", name].record.error).startswith("EmptyReplyError: ")


def test_a_retry_after_beyond_the_deadline_fails_at_once(outcomes: dict[tuple[str, str], Outcome]) -> None:
    record = outcomes["lasting", "429_retry_after_3600"].record
    assert record.wall_seconds < 60, "half of the call's deadline"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["drip", "hang"])
def test_a_server_that_drips_or_hangs_holds_no_question_a_second_past_its_deadline(name: str) -> None:
    tries = (run_blocking(ask(lasting(name), deadline_seconds=1.5)) for _ in range(5))  # a busy machine delays some
    outcome = next(each for each in tries if each.record.wall_seconds < 2.5)
    record = outcome.record
    assert (record.error_class, record.limit, record.score) == ("limit", "deadline_seconds", None)
    assert record.wall_seconds >= 1.5
    assert outcome.served == [name]


@pytest.mark.parametrize("fault", ["quota", "401"])
def test_a_refusal_that_the_agent_swallows_stops_the_run_too(fault: str) -> None:
    outcome = run_blocking(ask(["ok", fault], swallowing=True))
    assert (outcome.served, outcome.record.error_class, outcome.record.score) == (["ok", fault], "quota_or_key", None)
    assert "quota exhausted or key rejected" in str(outcome.stopped)


@pytest.mark.parametrize("fault", ["length", "content_filter", "huge"])
def test_a_part_of_an_answer_is_never_right_even_if_it_reads_like_the_gold_answer(fault: str) -> None:
    outcome = run_blocking(ask(["ok", "ok", fault]))
    record = outcome.record
    assert (record.error_class, record.error_component) == (LASTING[fault][0], "finalize")
    assert (record.score, record.correct) == (None, False)
    assert len(json.dumps(asdict(record))) < 1_000_000, "nor is all of it kept"


@pytest.mark.slow
def test_a_server_that_refuses_everything_stops_the_run_with_its_reason(
    eval_command: EvalCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mas.llm.rate_limiter.MAX_PAUSE_SECONDS", 0.01)
    rows = dataset(tmp_path, *(question(f"q{number}", f"What is {number} * 7?", "42") for number in range(9)))
    with fault_server(lasting("429")) as server:
        model = ["model=openai_compatible", f"model.base_url={server.base_url}", "model.retry_base_seconds=0.01"]
        finished = eval_command("system=toy", *model, *rows, "run.concurrency=1", "model.num_retries=1")
    out = " ".join(finished.out.split())
    assert (finished.code, len(finished.records), len(server.requests())) == (3, 5, 5 * 5)
    assert "stopped: the first 5 answers all failed in the same way: LMRateLimitError: " in out
    assert "Rate limit reached" in out
