"""Progress of a search: a live line on a terminal, a plain line every 30 s elsewhere.

with show_progress(console, lambda: format_progress(trials.n_reached, ledger.spend(), budget)):
    …        # so far: 312 answers (290 of 600 metric calls), 1,204 requests, $1.2345, 252 s
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.text import Text

from optimize.search.budget import BudgetSettings, Spend

LINE_INTERVAL_SECONDS = 30.0  # between plain lines, so that hours of search do not flood a log
_LIVE_INTERVAL_SECONDS = 1.0


def format_progress(answers: int, spend: Spend, budget: BudgetSettings) -> str:
    """Return a line with the answers of this session, replayed ones included, and the spend of all sessions."""
    scored = f"{spend.metric_calls:,}" + (f" of {budget.metric_calls:,}" if budget.metric_calls else "")
    usd = f", ${spend.cost_usd:,.4f}" if spend.cost_usd else ""
    spent = f"{spend.lm_calls:,} requests{usd}, {spend.seconds:,.0f} s"
    return f"so far: {answers:,} answers ({scored} metric calls), {spent}"


@contextmanager
def show_progress(
    console: Console, line: Callable[[], str], interval_seconds: float = LINE_INTERVAL_SECONDS
) -> Iterator[None]:
    """Show the line until the block ends, below what the block itself prints to this console."""
    live = console.status(Text(line())) if console.is_terminal else None
    ended = threading.Event()

    def update() -> None:
        while not ended.wait(_LIVE_INTERVAL_SECONDS if live else interval_seconds):
            if live:
                live.update(Text(line()))
            else:
                console.print(f"  {line()}", markup=False, highlight=False, soft_wrap=True)

    updater = threading.Thread(target=update, name="progress", daemon=True)
    with live or nullcontext():
        updater.start()
        try:
            yield
        finally:
            ended.set()
            updater.join()
