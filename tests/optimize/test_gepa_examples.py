"""A program and a metric in the shape of DSPy's own tutorial on GEPA, tuned here with one line of configuration."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from tests.command import Finished, tuning_command
from tests.eval.command_line import CONTACT, NO_BROWSER
from tests.mas.systems.external.user_code import module
from tests.servers.function_llm import AskedFields, FunctionServer, function_llm

pytestmark = pytest.mark.slow  # whole runs over HTTP

GEPA = ("optimizer.minibatch_size=4", "budget.metric_calls=60")
RULE = "Always do it THE RIGHT WAY."


SUPPORT = '''
import json
from typing import List, Literal
import dspy

class Urgency(dspy.Signature):
    """Read the message and say how urgent it is."""
    message: str = dspy.InputField()
    urgency: Literal["low", "high"] = dspy.OutputField()

class Sentiment(dspy.Signature):
    """Read the message and say how its author feels."""
    message: str = dspy.InputField()
    sentiment: Literal["positive", "negative"] = dspy.OutputField()

class Categories(dspy.Signature):
    """Read the message and list what it is about."""
    message: str = dspy.InputField()
    categories: List[Literal["cleaning", "repair"]] = dspy.OutputField()

class Analyzer(dspy.Module):
    def __init__(self):
        self.urgency_module = dspy.ChainOfThought(Urgency)
        self.sentiment_module = dspy.ChainOfThought(Sentiment)
        self.categories_module = dspy.ChainOfThought(Categories)

    def forward(self, message: str):
        return dspy.Prediction(
            urgency=self.urgency_module(message=message).urgency,
            sentiment=self.sentiment_module(message=message).sentiment,
            categories=self.categories_module(message=message).categories,
        )

def metric(example, pred, trace=None, pred_name=None, pred_trace=None):
    gold = json.loads(example["answer"])
    right = {
        "urgency_module.predict": gold["urgency"] == pred.urgency,
        "sentiment_module.predict": gold["sentiment"] == pred.sentiment,
        "categories_module.predict": all((name in pred.categories) == v for name, v in gold["categories"].items()),
    }
    score = sum(right.values()) / 3
    if pred_name is None:
        return score
    assert pred_trace and len(trace) == 3
    return dspy.Prediction(score=score, feedback=f"{pred_name} was {'right' if right[pred_name] else 'wrong'} here.")
'''


def analyse(asked: AskedFields) -> Mapping[str, object]:
    (field,) = (name for name in asked.outputs if name != "reasoning")
    number, knows = int(asked.inputs["message"].split()[-1]), RULE in asked.instructions
    right: dict[str, object] = gold_of(number)
    if field == "categories":
        return {"reasoning": "r", field: [name for name, here in right[field].items() if here] if knows else []}  # type: ignore[attr-defined]
    return {"reasoning": "r", field: right[field] if knows else {"urgency": "low", "sentiment": "positive"}[field]}


def gold_of(number: int) -> dict[str, object]:
    about = {"cleaning": number % 2 == 0, "repair": True}
    return {
        "urgency": ("low", "high")[number % 2],
        "sentiment": ("negative", "positive")[number % 3 > 0],
        "categories": about,
    }


def write_rows(folder: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path = folder / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def tune(place: Path, server: FunctionServer, source: str, name: str, path: Path, *line: str) -> Finished:
    target = module(place, source)
    scorer = ("scorer=function", f"scorer.target={target}:metric") if "def metric" in source else ("scorer=exact",)
    return tuning_command(
        place,
        *("system=dspy", f"system.target={target}:{name}", *scorer, *line),
        *("data=csv", f"data.path={path}"),
        *("model=openai_compatible", f"model.base_url={server.base_url}", "model.num_retries=0", NO_BROWSER, CONTACT),
        *("shortlist.size=1", "shortlist.epochs=1", "gate.epochs=1"),
        *(() if "optimizer=bootstrap" in line else GEPA),
    )


def check_published(tuned: Finished, server: FunctionServer, agents: Sequence[str], feedback: str) -> None:
    assert (tuned.code, tuned.verdict["finish_reason"]) == (0, "improved"), tuned.out + tuned.err
    assert set(tuned.kept.texts) == set(agents)
    assert tuned.verdict["winner"]["score"] == 1.0 > tuned.verdict["baseline"]["score"]
    assert yaml.safe_load((tuned.kept_folder / "provenance.yaml").read_text("utf-8"))["gated"] is True
    examples = [str(dict(asked.inputs)) for asked in server.reflections]
    assert any(feedback in each for each in examples), examples[:1]


def test_three_classifiers_with_feedback_by_predictor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"message": f"This is message {n}", "answer": json.dumps(gold_of(n))} for n in range(60)]
    line = ("data.inputs=[message]", "data.target_column=answer", "system.answer_field=categories")
    with function_llm(analyse, lambda asked: RULE) as server:
        tuned = tune(tmp_path, server, SUPPORT, "Analyzer", write_rows(tmp_path, rows), *line)
    agents = [f"{each}_module.predict" for each in ("urgency", "sentiment", "categories")]
    check_published(tuned, server, agents, "urgency_module.predict was wrong here.")


TICKETS = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.read = dspy.Predict("title, body -> topic")
        self.sort = dspy.Predict("topic, title -> label")
    def forward(self, title, body):
        return self.sort(topic=self.read(title=title, body=body).topic, title=title)
"""


def sort_tickets(asked: AskedFields) -> Mapping[str, object]:
    """Right for two words of three, and for all with a worked example."""
    if "topic" in asked.outputs:
        return {"topic": f"about {asked.inputs['body'].split()[-1]}"}
    word, number = asked.inputs["topic"].split()[-1], int(asked.inputs["title"].split()[-1])
    return {"label": word if number % 3 or asked.n_examples else "unsure"}


BY_NAME = ("data.inputs=[title,body]", "data.target_column=label")


def write_tickets(folder: Path) -> Path:
    words = ("billing", "login", "refund")
    rows = [
        {"title": f"Ticket {n}", "body": f"this is the {n}th to {words[n % 3]}", "label": words[n % 3]}
        for n in range(90)
    ]
    return write_rows(folder, [{**row, "title": f"Ticket {at * 7 % 90}"} for at, row in enumerate(rows)])


def test_a_run_from_derived_prompts_is_resumed_without_paying_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def sort_by_rule(asked: AskedFields) -> Mapping[str, object]:
        found = sort_tickets(asked)
        return (
            found
            if "topic" in asked.outputs or RULE not in asked.instructions
            else {"label": asked.inputs["topic"].split()[-1]}
        )

    with function_llm(sort_by_rule, lambda asked: RULE) as server:
        first = tune(tmp_path, server, TICKETS, "Program", write_tickets(tmp_path), *BY_NAME, "budget.lm_calls=330")
        assert first.code == 3 and "budget.lm_calls=330" in first.err, first.out + first.err
        n_sent = len(server.bodies)
        resumed = tuning_command(tmp_path, f"resume={first.folder}", "budget.lm_calls=null")
    assert (resumed.code, resumed.verdict["finish_reason"]) == (0, "improved"), resumed.out + resumed.err
    paid = [body for body in server.bodies[:n_sent] if b"new_instruction" in body]
    assert paid and not [body for body in server.bodies[n_sent:] if body in paid]
