"""API that is started for the time of a run, such as that of a sample: a command that prints its address first.

with run_api(["python", "-m", "eval.benchmarks.databases.shop_api"]) as address:
    address                                    # "http://127.0.0.1:40123"
"""

import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from mas.runtime.errors import UserError
from mas.runtime.security.child_environment import build_child_environment
from mas.systems.bos.api.settings import is_web_address

START_SECONDS = 30.0
END_SECONDS = 5.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@contextmanager
def run_api(command: Sequence[str]) -> Iterator[str]:
    """Start an API, yield its address, and end it.

    Raises:
        UserError: the command does not start, or prints no address of this machine.
    """
    shown = " ".join(command)
    words = [sys.executable if command[0] == "python" else command[0], *command[1:]]
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=build_child_environment()
        )
    except OSError as error:
        raise UserError(f"system.api.command={shown} cannot be started ({error}); correct it.") from error
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        address = process.stdout.readline().strip() if ready else ""
        if not is_web_address(address) or urlsplit(address).hostname not in LOOPBACK:
            raise UserError(
                f"system.api.command={shown} printed {address[:80]!r} within {START_SECONDS:g} s; expected an address "
                "of this machine as its first line, such as http://127.0.0.1:8080."
            )
        yield address.rstrip("/")
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
