"""A secret in a stored reply is masked, and restored when the reply is replayed; progress of a search is shown."""

import base64
import io
import json
import time
from urllib.parse import quote

from rich.console import Console

from optimize.search.budget import BudgetSettings, Spend
from optimize.session.tuning_run import MaskedReplies, format_progress, show_progress


class Kept(dict[str, str]):
    def put(self, key: str, reply: str) -> None:
        self[key] = reply


def test_a_secret_is_not_kept_and_comes_back() -> None:
    kept, secrets = Kept(), ["canary-longer", "canary"]
    replies = MaskedReplies(kept, lambda: secrets)
    for said in ("your key canary-longer is fine", "canary, canary-longer", "nothing of it", ""):
        replies.put("k", said)
        assert "canary" not in kept["k"]
        assert replies.get("k") == said
    assert replies.get("another") is None


def test_a_secret_is_kept_in_no_encoding_and_comes_back_in_its_own() -> None:
    kept, key = Kept(), 'canary-"key"/+1'
    replies = MaskedReplies(kept, lambda: [key])
    encoded = base64.b64encode(f"me:{key}".encode()).decode()
    said = json.dumps({"text": f"{key} {quote(key, safe='')} {quote(key)} {encoded}", "again": json.dumps(key)})
    replies.put("k", said)
    assert kept["k"].count("\x00secret") == 5 and "canary" not in kept["k"] and encoded[5:-4] not in kept["k"]
    assert replies.get("k") == said


def test_another_key_later_is_put_where_the_first_one_was() -> None:
    kept = Kept()
    MaskedReplies(kept, lambda: ["first-key"]).put("k", "key first-key")
    assert MaskedReplies(kept, lambda: ["second-key"]).get("k") == "key second-key"


SPEND = Spend(metric_calls=290, lm_calls=1204, cost_usd=1.2345, seconds=252.4)


def test_the_line_says_what_is_done_and_what_it_has_cost() -> None:
    line = format_progress(312, SPEND, BudgetSettings(metric_calls=600))
    assert line == "so far: 312 answers (290 of 600 metric calls), 1,204 requests, $1.2345, 252 s"
    assert len(line) < 80
    free = format_progress(0, Spend(), BudgetSettings(metric_calls=None))
    assert free == "so far: 0 answers (0 metric calls), 0 requests, 0 s"


def watched(terminal: bool, interval_seconds: float, seconds: float) -> str:
    screen, count = io.StringIO(), iter(range(1000))
    console = Console(file=screen, force_terminal=terminal, color_system=None, width=80)
    with show_progress(console, lambda: f"at {next(count)}", interval_seconds):
        console.print("a proposal")
        time.sleep(seconds)
    return screen.getvalue()


def test_a_log_gets_a_line_now_and_then() -> None:
    assert watched(False, 30.0, 0.05) == "a proposal\n"
    lines = watched(False, 0.05, 0.5).splitlines()
    assert lines[:2] == ["a proposal", "  at 0"] and 3 <= len(lines) <= 11


def test_a_terminal_has_one_live_line_below_what_is_printed() -> None:
    screen = watched(True, 30.0, 1.3)
    assert "at 0" in screen and "at 1" in screen
    assert screen.index("a proposal") < screen.rindex("at 1")


def test_it_ends_with_the_block_whatever_happens() -> None:
    screen = io.StringIO()
    try:
        with show_progress(Console(file=screen), lambda: "line", 0.01):
            raise ValueError
    except ValueError:
        pass
    before = screen.getvalue()
    time.sleep(0.05)
    assert screen.getvalue() == before
