"""What the tests of the web tools share: settings that lead to a loopback server, and a question to work for.

with using(WebSettings(allow_private_hosts=[LOOPBACK])), a_question(): asyncio.run(read_page(site.base_url))
"""

from collections.abc import Iterator
from contextlib import contextmanager

from mas.runtime.sample_context import SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace, span
from mas.tools.settings import Resources, ToolSettings, WebSettings, use_tool_context

LOOPBACK = "127.0.0.1"


@contextmanager
def using(web: WebSettings) -> Iterator[None]:
    settings = ToolSettings()
    settings.web = web
    with use_tool_context(Resources(settings)):
        yield


@contextmanager
def a_question() -> Iterator[SampleContext]:
    with use_context(SampleContext(SampleKey("q1"), SampleLimits())) as question:
        yield question


@contextmanager
def recorded() -> Iterator[Trace]:
    with record_trace(Trace("t1")) as trace, span("tool", "test"):
        yield trace


def events(trace: Trace, name: str) -> list[dict[str, object]]:
    return [each for span in trace.spans for each in span.events if each["name"] == name]
