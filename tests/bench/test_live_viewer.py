"""The benchmark of the viewer: pairs in alternating order, and the median of their ratios."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench import live_viewer
from tests.bench.measuring import FailedError


def test_the_figure_is_the_median_of_the_pairs_ratios() -> None:
    row = live_viewer.compare_pairs("s", [10.0, 20.0, 40.0], [10.1, 20.2, 80.0])
    assert row[1:6] == [20.0, 20.2, "1.010", live_viewer.GOAL, "1.010, 1.010, 2.000"]


def test_pairs_alternate_and_one_that_nobody_watched_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, order = iter([[1, 1, 1], [0, 1, 1], [1, 1, 1]]), list[str]()

    def run(folder: Path, questions: int, watchers: object) -> Any:
        order.append(folder.name)
        return SimpleNamespace(served_seconds=1.0)

    def run_watched(folder: Path, name: str, questions: int) -> Any:
        return run(folder / name, questions, None), next(seen)

    monkeypatch.setattr(live_viewer, "_run", run)
    monkeypatch.setattr(live_viewer, "_run_watched", run_watched)
    alone, watched, states = live_viewer._in_turns(tmp_path, 5, 2)
    assert order == ["alone-0", "watched-0", "watched-1", "alone-1", "watched-1-again", "alone-1-again"]
    assert (len(alone), len(watched), states) == (2, 2, [1] * 6)
    seen = iter([[0, 0, 0]] * 2)
    with pytest.raises(FailedError, match="the browsers saw"):
        live_viewer._in_turns(tmp_path, 5, 1)
