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
from eval.scorers.contains import ContainsScorer
from eval.scorers.exact import ExactScorer
from eval.scorers.function import FunctionScorer
from eval.scorers.gaia import GaiaScorer
from eval.scorers.numeric import NumericScorer
from eval.scorers.score import Score
from optimize.feedback.feedback import remove_quotes
from optimize.search.student import Objective, check_scorer
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


def test_the_score_is_the_records_and_feedback_changes_nothing_of_it() -> None:
    right = record("17", "17", [step("solve", result="17"), step("finalize", final_answer="17")])
    wrong = record("17", "18", [step("solve", result="18"), step("finalize", final_answer="18")])

    assert (asked(right), asked(wrong)) == (1.0, 0.0)
    assert "right" in feedback(right, "solve") and "wrong" not in feedback(right, "solve")
    assert "wrong" in feedback(wrong, "solve")


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


def test_a_critic_hears_of_misses_and_of_wrong_drafts_that_it_stopped() -> None:
    draft, final = step("expert", expert_answer="Bovelck"), step("finalizer", final_answer="Bovelck")
    approved = step("critic_expert", decision="approve", feedback="Fine.")
    rejected = step("critic_expert", decision="reject", feedback="Wrong.")

    assert "a miss" in feedback(record("Figolth", "Bovelck", [draft, approved, final]), "critic_expert")
    both = feedback(record("Figolth", "Bovelck", [draft, rejected, draft, approved, final]), "critic_expert")
    assert "indeed wrong" in both and "a miss" in both


def test_the_critic_of_the_agent_that_went_wrong_hears_of_its_miss_and_other_critics_do_not() -> None:
    def approved(critic: str) -> list[dict[str, Any]]:
        return step(critic, decision="approve", feedback="Fine.")

    made = record(
        "Figolth",
        "Bovelck",
        [
            step("planner", research_steps=["Read ships.csv."], expert_steps=["Choose."]),
            approved("critic_planner"),
            step("researcher", lm("read_file"), result="Known by heart."),
            approved("critic_researcher"),
            step("expert", expert_answer="Bovelck"),
            step("finalizer", final_answer="Bovelck"),
        ],
        file="ships.csv",
    )

    assert "a miss" in feedback(made, "critic_researcher")
    assert "this agent's part was fine" in feedback(made, "critic_planner")


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


def test_parts_of_a_score_are_told_where_it_is_neither_right_nor_wrong() -> None:
    made = record("Figolth", "Figol", [step("solve", result="Figol")], score=0.4, parts={"letters": 0.5})

    assert asked(made) == 0.4
    assert "partly right (parts of the score: letters 0.5)" in feedback(made, "solve")


@pytest.mark.parametrize(
    "gold", ["wrong", "right", "The", "a", "no", "answer", "number", "two", "solve", "it", "agent", "?", "of, the"]
)
def test_a_gold_answer_that_is_a_word_of_the_feedback_itself_is_left_out_and_not_masked(gold: str) -> None:
    made = record(gold, "17", [step("solve", result="17"), step("finalize", final_answer="17")])

    for agent in agents(made):
        told = feedback(made, agent)
        assert quoted(gold, told) is None
        assert "[" not in told


def test_golds_of_one_kind_that_nothing_contains_have_the_same_feedback() -> None:
    """So the feedback is a function of the kind: it tells nothing else of the gold answer."""

    def told(gold: str) -> list[str]:
        made = record(
            gold,
            "5000",
            [
                step("planner", steps=["Read ships.csv."]),
                step("researcher", tool("read_file", "1 2 3", file="ships.csv"), result="1 2 3"),
                step("critic", decision="approve", feedback="Fine."),
                step("expert", lm("calculator"), expert_answer="5000"),
                step("finalizer", final_answer="5000"),
            ],
            file="ships.csv",
        )
        return [feedback(made, agent) for agent in agents(made)]

    assert told("5001") == told("7201") == told("910000")
    assert told("Figolth") == told("Bovelck") == told("Zanzibar")
    assert told("Figolth, Bovelck") == told("Zanzibar, Mombasa")


def test_it_never_raises_and_counts_what_had_no_score() -> None:
    sample = Sample("q1", "What is it?", target="17")
    objective = Objective([sample])
    unscored = record("17", "17", score=None)
    by_scorer = record("17", "17", score=None, error="the scorer failed (KeyError: 'x')", error_class="scorer")
    failed = record("17", None, score=None, error="LMServerError: 500", error_class="infrastructure")
    garbled = record("17", "18")
    garbled.trajectory = [{"id": 0, "kind": "agent", "outputs": 5}]

    assert objective(dspy.Example(sample_id="q1"), object()) == 0.0
    assert objective.errors == 1 and "trial" in (objective.first_error or "")
    for made in (unscored, by_scorer):
        assert asked(made, objective=objective) == 0.0
    assert objective.errors == 3
    assert asked(failed, objective=objective) == 0.0
    assert asked(garbled, objective=objective) == 0.0
    assert (objective.errors, objective.calls) == (3, 5)
    assert asked(garbled, "solve", objective=objective).score == 0.0
    assert objective.errors == 4
    other = dspy.Prediction(trial=Trial(record("17", "18")))
    assert objective(dspy.Example(sample_id="unknown"), other, pred_name="solve").score == 0.0
    assert (objective.errors, objective.calls) == (5, 7)


def test_a_question_that_was_not_asked_is_no_error_and_no_lesson() -> None:
    objective = Objective([Sample("q1", "What is it?", target="17")])
    told = asked(record("17", None), "solve", completed=False, objective=objective)

    assert (told.score, told.feedback) == (0.0, "The question was not asked.")
    assert objective.errors == 0


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


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
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


def test_a_metric_that_breaks_on_its_feedback_is_counted_and_tells_nothing() -> None:
    scorer = FunctionScorer("tests.optimize.scorer_rules:breaks_on_feedback")
    objective = Objective([Sample("q1", "What is it?", target="Figolth")], scorer=scorer)
    told = asked(record("Figolth", "Bovelck", [step("solve", result="Bovelck")]), "solve", objective=objective)
    assert (told.score, told.feedback, objective.errors) == (0.0, "", 1)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
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


# The scorer, tried before anything is spent.

EXAMPLES = [Sample(f"q{n}", "What?", target=gold) for n, gold in enumerate(["17", "4.5", "1200", "3", "99", "8"])]


class Judge:
    def __init__(self, verdict: Any) -> None:
        self.verdict, self.asked = verdict, 0

    async def __call__(self, question: str, answer: str | None, target: str) -> Score:
        self.asked += 1
        return Score(float(self.verdict(answer, target)), "so it is")


@pytest.mark.parametrize("scorer", [GaiaScorer(), ExactScorer(), ContainsScorer(), NumericScorer()])
def test_the_shipped_scorers_pass(scorer: Any) -> None:
    assert check_scorer(scorer, EXAMPLES) is None


def test_a_judge_is_asked_about_two_examples_only() -> None:
    judge = Judge(lambda answer, target: answer == target)

    assert check_scorer(judge, EXAMPLES) is None
    assert judge.asked == 4


def test_a_scorer_that_cannot_tell_is_named_with_the_question() -> None:
    assert "gives 0 on question q0 with the target itself" in str(check_scorer(Judge(lambda *_: False), EXAMPLES))
    assert "gives 1 on question q0 with nonsense" in str(check_scorer(Judge(lambda *_: True), EXAMPLES))
    not_a_number = [Sample("q7", "Who?", target="Figolth")]
    told = str(check_scorer(NumericScorer(), not_a_number))
    assert "failed on question q7" in told and "Figolth" not in told
    missing = str(check_scorer(FunctionScorer("tests.optimize.no_such_module:score"), EXAMPLES))
    assert "The scorer failed on question q0" in missing


def test_a_metric_that_reads_outputs_is_not_tried_on_answers_alone() -> None:
    assert check_scorer(FunctionScorer("tests.optimize.scorer_rules:breaks_on_feedback"), EXAMPLES) is None


def test_questions_without_gold_answers_cannot_be_scored() -> None:
    assert "No question has a target" in str(check_scorer(GaiaScorer(), [Sample("q", "What?")]))
