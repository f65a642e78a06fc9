"""How far a search has come, told while it is silent: a live line on a terminal, elsewhere one now and then.

with watching(console, lambda: progress_line(trials.n_reached, purse.spend(), budget)):
    …        # so far: 312 answers (290 of 600 metric calls), 1,204 requests, $1.2345, 252 s
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.text import Text

from optimize.search.budget import BudgetSettings, Spend

LINE_INTERVAL_SECONDS = 30.0  # between two plain lines, so that hours of search do not flood a log
_LIVE_INTERVAL_SECONDS = 1.0


def format_progress(answers: int, spend: Spend, budget: BudgetSettings) -> str:
    """
    Args:
        answers: of this session, replayed ones among them.
        spend: of all sessions.
        budget: of the run.
    """
    scored = f"{spend.metric_calls:,}" + (f" of {budget.metric_calls:,}" if budget.metric_calls else "")
    usd = f", ${spend.cost_usd:,.4f}" if spend.cost_usd else ""
    spent = f"{spend.lm_calls:,} requests{usd}, {spend.seconds:,.0f} s"
    return f"so far: {answers:,} answers ({scored} metric calls), {spent}"


@contextmanager
def show_progress(
    console: Console, line: Callable[[], str], interval_seconds: float = LINE_INTERVAL_SECONDS
) -> Iterator[None]:
    """Show the line until the block ends; what the block itself prints to this console stands above it."""
    live = console.status(Text(line())) if console.is_terminal else None
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_LIVE_INTERVAL_SECONDS if live else interval_seconds):
            if live:
                live.update(Text(line()))
            else:
                console.print(f"  {line()}", markup=False, highlight=False, soft_wrap=True)

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    with live or nullcontext():
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()
