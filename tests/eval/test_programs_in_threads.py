"""Calls that a program makes from threads of its own are counted and limited like all others."""

from pathlib import Path

import pytest
from dspy.utils.parallelizer import ParallelExecutor, tqdm

import mas.systems.external.program  # noqa: F401  it mends the list of progress bars
from tests.command import Command
from tests.eval.command_line import dataset, question
from tests.mas.systems.external.user_code import module
from tests.sampling import mostly_slow
from tests.servers.function_llm import function_llm

WAYS = {
    "dspy.Parallel": "dspy.Parallel(num_threads=2, disable_progress_bar=True)([(self.ask, each) for each in samples])",
    "batch": "self.ask.batch(samples, num_threads=2, disable_progress_bar=True)",
    "a pool": "list(ThreadPoolExecutor(2).map(lambda each: self.ask(**each.inputs()), samples))",
    "threads": "run_all([threading.Thread(target=quietly, args=(self.ask, each)) for each in samples])",
    "a pool in a nested context": "nested(self.ask, samples)",
}
PROGRAM = """
import threading
from concurrent.futures import ThreadPoolExecutor
import dspy

def run_all(threads):
    for each in threads: each.start()
    for each in threads: each.join()

def quietly(ask, sample):
    try:
        ask(**sample.inputs())
    except Exception:
        pass  # a thread has nobody to tell

def nested(ask, samples):
    with dspy.context(max_errors=3), ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda each: ask(**each.inputs()), samples))

class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.ask = dspy.Predict("question -> answer")

    def forward(self, question):
        samples = [dspy.Example(question=f"{question} {n}").with_inputs("question") for n in range(4)]
        WAY
        return dspy.Prediction(answer="4")
"""


@pytest.mark.parametrize("way", mostly_slow(WAYS))
def test_calls_from_threads_are_counted_and_have_the_limits_of_their_question(
    way: str, command: Command, tmp_path: Path
) -> None:
    target = module(Path(), PROGRAM.replace("WAY", WAYS[way]))
    questions = dataset(tmp_path / "data", question("q1", "How many?", "4"), question("q2", "How many now?", "4"))
    with function_llm(lambda asked: {"answer": "4"}) as server:
        model = ("model=openai_compatible", f"model.base_url={server.base_url}", "model.name=m")
        given = ("system=dspy", f"system.target={target}:Program", *model, *questions)
        records = command("eval", *given).records
        assert [records[name]["usage"]["lm_calls"] for name in ("q1", "q2")] == [4, 4]
        assert sum(record["usage"]["input_tokens"] for record in records.values()) == 10 * len(server.bodies) == 80
        command("eval", *given, "limits.lm_calls=2")
        assert len(server.bodies) == 8 + 4, "two for each question"


def test_a_question_survives_that_another_one_clears_the_progress_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    def clear(bars: type[tqdm.tqdm], bar: tqdm.tqdm) -> int:
        bars._instances.clear()  # as another thread does that begins with its samples at this moment
        return 0

    monkeypatch.setattr(tqdm.tqdm, "_get_free_pos", classmethod(clear))
    answers = ParallelExecutor(num_threads=2, disable_progress_bar=True).execute(str.upper, ["a", "b"])
    assert answers == ["A", "B"]
