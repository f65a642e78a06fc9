"""A tool that fails as the attachment's name says: `system.tools.read_file=tests.eval.failing_tools.read_file`."""

import asyncio
import time

from mas.tools.read_file import read_file as real_read_file

TOO_SLOW_SECONDS = 60.0


async def read_file(file: str) -> str:
    """Read a file that is attached to the question.

    file: its bare name.
    """
    if file.startswith("slow"):
        await asyncio.sleep(TOO_SLOW_SECONDS)
    if file.startswith("bad"):
        raise RuntimeError("the disk is on fire")
    return await asyncio.to_thread(real_read_file, file)


def never_returns(file: str) -> str:
    """Read a file that is attached to the question.

    file: its bare name.
    """
    time.sleep(3600)
    return file
