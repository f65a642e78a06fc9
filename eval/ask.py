"""Answer one question and show the steps as they happen. Nothing is stored.

python eval/ask.py "What is 17 * 23?" model=offline
python eval/ask.py "What is the price of apple?" --file fruit.csv model=gpt-4o-mini system.agents.expert.temperature=0.7

--file attaches one file; --verbose shows the stack of a failure.

Exit codes: 0 answered · 1 a mistake in the command line, reported in one sentence · 2 failed by error · 3 interrupted.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.benchmarks.dataset import Sample
from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, run_cli
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from mas.runtime.errors import UserError
from mas.runtime.text import replace_surrogates


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line; the question comes first and is taken as it is, even if it looks like a flag."""
    parser = UserErrorParser('python eval/ask.py "QUESTION" [--file FILE] [--verbose] [name=value ...]', __doc__)
    parser.add_argument("overrides", nargs="*", metavar="name=value")
    parser.add_argument("--file", type=Path, metavar="FILE")
    parser.add_argument("--verbose", action="store_true")
    if not arguments or arguments[0].startswith(("--file", "--verbose")):
        parser.error("there is no question")
    given = parser.parse_intermixed_args(arguments if arguments[0] in ("-h", "--help") else arguments[1:])
    given.question = arguments[0]
    return given


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    if not given.question.strip():
        raise UserError("the question is empty; give some text in quotes.")
    if given.file and not given.file.is_file():
        raise UserError(f"--file {given.file} is not a file under {Path.cwd()}; give the path of one that exists.")
    config = read_config(compose_config(given.overrides))
    prompts = config.check_system()
    config.check_model()
    from eval.workflows.single_answer import show_answer

    file = given.file.absolute() if given.file else None
    sample = Sample("question", replace_surrogates(given.question), file)
    return show_answer(sample, config, prompts, with_stack=given.verbose)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
