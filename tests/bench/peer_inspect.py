"""What Inspect AI does with the same work: eight sequential calls a question, its own log and plain display on.

python tests/bench/peer_inspect.py BASE_URL CONCURRENCY QUESTIONS LOG_FOLDER
"""

import os
import sys

from inspect_ai import Task, eval, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver

CALLS = 8


@solver
def eight_calls() -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for call in range(CALLS):
            state = await generate(state)
            if call < CALLS - 1:
                state.messages.append(ChatMessageUser(content="go on"))
        return state

    return solve


@task
def questions(number: int) -> Task:
    samples = [Sample(id=i, input=f"Question {i}: what is 6 * 7?", target="42") for i in range(number)]
    return Task(dataset=MemoryDataset(samples), solver=eight_calls(), scorer=includes())


def main() -> None:
    base_url, concurrency, number, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    os.environ |= {"FAKE_API_KEY": "none", "FAKE_BASE_URL": base_url}
    model = "openai-api/fake/fixed"
    at_once = {"max_connections": concurrency, "max_samples": concurrency}
    log = eval(questions(number), model=model, log_dir=folder, display="plain", **at_once)[0]
    right = log.results.scores[0].metrics["accuracy"].value if log.results else None
    if log.status != "success" or right != 1.0:
        raise SystemExit(f"status {log.status}, accuracy {right}")


if __name__ == "__main__":
    main()
