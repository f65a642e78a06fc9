"""Sessions of the jail as the harness sees them: quick, side by side, and gone without a trace."""

import asyncio
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from mas.tools.sandbox.session import Isolation, Session, SessionLostError
from mas.tools.settings import SandboxSettings
from tests.mas.tools.sandbox.conftest import SETTINGS, Sandbox
from tests.patience import PATIENCE_SECONDS, wait_for


def gone(pids: set[int]) -> bool:
    return wait_for(lambda: not pids & {int(path.name) for path in Path("/proc").glob("[0-9]*")})


def pids_of(session: Session) -> set[int]:
    assert session.code_pid != session.process.pid
    return {session.process.pid, session.code_pid}


def test_a_cancelled_cell_ends_its_session(bubblewrap: Isolation) -> None:
    async def cancelled() -> set[int]:
        session = await bubblewrap.open({}, SETTINGS)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.run("while True: pass", 30), 0.2)
        with pytest.raises(SessionLostError):
            await session.run("1", 1)
        return pids_of(session)

    assert gone(asyncio.run(cancelled()))


def test_eight_sessions_side_by_side_share_nothing_and_block_nobody(bubblewrap: Isolation, tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text(f"file {number}")

    async def one(number: int) -> list[str]:
        path = tmp_path / f"{number}.txt"
        session = await bubblewrap.open({path.name: path}, SETTINGS)
        try:
            sleep = "import os, time; begun = time.time(); time.sleep(.5); ended = time.time()"
            cells = (f"x = {number}", sleep, "begun, ended", "x, os.listdir('/data')")
            return [(await session.run(cell, PATIENCE_SECONDS)).value for cell in cells]
        finally:
            session.close()

    async def all_of_them() -> tuple[list[list[str]], int]:
        ticks, work = 0, asyncio.gather(*map(one, range(8)))
        while not work.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return work.result(), ticks

    values, ticks = asyncio.run(all_of_them())
    assert [value[-1] for value in values] == [repr((n, [f"{n}.txt"])) for n in range(8)]
    times = sorted(literal_eval(value[2]) for value in values)
    assert any(later < ended for (_, ended), (later, _) in pairwise(times)), "not one after another"
    assert ticks > 20, "the event loop went on meanwhile"


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [
        "while True: pass",
        "1",  # then it is stopped
        "import ctypes, time; ctypes.CDLL(None).prctl(1, 0); time.sleep(60)",  # PR_SET_PDEATHSIG: to outlive it
    ],
)
def test_the_jail_ends_with_the_harness(bubblewrap: Isolation, cell: str) -> None:
    program = (
        "import asyncio, os\n"
        "from mas.tools.sandbox.isolations import open_jail\n"
        "from mas.tools.settings import SandboxSettings\n"
        "async def main():\n"
        "    session = await open_jail({}, SandboxSettings())\n"
        "    print(session.process.pid, session.code_pid, flush=True)\n"
        f"    await session.run({cell!r}, 60)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    harness = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None
    with harness.stdout:
        line = harness.stdout.readline()
    time.sleep(0.3)  # until the cell runs, or has ended
    harness.kill()
    harness.wait()
    assert gone({int(word) for word in line.split()})


@pytest.mark.slow
def test_pandas_numpy_scipy_and_openpyxl_work(fresh: Callable[..., Sandbox], attachment: Path) -> None:
    sandbox = fresh({attachment.name: attachment}, memory_mb=SandboxSettings().memory_mb)
    assert sandbox.value("import pandas as pd; int(pd.read_csv('towns.csv').people.sum())", 60) == "4"
    code = "pd.DataFrame({'a': [1, 2]}).to_excel('/scratch/t.xlsx'); pd.read_excel('/scratch/t.xlsx').a.tolist()"
    assert sandbox.value(code, 60) == "[1, 2]"
    assert sandbox.value("import numpy as np; float(np.linalg.det(np.eye(50)))", 60) == "1.0"
    assert sandbox.value("from scipy import stats; float(stats.norm.cdf(0))", 60) == "0.5"
    assert sandbox.value("from zoneinfo import ZoneInfo; ZoneInfo('Europe/Rome').key") == "'Europe/Rome'"


FIRST_CALLS = """
import asyncio
from concurrent.futures import ThreadPoolExecutor
from mas.runtime.event_loop import background_loop, run_blocking
from mas.tools.sandbox.repl import Interpreter
from mas.tools.settings import BUBBLEWRAP, SandboxSettings

async def call():
    interpreter = Interpreter(SandboxSettings(kind=BUBBLEWRAP), {})
    try:
        return (await interpreter.run("6 * 7")).value
    finally:
        interpreter.close()

async def call_at_once():
    return await asyncio.gather(call(), call(), call())

background_loop().set_default_executor(ThreadPoolExecutor(2))
print(*run_blocking(call_at_once()))
"""


def test_more_first_calls_than_the_loop_has_threads_all_find_the_isolation(bubblewrap: Isolation) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, check=False)
    assert done.stdout == "42 42 42\n", done.stderr
