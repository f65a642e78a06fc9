"""Which options change what is measured."""

from eval.config.measured import UNMEASURED, find_changes


def nest(key: str, value: object) -> dict[str, object]:
    head, _, rest = key.partition(".")
    return {head: nest(rest, value) if rest else value}


def test_an_option_that_differs_is_shown_from_old_to_new() -> None:
    before = {"model": {"name": "a", "temperature": 0.0}, "data": {"path": "x"}}
    now = {"model": {"name": "a", "temperature": 0.7}, "data": {"path": "x", "limit": 3}}
    assert find_changes(before, now) == {"model.temperature": "0.0 → 0.7", "data.limit": "None → 3"}
    assert find_changes(now, before) == {"model.temperature": "0.7 → 0.0", "data.limit": "3 → None"}
    assert find_changes(now, now) == {}


def test_what_leaves_the_measurement_as_it_is_is_no_change() -> None:
    for key in UNMEASURED:
        assert find_changes(nest(key, 1), nest(key, 2)) == {}
        assert find_changes(nest(f"{key}.inner", 1), nest(f"{key}.inner", 2)) == {}
    for key in (
        "logs.level",
        "executors.workers",
        "run.max_errors_seen",
        "run.epochs",
        "run.seed",
        "model.seed",
        "system.name",
        "prompts",
        "scorer.name",
    ):
        assert key not in UNMEASURED and find_changes(nest(key, 1), nest(key, 2)) == {key: "1 → 2"}
