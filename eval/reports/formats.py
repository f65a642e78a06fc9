"""Numbers of a run in words: shares, intervals, points, p values, costs.

format_percent(0.5), format_interval((0.3, 0.7)), format_usd(None)      # "50.0%", "30.0% to 70.0%", "n/a"
"""

from eval.analysis.statistics.intervals import Interval
from eval.analysis.summary.summary import Estimate
from mas.runtime.terminal import shorten_line

NOT_AVAILABLE = "n/a"
MAX_NAME_CHARS = 60  # of a name from data


def list_parts(system: str | None, model: str | None, data: str | None, prompts: str | None) -> list[str]:
    """Return what a run was made of, for one line; what is unknown is left out."""
    parts = (system, model, data, prompts and f"prompts {prompts}")
    return [shorten_line(part, MAX_NAME_CHARS) for part in parts if part]


def format_percent(share: float | None) -> str:
    return NOT_AVAILABLE if share is None else f"{share:.1%}"


def format_floor(share: float | None, incomplete: bool) -> str:
    """Return a share of right answers; while answers are missing, as the least that it can become."""
    return f"at least {format_percent(share)}" if incomplete and share is not None else format_percent(share)


def format_interval(bounds: Interval | None) -> str:
    return f"{format_percent(bounds[0])} to {format_percent(bounds[1])}" if bounds else NOT_AVAILABLE


def format_bounds(bounds: Interval | None) -> str:
    return f" ({format_interval(bounds)})" if bounds else ""


def format_share(share: float | None, bounds: Interval | None, incomplete: bool = False) -> str:
    return format_floor(share, incomplete) + format_bounds(bounds)


def format_points(difference: float) -> str:
    return f"{100 * difference:+.1f}"


def format_p_value(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def format_usd(cost_usd: float | None) -> str:
    return NOT_AVAILABLE if cost_usd is None else f"${cost_usd:,.4f}"


def shorten_number(n: int) -> str:
    if n >= 1_000_000:
        return f"{n / 1_000_000:,.1f} M"
    return f"{n / 1_000:,.1f} k" if n >= 10_000 else f"{n:,}"


def format_estimate(found: Estimate, incomplete: bool = False) -> str:
    return format_share(found.value, found.ci95, incomplete)


def describe_without(others: Estimate, n: int, incomplete: bool, metric: str) -> str:
    """Return the metric without so many samples that are left out."""
    share = f"{format_floor(others.value, incomplete)} of {others.n}{format_bounds(others.ci95)}"
    return f"{metric} without {'it' if n == 1 else 'them'}: {share}"
