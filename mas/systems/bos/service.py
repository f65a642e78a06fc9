"""Requests to a program outside of an evaluation: blocking, asynchronous, or as a stream.

response = run(program, {"question": "How many orders?"})
response = await arun(program, '{"question": "How many orders?"}')
async for chunk in astream(program, request):       # {"plan": {…}}, {"execute_agent": {…}}, …, {"compose": {…}}
    …
chunk["compose"]["response"].answer
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping

import dspy

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.contracts import AgentRequest, OrchestratorResponse
from mas.systems.bos.program import BosProgram, Chunk, keep_no_prompts

Given = AgentRequest | Mapping[str, object] | str  # a mapping or JSON text is checked and completed


def run(program: BosProgram, request: Given) -> OrchestratorResponse:
    """Return the response to a request; for synchronous callers.

    Raises:
        ValidationError: the request is wrong.
        LimitReachedError: a limit of the sample or the run was reached.
    """
    return run_blocking(arun(program, request))


async def arun(program: BosProgram, request: Given) -> OrchestratorResponse:
    """Return the response to a request; see `run`."""
    parsed = AgentRequest.parse(request)
    with dspy.context(**keep_no_prompts()):
        state = await program.run_graph(parsed)
    return state["response"]


async def astream(program: BosProgram, request: Given) -> AsyncGenerator[Chunk]:
    """Yield a chunk after each node of the graph; the last one has the response. Raises as `run`."""
    parsed, chunks = AgentRequest.parse(request), asyncio.Queue[Chunk | None]()

    async def work() -> None:
        """Run the graph in a task of its own: what is set for it does not reach the caller between two chunks."""
        try:
            async for chunk in program.stream_graph(parsed):
                chunks.put_nowait(chunk)
        finally:
            chunks.put_nowait(None)

    task = asyncio.create_task(work())
    try:
        while (chunk := await chunks.get()) is not None:
            yield chunk
        await task
    finally:
        task.cancel()
