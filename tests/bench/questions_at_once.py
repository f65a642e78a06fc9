"""How close a run comes to the time its model needs, with the whole graph, the store and the logs on.

    .venv/bin/python tests/bench/questions_at_once.py [--questions 64] [--concurrency 16 64] [--repeats 3]

A model server in its own process answers after 200 ms; every question is eight sequential calls.
ideal = ceil(questions / concurrency) * calls * latency. Medians of the repeats; the wall time is that of the questions,
from the first request to the last reply as the server saw them, and that of the whole command beside it.
"""

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LATENCY_SECONDS, CALLS = 0.2, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_questions(Path(folder) / "questions", given.questions)
        print("concurrency  ideal s  wall s  wall/ideal  command s  CPU ms/LM call")
        for concurrency in given.concurrency:
            report(Path(folder), given.questions, concurrency, given.repeats)


def write_questions(folder: Path, number: int) -> None:
    folder.mkdir()
    rows = [
        {"task_id": f"q{i}", "Question": f"Question {i}: what is 6 * 7?", "Final answer": "42"} for i in range(number)
    ]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def report(folder: Path, questions: int, concurrency: int, repeats: int) -> None:
    ideal = math.ceil(questions / concurrency) * CALLS * LATENCY_SECONDS
    runs = [run_once(folder, questions, concurrency, folder / f"run-{concurrency}-{i}") for i in range(repeats)]
    wall, command, cpu = (statistics.median(values) for values in zip(*runs, strict=True))
    milliseconds = 1000 * cpu / (questions * CALLS)
    print(f"{concurrency:11}  {ideal:7.1f}  {wall:6.2f}  {wall / ideal:10.2f}  {command:9.2f}  {milliseconds:14.2f}")


def run_once(folder: Path, questions: int, concurrency: int, run: Path) -> tuple[float, float, float]:
    """Seconds between the first request and the last reply; of the whole command; of its CPU time."""
    server_command = [sys.executable, str(ROOT / "tests/servers/fixed_llm.py"), "--port", "0"]
    with subprocess.Popen(
        [*server_command, "--latency-seconds", str(LATENCY_SECONDS)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(evaluation(folder, url, concurrency, run), check=True, stdout=subprocess.DEVNULL)
            command = time.monotonic() - started
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as response:
                stats = json.load(response)
        finally:
            server.kill()
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    if summary["accuracy"] != 1.0 or stats["requests"] != questions * CALLS:
        raise SystemExit(f"the run itself went wrong: accuracy {summary['accuracy']}, {stats['requests']} requests")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return stats["last"] - stats["first"], command, cpu


def evaluation(folder: Path, url: str, concurrency: int, run: Path) -> list[str]:
    return [
        sys.executable,
        str(ROOT / "eval/run.py"),
        "model=openai_compatible",
        f"model.base_url={url}",
        "data=jsonl",
        f"data.path={folder / 'questions'}",
        "tracking=off",
        f"run.concurrency={concurrency}",
        f"run.dir={run}",
        "system.agents.researcher.tools=[calculator]",
    ]


if __name__ == "__main__":
    main()
