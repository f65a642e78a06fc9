"""An agent that does what its question says: `system=callable system.target=tests.eval.obedient_agent:answer`.

"sleep 0.5 say 7" is answered with 7 after half a second, and "sleep 0 fail once" fails in a folder's first run alone.
"""

import asyncio
from pathlib import Path

from tests.eval.command_line import question

AGENT = ("system=callable", "system.target=tests.eval.obedient_agent:answer", "model=offline")


async def answer(question: str) -> str:
    _, seconds, verb, what = question.split()
    await asyncio.sleep(float(seconds))
    return _result(verb, what)


def _result(verb: str, what: str) -> str:
    if verb == "fail" and not (what == "once" and Path("failed").exists()):
        Path("failed").touch()
        raise ConnectionError(f"{what}, as asked")
    return what


def told(id: str, order: str, gold: str = "7") -> dict[str, object]:
    """A row of a dataset."""
    return question(id, order, gold)
