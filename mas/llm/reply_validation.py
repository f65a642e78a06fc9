"""Cost of a reply, and one pass over its parts: thinking, tool calls, and whether it is an answer.

Ollama drops the beginning of a prompt that is too long. Only its count of tokens shows it: less than one for every 8
characters (English has about 4; a run of one repeated character counts once), or as many as the context holds.
"""

import dataclasses
import re
from collections.abc import Iterator

import json_repair
from dspy.lm15 import RefusalPart, Response, TextPart, ThinkingPart, ToolCallPart
from dspy.utils.exceptions import LMError

from mas.llm import CallSettings
from mas.llm.prices import Price
from mas.prompt_sets.dspy_internals import Part, message_to_dict
from mas.runtime.lm_errors import EmptyReplyError, RefusedReplyError, TruncatedPromptError, TruncatedReplyError
from mas.runtime.sample_context import Payment, SampleContext
from mas.runtime.text import replace_surrogates
from mas.runtime.trace import Span

MAX_REPLY_CHARS = 1_000_000  # twice the longest output of models; records hold a reply several times
MIN_CHARS = 2_000  # shorter prompts are not checked
MAX_CHARS_PER_TOKEN = 8
UNREADABLE_ARGUMENTS = "partial_json"  # DSPy's name for the text of arguments that are no JSON object


def record_cost(response: Response, price: Price | None, context: SampleContext, current: Span) -> Payment:
    """Record tokens, cost and finish reason on span and context; return the reply's payment."""
    usage = response.usage
    counts = (usage.input_tokens or 0, usage.cache_read_tokens or 0, usage.output_tokens or 0)
    is_counted = usage.input_tokens is not None or usage.output_tokens is not None
    cost_usd = price.cost_usd(*counts) if price is not None and (is_counted or price.is_free) else None
    payment = Payment(*counts, cost_usd)
    current.attributes |= {"finish_reason": response.finish_reason, **vars(payment)}
    del current.attributes["refused"]
    context.record_reply(payment.input_tokens + payment.output_tokens, cost_usd)
    return payment


def validate_reply(response: Response, settings: CallSettings, current: Span) -> Response | LMError:
    """Return the reply without its thinking, which the span has; an error if it is no answer."""
    model = response.model
    parts = tuple(repaired for part in response.message.parts for repaired in _repair(part, current))
    if (chars := sum(len(getattr(part, "text", None) or str(part)) for part in parts)) > MAX_REPLY_CHARS:
        message = f"the reply has {chars:,} characters, and {MAX_REPLY_CHARS:,} are taken at most"
        return TruncatedReplyError(message, model=model)
    response = _replace_parts(response, parts)
    current.outputs = message_to_dict(response.message)
    if error := _find_truncation(response, settings, current):
        return error
    if response.finish_reason == "length":
        return TruncatedReplyError("the reply was cut off at the model's token limit", model=model)
    if response.finish_reason == "content_filter":
        return RefusedReplyError("the provider's content filter withheld the reply", model=model)
    if refusal := next((part.text for part in parts if isinstance(part, RefusalPart)), None):
        return RefusedReplyError(f"the model refused to answer: {refusal}", model=model)
    answer = tuple(part for part in parts if not isinstance(part, ThinkingPart))
    if all(isinstance(part, TextPart) and not part.text.strip() for part in answer):
        is_what = "empty" if len(answer) == len(parts) else "only thinking"
        return EmptyReplyError(f"the model's reply is {is_what}: no text and no tool call", model=model)
    return _replace_parts(response, answer)


def _replace_parts(response: Response, parts: tuple[Part, ...]) -> Response:
    if parts == response.message.parts:  # mostly; a new message is checked again
        return response
    return dataclasses.replace(response, message=dataclasses.replace(response.message, parts=parts))


def _find_truncation(response: Response, settings: CallSettings, current: Span) -> TruncatedPromptError | None:
    """Return the error if the model can only have read a part of the request."""
    if not settings.detect_truncation or not (tokens := response.usage.input_tokens):
        return None
    read = [current.inputs.get(key) for key in ("system", "messages")]  # not all servers read tools
    chars = len(_RUN.sub(r"\1", str(read)))
    if settings.context_tokens is not None and tokens >= settings.context_tokens:
        why = f"{tokens} tokens, all that its context of {settings.context_tokens} holds"
    elif chars > max(MIN_CHARS, tokens * MAX_CHARS_PER_TOKEN):
        why = f"{tokens} tokens for {chars} characters"
    else:
        return None
    return TruncatedPromptError(
        f"{current.name.rpartition('/')[2]} read only a part of the prompt: it counted {why}; give the server a longer "
        "context (if the count is wrong: model.detect_truncation=false)",
        model=response.model,
    )


_RUN = re.compile(r"(.)\1+", re.DOTALL)  # a long run of spaces or dashes may be one token
_NAMES = "think|thinking|thought|reasoning|seed:think"
# Of Qwen and DeepSeek, Magistral, Kimi, OpenThinker, Gemma, gpt-oss; a tag in backticks is spoken of.
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
    """Yield the part in valid Unicode, thinking apart from the text, arguments as an object."""
    if isinstance(part, TextPart):
        thinking, text = _split_thinking(replace_surrogates(part.text))
        if thinking:
            current.attributes["thinking_chars"] = len(thinking)
            yield ThinkingPart(thinking)
            text = text.lstrip()
        if text != part.text:
            part = dataclasses.replace(part, text=text)
    elif isinstance(part, ToolCallPart):
        arguments = replace_surrogates(part.input)
        if arguments.keys() == {UNREADABLE_ARGUMENTS}:
            repaired = json_repair.loads(str(arguments[UNREADABLE_ARGUMENTS]))
            if isinstance(repaired, dict) and repaired:
                current.attributes["repaired_arguments"] = True
                arguments = repaired
        part = dataclasses.replace(part, input=arguments)
    yield part
