"""Cost and validation of a reply: what it cost, and whether it is complete.

payment = record_cost(response, price, context, current)            # current.attributes["cost_usd"] = …
response = validate_reply(request, response, limits, current)       # or TruncatedReplyError
"""

import dataclasses
import re
from collections.abc import Iterator

import json_repair
from dspy.lm15 import RefusalPart, Request, Response, TextPart, ThinkingPart, ToolCallPart

from mas.llm.call_policy import ModelLimits
from mas.llm.dspy_engine import Part, message_to_dict
from mas.llm.prices import Price
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedReplyError
from mas.runtime.sample_context import Payment, SampleContext
from mas.runtime.text import replace_surrogates
from mas.runtime.trace import Span

MAX_REPLY_CHARS = 1_000_000  # twice the longest output of today's models; records hold a reply several times
UNREADABLE_ARGUMENTS = "partial_json"  # DSPy's name for the text of arguments that are no JSON object


def record_cost(response: Response, price: Price | None, context: SampleContext, current: Span) -> Payment:
    """Record tokens, cost and finish reason on the span and the context, also of a reply that is not valid.

    Returns:
        The payment for the reply, due unless it was replayed.
    """
    usage = response.usage
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    cached_tokens = usage.cache_read_tokens or 0
    is_counted = usage.input_tokens is not None or usage.output_tokens is not None
    is_known = price is not None and (is_counted or not price.input_usd_per_million)
    cost_usd = price.cost_usd(input_tokens, cached_tokens, output_tokens) if price and is_known else None
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
    """Check that a reply has a text or a tool call.

    Raises:
        EmptyReplyError: it has neither, and was not truncated or withheld, which `validate_reply` reports.
    """
    if response.finish_reason in ("length", "content_filter"):
        return
    if all(_is_blank(part) for part in response.message.parts):
        raise EmptyReplyError("the model's reply is empty: no text and no tool call", model=response.model)


def validate_reply(request: Request, response: Response, limits: ModelLimits, current: Span) -> Response:
    """Return the reply without lone surrogates, and record it on the span.

    Raises:
        TruncatedReplyError: it stopped at the token limit, which DSPy alone would parse as an answer, or is too long.
        RefusedReplyError: the provider withheld it, or the model refused.
        TruncatedPromptError: the model read only a part of the prompt.
    """
    parts = tuple(
        repaired for part in response.message.parts for repaired in _repair(_replace_surrogates(part), current)
    )
    if (chars := sum(len(getattr(part, "text", None) or str(part)) for part in parts)) > MAX_REPLY_CHARS:
        message = f"the reply has {chars:,} characters, and {MAX_REPLY_CHARS:,} are taken at most"
        raise TruncatedReplyError(message, model=response.model)
    response = dataclasses.replace(response, message=dataclasses.replace(response.message, parts=parts))
    current.outputs = message_to_dict(response.message)
    limits.check_not_truncated(request, response.usage.input_tokens)
    if response.finish_reason == "length":
        raise TruncatedReplyError("the reply was cut off at the model's token limit", model=response.model)
    if response.finish_reason == "content_filter":
        raise RefusedReplyError("the provider's content filter withheld the reply", model=response.model)
    if refusal := next((part.text for part in parts if isinstance(part, RefusalPart)), None):
        raise RefusedReplyError(f"the model refused to answer: {refusal}", model=response.model)
    answer = tuple(part for part in parts if not isinstance(part, ThinkingPart))
    if all(_is_blank(part) for part in answer):
        raise EmptyReplyError("the model's reply is only thinking: no text and no tool call", model=response.model)
    return dataclasses.replace(response, message=dataclasses.replace(response.message, parts=answer))


_NAMES = "think|thinking|thought|reasoning|seed:think"
# Of Qwen and DeepSeek, Magistral, Kimi, OpenThinker, Gemma and gpt-oss; a tag in backticks is spoken of.
_BEGIN = rf"(?<!`)<\s*(?:{_NAMES})(?:\s+[\w-]+=[^<>]*)?\s*>|(?-i:\[THINK\])"
_BEGIN += r"|◁think▷|<\|begin_of_thought\|>|<unused94>|<\|channel\|>(?:analysis|commentary)<\|message\|>"
_END = rf"(?<!`)<\s*/\s*(?:{_NAMES})\s*>|(?-i:\[/THINK\])|◁/think▷|<unused95>"
_END += r"|<\|end_of_thought\|>(?:\s*<\|begin_of_solution\|>)?"
_END += r"|(?:<\|end\|>\s*<\|start\|>assistant)?<\|channel\|>final<\|message\|>"
_TAGS = re.compile(f"(?P<begin>{_BEGIN})|{_END}", re.IGNORECASE)
_FENCED = re.compile(r"^```(?:thinking|thoughts?|reasoning)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _split_thinking(text: str) -> tuple[str, str]:
    """Return thinking and answer; either end of a block may be missing."""
    thoughts, answer, at, is_open = "", "", 0, False
    text = _FENCED.sub(r"<think>\1</think>", text) if "```" in text else text
    for tag in _TAGS.finditer(text):
        if not tag["begin"]:
            thoughts, at, is_open = thoughts + text[at : tag.end()], tag.end(), False
        elif not is_open:
            answer, at, is_open = answer + text[at : tag.start()], tag.start(), True
    return (thoughts + text[at:], answer) if is_open else (thoughts, answer + text[at:])


def _repair(part: Part, current: Span) -> Iterator[Part]:
    """Yield the part with thinking apart from the text that is parsed, and arguments of a tool call as an object."""
    if isinstance(part, TextPart) and (found := _split_thinking(part.text))[0]:
        current.attributes["thinking_chars"] = len(found[0])
        yield ThinkingPart(found[0])
        part = dataclasses.replace(part, text=found[1].lstrip())
    elif isinstance(part, ToolCallPart) and part.input.keys() == {UNREADABLE_ARGUMENTS}:
        arguments = json_repair.loads(str(part.input[UNREADABLE_ARGUMENTS]))
        if isinstance(arguments, dict) and arguments:
            current.attributes["repaired_arguments"] = True
            part = dataclasses.replace(part, input=arguments)
    yield part


def _is_blank(part: Part) -> bool:
    return isinstance(part, ThinkingPart) or (isinstance(part, TextPart) and not part.text.strip())


def _replace_surrogates(part: Part) -> Part:
    """Return the part in valid Unicode; no later prompt, log or database row could hold a lone surrogate."""
    if isinstance(part, TextPart):
        return dataclasses.replace(part, text=replace_surrogates(part.text))
    if isinstance(part, ToolCallPart):
        return dataclasses.replace(part, input=replace_surrogates(part.input))
    return part
