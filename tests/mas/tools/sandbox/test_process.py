"""Deadlines of a sandbox's process, whatever isolates it."""

import asyncio
import sys
import time

from mas.runtime.loop_clock import SteadyLoop, WatchTimes
from mas.tools.sandbox.process import Launch, ProcessSession

READY_LATER = "import sys, time; time.sleep(1.5); sys.stdout.buffer.write(bytes([0, 0, 0, 2]) + b'{}')"


def test_a_pause_of_the_run_does_not_end_the_code() -> None:
    async def work() -> None:
        launch = Launch([sys.executable, "-c", READY_LATER], {}, 1_000, 1 << 30, start_seconds=1.2)
        session = ProcessSession(launch)
        starting = asyncio.create_task(session.wait_until_ready())
        await asyncio.sleep(0.1)
        time.sleep(1.3)  # noqa: ASYNC251  as a stopped process
        await starting
        session.close()

    times = WatchTimes(beat_seconds=0.1, pause_seconds=0.6, reported_seconds=5.0)
    with asyncio.Runner(loop_factory=lambda: SteadyLoop(lambda call: None, lambda seconds, call: None, times)) as run:
        run.run(work())
