"""Write the report of very many answers: `python -m tests.pages.many_answers RUN PAGE N EPOCHS`.

The answers are those of a run, over and over, each with a question and an id of its own; their steps and prompts are
as long as those of the run. It prints bytes of the page, CPU seconds, and megabytes of memory that it needed, as JSON.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from eval.reports.run_report.page import write_report
from eval.runs.record import Record
from eval.runs.store import RunStore
from tests.eval.stored_run import summarise_records


def repeat_answers(folder: Path, n_questions: int, epochs: int) -> Iterator[Record]:
    with RunStore(folder / "run.db", read_only=True) as store:
        pool = cycle(list(store.records()))
    for number in range(n_questions):
        for epoch in range(1, epochs + 1):
            record = next(pool)
            own = {"sample_id": f"{number:06d}-{record.sample_id[7:]}", "question": f"{number}: {record.question}"}
            yield replace(record, epoch=epoch, attempt=1, **own)


def main(folder: Path, page: Path, n_questions: int, epochs: int) -> None:
    summary = summarise_records(repeat_answers(folder, n_questions, epochs), epochs=epochs)
    before, start = read_peak_memory(), time.process_time()
    write_report(page, summary, repeat_answers(folder, n_questions, epochs))
    seconds, memory = time.process_time() - start, read_peak_memory() - before
    print(json.dumps({"bytes": page.stat().st_size, "cpu_seconds": round(seconds, 1), "memory_mb": round(memory)}))


def read_peak_memory() -> float:
    """Megabytes; what getrusage says is that of the parent process, too."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
