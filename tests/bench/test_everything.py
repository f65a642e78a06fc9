"""Tests of the command that runs all benchmarks: which parts it runs. The parts themselves take minutes."""

from pathlib import Path

import pytest

from tests.bench.everything import NAMES, ONLY_FULL, PARTS, QUICK, Bench, read_arguments

DEFAULT = (
    *("side_by_side", "all_at_once", "growth", "resume", "tracking", "live_viewer", "hostile_reading"),
    *("request_overhead", "executors", "shared_rate", "limiter", "limiter_over_http", "rate_limited"),
)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ([], DEFAULT),
        (["--quick"], DEFAULT),
        (["--full"], (*DEFAULT, "one_budget", "coordinator", "kills")),
        (["--only", "kills", "growth"], ("kills", "growth")),
    ],
)
def test_the_parts_that_run(given: list[str], parts: tuple[str, ...]) -> None:
    assert set(read_arguments(given).only) == set(parts)


def test_every_part_can_be_named_alone() -> None:
    for name in NAMES:
        assert read_arguments(["--only", name]).only == [name]
    with pytest.raises(SystemExit):
        read_arguments(["--only", "unknown"])
    assert set(ONLY_FULL) < set(PARTS)


def test_a_part_gets_what_it_is_called_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called = []
    for name in ONLY_FULL:
        monkeypatch.setattr(f"tests.bench.everything.{name}", lambda *given: called.append(given) or [])
    for name in ONLY_FULL:
        list(PARTS[name](Bench(tmp_path, QUICK, "python")))
    assert called == [
        (tmp_path, QUICK.budget_usd),
        (tmp_path / "coordinator", *QUICK.coordinator),
        (tmp_path / "kills", QUICK.kills),
    ]
