"""Numbers of a tuning run's files as MLflow's metrics: flat names, finite values, what is unknown left out.

metrics_of("spend", {"lm_calls": 12, "cost_usd": None})     # {"spend.lm_calls": 12.0}
interval("gain_ci95", [0.01, 0.09])                         # {"gain_ci95_low": 0.01, "gain_ci95_high": 0.09}
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def select_finite(values: Mapping[str, Any]) -> dict[str, float]:
    """Those that are numbers; MLflow has no null."""
    return {name: float(value) for name, value in values.items() if _is_number(value)}


def flatten_metrics(name: str, tree: Any) -> dict[str, float]:
    return select_finite(dict(_leaves(name, tree)))


def build_interval_metrics(name: str, bounds: Sequence[float] | None) -> dict[str, float]:
    return select_finite(dict(zip((f"{name}_low", f"{name}_high"), bounds or (), strict=False)))


def _leaves(name: str, tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(f"{name}.{key}", value)
    else:
        yield name, tree


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
