"""Answer one question and show the steps as they happen. Nothing is stored.

python eval/ask.py "What is 17 * 23?" model=offline
python eval/ask.py "What is the price of apple?" --file fruit.csv model=gpt-4o-mini system.agents.expert.temperature=0.7

Exit codes: 0 answered · 1 your mistake, told in one sentence · 2 failed by error · 3 interrupted.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from eval.benchmarks.dataset import Sample
from eval.cli.arguments import Parser
from eval.cli.command import FAILURES, FINISHED, STOPPED, exit_now, run_cli
from eval.cli.hydra_compat import composed
from eval.config.evaluation import EvalConfig, read_config
from eval.reports.live_steps import LiveSteps, print_answer
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.text import replace_surrogates
from mas.simulation import SIMULATED_NOTICE


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """A question in the first place is taken as it is, even if it looks like a flag."""
    usage = 'python eval/ask.py "QUESTION" [--file FILE] [name=value ...]'
    parser = Parser(usage=usage, description="Answer one question and show the steps.", allow_abbrev=False)
    parser.add_argument("question", help="in quotes; whatever characters it has")
    parser.add_argument("--file", type=Path, help="one attached file")
    parser.add_argument("overrides", nargs="*", metavar="name=value", help="options, as of eval/run.py")
    if not arguments:
        parser.error("there is no question")
    first = arguments[0]
    if first in ("-h", "--help", "--file") or first.startswith("--file="):
        return parser.parse_intermixed_args(arguments)
    return argparse.Namespace(**{**vars(parser.parse_intermixed_args(["-", *arguments[1:]])), "question": first})


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    if not given.question.strip():
        raise UserError("the question is empty; give some text in quotes.")
    if given.file and not given.file.is_file():
        raise UserError(f"--file {given.file} is not a file under {Path.cwd()}; give the path of one that exists.")
    config = read_config(composed(given.overrides))
    prompts = config.check_system()
    config.check_model()
    file = given.file.absolute() if given.file else None
    return answer(Sample("question", replace_surrogates(given.question), file), config, prompts)


def answer(sample: Sample, config: EvalConfig, prompts: PromptSet | None) -> int:
    from eval.execution.single_answer import answer_sample

    console = Console()
    if config.needs_model and config.model.simulated:
        console.print(SIMULATED_NOTICE, style="bold yellow")
    try:
        with LiveSteps(console, config.redact) as steps:
            record = answer_sample(sample, config, prompts, steps.observer)
    except KeyboardInterrupt:
        print("error: interrupted; nothing is stored.", file=sys.stderr)
        return STOPPED
    print_answer(record, console, config.redact)
    if record.error is not None:
        print(f"error: {record.error_component}: {record.error}", file=sys.stderr)
    return FINISHED if record.error is None else FAILURES


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
