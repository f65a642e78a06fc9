"""Requests to the program outside of an evaluation: blocking, asynchronous, or as a stream.

with mas_harness.open_program("bos", model="gpt-4o-mini") as program, use_program(program):
    response = run({"question": "How many orders?"})
    async for chunk in astream('{"question": "How many orders?"}'):       # {"plan": {…}}, …, {"compose": {…}}
        …
    chunk["compose"]["response"].answer
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context

from mas.runtime.event_loop import run_blocking
from mas.systems.bos.contracts import AgentRequest, OrchestratorResponse
from mas.systems.bos.program import BosProgram, Chunk

Request = AgentRequest | Mapping[str, object] | str  # a mapping or JSON text is checked and completed

_program: BosProgram | None = None


@contextmanager
def use_program(program: BosProgram) -> Iterator[None]:
    """Let requests that name no program go to this one, in all threads; the caller closes it."""
    global _program
    before, _program = _program, program
    try:
        yield
    finally:
        _program = before


def get_resources() -> BosProgram:
    """Return the program that requests share, with its models, connections and settings."""
    if _program is None:
        raise RuntimeError("no program is in use: with mas_harness.open_program(…) as program, use_program(program):")
    return _program


def run(request: Request, program: BosProgram | None = None) -> OrchestratorResponse:
    """Return the response to a request, for synchronous callers.

    RuntimeError: no program is given or used. ValidationError: the request is wrong. LimitReachedError: a limit of the
    sample or the run was reached.
    """
    return run_blocking(arun(request, program or get_resources()))


async def arun(request: Request, program: BosProgram | None = None) -> OrchestratorResponse:
    state = await (program or get_resources()).run_graph(AgentRequest.parse(request), keep_prompts=False)
    return state["response"]


async def astream(request: Request, program: BosProgram | None = None) -> AsyncGenerator[Chunk]:
    """Yield a chunk after each node of the graph; the last one has the response. Raises as `run`."""
    chunks, context = (program or get_resources()).stream_graph(AgentRequest.parse(request)), copy_context()

    async def step() -> Chunk | None:
        return await anext(chunks, None)

    try:  # what is set for the graph must not reach the caller between two chunks
        while (chunk := await asyncio.create_task(step(), context=context)) is not None:
            yield chunk
    finally:
        await asyncio.create_task(chunks.aclose(), context=context)
