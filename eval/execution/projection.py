"""Time left and cost of a run that is going on, from its answers so far: an estimate, so every text says "about".

Nothing is known at the start: the answers that finish first are the short ones, and as many again are under way.
"""

from typing import NamedTuple

_LEAST_DONE = 3  # answers; fewer tell nothing


class Progress(NamedTuple):
    """Answers of a session: finished, planned, and how many are under way at the same time."""

    done: int
    total: int
    at_once: int = 1


class Projection(NamedTuple):
    """Estimates; None: not known yet."""

    eta_seconds: float | None
    cost_usd: float | None  # of all answers of the session, the finished ones included


def project(progress: Progress, elapsed_seconds: float, cost_usd: float | None) -> Projection:
    """Return what the remaining answers take if they are like those so far.

    `cost_usd`: of the finished answers; None: the price of a call is not known.
    """
    if progress.done >= progress.total:
        return Projection(0.0, cost_usd)
    if progress.done < max(_LEAST_DONE, min(progress.at_once, progress.total // 2)):  # as many as run at once, or half
        return Projection(None, None)
    share = (progress.total - progress.done) / progress.done
    return Projection(elapsed_seconds * share, None if cost_usd is None else cost_usd * (1 + share))


def format_projection(projected: Projection) -> str:
    """Return a phrase for a line of progress; empty: nothing is known, or nothing is left."""
    if not projected.eta_seconds:
        return ""
    left = f"about {format_duration(projected.eta_seconds)} left"
    return f"{left}, about {_format_usd(projected.cost_usd)} in all" if projected.cost_usd else left


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units or fewer: 50 s, 4 min, 3 h 20 min, 2 d 5 h."""
    minutes = round(seconds / 60)
    if minutes < 1 or seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _format_usd(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 0.1 else f"${usd:,.4f}"
