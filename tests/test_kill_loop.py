"""Nothing that is finished is lost: the real command under `kill -9` and with a clock that jumps."""

import json
import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.eval.command_line import dataset, question
from tests.killed_run import KilledRun, Moment, killed
from tests.needs import needs
from tests.servers.faults import fault_server

CONCURRENCY = 4
EPOCHS = 2
CALLS = 3  # of the toy system, for an answer
LATENCY_SECONDS = 0.04
PAID = ("lm_calls", "input_tokens", "output_tokens", "known_cost_usd", "cost_usd")
PRICE = "+model.prices.default={input_usd_per_million: 1.0, output_usd_per_million: 2.0}"
SMALL, LARGE = 0, 130_000  # characters that are put behind a question
LARGE_RECORD_BYTES = 500_000
LEFT_UNDONE = {"text": "Number 3:", "every": 1, "fault": "length"}  # one question is in error each time


def moments(seed: int, number: int, max_requests: int) -> list[Moment]:
    """A fifth of them while the command starts, the others in the middle of the questions; requests of each session."""
    draw = random.Random(seed)
    return [
        Moment(draw.uniform(0.1, 2.5))
        if draw.random() < 0.2
        else Moment(draw.uniform(0.0, 2 * LATENCY_SECONDS), requests=draw.randint(1, max_requests))
        for _ in range(number)
    ]


def options(folder: Path, base_url: str, number: int, filler: int) -> list[str]:
    """The toy system on so many questions, every fifth of them with a gold answer that is never given."""
    more = "So it is. " * (filler // 10)
    golds = ["41" if n % 5 == 0 else "42" for n in range(number)]
    rows = [question(f"q{n:03}", f"Number {n}: what is 6 * 7? {more}", gold) for n, gold in enumerate(golds)]
    model = ["model=openai_compatible", f"model.base_url={base_url}", PRICE]
    run = [f"run.concurrency={CONCURRENCY}", f"run.epochs={EPOCHS}"]
    return ["system=toy", *model, *dataset(folder, *rows), *run]


def numbers(summary: dict[str, Any]) -> dict[str, Any]:
    """What a reader takes from a run: all that its course must not change."""
    keys = ("n", "n_scored", "n_correct", "n_wrong", "accuracy", "accuracy_ci95", "n_error", "errors_by_class")
    usage = {key: value for key, value in summary["usage"].items() if key not in ("replayed_calls", *PAID)}
    return {**{key: summary[key] for key in (*keys, "by_epochs", "stopped", "n_retried")}, **usage}


def kill_loop(folder: Path, planned: list[Moment], filler: int, endings: int, *more: str) -> tuple[int, KilledRun]:
    """Kill a run, with `more` options, at each of the moments and as it ends; compare it with one that is left alone.

    Returns:
        How often it was killed; the run.
    """
    served_by_then = sum((moment.requests or 0) + 3 * CONCURRENCY for moment in planned)
    number = 8 + served_by_then // (CALLS * EPOCHS)
    with fault_server(LEFT_UNDONE, LATENCY_SECONDS) as server:
        asked = options(folder / "data", server.base_url, number, filler)
        left_alone = KilledRun(folder / "left-alone", asked, server)
        code = left_alone.session()
        undisturbed = len(server.requests())
        server.start_over(LEFT_UNDONE)
        run = KilledRun(folder / "killed", [*asked, *more], server)
        in_all = (replace(each, requests=server.asked + (each.requests or 0)) for each in planned)
        kills = killed(run, in_all)
        assert kills == len(planned), run.printed[-1]
        kills += killed(run, (Moment(0.15 * n, after_the_last_answer=True) for n in range(endings)))
        assert run.session() == code
        sent = len(server.requests())
    compare(run, left_alone)
    assert undisturbed <= sent <= undisturbed + kills * CONCURRENCY
    compare_payments(run.summary["usage"], left_alone.summary["usage"], sent_more=sent - undisturbed)
    return kills, run


def compare_payments(killed: dict[str, Any], whole: dict[str, Any], sent_more: int) -> None:
    """A kill between a reply's payment and its keeping has it asked and paid for again, and both count. All cost the
    same here."""
    paid_again = killed["lm_calls"] - whole["lm_calls"]
    assert 0 <= paid_again <= sent_more
    for name in PAID:
        assert killed[name] == pytest.approx(whole[name] * (1 + paid_again / whole["lm_calls"]), rel=1e-9)


def compare(run: KilledRun, left_alone: KilledRun) -> None:
    found, whole = run.summary, left_alone.summary
    assert numbers(found) == numbers(whole)
    assert whole["usage"]["replayed_calls"] == 0 < found["usage"]["replayed_calls"]
    assert len(run.acknowledged()) <= found["n"] == len(run.stored())
    answers = [[line["model_answer"] for line in each.answers] for each in (run, left_alone)]
    assert answers[0] == answers[1]
    assert len(run.lines("records.jsonl")) == found["n"]
    with closing(sqlite3.connect(run.folder / "run.db")) as database:
        left = database.execute("SELECT sample FROM replies UNION ALL SELECT sample FROM payments").fetchall()
    assert left == [], "no reply is left over"


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "number", "filler"), [(1, 4, SMALL), (2, 2, LARGE)], ids=["small", "large"])
def test_a_run_that_is_killed_at_random_moments_ends_as_if_it_had_not(
    seed: int, number: int, filler: int, tmp_path: Path
) -> None:
    planned = moments(seed, number, max_requests=24 if filler == SMALL else 12)
    kills, run = kill_loop(tmp_path, planned, filler, endings=2 if filler == SMALL else 1)
    assert kills >= number
    if filler == LARGE:
        whole = [len(record) for record in run.stored() if '"truncated"' not in record]
        assert min(whole) > LARGE_RECORD_BYTES


@pytest.mark.slow
@needs("faketime")
def test_a_clock_that_jumps_ends_no_question_and_loses_none(tmp_path: Path) -> None:
    """Ten minutes pass each time that anybody looks at the clock; after a kill it is two years earlier."""
    forward = ["faketime", "--exclude-monotonic", "-f", "+1y i600"]
    back = ["faketime", "--exclude-monotonic", "-f", "-1y i600"]
    hangs = {"text": "Number 5:", "every": 1, "fault": "hang"}
    with fault_server(hangs, LATENCY_SECONDS) as server:
        limits = ["run.deadline_seconds=10", "run.max_seconds=600"]
        asked = [*options(tmp_path / "data", server.base_url, number=10, filler=0), *limits]
        run = KilledRun(tmp_path / "run", asked, server, forward)
        assert run.session(Moment(0.0, requests=20)) is None
        assert len(run.stored()) > 0
        run.wrapper = back
        assert run.session() == 2, run.printed[-1]
    summary = run.summary
    assert (summary["n"], summary["n_error"], summary["limits"]) == (20, EPOCHS, {"deadline_seconds": EPOCHS})
    records = [json.loads(record) for record in run.stored()]
    assert all(0 <= record["wall_seconds"] < 300 for record in records)
    assert summary["wall_seconds"] >= 0
