"""What becomes of a reply: its cost on the span and on the question's account, then whether it is a whole answer.

payment = charge(response, price, context, current)    # current.attributes["cost_usd"] = …
response = accepted(request, response, limits, current) # or TruncatedReplyError
"""

import dataclasses

from dspy._vendor.lm15.serde import message_to_dict
from dspy._vendor.lm15.types import Part, RefusalPart
from dspy.lm15 import Request, Response, TextPart, ThinkingPart, ToolCallPart

from mas.llm.call_policy import ModelLimits
from mas.llm.prices import Price
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError
from mas.runtime.sample_context import Payment, SampleContext
from mas.runtime.text import encodable
from mas.runtime.trace import Span

MAX_REPLY_CHARS = 1_000_000  # twice what the longest-winded models may write; more would be in the record many times
BEGINNING_CHARS = 1_000  # of a longer one, that is kept


def record_cost(response: Response, price: Price | None, context: SampleContext, current: Span) -> Payment:
    """Note what the reply cost and how it ended. A reply that turns out to be useless has been paid for as well.

    Returns:
        What is to be paid for it, unless it was kept from before.
    """
    usage = response.usage
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    cached_tokens = usage.cache_read_tokens or 0
    counted = usage.input_tokens is not None or usage.output_tokens is not None
    known = price is not None and (counted or not price.input_usd_per_million)
    cost_usd = price.cost_usd(input_tokens, cached_tokens, output_tokens) if price and known else None
    current.attributes |= {
        "finish_reason": response.finish_reason,
        "input_tokens": input_tokens,
        "cached_input_tokens": cached_tokens,
        "output_tokens": output_tokens,
        "cost_usd": cost_usd,
    }
    context.record_reply(input_tokens + output_tokens, cost_usd)
    return Payment(input_tokens, cached_tokens, output_tokens, cost_usd)


def check_not_empty(response: Response) -> None:
    """
    Raises:
        EmptyReplyError: it says nothing and calls nothing. One that was cut off or withheld is told as that.
    """
    if response.finish_reason in ("length", "content_filter"):
        return
    if all(_says_nothing(part) for part in response.message.parts):
        raise EmptyReplyError("the model's reply is empty: no text and no tool call", model=response.model)


def validate_reply(request: Request, response: Response, limits: ModelLimits, current: Span) -> Response:
    """The reply without lone surrogates, noted on the span.

    Raises:
        TruncatedReplyError: it stopped at the token limit, or is too long. DSPy alone would parse it as an answer.
        RefusedReplyError: the provider withheld it, or the model declined.
        TruncatedPromptError: it answers a part of what was asked.
    """
    parts = tuple(_mended(part) for part in response.message.parts)
    chars = sum(map(_chars, parts))
    shown = parts if chars <= MAX_REPLY_CHARS else (TextPart(_beginning(parts)),)
    response = dataclasses.replace(response, message=dataclasses.replace(response.message, parts=shown))
    current.outputs = message_to_dict(response.message)
    if chars > MAX_REPLY_CHARS:
        message = f"the reply has {chars:,} characters, and {MAX_REPLY_CHARS:,} are taken at most"
        raise TruncatedReplyError(message, model=response.model)
    limits.check_not_truncated(request, response.usage.input_tokens)
    if response.finish_reason == "length":
        raise TruncatedReplyError("the reply was cut off at the model's token limit", model=response.model)
    if response.finish_reason == "content_filter":
        raise RefusedReplyError("the provider's content filter withheld the reply", model=response.model)
    if refusal := next((part.text for part in parts if isinstance(part, RefusalPart)), None):
        raise RefusedReplyError(f"the model refused to answer: {refusal}", model=response.model)
    return response


def _chars(part: Part) -> int:
    return len(part.text) if isinstance(part, TextPart | ThinkingPart) else len(str(part))


def _beginning(parts: tuple[Part, ...]) -> str:
    text = next((part.text for part in parts if isinstance(part, TextPart)), "")
    return f"{text[:BEGINNING_CHARS]} […]"


def _says_nothing(part: Part) -> bool:
    return isinstance(part, ThinkingPart) or (isinstance(part, TextPart) and not part.text.strip())


def _mended(part: Part) -> Part:
    """No later prompt, log or database row could hold a lone surrogate."""
    if isinstance(part, TextPart):
        return dataclasses.replace(part, text=encodable(part.text))
    if isinstance(part, ToolCallPart):
        return dataclasses.replace(part, input=encodable(part.input))
    return part
