"""Signals that end a command in order."""

import os
import signal

from eval.cli.signals import CLOSED, ENDING, handle_signals


def test_each_is_heard_by_its_name_and_given_back() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    heard: list[str] = []
    with handle_signals(heard.append):
        for number in ENDING:
            os.kill(os.getpid(), number)
    assert heard == ["Ctrl-C", "SIGTERM", "SIGHUP (its terminal was closed)"]
    assert [signal.getsignal(number) for number in ENDING] == before


def test_under_nohup_a_closed_terminal_ends_nothing() -> None:
    heard: list[str] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_signals(heard.append, CLOSED):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == []
