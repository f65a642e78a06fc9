"""Every optimizer's tuning run, killed at random moments and resumed, next to the same run that is left alone.

    python tests/bench/killed_tuning.py                       # ten kills of each, about a minute an optimizer
    python tests/bench/killed_tuning.py --kills 3 --optimizers bootstrap

The simulated model is behind a server of this process that counts requests. Checked are the verdict, the proposals,
candidates, what is published, the requests' bodies, and what the run has paid; the printed table has the counts.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from eval.cli.paths import PROJECT_ROOT
from tests.eval.command_line import without_secrets
from tests.optimize.killed_runs import CONCURRENCY, Compared, compare_killed, requests_by_phase
from tests.optimize.tuned import TunedRun, over_http, simulated_server

OPTIMIZERS = sorted(file.stem for file in (PROJECT_ROOT / "conf" / "optimizer").glob("*.yaml"))
SIZE = ("data.n_train=12", "data.n_val=12", "data.n_test=30", "budget.metric_calls=120", "shortlist.size=2")
LATENCY_SECONDS = 0.02


def kill_run(optimizer: str, kills: int, seed: int, place: Path) -> Compared:
    """Compare a killed run of an optimizer with one that is left alone."""
    with simulated_server(LATENCY_SECONDS) as server:
        options = over_http(server, f"run.concurrency={CONCURRENCY}", *SIZE, f"optimizer={optimizer}", f"seed={seed}")
        environment = without_secrets(os.environ)
        left_alone, run = (TunedRun(place / name, options, environment, server) for name in ("left-alone", "killed"))
        return compare_killed(left_alone, run, requests_by_phase(left_alone, server), kills, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7, help="of the search and of the moments")
    parser.add_argument("--optimizers", nargs="+", choices=OPTIMIZERS, default=OPTIMIZERS)
    asked = parser.parse_args()
    print("| optimizer | kills | end | scored answers | requests, left alone | requests more, killed | verdict |")
    print("|---|---|---|---|---|---|---|")
    for optimizer in asked.optimizers:
        with tempfile.TemporaryDirectory() as place:
            found = kill_run(optimizer, asked.kills, asked.seed, Path(place))
        print(
            f"| {optimizer} | {found.kills} | {found.finish_reason} | {found.metric_calls} | {found.requests} "
            f"| {found.repeated} | the same |",
            flush=True,
        )


if __name__ == "__main__":
    main()
