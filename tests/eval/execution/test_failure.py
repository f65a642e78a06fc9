"""Error classes and components: from exceptions as they are raised, and from what a real HTTP server answers."""

from contextlib import suppress
from typing import Any

import dspy
import pytest
from dspy.clients.errors import error_boundary
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMError,
    LMInvalidRequestError,
    LMNotConfiguredError,
    LMRateLimitError,
    LMServerError,
    LMTimeoutError,
    LMTransportError,
    LMUnexpectedError,
    LMUnsupportedFeatureError,
)

from eval.execution.failure import (
    MAX_MESSAGE_CHARS,
    MAX_STACK_CHARS,
    Failure,
    describe_failure,
    describe_refusal,
    describe_scoring,
    describe_scoring_timeout,
    describe_timeout,
    redact_details,
)
from eval.runs.record import ErrorDetails
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedPromptError, TruncatedReplyError
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, note_step, record_trace, span
from tests.servers.one_answer import refusal, server_that_answers

UNPARSABLE = AdapterParseError("ChatAdapter", dspy.Signature("question -> answer"), "gibberish")


def empty() -> Trace:
    return Trace("thread-1")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TruncatedReplyError("cut"), "truncated"),
        (TruncatedPromptError("cut"), "context_overflow"),
        (RefusedReplyError("withheld"), "refused"),
        (UNPARSABLE, "malformed"),
        (EmptyReplyError("nothing"), "malformed"),
        (ContextWindowExceededError(), "context_overflow"),
        (LMAuthError("bad key"), "quota_or_key"),
        (LMBillingError("no credit"), "quota_or_key"),
        (LMNotConfiguredError("no model"), "quota_or_key"),
        (LMRateLimitError("slow down"), "infrastructure"),
        (LMServerError("500"), "infrastructure"),
        (LMTransportError("reset"), "infrastructure"),
        (LMTimeoutError("late"), "infrastructure"),
        (LMInvalidRequestError("what?"), "internal"),
        (LMError("else"), "infrastructure"),
        (LMUnexpectedError("a bug in the model client"), "internal"),
        (RuntimeError("a bug"), "internal"),
        (KeyError("a bug"), "internal"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_kind_of_exception_has_its_class(error: Exception, kind: str) -> None:
    failure = describe_failure(error, empty())
    assert (failure.kind, failure.component, failure.limit) == (kind, "system", None)
    assert failure.message.startswith(type(error).__name__)


def test_the_deadline_is_a_limit_and_says_its_seconds() -> None:
    assert describe_timeout(empty(), 2.5) == Failure(
        "no answer within 2.5 s (run.deadline_seconds)", "limit", "system", "deadline_seconds"
    )
    assert describe_failure(TimeoutError("of its own"), empty()) == Failure(
        "TimeoutError: of its own", "internal", "system"
    )


def test_a_limit_of_the_question_is_named_even_where_it_was_wrapped() -> None:
    question = SampleContext(SampleKey("q1"), SampleLimits(lm_calls=0))
    with use_context(question), pytest.raises(LMError) as wrapped, error_boundary(model="m", unexpected=True):
        question.count_lm_call()
    limit = wrapped.value.__cause__
    assert isinstance(limit, LimitReachedError)
    expected = Failure(
        "the question has used its 0 calls to language models (limits.lm_calls)", "limit", "system", "lm_calls"
    )
    assert describe_failure(limit, empty()) == describe_failure(wrapped.value, empty()) == expected


def test_an_error_that_causes_itself_has_its_class_as_well() -> None:
    error = ValueError("in a circle")
    error.__cause__ = error
    assert describe_failure(error, empty()) == Failure("ValueError: in a circle", "internal", "system")


def test_a_message_is_one_line_of_bounded_length() -> None:
    message = describe_failure(RuntimeError("a\n\n b" + "x" * 5000), empty()).message
    assert message.startswith("RuntimeError: a b")
    assert len(message) == MAX_MESSAGE_CHARS


def failed_in(*spans: tuple[Any, str]) -> Failure:
    """The failure of a ValueError raised inside the spans, the outermost first."""
    trace = empty()

    def enter(rest: tuple[tuple[Any, str], ...]) -> None:
        if not rest:
            raise ValueError("broken")
        with span(*rest[0]):
            enter(rest[1:])

    with record_trace(trace), pytest.raises(ValueError, match="broken") as raised, span("question", "q1"):
        enter(spans)
    return describe_failure(raised.value, trace)


def test_the_innermost_agent_or_tool_is_the_component() -> None:
    assert failed_in().component == "system"
    assert failed_in(("orchestrator", "orchestrator")).component == "system"
    assert failed_in(("agent", "planner")).component == "planner"
    assert failed_in(("agent", "planner"), ("lm", "gpt")).component == "planner"
    assert failed_in(("agent", "expert"), ("tool", "calculator")).component == "calculator"


def test_what_ended_in_a_tool_is_a_tools_failure() -> None:
    assert failed_in(("agent", "expert"), ("tool", "calculator")).kind == "tool"
    assert failed_in(("agent", "expert")).kind == "internal"


def test_an_earlier_failure_that_was_dealt_with_is_not_blamed() -> None:
    trace = empty()
    with record_trace(trace), pytest.raises(ValueError, match="broken") as raised, span("question", "q1"):
        with span("agent", "researcher"), pytest.raises(OSError), span("tool", "read_file"):
            raise OSError("no such file")
        with span("agent", "finalizer"):
            raise ValueError("broken")
    failure = describe_failure(raised.value, trace)
    assert (failure.component, failure.kind) == ("finalizer", "internal")


@pytest.mark.parametrize(("goes_on", "blamed"), [(True, ("expert", "internal")), (False, ("calculator", "tool"))])
def test_a_tool_is_not_blamed_for_what_its_agent_did_afterwards(goes_on: bool, blamed: tuple[str, str]) -> None:
    trace = empty()
    with record_trace(trace), pytest.raises(ValueError, match="broken") as raised, span("agent", "expert"):
        with span("lm", "gpt"):
            pass
        with suppress(OSError), span("tool", "calculator"):
            raise OSError("no such file")
        if goes_on:
            with span("lm", "gpt"):
                pass
        raise ValueError("broken")
    failure = describe_failure(raised.value, trace)
    assert (failure.component, failure.kind) == blamed


def completion(finish_reason: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": "half an ans"}
    return {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, refusal("Incorrect API key provided", "invalid_api_key"), "quota_or_key"),
        (429, refusal("You exceeded your current quota", "insufficient_quota"), "quota_or_key"),
        (429, refusal("Rate limit reached", "rate_limit_exceeded"), "infrastructure"),
        (400, refusal("maximum context length is 8 tokens", "context_length_exceeded"), "context_overflow"),
        (500, refusal("oops"), "infrastructure"),
        (503, refusal("overloaded"), "infrastructure"),
        (200, completion("length"), "truncated"),
        (200, completion("content_filter"), "refused"),
    ],
    ids=["key", "quota", "rate", "context", "500", "503", "length", "content_filter"],
)
def test_what_a_server_answers_has_its_class(status: int, body: dict[str, Any], kind: str) -> None:
    with server_that_answers(status, body) as base_url:
        model = OpenAIChatModel(name="m", base_url=base_url, num_retries=0, call_deadline_seconds=10.0)
        with pytest.raises(LMError) as raised:
            run_blocking(dspy.Predict("question -> answer").acall(question="?", lm=model.create_lm(AgentModel())))
    assert describe_failure(raised.value, empty()).kind == kind


def test_a_server_that_has_gone_is_infrastructure() -> None:
    with server_that_answers(500, {}) as base_url:
        pass
    model = OpenAIChatModel(name="m", base_url=base_url, num_retries=0, call_deadline_seconds=10.0)
    with pytest.raises(LMError) as raised:
        run_blocking(dspy.Predict("question -> answer").acall(question="?", lm=model.create_lm(AgentModel())))
    assert describe_failure(raised.value, empty()).kind == "infrastructure"


def test_a_failure_says_type_stack_agent_step_and_retry_counts() -> None:
    trace = Trace("thread-1")
    with pytest.raises(ZeroDivisionError) as raised, record_trace(trace), span("question", "q1"):
        note_step("expert", {"planner": 1, "expert": 2})
        with span("agent", "expert"), span("tool", "calculator"):
            raise ZeroDivisionError("by zero")
    failure = describe_failure(raised.value, trace)
    details = failure.details
    assert (failure.component, details.type, details.agent, details.step) == (
        "calculator", "ZeroDivisionError", "expert", "expert",
    )  # fmt: skip
    assert details.retry_counts == {"planner": 1, "expert": 2}
    assert details.stack.splitlines()[-1] == "ZeroDivisionError: by zero"
    assert "tests.eval.execution.test_failure:" in details.stack
    late = describe_timeout(trace, 5.0).details
    assert (late.type, late.stack, late.agent, late.step) == (None, "", "expert", "expert")


def test_a_secret_at_the_cut_of_a_long_stack_is_not_cut_in_two() -> None:
    secret = "sk-abcdef123456"
    stack = "x" * (MAX_STACK_CHARS // 2 - 5) + secret + "y" * MAX_STACK_CHARS
    kept = redact_details(ErrorDetails(stack=stack), lambda text: text.replace(secret, "***")).stack
    assert "***" in kept and "sk-" not in kept and len(kept) <= MAX_STACK_CHARS + 3


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AgentUnavailableError("no server"), "infrastructure"),
        (AgentReplyError("no JSON"), "internal"),
        (LMUnsupportedFeatureError("no tools"), "internal"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_agent_elsewhere_may_be_down_or_wrong(error: Exception, kind: str) -> None:
    assert describe_failure(error, empty()).kind == kind


def test_a_refusal_is_one_of_the_provider_whatever_ended_the_sample() -> None:
    trace = empty()
    with record_trace(trace), pytest.raises(ValueError), span("question", "q1"), span("agent", "planner"):
        note_step("plan", {})
        raise ValueError
    found = describe_refusal("x" * (MAX_MESSAGE_CHARS + 1), trace)
    assert found == Failure("x" * MAX_MESSAGE_CHARS, "quota_or_key", "planner", None)
    assert (found.details.type, found.details.agent, found.details.step) == (None, "planner", "plan")


def test_a_scorer_s_failure_is_its_own_unless_nothing_more_can_be_paid() -> None:
    found = describe_scoring(ValueError("a\n b" + "x" * 5000))
    assert found == Failure(f"the scorer failed (ValueError: a b{'x' * 5000}"[:MAX_MESSAGE_CHARS], "scorer", "scorer")
    assert found.details.type == "ValueError" and found.details.stack.startswith("ValueError: a")
    assert describe_scoring(LMAuthError("bad")).kind == "quota_or_key"
    assert describe_scoring(LMServerError("500")).kind == "scorer"
    assert describe_scoring_timeout(7.0) == Failure(
        "no verdict of the scorer within 7 s (run.deadline_seconds)", "scorer", "scorer", "deadline_seconds"
    )


@pytest.mark.parametrize("more", [0, 1, 7])
def test_a_stack_is_cut_in_its_middle_where_it_is_too_long(more: int) -> None:
    half = MAX_STACK_CHARS // 2
    stack = "a" * half + "b" * more + "c" * half
    kept = redact_details(ErrorDetails("T", stack, "planner"), str)
    assert kept == ErrorDetails("T", f"{'a' * half} … {'c' * half}" if more else stack, "planner")
