"""The same attacks on Python in WebAssembly, as far as they mean anything there. Its start alone takes seconds."""

import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.runs.logs import measure_peak_memory_mb
from tests.mas.tools.sandbox.conftest import Sandbox
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

NOT_CAPABLE = "NotCapable"
# How Python gets at JavaScript's global object although it was not given it.
ESCAPED = "import pyodide_js\nscope = pyodide_js.constructor.constructor('return globalThis')()\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "/root", "/proc/1/environ", "/sys/kernel", str(PROJECT_ROOT)])
def test_the_machines_files_are_not_there(wasm: Sandbox, path: str) -> None:
    assert wasm.error(f"import os; os.stat({path!r})").startswith("FileNotFoundError")


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', 80), timeout=1)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1/', timeout=1)",
        "import subprocess; subprocess.run(['ls'])",
        "import os; os.fork()",
        "import threading; threading.Thread(target=print).start()",
        "import ctypes; ctypes.CDLL('libc.so.6')",
        "import pandas",
    ],
)
def test_what_webassembly_does_not_offer(wasm: Sandbox, code: str) -> None:
    assert "Error" in wasm.error(code)


@pytest.mark.parametrize(
    "call",
    [
        *("readTextFileSync('/etc/passwd')", "readDirSync('/')", "env.toObject()", "env.get('HOME')", "hostname()"),
        *("writeTextFileSync('/tmp/x', 'x')", "listen({'port': 0})", "kill(1, 'SIGKILL')"),
        *("Command.new('/bin/true').outputSync()", "osRelease()", "dlopen('libc.so.6', {})", "makeTempFileSync()"),
    ],
)
def test_javascript_itself_has_no_permission(wasm: Sandbox, call: str) -> None:
    assert wasm.value(f"{ESCAPED}scope.Deno is not None") == "True", "the test is about what stands behind Python"
    assert NOT_CAPABLE in wasm.error(f"{ESCAPED}scope.Deno.{call}")


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ("import('node:fs').then(m => m.readFileSync('/etc/passwd'))", NOT_CAPABLE),
        ("import('node:child_process').then(m => m.execFileSync('/bin/true'))", NOT_CAPABLE),
        ("import('https://esm.sh/x.js')", "Error"),
        ("fetch('http://127.0.0.1/')", NOT_CAPABLE),
        ("Deno.permissions.request({name: 'read'}).then(got => got.state)", "denied"),
    ],
)
def test_what_javascript_does_later_has_no_permission_either(wasm: Sandbox, work: str, words: str) -> None:
    told = "const tell = found => globalThis.found = String(found);"
    wasm.value(f"{ESCAPED}pyodide_js.constructor.constructor({f'{told} {work}.then(tell, tell)'!r})(); None")
    for _ in range(50):  # between two cells JavaScript goes on
        if (found := wasm.value("str(getattr(scope, 'found', ''))")) != "''":
            break
    assert words in found
    wasm.value("scope.found = ''; None")
    assert wasm.value("scope.Deno.cwd()") == "'/'"


def test_bombs_are_ended(wasm: Sandbox) -> None:
    assert "longer than 0.5 s" in wasm.lost("while True: pass", seconds=0.5)
    assert "longer than 0.5 s" in wasm.lost("9**9**9", seconds=0.5)
    assert "MB of memory" in wasm.lost("x = []\nwhile True: x.append(bytearray(5 * 10**7))", seconds=PATIENCE_SECONDS)
    assert wasm.error("def f(): f()\nf()").startswith("RecursionError")
    buffers = f"{ESCAPED}keep = [scope.Uint8Array.new(10**8).fill(1) for _ in range(100)]"
    assert "MB of memory" in wasm.lost(buffers, seconds=PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_message_without_an_end_does_not_fill_the_harness(wasm: Sandbox) -> None:
    flood = f"{ESCAPED}piece = scope.Uint8Array.new(10**6).fill(65)\nwhile True: scope.Deno.stdout.writeSync(piece)"
    before = measure_peak_memory_mb()
    assert "ended the Python process" in wasm.lost(flood, seconds=PATIENCE_SECONDS)
    assert measure_peak_memory_mb() - before < 200
