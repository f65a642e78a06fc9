"""Ctrl-C pressed again and again: the run ends at once, and its summary and answers are written all the same."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.eval.command_line import SCRIPT, dataset, question
from tests.servers.faults import fault_server

N_QUESTIONS = 40


@pytest.mark.slow
@pytest.mark.parametrize("gap_seconds", [0.02, 0.2])
def test_three_in_a_row_leave_summary_and_answers(
    gap_seconds: float, tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    rows = dataset(tmp_path / "data", *(question(f"q{n}", f"What is {n} + 1?", "42") for n in range(N_QUESTIONS)))
    with fault_server(latency_seconds=0.3) as server:
        model = ["model=openai_compatible", f"model.base_url={server.base_url}"]
        command = [*model, "system=toy", *rows, "run.concurrency=8", "tracking=off", f"run.dir={tmp_path / 'run'}"]
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *command],
            env={**clean_environment, "PYTHONPATH": str(PROJECT_ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        over = time.monotonic() + 120
        while len(server.requests()) < 30 and process.poll() is None and time.monotonic() < over:
            time.sleep(0.01)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(gap_seconds)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 3, out
    assert "Traceback" not in out
    assert "continue with: python eval/run.py" in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert summary["n"] == N_QUESTIONS
    answers = (tmp_path / "run" / "answers.jsonl").read_text("utf-8").splitlines()
    assert 0 < len(answers) < N_QUESTIONS
