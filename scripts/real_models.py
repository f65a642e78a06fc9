"""Evaluate a real model on the samples and on public questions, and print a table in Markdown.

    python scripts/real_models.py --data FOLDER model=gguf model.path=model.gguf
    python scripts/real_models.py --only gsm,bbh_navigate --limit 50 --data FOLDER model=ollama model.name=qwen3

FOLDER holds CSV files: bank10.csv (text, category: ten intents of banking77), gsm.csv (problem, answer: GSM8K) and
bbh_*.csv (question, target: tasks of BIG-Bench-Hard). Without it only the samples that come with the harness are run.
Each row of the table is an ordinary run, kept under outputs/eval; a run of the same name is not made again.
"""

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dspy

import mas_harness
from eval.reports.formats import format_interval
from mas_harness import Run

SAMPLES = {  # system → its questions and scorer
    "gaia": ("sample", "gaia"),
    "single_agent": ("sample", "gaia"),
    "bos": ("bos_sample", "expected"),
}
ANSWER_ALONE = "Answer with the number alone, with Yes or No, or with the letter of the option, such as (A)."
HEAD = (
    "| questions | program | right | score (95 %) | requests | tool calls | sent again | errors | seconds an answer |"
    " input cached |"
)


@dataclass(frozen=True)
class Task:
    """Questions and the program that answers them."""

    name: str
    program: object
    samples: str
    scorer: str
    options: Sequence[str]
    described: str


def list_tasks(data: Path | None) -> Iterator[Task]:
    for system, (questions, scorer) in SAMPLES.items():
        yield Task(system, system, questions, scorer, (), f"`{system}`")
    if data is None:
        return
    for path in sorted(data.glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        text, target = rows[0]
        options = (f"data.inputs=[{text}]", f"data.target_column={target}")
        if path.stem == "bank10":
            labels = ", ".join(sorted({row[target] for row in rows}))
            signature = dspy.Signature(f"{text} -> {target}", f"Name the intent of the text, one of: {labels}.")
            yield Task(
                path.stem, dspy.Predict(signature), str(path), "exact", options, "`dspy.Predict`, labels in its prompt"
            )
        else:
            program = dspy.ChainOfThought(dspy.Signature(f"{text} -> answer", ANSWER_ALONE))
            scorer = "numeric" if path.stem == "gsm" else "gaia"
            yield Task(path.stem, program, str(path), scorer, options, "`dspy.ChainOfThought`")


def run_task(task: Task, model: str, options: Sequence[str], limit: int) -> Run:
    name = f"real_{task.name}_{limit}_" + "".join(c if c.isalnum() else "_" for c in " ".join(options))[-40:]
    try:
        return mas_harness.open_run(name)
    except mas_harness.UserError:
        own = (f"run.dir=outputs/eval/{name}", f"limit={limit}", "run.deadline_seconds=3600")
        return mas_harness.evaluate(
            task.program, task.samples, task.scorer, model=model, options=[*task.options, *own, *options]
        )


def describe(task: Task, run: Run) -> str:
    summary, usage = run.summary, run.summary.usage
    n = max(len(run.table), 1)
    cells = (
        task.name,
        task.described,
        f"{summary.n_correct}/{summary.n_scored}",
        f"{run.score:.1%} ({format_interval(run.interval)})" if run.score is not None and run.interval else "-",
        f"{usage.lm_calls / n:.1f}",
        f"{usage.tool_calls / n:.1f}",
        f"{usage.retries / n:.2f}",
        str(summary.n_error),
        f"{run.table['working_time'].mean():.0f}",
        f"{usage.cached_input_tokens / max(usage.input_tokens, 1):.0%}",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the public questions")
    parser.add_argument("--only", help="names of rows, with commas between")
    parser.add_argument("--limit", type=int, default=30, help="questions of each row")
    parser.add_argument("options", nargs="+", help="model=NAME and its options")
    given = parser.parse_args(arguments)
    model = next((option.removeprefix("model=") for option in given.options if option.startswith("model=")), None)
    if model is None:
        parser.error("model=NAME is missing, such as model=gguf")
    options = [option for option in given.options if not option.startswith("model=")]
    tasks = [task for task in list_tasks(given.data) if not given.only or task.name in given.only.split(",")]
    rows = []
    for task in tasks:
        run = run_task(task, model, options, given.limit)
        rows.append(describe(task, run))
        print(rows[-1], file=sys.stderr)
    print(HEAD, "|" + "---|" * HEAD.count(" | ") + "---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
