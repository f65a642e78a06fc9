"""Ask the wrong questions of a run again with one agent's output corrected: did that agent cost the points?

    python eval/attribute.py latest                                    the agents that it blames most
    python eval/attribute.py latest --agents expert,planner --limit 20 run.epochs=3 run.max_cost_usd=2

Next to each corrected arm the same questions are asked without a correction; 30 if no --limit is given. The corrected
agent is given the right answer, so the new runs measure no system: no other command compares them, scores them again or
sends them to MLflow. The model is paid again. Options: run.epochs, run.max_cost_usd, run.concurrency, run.name …

Exit codes: 0 done · 1 a mistake in the command line, nothing made · 3 stopped early, or the files could not be written.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.cli.arguments import UserErrorParser
from eval.cli.command import FINISHED, STOPPED, exit_now, run_cli
from eval.runs.find import find_run
from mas.runtime.errors import UserError


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = UserErrorParser("python eval/attribute.py RUN [--agents NAME,NAME] [--limit N] [name=value ...]", __doc__)
    parser.add_argument("run", metavar="RUN", help="latest, a name under outputs/eval, or the path of a run's folder")
    parser.add_argument("changes", nargs="*", metavar="name=value")
    parser.add_argument("--agents", default="", metavar="NAMES")
    parser.add_argument("--limit", type=int, default=30, metavar="N")
    given = parser.parse_intermixed_args(arguments)
    if given.limit < 1:
        raise UserError(f"--limit {given.limit} is out of range; expected at least 1.")
    if wrong := [each for each in given.changes if "=" not in each]:
        parser.error(f"{wrong[0]!r} is neither an option nor name=value")
    given.agents = [each.strip() for each in given.agents.split(",") if each.strip()]
    return given


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    run = find_run(given.run)
    from eval.execution.console import Output
    from eval.workflows.replayed_proof import print_proof, prove, read_request

    request = read_request(run, given.agents, given.limit, given.changes)
    output = Output()
    proof = prove(request, output)
    print_proof(proof, output)
    return STOPPED if proof.stopped else FINISHED


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
