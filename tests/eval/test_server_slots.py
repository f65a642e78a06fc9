"""A server that takes few requests at once gets as few questions at once."""

from pathlib import Path

from tests.command import Command
from tests.eval.command_line import dataset, question
from tests.mas.systems.external.user_code import module
from tests.servers.function_llm import function_llm

PROGRAM = """
import dspy

class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.draft, self.answer = dspy.Predict("question -> draft"), dspy.Predict("question, draft -> answer")

    def forward(self, question):
        return self.answer(question=question, draft=self.draft(question=question).draft)
"""


def test_a_question_is_finished_before_another_one_takes_its_slot(command: Command, tmp_path: Path) -> None:
    """Else the questions drive each other's conversations out of the server's prompt cache."""
    target = module(Path(), PROGRAM)
    questions = dataset(tmp_path / "data", *(question(f"q{n}", f"How many, {n}?", "4") for n in range(5)))
    with function_llm(lambda asked: {"draft": "3", "answer": "4"}) as server:
        slots = ("model=openai_compatible", f"model.base_url={server.base_url}", "model.max_connections=1")
        command("eval", "system=dspy", f"system.target={target}:Program", *slots, *questions, "run.concurrency=16")
        asked = [each.inputs["question"] for each in server.asked]
    assert asked == [f"How many, {n}?" for n in range(5) for _ in range(2)]
