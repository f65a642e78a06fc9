"""An agent that does what its question says: `system=callable system.target=tests.eval.obedient_agent:answer`.

"sleep 0.5 say 7" is answered with 7 after half a second, "block 9 say 7" keeps the event loop for 9 seconds, "await
released say 7" is answered once there is a file of that name, and "sleep 0 fail once" fails in a folder's first run
alone.
"""

import asyncio
import time
from pathlib import Path

from tests.eval.command_line import question

AGENT = ("system=callable", "system.target=tests.eval.obedient_agent:answer", "model=offline")


async def answer(question: str) -> str:
    wait, until, verb, what = question.split()
    if wait == "sleep":
        await asyncio.sleep(float(until))
    elif wait == "block":
        time.sleep(float(until))  # noqa: ASYNC251
    else:
        while not _is_there(until):  # noqa: ASYNC110 - it is another process that makes it
            await asyncio.sleep(0.05)
    return _result(verb, what)


def _is_there(name: str) -> bool:
    return Path(name).exists()


def _result(verb: str, what: str) -> str:
    if verb == "fail" and not (what == "once" and Path("failed").exists()):
        Path("failed").touch()
        raise ConnectionError(f"{what}, as asked")
    return what


def told(id: str, order: str, gold: str = "7") -> dict[str, object]:
    """A row of a dataset."""
    return question(id, order, gold)
