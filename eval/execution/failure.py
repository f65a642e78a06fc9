"""Failure of a sample as data: a sentence, a class, and the component that it happened in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import dspy.utils.exceptions as dspy_errors

from eval.runs.record import ErrorDetails, Record
from eval.scorers.score import remove_target
from mas.runtime import lm_errors
from mas.runtime.errors import AgentReplyError, AgentUnavailableError, format_stack, walk_chain
from mas.runtime.sample_context import LimitReachedError
from mas.runtime.trace import Trace

_CLASSES: Mapping[str, tuple[type[BaseException], ...]] = {  # error class of a record: of the first that matches
    "context_overflow": (lm_errors.TruncatedPromptError, dspy_errors.ContextWindowExceededError),
    "truncated": (lm_errors.TruncatedReplyError,),
    "refused": (lm_errors.RefusedReplyError,),
    "malformed": (lm_errors.EmptyReplyError, dspy_errors.AdapterParseError),
    "quota_or_key": (dspy_errors.LMBillingError, dspy_errors.LMAuthError, dspy_errors.LMConfigurationError),
    # A request that this server will never take, or an exception that no model client is known to raise.
    "internal": (
        *(dspy_errors.LMInvalidRequestError, dspy_errors.LMUnsupportedFeatureError, dspy_errors.LMUnexpectedError),
        AgentReplyError,
    ),
    "infrastructure": (dspy_errors.LMError, AgentUnavailableError),
}
MAX_MESSAGE_CHARS = 1_000
MAX_STACK_CHARS = 8_000


@dataclass(frozen=True)
class Failure:
    message: str  # one sentence
    kind: str  # error class
    component: str  # agent, tool, or part of the harness
    limit: str | None = None  # the limit that fired, if one did
    details: ErrorDetails = field(default_factory=ErrorDetails, compare=False)

    def write_to(self, record: Record, redact: Callable[[str], str]) -> None:
        """Make it the record's error: without secrets, and with a stack that is cut."""
        stack, half = redact(self.details.stack), MAX_STACK_CHARS // 2
        cut = stack if len(stack) <= MAX_STACK_CHARS else f"{stack[:half]} … {stack[-half:]}"
        record.error, record.error_class, record.error_component = redact(self.message), self.kind, self.component
        record.limit, record.error_details = self.limit or record.limit, replace(self.details, stack=cut)


def describe_failure(error: BaseException, trace: Trace, agent: str | None = None) -> Failure:
    """Return the class and the place of the failure that ended the sample recorded in `trace`.

    `agent`: that failed, if the system knows; its work may have gone on to an answer that reports the failure.
    """
    component, details = agent or _component(trace), _describe_place(trace, error)
    if agent is not None:  # the workflow has gone on to its last step
        details = replace(details, agent=agent, step=agent if details.step else None)
    # DSPy takes what is raised inside of a call for a defect, and wraps it.
    if limit := next((each for each in walk_chain(error) if isinstance(each, LimitReachedError)), None):
        return Failure(str(limit), "limit", component, limit.limit, details)
    message = _shorten(f"{type(error).__name__}: {error}")
    if isinstance(error, lm_errors.StepLimitError):
        return Failure(message, "limit", component, "max_steps", details)
    kind = _class_of(error) or ("tool" if _innermost(trace, ("tool",)) else "internal")
    return Failure(message, kind, component, details=details)


def describe_timeout(trace: Trace, deadline_seconds: float) -> Failure:
    """Return the failure of the deadline itself; a tool or a program may raise any `TimeoutError` of its own."""
    message = f"no answer within {deadline_seconds:g} s (run.deadline_seconds)"
    return Failure(message, "limit", _component(trace), "deadline_seconds", _describe_place(trace))


def describe_refusal(message: str, trace: Trace) -> Failure:
    """Return the failure of a provider that wants money or a valid key, whatever the sample made of it."""
    return Failure(_shorten(message), "quota_or_key", _component(trace), details=_describe_place(trace))


def describe_scoring(error: Exception | None, deadline_seconds: float, target: str) -> Failure:
    """Return the failure of a scorer: a judge that cannot be called or understood, or a user's own function.

    `error`: None at its deadline. Its messages may quote the target, which is removed.
    """
    if error is None:
        message = f"no verdict of the scorer within {deadline_seconds:g} s (run.deadline_seconds)"
        return Failure(message, "scorer", "scorer", "deadline_seconds")
    message = remove_target(_shorten(f"the scorer failed ({type(error).__name__}: {error})"), target)
    stack = remove_target(format_stack(error), target)
    kind = "quota_or_key" if _class_of(error) == "quota_or_key" else "scorer"  # a judge's key stops the run, too
    return Failure(message, kind, "scorer", details=ErrorDetails(type(error).__name__, stack))


def _describe_place(trace: Trace, error: BaseException | None = None) -> ErrorDetails:
    """Return where in the system's work a sample ended, and the exception that ended it."""
    return ErrorDetails(
        type=type(error).__name__ if error else None,
        stack=format_stack(error) if error else "",
        agent=_innermost(trace, ("agent",)),
        step=trace.step,
        retry_counts=dict(trace.retry_counts),
    )


def _class_of(error: BaseException) -> str | None:
    return next((name for name, kinds in _CLASSES.items() if isinstance(error, kinds)), None)


def _shorten(message: str) -> str:
    return " ".join(message.split())[:MAX_MESSAGE_CHARS]


def _component(trace: Trace) -> str:
    """Return the innermost agent or tool that failed; if there is none, the system itself."""
    return _innermost(trace, ("agent", "tool")) or "system"


def _innermost(trace: Trace, kinds: tuple[str, ...]) -> str | None:
    """Return the name of the last failed span that nothing followed: earlier failures were handled."""
    failed = [each for each in trace.spans if each.error and each.kind in kinds and _passed_on(each.id, trace)]
    return failed[-1].name if failed else None


def _passed_on(span_id: int, trace: Trace) -> bool:
    """Return whether the span's exception ended the sample: all spans around it failed, and nothing began after it."""
    current = trace.spans[span_id]
    while current.parent is not None:
        ended = current.end_seconds
        later = (each for each in trace.spans[current.id + 1 :] if each.parent == current.parent)
        if ended is not None and any(each.start_seconds >= ended for each in later):
            return False
        current = trace.spans[current.parent]
        if not current.error:
            return False
    return True
