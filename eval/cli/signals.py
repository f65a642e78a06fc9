"""Signals that ask a command to end in order: Ctrl-C, SIGTERM, and SIGHUP, which comes when its terminal is closed.

    with heard_by(lambda reason: print(reason)):      # "Ctrl-C"
        …

Under `nohup` and its like SIGHUP is ignored on purpose; it stays so.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

CLOSED = {signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP (its terminal was closed)"}
ENDING = {signal.SIGINT: "Ctrl-C", **CLOSED}


@contextmanager
def handle_signals(hear: Callable[[str], None], names: Mapping[signal.Signals, str] = ENDING) -> Iterator[None]:
    """Each of the signals calls `hear` with its name inside, and is whose it was before outside.

    Only the main thread gets any: in another nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        hear(names[signal.Signals(number)])

    before = {number: signal.signal(number, handle) for number in names if not _ignored_on_purpose(number)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignored_on_purpose(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN
