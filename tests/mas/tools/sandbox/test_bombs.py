"""Code that uses too much, or that attacks what runs it: it is ended or refused, the harness goes on."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mas.tools.sandbox.session import MAX_CPU_SECONDS
from tests.mas.tools.sandbox.conftest import Sandbox
from tests.patience import PATIENCE_SECONDS

DISTURBED = "the code has disturbed the sandbox's own messages"
ENDED = "the code has ended the Python process"


@pytest.fixture
def small(fresh: Callable[..., Sandbox]) -> Sandbox:
    """Little memory: touching a gigabyte takes seconds."""
    return fresh(memory_mb=200)


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "9**9**9",
        "import time; time.sleep(600)",
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
        "import signal\nfor n in (2, 14, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "while True: print('x' * 100_000)",
        "import sys\nclass Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
    ],
)
def test_code_without_an_end_is_ended(jail: Sandbox, code: str) -> None:
    begun = time.monotonic()
    assert jail.lost(code, seconds=0.4) == "the code ran longer than 0.4 s"
    assert time.monotonic() - begun < 200, "killed, and not waited for"


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(10**10)",
        "x = []\nwhile True: x.append(bytearray(10**7))",
        "'x' * 10**10",
        "x = [0] * 10**10",
        "x = 'a'\nwhile True: x += x",
    ],
)
def test_a_memory_bomb_is_an_error_of_the_code(small: Sandbox, code: str) -> None:
    assert small.error(code) == "MemoryError"


def test_code_that_leaves_no_memory_for_a_reply_loses_its_session(small: Sandbox) -> None:
    hold = "x = []\nsize = 10**6\nwhile size:\n    try: x.append(bytearray(size))\n    except MemoryError: size //= 2"
    try:
        small.run(f"{hold}\n'y' * 2000")
    except Exception as error:  # noqa: BLE001  # either is right: a reply that just fitted, or the session's end
        assert str(error).startswith(("the code used up its memory", ENDED))
    small.close()
    small.works()


@pytest.mark.parametrize("folder", ["/scratch", "/tmp"])
def test_a_disk_bomb_fills_its_own_small_folder(fresh: Callable[..., Sandbox], folder: str) -> None:
    sandbox = fresh()
    one = f"f = open('{folder}/big', 'wb')\nwhile True: f.write(bytes(10**6))"
    assert sandbox.error(one) in ("OSError: [Errno 27] File too large", "OSError: [Errno 28] No space left on device")
    many = f"n = 0\nwhile True:\n    n += 1\n    with open(f'{folder}/{{n}}', 'wb') as g: g.write(bytes(10**6))"
    assert sandbox.error(many) == "OSError: [Errno 28] No space left on device"
    assert sandbox.error(f"import os; os.truncate('{folder}/big', 10**9)").startswith("OSError: [Errno 27]")


@pytest.mark.slow
def test_threads_files_and_recursion_have_an_end(jail: Sandbox) -> None:
    threads = (
        "import threading as t, time\nt.stack_size(65536)\nwhile True: t.Thread(target=time.sleep, args=[99]).start()"
    )
    assert jail.lost(threads) == "the code started more than 256 threads"
    assert "Too many open files" in jail.error("x = []\nwhile True: x.append(open('/dev/null'))")
    assert jail.error("def f(): f()\nf()") == "RecursionError: maximum recursion depth exceeded"
    deep = (
        "import sys; sys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\nx == eval('x') and repr(x)"
    )
    assert "SIGSEGV" in jail.lost(deep) or "Error" in jail.error("repr(x)")


@pytest.mark.slow
def test_nothing_runs_between_two_calls(fresh: Callable[..., Sandbox]) -> None:
    """Memory, threads, files and processor time are watched while a call is waited for, so nothing runs meanwhile."""
    sandbox = fresh()
    idle = (
        "import os, threading as t, time\nt.stack_size(65536)\ncount, started = 0, []\n"
        "def run():\n    global count\n    while True:\n        count += 1\n        time.sleep(.001)\n"
        "        if count > 20 and len(started) < 4000:\n"
        "            started.append(t.Thread(target=time.sleep, args=[99])); started[-1].start()\n"
        "t.Thread(target=run).start()"
    )
    sandbox.value(idle)
    assert sandbox.session is not None
    pid = sandbox.session.code_pid
    before = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    time.sleep(1)
    after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert after[0] == "T", "stopped"
    assert after[11:13] == before[11:13], "no processor time"
    assert int(after[17]) < 100, "no threads"
    assert sandbox.value("6 * 7") == "42", "and goes on with the next call"


HALF_A_MESSAGE = r"import os, time; os.write(4, b'\0\0\1\0')"


def test_half_a_message_does_not_end_the_checks(jail: Sandbox) -> None:
    files = "for n in range(15_000): open(f'/scratch/{n}', 'w').close()\ntime.sleep(99)"
    assert jail.lost(f"{HALF_A_MESSAGE}\n{files}", seconds=PATIENCE_SECONDS) == "the code made more than 10000 files"


def test_a_thread_left_behind_runs_out_of_processor_time(fresh: Callable[..., Sandbox]) -> None:
    limits = fresh().value("import resource; resource.getrlimit(resource.RLIMIT_CPU)")
    assert limits == f"({MAX_CPU_SECONDS}, {MAX_CPU_SECONDS})"


def test_what_a_thread_prints_after_its_call_is_not_the_next_calls(jail: Sandbox) -> None:
    late = "import threading, time, sys\nout = sys.stdout\ndef f():\n    time.sleep(.3); print('late', file=out)\n"
    jail.value(f"{late}t = threading.Thread(target=f); t.start()")
    assert jail.run("t.join()").output == ""


def test_what_is_printed_through_a_wrapper_is_shown(jail: Sandbox) -> None:
    wrap = "import io, sys\nold = sys.stdout\nsys.stdout = io.TextIOWrapper(old.buffer, encoding='utf-8')\nprint('é')"
    assert jail.run(wrap).output == jail.run(f"{wrap}\nsys.stdout = old").output == "é\n"


def test_whatever_is_done_to_the_notebook_stays_in_it(jail: Sandbox) -> None:
    for code in (
        "import sys; sys.stdout = None; print(1)",
        "import builtins; del builtins.print",
        "import sys; sys.modules.clear()",
        "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Notebook': o.run = None",
        "import json; json.dumps = None",
        "class E(Exception):\n    def __str__(self): raise self\nraise E",
        "class R:\n    def __repr__(self): return 7\nR()",
        "class R:\n    def __repr__(self): raise SystemExit\nR()",
        "import atexit, os; atexit.register(os.fork); raise SystemExit",
        "import sys; sys.settrace(lambda *a: 1 / 0)",
    ):
        try:
            jail.run(code)
        except Exception as error:  # noqa: BLE001
            assert str(error).startswith((ENDED, DISTURBED)), code
        jail.close()
        jail.works()


def test_a_message_that_the_code_makes_up_puts_off_no_result(jail: Sandbox) -> None:
    """The code's own reply would be read as the next cell's, and each result as that of the cell after it."""
    jail.close()
    message = '{"output": "", "value": "made up", "error": "", "missing_chars": 0, "cell": 1}'
    forge = f"import os\nfor pipe in range(3, 64):\n    try: os.write(pipe, b'{message}\\n')\n    except OSError: pass"
    assert jail.value(forge) == "made up"
    assert jail.lost("6 * 7") == DISTURBED
