"""Tuning a classifier over HTTP: prompts may list the labels, and nothing that is unique comes with them."""

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.command import Finished, tuning_command
from tests.eval.command_line import CONTACT, NO_BROWSER
from tests.servers.labelling_llm import MEANINGS, LabellingServer, labelling_llm

pytestmark = pytest.mark.slow  # whole runs over HTTP

LABELS = sorted(label for label, _ in MEANINGS.values())
UNIQUE = ("Paveldel", "Fikesn", "Drazeth", "Boworn", "Velmomar", "Zedraro")
_NUMBERS = itertools.count(1)
ONE_STEP = """
import dspy
class Triage(dspy.Signature):
    \"\"\"Say what the ticket is about.\"\"\"
    title: str = dspy.InputField()
    body: str = dspy.InputField()
    label: str = dspy.OutputField()
Program = dspy.Predict(Triage)
"""
TWO_STEPS = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.read = dspy.Predict(dspy.Signature("title, body -> topic", "Read the ticket."))
        self.classify = dspy.Predict(dspy.Signature("topic -> label", "Say what it is about."))
    def forward(self, title, body):
        return self.classify(topic=self.read(title=title, body=body).topic)
"""


def write_tickets(folder: Path, unique: Sequence[str] = ()) -> Path:
    words, others = ("amber", "barge", "cedar", "dune", "ember", "fjord", "grove", "heath"), ("inlet", "jetty", "knoll")
    rows = [
        {"title": f"The {word} {place}", "body": f"{other} and then {word} had the {key} {place}", "label": label}
        for place, (word, other) in enumerate(itertools.product(words, others))
        for key, (label, _) in MEANINGS.items()
    ]
    rows += [{"title": f"Note {at}", "body": f"who wrote it {at}", "label": name} for at, name in enumerate(unique)]
    path = folder / "tickets.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ("title", "body", "label"))
        writer.writeheader()
        writer.writerows(rows)
    return path


def tune(place: Path, server: LabellingServer, source: str, *options: str, unique: Sequence[str] = ()) -> Finished:
    place.mkdir(parents=True, exist_ok=True)
    module = f"tickets_{next(_NUMBERS)}"
    (place / f"{module}.py").write_text(source)
    tuned = tuning_command(
        place,
        *("system=dspy", f"system.target={module}:Program", "scorer=exact"),
        *("data=csv", f"data.path={write_tickets(place, unique)}"),
        *("data.inputs=[title,body]", "data.target_column=label"),
        *("model=openai_compatible", f"model.base_url={server.base_url}", "model.num_retries=0", NO_BROWSER, CONTACT),
        *("optimizer.minibatch_size=4", "budget.metric_calls=60"),
        *("shortlist.size=1", "shortlist.epochs=1", "gate.epochs=1", *options),
    )
    assert (tuned.folder / "verdict.json").exists(), tuned.out + tuned.err
    return tuned


@pytest.mark.parametrize("source", [ONE_STEP, TWO_STEPS], ids=["one step", "two steps"])
def test_a_classifier_without_labels_in_its_prompt_is_tuned_and_published(tmp_path: Path, source: str) -> None:
    with labelling_llm() as server:
        tuned = tune(tmp_path, server, source)
    assert (tuned.code, tuned.verdict["finish_reason"]) == (0, "improved"), tuned.out + tuned.err
    assert (tuned.verdict["baseline"]["accuracy"], tuned.verdict["winner"]["accuracy"]) == (0.0, 1.0)
    assert tuned.verdict["labels"] == LABELS
    assert all(any(f"'{label}'" in text for text in tuned.kept.texts.values()) for label in LABELS)
    known = f"Labels known to the search: {', '.join(LABELS)}"
    assert known in tuned.out
    provenance = yaml.safe_load((tuned.kept_folder / "provenance.yaml").read_text("utf-8"))
    assert provenance["labels"] == LABELS and provenance["leaks"]["blocked"] is False


def test_unique_answers_in_a_proposal_block_it_as_before_and_are_in_no_brief(tmp_path: Path) -> None:
    with labelling_llm(planted=[f"It was {name}." for name in UNIQUE]) as server:
        tuned = tune(tmp_path, server, ONE_STEP, unique=UNIQUE)
    assert tuned.verdict["finish_reason"] == "leak_blocked", tuned.out + tuned.err
    assert not tuned.shelf.exists() and tuned.verdict["labels"] == LABELS
    (report, *_) = tuned.read("leaks").values()
    assert {hit["kind"] for hit in report["hits"] if hit["split"] != "train"} == {"gold"}
    assert not any(label in tuned.verdict["reasons"][0] for label in LABELS)
    first = server.briefs[0]
    assert not any(name in first for name in UNIQUE), "it named them itself, in later ones"
    assert all(f'"{label}"' in first for label in LABELS)
