"""A fault planted in one predictor of a user's program is found by what its predictors gave, over the real DSPy."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request

from eval.analysis.attribution.agent_attribution import attribute_failure
from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.predictor_attribution import RightAnswers, attribute_to_predictor
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.benchmarks.dataset import Sample
from eval.execution.runner import SampleRunner
from eval.runs.record import Record
from eval.scorers.exact import ExactScorer
from eval.scorers.labels import find_labels
from eval.scorers.score import Score, Scorer
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleKey
from mas.system import Resources
from mas.systems.external.dspy_system import DspySystem
from optimize.feedback.expectation import Expectation
from optimize.feedback.feedback import build_feedback
from optimize.search.student import Objective
from tests.mas.systems.external.user_code import AnyonesModel, module
from tests.optimize.search.test_objective import Trial, quoted
from tests.optimize.simulated_runs import record as a_record
from tests.optimize.simulated_runs import step
from tests.scripted_model import said

N_WRONG, N_RIGHT = 50, 20
Fields = Mapping[str, str]
Reply = Callable[[int, str, Fields, bool], str]  # question, output field, inputs, faulty → the field
_SECTION = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nRespond with|\Z)", re.DOTALL)


class WithAdvice(Scorer):
    """It explains, and quotes the target now and then."""

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        right = answer == target
        return Score(float(right), "right" if right else f"Compare the units. The answer is {target}.")


class PlantedModel(AnyonesModel):
    """Replies by the inputs of the call; `faulty` names the first output field of the predictor that fails."""

    def __init__(self, reply: Reply, faulty: str, wrong: range) -> None:
        super().__init__()
        self.script = lambda agent, request: self._answer(request, reply, faulty, wrong)

    @staticmethod
    def _answer(request: Request, reply: Reply, faulty: str, wrong: range) -> dict[str, Any]:
        inputs = dict(_SECTION.findall(said(request)[-1][1]))
        number = int(re.findall(r"case (\d+)", str(inputs))[0])
        wanted = ("fact", "answer", "summary", "label", "expression", "result", "topic", "urgency")
        return {name: reply(number, name, inputs, name == faulty and number in wrong) for name in wanted}


@dataclass(frozen=True)
class Design:
    """A program of two predictors, its questions, and what right and wrong replies of it are."""

    signatures: tuple[str, str]
    code: str
    sample: Callable[[int], Sample]
    reply: Reply
    faulty: tuple[str, str]  # output fields


TOWNS = [f"{a}{b}" for a in ("Pavel", "Figol", "Bovel", "Korth", "Munda", "Selva", "Tarro") for b in
         ("del", "ton", "heim", "burg", "stad", "mont", "wick", "fort", "dale", "gard")]  # fmt: skip


def extracting(number: int, name: str, inputs: Fields, faulty: bool) -> str:
    town, other = TOWNS[number], TOWNS[number - 7]
    if name == "fact":
        lost = ("Nothing was found.", f"case {number} stands in {other}.", "It is a town, see the text.")
        return lost[number % 3] if faulty else f"case {number} stands in {town}."
    if faulty:
        return (other, "I do not know", f"the town {other}")[number % 3]
    found = re.search(r"stands in (\w+)", inputs.get("fact", ""))
    return found[1] if found else "unknown"


def classifying(number: int, name: str, inputs: Fields, faulty: bool) -> str:
    labels = ["billing", "delivery", "account"]
    right = (number + faulty) % 3
    texts = ["an invoice that is too high", "a parcel that is late", "a password that is lost"]
    if name == "summary":
        return f"In case {number} the customer writes of {texts[right]}, number {number * 7}."
    shown = next((at for at, text in enumerate(texts) if text in inputs.get("summary", "")), 0)
    return labels[(shown + faulty) % 3]


def calculating(number: int, name: str, inputs: Fields, faulty: bool) -> str:
    if name == "expression":
        return f"{number + 11} * {number + 3} {'+' if faulty else '-'} 5"
    found = re.search(r"(\d+) \* (\d+) ([-+]) 5", inputs.get("expression", ""))
    if found is None:
        return ""
    value = int(found[1]) * int(found[2]) + (5 if found[3] == "+" else -5)
    return str(value + 10 * faulty)


def routing(number: int, name: str, inputs: Fields, faulty: bool) -> str:
    if name == "topic":
        return ("fire", "question")[(number + faulty) % 2]
    high = "fire" in inputs.get("topic", "")
    return ("low", "high")[high ^ faulty]


DESIGNS = {
    "unique answers": Design(
        ("context, question -> fact", "fact, question -> answer"),
        "fact = self.first(context=context, question=question).fact\n"
        "        return self.second(fact=fact, question=question)",
        lambda number: Sample(
            f"q{number}", f"case {number}", target=TOWNS[number],
            inputs={
                "context": f"{TOWNS[number - 7]} is large. case {number} stands in {TOWNS[number]}.",
                "question": f"Where does case {number} stand?",
            },
        ),
        extracting,
        ("fact", "answer"),
    ),
    "labels by a summary": Design(
        ("context, question -> summary", "summary, question -> label"),
        "summary = self.first(context=context, question=question).summary\n"
        "        return self.second(summary=summary, question=question)",
        lambda number: Sample(
            f"q{number}", f"case {number}", target=["billing", "delivery", "account"][number % 3],
            inputs={"context": f"case {number}", "question": f"Whose is case {number}?"},
        ),
        classifying,
        ("summary", "label"),
    ),
    "numbers by an expression": Design(
        ("context, question -> expression", "expression, question -> result"),
        "expression = self.first(context=context, question=question).expression\n"
        "        return self.second(expression=expression, question=question)",
        lambda number: Sample(
            f"q{number}", f"case {number}", target=str((number + 11) * (number + 3) - 5),
            inputs={"context": f"case {number}", "question": f"How many in case {number}?"},
        ),
        calculating,
        ("expression", "result"),
    ),
    "decisions by a topic": Design(
        ("context, question -> topic", "topic, question -> urgency"),
        "topic = self.first(context=context, question=question).topic\n"
        "        return self.second(topic=topic, question=question)",
        lambda number: Sample(
            f"q{number}", f"case {number}", target=("high", "low")[number % 2],
            inputs={"context": f"case {number}", "question": f"How urgent is case {number}?"},
        ),
        routing,
        ("topic", "urgency"),
    ),
}  # fmt: skip
SOURCE = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.first = dspy.{kind}("{0}")
        self.second = dspy.{kind}("{1}")
    def forward(self, context, question):
        {code}
"""


def run(design: Design, faulty: int, folder: Path, kind: str = "Predict") -> tuple[list[Sample], list[Record]]:
    samples = [design.sample(number) for number in range(N_WRONG + N_RIGHT)]
    target = f"{module(folder, SOURCE.format(*design.signatures, code=design.code, kind=kind))}:Program"
    system = DspySystem(target, data_inputs=["context", "question"], answer_field=design.faulty[1])
    system.check()
    model = PlantedModel(design.reply, design.faulty[faulty], range(N_WRONG))
    program = system.build(model, None, Resources())  # type: ignore[arg-type]
    runner = SampleRunner("r", program, WithAdvice(), deadline_seconds=60, redact=str)
    return samples, [run_blocking(runner.run_sample(each, SampleKey(each.id))) for each in samples]


@pytest.mark.parametrize("faulty", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("name", DESIGNS)
def test_a_planted_fault_is_attributed_to_its_predictor(
    name: str, faulty: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = ("Predict", "ChainOfThought")[faulty]
    samples, records = run(DESIGNS[name], faulty, tmp_path, kind)
    agents = [f"{each}{'.predict' if kind == 'ChainOfThought' else ''}" for each in ("first", "second")]
    wrong = [record for record in records if record.score == 0.0]
    assert len(wrong) == N_WRONG and sum(record.correct for record in records) == N_RIGHT
    labels = find_labels(samples)
    objective = Objective(samples, labels=labels)
    predictions = {each.sample_id: dspy.Prediction(final_answer=each.answer, trial=Trial(each)) for each in records}
    for record in records:
        objective(dspy.Example(sample_id=record.sample_id), predictions[record.sample_id])
    found = 0
    for record in wrong:
        told = {
            agent: str(
                objective(dspy.Example(sample_id=record.sample_id), predictions[record.sample_id], None, agent).feedback  # type: ignore[union-attr]
            )
            for agent in agents
        }
        found += (
            "It first went wrong with this agent." in told[agents[faulty]]
            and f"another agent, {agents[faulty]}." in told[agents[1 - faulty]]
        )
        for text in told.values():
            assert labels.find(record.target) or quoted(record.target or "", text) is None
            assert "part was fine" not in text
    assert found >= 0.9 * N_WRONG, found
    assert objective.first_error is None


def test_the_feedback_has_the_scorers_explanation_unless_it_quotes_a_unique_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, records = run(DESIGNS["unique answers"], 1, tmp_path)
    record = records[0]
    expectation = Expectation.of(record.target or "", record.question)
    assert "The scorer explains" not in build_feedback("first", record, expectation)
    record.explanation = "The units are wrong."
    for agent in ("first", "second"):
        assert "The scorer explains: The units are wrong." in build_feedback(agent, record, expectation)


OWN = {"inputs": {"question": "Which?"}}


def own(target: str, answer: str, **steps: dict[str, Any]) -> Record:
    """A record of a user's program; each step's outputs by the name of its predictor."""
    scored = ExactScorer()("?", answer, target)
    spans = [
        {"id": at, "kind": "agent", "name": name, "inputs": {"q": str(at)}, "outputs": outputs, "events": []}
        for at, (name, outputs) in enumerate(steps.items())
    ]
    return Record("r", "q", 1, 1, "t", "Which?", None, None, target, answer, score=scored.value, trajectory=spans,
                  state=OWN)  # fmt: skip


def blamed(record: Record, known: RightAnswers | None = None) -> str | None:
    steps, matcher = AgentSteps.of(record), Expectation.of(record.target or "", record.question).matcher
    return attribute_failure(record, steps, matcher, known).agent


def test_of_several_fields_the_wrong_one_is_named() -> None:
    target = '{"urgency": "high", "topics": ["a", "b"]}'
    steps = {"urgency": {"urgency": "High"}, "topics": {"topics": ["b", "c"]}}
    assert blamed(own(target, "x", **steps)) == "topics"
    assert blamed(own(target, "x", **{**steps, "urgency": {"urgency": "low"}})) == "urgency"


def test_a_field_named_like_a_critics_or_a_finishers_has_no_meaning_in_a_users_program() -> None:
    steps: dict[str, dict[str, Any]] = {"judge": {"decision": "reject", "feedback": "x"}, "say": {"final_answer": "B"}}
    assert blamed(own("Figolth", "B", **steps)) == "say"
    assert "critic" not in build_feedback("judge", own("Figolth", "B", **steps), Expectation.of("Figolth", "Which?"))


def test_a_failure_belongs_to_the_predictor_in_which_or_after_which_it_happened() -> None:
    def failed(kind: str, component: str) -> Record:
        record = own("Figolth", "", first={"a": "x"}, second={"b": "not json"})
        record.score, record.error, record.error_class, record.error_component = None, "broken", kind, component
        return record

    assert blamed(failed("malformed", "first")) == "first"
    assert blamed(failed("internal", "system")) == "second"
    assert blamed(failed("infrastructure", "system")) is None


def test_without_right_answers_a_repeated_result_or_a_text_off_the_subject_tells() -> None:
    asked = {"inputs": {"request": "my parcel was crushed by the carrier"}}
    record = own("delivery", "I think it is Bovelck", read={"place": "Bovelck"}, say={"y": "I think it is Bovelck"})
    assert blamed(record) == "read"
    for text, agent in (("an invoice that nobody understands", "read"), ("their parcel came crushed today", "say")):
        record = own("delivery", "account", read={"summary": text}, say={"label": "account"})
        record.trajectory[0] |= asked
        assert blamed(record) == agent
    known = RightAnswers()  # of a translator: right outputs never have a word of the input
    for at in range(4):
        right = own("delivery", "delivery", read={"summary": f"colis perdu hier {at}"}, say={"label": "delivery"})
        right.sample_id, right.trajectory[0] = f"q{at}", right.trajectory[0] | asked
        known.add(right, AgentSteps.of(right), Expectation.of("delivery", "Which?").matcher)
    record = own("delivery", "account", read={"summary": "facture trop haute"}, say={"label": "account"})
    record.trajectory[0] |= asked
    assert blamed(record, known) == "say"


def test_right_answers_teach_the_same_in_any_order() -> None:
    right = [
        own(f"Figolth{at}", f"Figolth{at}", a={"x": f"the town Figolth{at}"}, b={"y": f"Figolth{at}"})
        for at in range(4)
    ]
    wrong = own("Bovelck", "Korth", a={"x": "the town is large"}, b={"y": "Korth"})
    for order in (right, right[::-1], right * 2):
        known = RightAnswers()
        for at, record in enumerate(order):
            record.sample_id = f"q{at}"
            known.add(record, AgentSteps.of(record), Expectation.of(record.target or "", "Which?").matcher)
        assert blamed(wrong, known) == "a"
    assert blamed(wrong, RightAnswers()) == "b"


# Each rule on a small chain of predictors: what they replied, and what they had been asked.

FIRST, LAST = "extract", "conclude"


def blame(
    target: str, answer: str | None, *replies: tuple[str, str, object], known: RightAnswers | None = None
) -> tuple[str, str]:
    """Return the responsible predictor and the first words of the reason; a reply is name, request and output."""
    steps = [step(name, request=request, out=output) for name, request, output in replies]
    made = a_record(target, answer, steps, question="Where is it?")
    found = attribute_to_predictor(made, AgentSteps.of(made), TargetMatcher(target), known)
    assert found is not None
    return found.agent, found.reason[0]


@pytest.mark.parametrize(
    ("target", "answer", "replies", "agent", "reason"),
    [
        ("Korthburg", "Pavelton", [(FIRST, "Find it.", "In Korthburg."), (LAST, "In Korthburg.", "Pavelton")],
         LAST, "held the right answer, and what it made of it did not"),
        ("Korthburg", "in Korthburg", [(FIRST, "Find it.", "Korthburg."), (LAST, "Korthburg.", "in Korthburg")],
         LAST, "own output held the right content"),
        ("Korthburg", "Pavelton", [(FIRST, "Find it.", "It is in Pavelton."), (LAST, "It is in Pavelton.", "Pavelton")],
         FIRST, "first occurs in this agent's output"),
        ("Korthburg", "Pavelton", [(FIRST, "Find it.", "not found"), (LAST, "not found", "Pavelton")],
         FIRST, "was empty or said that there is nothing"),
        ("Korthburg", "Pavelton", [(FIRST, "Korthburg is north.", "It is north."), (LAST, "It is north.", "Pavelton")],
         FIRST, "its output left it out"),
        ("Korthburg", "Pavelton", [(FIRST, "Find it.", "See north."), (LAST, "See north. Korthburg.", "Pavelton")],
         LAST, "The evidence was in front of this agent"),
        ("Korthburg", "Pavelton", [(LAST, "Korthburg lies north.", "Pavelton")], LAST, "As far as can be told"),
        ("42", "41", [(FIRST, "Sum up.", "40 + 2"), (LAST, "40 + 2", "41")], LAST, "its own calculation went wrong"),
        ("42", "41", [(FIRST, "Sum up.", "40 + 1 = ?"), (LAST, "40 + 1 = ?", "41")], FIRST, "The wrong number follows"),
        ("42", "41", [(FIRST, "Sum up.", "4000 / 2"), (LAST, "4000 / 2", "41")], LAST, "As far as can be told"),
    ],
)  # fmt: skip
def test_each_rule_names_a_predictor_and_says_why(
    target: str, answer: str, replies: list[tuple[str, str, object]], agent: str, reason: str
) -> None:
    found = blame(target, answer, *replies)
    assert found[0] == agent and reason in found[1]


def test_without_a_reply_nobody_is_responsible() -> None:
    made = a_record("Korthburg", "Pavelton", [])
    assert attribute_to_predictor(made, AgentSteps.of(made), TargetMatcher("Korthburg")) is None


def right(number: int, target: str, output: str, request: str = "Find it.") -> tuple[Record, AgentSteps, TargetMatcher]:
    made = a_record(target, target, [step(FIRST, request=request, out=output), step(LAST, request=output, out=target)])
    made.sample_id = f"r{number}"
    return made, AgentSteps.of(made), TargetMatcher(target)


def known_from(*examples: tuple[Record, AgentSteps, TargetMatcher]) -> RightAnswers:
    known = RightAnswers()
    for each in examples:
        known.add(*each)
    return known


@pytest.mark.parametrize(("holding", "others", "is_habit"), [(2, 0, False), (3, 0, True), (4, 1, True), (3, 1, False)])
def test_a_habit_needs_three_right_answers_and_four_of_five_of_them(holding: int, others: int, is_habit: bool) -> None:
    examples = [right(n, TOWNS[n], f"It is {TOWNS[n]}.") for n in range(holding)]
    examples += [right(n + 30, TOWNS[n + 30], f"See page {n}.") for n in range(others)]
    known = known_from(*examples)
    assert known.usually_hold_target(FIRST) is is_habit
    assert not known.usually_hold_target("another"), "of the author nothing is noted, nor of strangers"
    replies = ((FIRST, "Find it.", "It lies north."), (LAST, "It lies north.", "Pavelton"))
    assert blame("Korthburg", "Pavelton", *replies, known=known)[0] == (FIRST if is_habit else LAST)


def test_an_output_like_those_of_another_target_misled_its_reader() -> None:
    known = known_from(
        right(1, "billing", "charged twice for one order"), right(2, "delivery", "parcel late at the door"),
        right(3, "delivery", "parcel never came"),
    )  # fmt: skip
    misled = ((FIRST, "Sum up.", "the parcel was late"), (LAST, "the parcel was late", "delivery"))
    assert blame("billing", "delivery", *misled, known=known)[0] == FIRST
    own = ((FIRST, "Sum up.", "was charged twice"), (LAST, "was charged twice", "delivery"))
    agent, reason = blame("billing", "delivery", *own, known=known)
    assert agent == LAST and "its own result was another" in reason
    unclear = ((FIRST, "Sum up.", "something else"), (LAST, "something else", "delivery"))
    assert "As far as can be told" in blame("billing", "delivery", *unclear, known=known)[1]
    unknown = blame("account", "delivery", *misled, known=known)
    assert unknown[0] == LAST, "no right answer has this target, so nothing can be compared"


@pytest.mark.parametrize(
    ("output", "agent"),
    [
        ("bananas ripen slowly", FIRST),
        ("bananas ripen", LAST),  # too few long words to say
        ("harbour bananas ripen", LAST),
    ],
)
def test_a_text_without_a_word_of_what_was_given_is_off_the_subject(output: str, agent: str) -> None:
    replies = ((FIRST, "Which harbour lies north?", output), (LAST, output, "Pavelton"))
    assert blame("Korthburg", "Pavelton", *replies)[0] == agent
    unrelated = [right(n, TOWNS[n], "bananas ripen slowly", "Which harbour?") for n in range(3)]
    assert blame("Korthburg", "Pavelton", *replies, known=known_from(*unrelated))[0] == LAST, "here that is usual"


def test_only_predictors_whose_output_was_passed_on_are_suspected() -> None:
    aside = ("aside", "Note it.", "not found")
    chain = ((FIRST, "What lies here?", "It lies north of here."), (LAST, "Given: It lies north of here.", "Pavelton"))
    assert blame("Korthburg", "Pavelton", aside, *chain)[0] == LAST
    short = ((FIRST, "Find it.", "none"), (LAST, "x\n none \ny", "Pavelton"))
    assert blame("Korthburg", "Pavelton", *short)[0] == FIRST, "a short output counts as a line of its own"
    within = (
        aside,
        ("other", "Find it.", "none"),
        (FIRST, "Go on.", "See the map here."),
        (LAST, "See the map here. nonexistent", "Pavelton"),
    )
    assert blame("Korthburg", "Pavelton", *within)[0] == LAST
    nothing_passed = ((FIRST, "Find it.", "none"), (LAST, "Answer.", "Pavelton"))
    assert blame("Korthburg", "Pavelton", *nothing_passed)[0] == FIRST


@pytest.mark.parametrize(
    ("outputs", "agent"),
    [
        ({"topic": " Billing ", "tags": ["b", "A"]}, None),
        ({"topic": "delivery"}, "classify"),
        ({"tags": ["a", "c"]}, "classify"),
        ({"other": "delivery"}, None),
    ],
)
def test_fields_are_compared_apart_from_their_form(outputs: dict[str, Any], agent: str | None) -> None:
    made = a_record(
        '{"topic": "billing", "tags": ["a", "b"]}', "{}", [step("classify", **outputs), step(LAST, out="{}")]
    )
    found = attribute_to_predictor(made, AgentSteps.of(made), TargetMatcher(made.target or ""))
    assert found is not None
    assert ("A field that this agent gave" in found.reason[0]) is (agent is not None)


Outputs = dict[str, Any]


def blame_of(target: str, answer: str, *replies: tuple[str, str, Outputs]) -> tuple[str, str]:
    """As `blame`, of predictors with several outputs."""
    steps = [step(name, request=request, **outputs) for name, request, outputs in replies]
    made = a_record(target, answer, steps, question="Where is it?")
    found = attribute_to_predictor(made, AgentSteps.of(made), TargetMatcher(target))
    assert found is not None
    return found.agent, found.reason[0]


@pytest.mark.parametrize(("n_chars", "agent"), [(80, FIRST), (81, LAST)])
def test_a_text_that_says_nothing_is_short(n_chars: int, agent: str) -> None:
    nothing = "none" + "." * (n_chars - 4)
    assert blame("Korthburg", "Pavelton", (FIRST, "Find it.", nothing), (LAST, nothing, "Pavelton"))[0] == agent


@pytest.mark.parametrize(("n_chars", "agent"), [(60, FIRST), (61, LAST)])
def test_a_result_that_the_answer_repeats_is_short(n_chars: int, agent: str) -> None:
    result = "x" * n_chars
    found = blame("Korthburg", f"So: {result}", (FIRST, "Find it.", result), (LAST, result, f"So: {result}"))
    assert found[0] == agent
    asked = a_record("Korthburg", f"So: {result}", [step(FIRST, out=result), step(LAST, request=result, out="So")],
                     question=f"Is it {result}?")  # fmt: skip
    repeated = attribute_to_predictor(asked, AgentSteps.of(asked), TargetMatcher("Korthburg"))
    assert repeated is not None and repeated.agent == LAST, "the question has it"


@pytest.mark.parametrize(
    ("target", "answer", "replies", "agent", "reason"),
    [
        ("Korthburg", "Pavelton", [(FIRST, "Find it.", {"a": "not found", "b": "nothing"}), ("aside", "x", {"c": "y"}),
                                   (LAST, "Given: not found", {"out": "Pavelton"})],
         FIRST, "was empty or said that there is nothing"),
        ("Korthburg", "Pavelton", [(FIRST, "Find it.", {"a": "not found", "b": "See the map."}),
                                   (LAST, "not found", {"out": "Pavelton"})],
         LAST, "As far as can be told"),
        ("Korthburg", "Pavelton", [(FIRST, "Find it.", {"a": "not found"}),
                                   ("middle", "not found", {"b": "It lies north."}),
                                   (LAST, "It lies north.", {"out": "Pavelton"})],
         FIRST, "was empty or said that there is nothing"),
        ("42", "41", [(FIRST, "Sum up.", {"a": "40 + 2", "b": "7 + 1"}), (LAST, "40 + 2", {"out": "41"})],
         LAST, "its own calculation went wrong"),
        ("42", "41", [(FIRST, "Sum up.", {"a": "40 + 1", "b": "7 + 1"}), (LAST, "40 + 1", {"out": "41"})],
         FIRST, "The wrong number follows"),
        ("42", "41", [(FIRST, "Sum up.", {"a": "42", "b": "7"}), (LAST, "42", {"out": "41"})],
         LAST, "what it made of it did not"),
        ('{"topic": "billing", "tags": ["a", "b"]}', "{}",
         [(FIRST, "Sort it.", {"topic": "billing", "tags": ["a", "c"]}), (LAST, "Answer.", {"out": "{}"})],
         FIRST, "A field that this agent gave is not the one"),
        ("Korthburg", "Pavelton", [(FIRST, "Korthburg.", {"reasoning": "It is Korthburg.", "a": "It is north."}),
                                   (LAST, "It is north.", {"out": "Pavelton"})],
         FIRST, "its output left it out"),
        ("Korthburg", "Pavelton", [(FIRST, "Find it.", {"reasoning": "not found"}),
                                   (LAST, "not found", {"out": "Pavelton"})],
         FIRST, "was empty or said that there is nothing"),
    ],
)  # fmt: skip
def test_of_several_outputs_each_may_tell(
    target: str, answer: str, replies: list[tuple[str, str, Outputs]], agent: str, reason: str
) -> None:
    found = blame_of(target, answer, *replies)
    assert found[0] == agent and reason in found[1]


def test_outputs_that_are_equally_like_two_targets_tell_nothing() -> None:
    known = known_from(right(1, "billing", "parcel and order"), right(2, "delivery", "parcel and order"))
    same = "the parcel and the order"
    found = blame("billing", "delivery", (FIRST, "Sum up the parcel.", same), (LAST, same, "delivery"), known=known)
    assert found[0] == LAST and "As far as can be told" in found[1]
