"""A run of $1.00 in one process and in four workers at full speed, over HTTP: what was sent beyond the last dollar.

    python -m tests.bench.one_budget [USD]              # 1.00; about a minute on two cores

Every request costs $0.0005. `in flight` is the largest number of requests that the server had open at once; more than
that, less the one whose reply used up the budget, cannot be sent beyond the budget.
"""

import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.contenders import evaluation
from tests.bench.measuring import CALLS, ask_server, running_server
from tests.bench.tables import Table

BUDGET_USD, CONCURRENCY, LATENCY_SECONDS = 1.0, 64, 0.02
COST_USD = 0.0005  # 100 tokens in, 20 out
PRICE = "++model.prices={fixed: {input_usd_per_million: 2.5, output_usd_per_million: 12.5}}"
EXECUTORS = {
    "local": ("executor=local",),
    "ray, 4 workers": ("executor=ray", "executor.workers=4"),
}
COLUMNS = (
    "",
    "budget $",
    "requests that it pays for",
    "sent",
    "beyond it",
    "in flight, at most",
    "spent, as the run says",
)


def one_budget(folder: Path, budget_usd: float = BUDGET_USD) -> Table:
    title = f"One budget, {CONCURRENCY} questions at once, {LATENCY_SECONDS:g} s a call, one run each"
    table = Table(title, COLUMNS)
    paid_for = math.ceil(round(budget_usd / COST_USD, 6))
    for name, options in EXECUTORS.items():
        run = folder / f"budget-{name.replace(', ', '-').replace(' ', '-')}"
        with running_server(LATENCY_SECONDS) as url:
            command = evaluation(url, CONCURRENCY, 2 * paid_for // CALLS, run)
            limits = ("model.name=fixed", PRICE, f"run.max_cost_usd={budget_usd:g}", "run.max_same_errors=null")
            asked = subprocess.run([*command, *limits, *options], capture_output=True, text=True, check=False)
            stats = ask_server(url, "/stats")
        said = asked.stdout + asked.stderr
        spent = re.search(r"the run has spent \$([0-9.]+)", said)
        if asked.returncode != 3 or spent is None:
            table.failed(name, budget_usd, f"exit code {asked.returncode}: {said.strip()[-300:]}")
            continue
        sent, peak = int(stats["requests"]), int(stats["peak"])
        table.add([name, f"{budget_usd:.2f}", paid_for, sent, sent - paid_for, peak, f"${spent[1]}"])
        table.keep(name, budget_usd, {"sent": sent, "paid_for": paid_for, "peak_in_flight": peak})
    return table


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(one_budget(Path(place), *map(float, sys.argv[1:])).markdown())
