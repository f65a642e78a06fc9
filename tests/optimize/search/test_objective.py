"""The metric of the optimizers: the run's score, whatever happens, and feedback that never quotes a gold answer."""

import re
import string
import unicodedata
from dataclasses import dataclass, field
from typing import Any

import dspy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.benchmarks.dataset import Sample
from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from eval.runs.record import Record
from eval.scorers.function import FunctionScorer
from optimize.feedback.feedback import remove_quotes
from optimize.search.student import Objective
from tests.optimize.simulated_runs import lm, record, records, step, tool

CARELESS = {
    "researcher": "Answer from memory rather than with tools.",
    "critic_expert": "Reject for the slightest flaw of style. Approve without recomputing. Ignore the format.",
    "expert": "Do not use the calculator.",
}


@dataclass
class Trial:
    """What the metric reads of `optimize.search.trials.Trial`."""

    record: Record
    steps: list[Any] = field(default_factory=list)
    completed: bool = True


def asked(made: Record, agent: str | None = None, completed: bool = True, objective: Objective | None = None) -> Any:
    sample = Sample(made.sample_id, made.question, target=made.target)
    objective = objective or Objective([sample])
    prediction = dspy.Prediction(final_answer=made.answer, trial=Trial(made, completed=completed))
    return objective(dspy.Example(sample_id=sample.id).with_inputs("sample_id"), prediction, None, agent, None)


def feedback(made: Record, agent: str) -> str:
    told = asked(made, agent)
    assert told.score == asked(made)
    return str(told.feedback)


def agents(made: Record) -> list[str]:
    return list(dict.fromkeys(span["name"] for span in made.trajectory if span["kind"] == "agent"))


def quoted(gold: str, text: str) -> str | None:
    """The form of the gold answer that stands in the text, if one does. Written without any code of `optimize/`."""
    punctuation = str.maketrans("", "", string.punctuation)
    forms = {gold.strip()}
    for part in [gold, *re.split("[,;]", gold)]:
        forms |= {part.strip(), re.sub(r"\s", "", part).lower().translate(punctuation), re.sub("[$%, ]", "", part)}
        if re.fullmatch(r"-?\d+\.0+", part.strip()):
            forms.add(part.strip().partition(".")[0])
    plain = unicodedata.normalize("NFKC", text).casefold()
    for form in forms - {""}:
        spelt = re.escape(unicodedata.normalize("NFKC", form).casefold())
        for written in (plain, plain.translate(punctuation)):
            if re.search(rf"(?<!\w){spelt}(?!\w)" if re.search(r"\w", form) else spelt, written):
                return form
    return None


def test_each_agent_hears_its_own_part() -> None:
    made = record(
        "7201",
        "7201 tonnes",
        [
            step("expert", expert_answer="7201", reasoning_trace="It stands there."),
            step("critic_expert", decision="reject", feedback="No."),
            step("expert", tool("calculator", error="ToolError: unbalanced brackets"), expert_answer="7201"),
            step("critic_expert", decision="approve", feedback="Yes."),
            step("finalizer", final_answer="7201 tonnes"),
        ],
    )

    assert "A unit or currency sign stood beside the number." in feedback(made, "finalizer")
    assert "It first went wrong with this agent." in feedback(made, "finalizer")
    assert "unit or currency" not in feedback(made, "expert")
    assert "calculator failed: ToolError: unbalanced brackets." in feedback(made, "expert")
    assert "false alarm" in feedback(made, "critic_expert")
    assert "another agent, finalizer" in feedback(made, "critic_expert")


def test_a_reply_that_could_not_be_read_is_told_without_the_reply() -> None:
    reason = (
        "Adapter JSONAdapter failed to parse the LM response. \n\nLM Response: I think it is Bovelck \n\n"
        "Expected to find output fields in the LM response: [steps, notes] \n\n"
    )
    made = record("Figolth", "Bovelck", [step("plan", steps=["Look."]), step("solve", result="Bovelck")])
    made.trajectory[0]["events"] = [{"name": "unusable reply", "agent": "plan", "error": reason}]
    failed = record("Figolth", None, [step("plan")], error=f"AdapterParseError: {reason}", error_class="malformed")
    failed.error_component = "plan"

    for told in (feedback(made, "plan"), feedback(failed, "plan")):
        assert "expected were the output fields steps, notes" in told
        assert "Bovelck" not in told
    assert "expected were" not in feedback(made, "solve")


def test_a_scorers_own_explanation_is_passed_on_unless_it_quotes_the_gold_answer() -> None:
    made = record("Figolth", "Bovelck", [step("solve", result="Bovelck")], explanation="another ship was meant")

    assert "The scorer explains: another ship was meant." in feedback(made, "solve")
    made.explanation = "the ship was the FIGOLTH"
    assert "scorer explains" not in feedback(made, "solve")


def test_it_never_raises_and_counts_what_failed() -> None:
    objective = Objective([Sample("q1", "What is it?", target="17")])
    unscored = record("17", "17", score=None)
    failed = record("17", None, score=None, error="LMServerError: 500", error_class="infrastructure")
    garbled = record("17", "18")
    garbled.trajectory = [{"id": 0, "kind": "agent", "outputs": 5}]

    assert objective(dspy.Example(sample_id="q1"), object()) == 0.0
    assert objective.errors == 1 and "trial" in (objective.first_error or "")
    for made in (unscored, failed, garbled):
        assert asked(made, objective=objective) == 0.0
    assert (objective.errors, objective.calls) == (1, 4)
    assert asked(garbled, "solve", objective=objective).score == 0.0
    assert objective.errors == 2
    other = dspy.Prediction(trial=Trial(record("17", "18")))
    assert objective(dspy.Example(sample_id="unknown"), other, pred_name="solve").score == 0.0
    assert (objective.errors, objective.calls) == (3, 6)


# No gold answer in any feedback: generated records, and the real systems in every world of the simulated model.

WORDS = [
    "Figolth", "stove", "Alice Walker", "a", "no", "yes", "right", "wrong", "evidence", "number", "three", "tool",
    "solve", "the list", "Café", "St. Petersburg", "answer", "first", "only its form", "two decimals",
]  # fmt: skip
golds = st.one_of(
    st.integers(-30, 100_000).map(str),
    st.decimals(0, 10_000, places=2).map(str),
    st.integers(1000, 9_999_999).map("{:,}".format),
    st.integers(1, 500).map("{} km".format),
    st.integers(1, 500).map("${}".format),
    st.sampled_from(WORDS),
    st.sampled_from(["March 4, 2010", "2010-03-04", "4 March"]),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=4).map(", ".join),
    st.lists(st.integers(0, 20).map(str), min_size=2, max_size=12).map("; ".join),
    st.text(min_size=1, max_size=12).filter(lambda text: bool(text.strip())),
)
QUESTIONS = [
    "How many? Round to two decimal places.",
    "Which? In alphabetical order.",
    "What is it, to the nearest tenth?",
]


@st.composite
def made_records(draw: Any) -> Record:
    """The gold answer may stand in any text of the record."""
    gold = draw(golds)
    near = st.sampled_from(
        [gold, f"It is {gold}.", f"{gold} km", gold.lower(), f"**{gold}**", ", ".join(reversed(gold.split(", "))), "17",
         "unknown", "4 520", "3.14159", "a and b", f"the tool has no {gold}: try again", ""]
    )  # fmt: skip
    steps = []
    for agent in draw(st.lists(st.sampled_from(["plan", "solve", "critic", "finalize"]), min_size=1, max_size=7)):
        below = [tool("look", draw(near), draw(st.none() | near), file=draw(near))] * draw(st.integers(0, 2))
        outputs: dict[str, Any] = {
            "plan": {"steps": [draw(near)]},
            "solve": {"result": draw(near), "working": draw(near)},
            "critic": {"decision": draw(st.sampled_from(["approve", "reject"])), "feedback": draw(near)},
            "finalize": {"final_answer": draw(near)},
        }[agent]
        steps.append(step(agent, *below, lm("look"), request=draw(near), **outputs))
        if draw(st.booleans()):
            steps[-1][0]["events"] = [{"name": "unusable reply", "agent": agent, "error": draw(near)}]
    made = record(gold, draw(near), steps, question=draw(st.sampled_from(QUESTIONS)))
    made.explanation = draw(st.sampled_from([made.explanation, f"expected {gold}"]))
    made.limit = draw(st.sampled_from([None, None, "retry_limit:solve", "tokens"]))
    made.file = draw(st.sampled_from([None, "ships.csv"]))
    made.score = draw(st.sampled_from([made.score, made.score, 0.5, 0.0]))
    if draw(st.integers(0, 4)) == 0:
        made.error, made.error_class, made.score = draw(near) or "broken", "malformed", None
        made.error_component = draw(st.sampled_from(["solve", "look", "system"]))
    return made


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made_records())
def test_no_feedback_quotes_the_gold_answer_wherever_it_stood(made: Record) -> None:
    objective = Objective([Sample("q1", made.question, target=made.target)])
    for agent in agents(made):
        told = asked(made, agent, objective=objective).feedback
        assert quoted(made.target or "", told) is None, told
    assert objective.first_error is None


def test_a_metric_of_the_user_gives_its_own_feedback_without_the_sentence_that_quotes_the_gold_answer() -> None:
    made = record("Figolth", "Bovelck", [step("solve", result="Bovelck")])
    scorer = FunctionScorer("tests.optimize.scorer_rules:gives_feedback")
    told = asked(made, "solve", objective=Objective([Sample("q1", made.question, target="Figolth")], scorer=scorer))
    assert (told.score, told.feedback) == (0.0, "solve was asked 1 thing.\nRead the first line.")
    failed = record("Figolth", None, [step("solve")], error="malformed", error_class="malformed", score=None)
    told = asked(failed, "solve", objective=Objective([Sample("q1", made.question, target="Figolth")], scorer=scorer))
    assert told.feedback.startswith("The question failed without an answer")


class Quoting(FunctionScorer):
    """A metric whose feedback quotes another column of the data."""

    def give_feedback(self, sample: Any, predictor: str, trace: object, own_trace: object) -> str:
        return f"Read on. It was written in {sample.tags['city']}. It is of the kind {sample.tags['kind']}."


def test_no_feedback_quotes_a_value_of_another_column_that_one_question_alone_has() -> None:
    made = record("Figolth", "Bovelck", [step("solve", result="Bovelck")])
    tags = [{"city": "Samarkand", "kind": "letter"}, {"city": "Bukhara", "kind": "letter"}]
    samples = [Sample(f"q{n}", made.question, target="Figolth", tags=each) for n, each in enumerate(tags, start=1)]
    told = asked(made, "solve", objective=Objective(samples, scorer=Quoting("any:metric")))
    assert told.feedback == "Read on. It is of the kind letter."


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(golds, st.lists(st.sampled_from(["GOLD", "It is GOLD. Read on.", "gold", "Never mind; GOLD", "Read.", "1. Go"])))
def test_no_feedback_of_the_users_own_quotes_the_gold_answer(gold: str, lines: list[str]) -> None:
    allowed = remove_quotes("\n".join(each.replace("GOLD", gold) for each in lines), TargetMatcher(gold))
    assert quoted(gold, allowed) is None, allowed


@pytest.mark.slow
@pytest.mark.parametrize("world", ["normal", "null", "harmful", "leaky"])
def test_no_feedback_of_the_real_systems_quotes_the_gold_answer(world: str) -> None:
    toy, sample = ToyDataset().load("train").samples, BundledDataset().load("train").samples
    runs: tuple[tuple[str, Any, dict[str, str]], ...] = (
        ("toy", toy[:40], {}),
        ("gaia", sample[::4], CARELESS),
        ("single_agent", sample[::4], {}),
    )
    told = 0
    for name, samples, texts in runs:
        for made in records(name, samples, world, texts):
            for agent in agents(made):
                text = feedback(made, agent)
                assert quoted(made.target or "", text) is None, text
                assert made.question not in text
                told += len(text) > 20
    assert told > 150
