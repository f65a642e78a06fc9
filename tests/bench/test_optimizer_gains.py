"""The bench of optimizers: what is measured already is not measured again, and what its tables count."""

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.bench import optimizer_gains
from tests.bench.optimizer_gains import append, list_jobs, list_plain_jobs, read_lines, tabulate

ANSWERS = {"baseline": 20, "search": 140, "shortlist": 0, "sealed": 240, "total": 400}
LINE = {"answers": ANSWERS, "requests": 1000, "cpu_seconds": 3.0, "commit": "abc", "winner_gain": 0.0, "budget": 0}


def line(part: str, world: str, optimizer: str, seed: int, **more: object) -> dict[str, object]:
    place = {"part": part, "world": world, "optimizer": optimizer, "seed": seed}
    return {**LINE, "published": False, "gain": 0.0, **place, **more}


def choose(**more: object) -> argparse.Namespace:
    worlds = tuple(world for part in optimizer_gains.WORLDS.values() for world in part)
    return argparse.Namespace(
        **{"parts": ["null"], "worlds": worlds, "optimizers": ["bootstrap", "plain"], "seeds": 2, **more}
    )


def test_a_run_that_is_there_is_not_repeated_also_after_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    append(file, line("null", "null", "bootstrap", 0))
    with file.open("a") as stream:
        stream.write('{"part": "null", "wor')  # killed here
    append(file, line("null", "noheadroom", "bootstrap", 0))
    missing = [(job.world, job.seed) for job in list_jobs(choose(), read_lines(file))]
    assert missing == [("shuffled", 0), ("null", 1), ("noheadroom", 1), ("shuffled", 1)]


def test_plain_is_run_as_far_as_the_dearest_of_our_runs() -> None:
    ours = [line("gain", "normal", "bootstrap", 0), line("gain", "normal", "gepa", 0, requests=3000)]
    assert [job.budget for job in list_plain_jobs(choose(), ours)] == [3000]
    there = line("gain", "normal", "plain", 0, budget=3000)
    assert not list(list_plain_jobs(choose(), [*ours, there]))
    assert len(list(list_plain_jobs(choose(), [*ours, {**there, "budget": 2000}]))) == 1


def test_only_publications_without_a_gain_are_false_where_chance_may_find_one() -> None:
    found = [
        line("null", "shuffled", "bootstrap", seed, published=seed < 2, gain=0.1 * (seed == 0)) for seed in range(4)
    ]
    assert "| `shuffled` | bootstrap | 4 | 2 | 1 | 25.0 %" in tabulate(found)["null"]
    assert "| `null` | bootstrap | 1 | 1 | 1 | 100.0 %" in tabulate([
        line("null", "null", "bootstrap", 0, published=True, gain=0.0)
    ])["null"]  # fmt: skip


def test_plain_is_compared_at_the_cost_of_each_run() -> None:
    curve = [[60, 0, 0.0], [900, 3, 0.02], [1500, 7, 0.2]]

    def at(requests: int) -> Mapping[str, object]:
        return line("gain", "normal", "bootstrap", 0, published=True, gain=0.1, requests=requests)

    plain = line("gain", "normal", "plain", 0, curve=curve, requests=2000, gain=0.2)
    assert "| +2.0 (+2.0 to +2.0) | - | 5.00 (5.00 to 5.00; 1 seeds)" in tabulate([at(1000), plain])["gain"]
    assert "| +20.0 (+20.0 to +20.0) | - | 0.50" in tabulate([at(1500), plain])["gain"]
    assert "| - | - | - | 3.0 |" in tabulate([at(2001), plain])["gain"]  # plain was not run that far


def test_the_table_of_a_part_without_lines_stays_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, (begin, end) = tmp_path / "page.md", optimizer_gains.MARKS
    monkeypatch.setattr(optimizer_gains, "PAGE", page)
    parts = [f"{begin.format(part)}\nof {part}\n{end.format(part)}\nafter {part}\n" for part in ("null", "headroom")]
    page.write_text("".join(parts), "utf-8")
    optimizer_gains._document({"null": "new"})
    assert page.read_text("utf-8") == parts[0].replace("\nof null\n", "\n\nnew\n\n") + parts[1]


def test_a_world_on_another_system_is_measured_and_compared_for_itself() -> None:
    ours = [line("gain", "normal", "bootstrap", 0), line("gain", "normal", "bootstrap", 0, on="gaia", requests=3000)]
    plain = list(list_plain_jobs(choose(), ours))
    assert [(job.system, job.budget) for job in plain] == [("toy", 1000), ("gaia", 3000)]
    missing = [job.place for job in list_jobs(choose(parts=["gain"], seeds=1), ours)]
    assert missing == ["learnable", "badseed", "dense"]
    rows = tabulate(ours)["gain"]
    assert "| `normal` | bootstrap | 1 |" in rows and "| `normal gaia` | bootstrap | 1 |" in rows


def test_the_curve_is_of_the_seeds_that_both_have() -> None:
    curve = [[100, 0, 0.0], [600, 3, 0.1], [900, 7, 0.3]]
    ours = [line("gain", "normal", "halving", seed, gain=0.2 + 0.2 * seed) for seed in range(2)]
    plain = line("gain", "normal", "plain, feedback", 0, curve=curve)
    assert (
        "| `normal` | with feedback | 1 | +0.0 | +0.0 | +0.0 | +10.0 | +30.0 | +20.0 |"
        in tabulate([*ours, plain])["gain"]
    )
