"""Ctrl-C pressed again and again: the run ends at once, and its summary and answers are written all the same."""

import signal
import time
from pathlib import Path

import pytest

from tests.eval.command_line import dataset, question
from tests.process import started
from tests.servers.faults import fault_server

N_QUESTIONS = 40


@pytest.mark.slow
@pytest.mark.parametrize("gap_seconds", [0.02, 0.2])
def test_three_in_a_row_leave_summary_and_answers(gap_seconds: float, tmp_path: Path) -> None:
    rows = dataset(tmp_path / "data", *(question(f"q{n}", f"What is {n} + 1?", "42") for n in range(N_QUESTIONS)))
    with fault_server(latency_seconds=0.3) as server:
        model = ["model=openai_compatible", f"model.base_url={server.base_url}"]
        with started(tmp_path / "run", *model, "system=toy", *rows, "run.concurrency=8", "tracking=off") as running:
            assert running.wait_until(lambda: server.asked >= 30)
            for _ in range(3):
                running.process.send_signal(signal.SIGINT)
                time.sleep(gap_seconds)
            finished = running.end()
    assert finished.code == 3, finished.err
    assert "Traceback" not in finished.out + finished.err
    assert "continue with: python eval/run.py" in finished.out + finished.err
    assert finished.summary["n"] == N_QUESTIONS
    assert 0 < len(finished.answers) < N_QUESTIONS
