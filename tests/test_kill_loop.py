"""Nothing that is finished is lost: the real command under `kill -9`, on a full disk, and with a clock that jumps."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.runs.own_runs import note_run
from tests.eval.command_line import dataset, question
from tests.killed_run import KilledRun, Moment, moments
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
    return {**{key: summary[key] for key in (*keys, "by_epochs", "stopped", "retried")}, **usage}


def kill_loop(
    folder: Path, environment: dict[str, str], planned: list[Moment], filler: int, endings: int, *more: str
) -> tuple[int, KilledRun]:
    """Kill a run, with `more` options, at each of the moments and as it ends; compare it with one that is left alone.

    Returns:
        How often it was killed; the run.
    """
    served_by_then = sum((moment.requests or 0) + 3 * CONCURRENCY for moment in planned)
    number = 8 + served_by_then // (CALLS * EPOCHS)
    with fault_server(LEFT_UNDONE, LATENCY_SECONDS) as server:
        asked = options(folder / "data", server.base_url, number, filler)
        left_alone = KilledRun(folder / "left-alone", asked, environment, server)
        code = left_alone.session()
        undisturbed = len(server.requests())
        server.start_over(LEFT_UNDONE)
        run = KilledRun(folder / "killed", [*asked, *more], environment, server)
        codes = [run.session(moment) for moment in planned]
        assert set(codes) == {None}, run.output()
        at_the_end = [run.session(Moment(0.15 * n, after_the_last_answer=True)) for n in range(endings)]
        kills = len(codes) + at_the_end.count(None)
        assert run.session() == code
        sent = len(server.requests())
    compare(run, left_alone)
    assert undisturbed <= sent <= undisturbed + kills * CONCURRENCY
    compare_payments(run.summary()["usage"], left_alone.summary()["usage"], sent_more=sent - undisturbed)
    return kills, run


def compare_payments(killed: dict[str, Any], whole: dict[str, Any], sent_more: int) -> None:
    """A kill between a reply's payment and its keeping has it asked and paid for again, and both count. All cost the
    same here."""
    paid_again = killed["lm_calls"] - whole["lm_calls"]
    assert 0 <= paid_again <= sent_more
    for name in PAID:
        assert killed[name] == pytest.approx(whole[name] * (1 + paid_again / whole["lm_calls"]), rel=1e-9)


def compare(run: KilledRun, left_alone: KilledRun) -> None:
    killed, whole = run.summary(), left_alone.summary()
    assert numbers(killed) == numbers(whole)
    assert whole["usage"]["replayed_calls"] == 0 < killed["usage"]["replayed_calls"]
    assert len(run.acknowledged()) <= killed["n"] == len(run.records())
    answers = [[line["model_answer"] for line in lines(each, "answers.jsonl")] for each in (run, left_alone)]
    assert answers[0] == answers[1]
    assert len(lines(run, "records.jsonl")) == killed["n"]
    assert not (run.folder / "calls.db").exists(), "no reply is left over"


def lines(run: KilledRun, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder / name).read_text("utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "number", "filler"), [(1, 5, SMALL), (2, 2, LARGE)], ids=["small", "large"])
def test_a_run_that_is_killed_at_random_moments_ends_as_if_it_had_not(
    seed: int, number: int, filler: int, tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    planned = moments(seed, number, max_requests=24 if filler == SMALL else 12, latency_seconds=LATENCY_SECONDS)
    kills, run = kill_loop(tmp_path, clean_environment, planned, filler, endings=2)
    assert kills >= number
    if filler == LARGE:
        whole = [len(record) for record in run.records() if '"truncated"' not in record]
        assert min(whole) > LARGE_RECORD_BYTES


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """One of 1 MB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("root is missing: only root may mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
def test_a_run_that_fills_its_disk_stops_and_goes_on_where_there_is_room(
    tmp_path: Path, tiny_disk: Path, clean_environment: dict[str, str]
) -> None:
    with fault_server() as server:
        asked = options(tmp_path / "data", server.base_url, number=60, filler=0)
        run = KilledRun(tiny_disk / "run", asked, clean_environment, server, printed=tmp_path / "printed")
        assert run.session() == 3
        assert f"continue with: python eval/run.py run.resume={run.folder}\n" in run.output()
        kept = run.lines()
        assert 0 < len(kept) < 60 * EPOCHS
        roomy = KilledRun(tmp_path / "roomy", asked, clean_environment, server)
        shutil.copytree(run.folder, roomy.folder)
        note_run(run.info().run_id, roomy.folder, run.info().command or ())  # else the copy is somebody else's
        assert roomy.session() == 0
        subprocess.run(["mount", "-o", "remount,size=100m", tiny_disk], check=True)
        assert run.session() == 0
    for each in (roomy, run):
        assert each.lines()[: len(kept)] == kept
        summary = each.summary()
        assert (summary["n"], summary["n_correct"], summary["n_error"]) == (60 * EPOCHS, 48 * EPOCHS, 0)


@pytest.mark.slow
@needs("faketime")
def test_a_clock_that_jumps_ends_no_question_and_loses_none(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    """Ten minutes pass each time that anybody looks at the clock; after a kill it is two years earlier."""
    forward = ["faketime", "--exclude-monotonic", "-f", "+1y i600"]
    back = ["faketime", "--exclude-monotonic", "-f", "-1y i600"]
    hangs = {"text": "Number 5:", "every": 1, "fault": "hang"}
    with fault_server(hangs, LATENCY_SECONDS) as server:
        limits = ["run.deadline_seconds=30", "limits.working_seconds=10", "run.max_seconds=600"]
        asked = [*options(tmp_path / "data", server.base_url, number=10, filler=0), *limits]
        run = KilledRun(tmp_path / "run", asked, clean_environment, server, forward)
        assert run.session(Moment(0.0, requests=20)) is None
        assert len(run.records()) > 0
        run.wrapper = back
        assert run.session() == 2, run.output()
    summary = run.summary()
    assert (summary["n"], summary["n_error"], summary["limits"]) == (20, EPOCHS, {"working_seconds": EPOCHS})
    records = [json.loads(record) for record in run.records()]
    assert all(0 <= record["wall_seconds"] < 30 for record in records)
    assert summary["wall_seconds"] >= 0
