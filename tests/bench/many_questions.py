"""Very many questions: 1,000 at once beside Inspect AI, 10,000 in one run, and a finished run of 10,000 resumed."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.contenders import DSPY, Contender, check_summary
from tests.bench.measuring import ROOT, FailedError, Measured, measure, medians
from tests.bench.side_by_side import ideal_seconds, run_in_turns
from tests.bench.tables import Table

AT_ONCE_SECONDS = 1.0  # latency of the 1,000 at once
STEADY_SECONDS, STEADY_CONCURRENCY = 0.05, 64  # short: what is measured is the CPU and the memory
AT_ONCE_COLUMNS = ("", "wall s", "ideal s", "share of a core", "CPU ms/LM call", "peak in flight", "peak MB", "failed")
GROWTH_COLUMNS = ("questions", "wall s", "questions/s", "CPU ms/LM call", "peak MB", "command s")
RESUME_COLUMNS = ("", "median s", "all s", "peak MB", "LM calls")


def all_at_once(those: Sequence[Contender], folder: Path, questions: int, repeats: int) -> Table:
    table = Table(
        f"{questions:,} questions at once, {AT_ONCE_SECONDS:g} s a call, medians of {repeats}", AT_ONCE_COLUMNS
    )
    ideal = ideal_seconds(questions, questions, AT_ONCE_SECONDS)
    entered = [contender for contender in those if contender.name != DSPY]  # a thread a question: not its use
    turns = run_in_turns(entered, folder, questions, questions, AT_ONCE_SECONDS, repeats)
    for title, why in turns.failures.items():
        table.failed(title, "", why)
    for contender in entered:
        if found := turns.runs.get(contender.title):
            run = medians(found)
            table.add(
                [
                    contender.title,
                    round(run.served_seconds, 1),
                    ideal,
                    f"{run.core_share:.0%}" if run.core_share else "n/a",
                    round(run.running_cpu_ms_per_call, 2),
                    round(run.peak_in_flight),
                    round(run.peak_mb),
                    0,  # a run with a failed question does not come here
                ]
            )
            table.keep(contender.name, questions, [each.figures() for each in found])
        elif not contender.version:
            table.add([contender.title])
    return table


def growth(ours: Contender, folder: Path, numbers: Sequence[int]) -> Table:
    """Ten times the questions should take ten times as long and hardly more memory."""
    table = Table(f"Growth, {STEADY_CONCURRENCY} at once, {STEADY_SECONDS:g} s a call, one run each", GROWTH_COLUMNS)
    for number in numbers:
        try:
            run = ours.run(folder / f"growth-{number}", number, STEADY_CONCURRENCY, STEADY_SECONDS)
        except FailedError as error:
            table.failed(f"{number:,}", "", str(error))
            continue
        rate = number / run.served_seconds
        wall, memory, command = round(run.served_seconds, 1), round(run.peak_mb), round(run.command_seconds, 1)
        table.add([f"{number:,}", wall, round(rate, 2), round(run.running_cpu_ms_per_call, 2), memory, command])
        table.keep(ours.name, number, run.figures())
    return table


def resume(folder: Path, number: int, repeats: int) -> Table:
    """What `growth` left behind, resumed: nothing is to be done but to see that."""
    table = Table(f"Resuming a finished run of {number:,} questions, {repeats} times", RESUME_COLUMNS)
    finished = folder / f"growth-{number}"
    if not (finished / "run.db").exists():
        table.failed("resume", "", "there is no such run to resume")
        return table
    runs: list[Measured] = []
    try:
        for _ in range(repeats):
            runs.append(
                measure(lambda url: [sys.executable, str(ROOT / "eval/run.py"), f"run.resume={finished}"], 0, 0.0)
            )
            check_summary(finished, number)
    except FailedError as error:
        table.failed("resume", "", str(error))
        return table
    seconds = [round(run.command_seconds, 2) for run in runs]
    middle = medians(runs)
    table.add([f"{number:,}", round(middle.command_seconds, 2), str(seconds), round(middle.peak_mb), 0])
    table.keep("resume", number, seconds)
    return table
