"""Options of a configuration that change what is measured, and the difference between two configurations."""

from collections.abc import Iterator, Mapping

RESUME = "run.resume"
MAX_EPOCHS = 1_000  # far more than anybody pays for; each answer to come is held in memory
# Of one session, not of the run: never taken over from the command line that the run was started with.
OF_THE_SESSION = (RESUME, "run.dir", "run.name", "run.retry_errors", "run.allow_config_change", "resume", "yes")
# Options, or whole branches of them, that leave what is measured as it is.
UNMEASURED = (
    *OF_THE_SESSION,
    *(f"run.{key}" for key in ("concurrency", "drain_seconds", "max_seconds", "max_cost_usd", "max_errors")),
    *(f"run.{key}" for key in ("fail_under", "max_same_errors")),
    *("log", "tracking", "executor", "experiment", "debug"),
    *(f"model.{key}" for key in ("max_connections", "rate", "api_key_env")),
)


def find_changes(before: Mapping[str, object], now: Mapping[str, object]) -> dict[str, str]:
    """Return the options that differ and change what is measured: key → "old → new"."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    branches = tuple(f"{each}." for each in UNMEASURED)
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key) and not f"{key}.".startswith(branches)]
    return {key: f"{old.get(key)} → {new.get(key)}" for key in keys}


def _leaves(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
