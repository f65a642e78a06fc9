"""Error classes and components: from exceptions as they are raised, and from what a real HTTP server answers."""

from contextlib import suppress

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
)

from eval.execution.failure import (
    Failure,
    describe_failure,
    describe_timeout,
)
from mas.runtime.lm_errors import (
    EmptyReplyError,
    RefusedReplyError,
    StepLimitError,
    TruncatedPromptError,
    TruncatedReplyError,
)
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace, span

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


def test_an_agent_that_calls_tools_without_end_has_reached_a_limit() -> None:
    failure = describe_failure(StepLimitError("no answer after 12 steps of tool calls"), empty())
    assert (failure.kind, failure.limit) == ("limit", "max_steps")


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


def test_an_error_that_causes_itself_has_its_class_as_well() -> None:
    error = ValueError("in a circle")
    error.__cause__ = error
    assert describe_failure(error, empty()) == Failure("ValueError: in a circle", "internal", "system")
