"""Attribution of a wrong answer to a predictor of the user's own program, whose roles nobody has declared.

    right_answers.add(record, steps, matcher)                                  # of each right answer, as it comes
    attribute_to_predictor(record, steps, matcher, right_answers).agent        # "extract"

Without any evidence the author of the answer is named. Reasons never quote anybody.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from eval.analysis.attribution.agent_steps import REASONED_WRONGLY, AgentSteps, Attribution, Step, blame
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.runs.record import Record
from mas.runtime.text import to_jsonable
from mas.tools.calculator import calculator
from mas.tools.results import ToolError

MIN_RIGHT = 3  # right answers from which a habit of a predictor can be read
HABIT = 0.8  # share of right answers that makes a habit
SIDE_OUTPUTS = ("reasoning", "trajectory")  # what a predictor thought or did before it replied
_MAX_NOTHING = 80  # characters of an output that says that there is nothing
_MIN_PASSED_ON = 8  # characters of an output that are found within another input; shorter ones must be a line of it
_MAX_REPEATED = 60  # characters of a result that an answer may repeat as a whole
_WORD = re.compile(r"\w+")
_EXPRESSION = re.compile(r"(?=.*\d\s*[-+*/])[\d\s.+*/()%-]{3,200}")
_NOTHING = re.compile(
    r"(?:\W|none|null|n/?a|nothing(?: (?:was )?found)?|not found|unknown|no (?:answer|information|evidence|context)"
    r"|(?:i )?(?:do not|don't) know|not (?:available|given|stated|mentioned)|(?:is|was|the|it|there)\b)*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _RightOutput:
    sample_id: str
    target: str
    words: frozenset[str]
    has_target: bool


@dataclass(frozen=True)
class RightAnswers:
    """The predictors' outputs in right answers; the order of adding does not matter."""

    _outputs: dict[str, set[_RightOutput]] = field(default_factory=dict)  # by predictor

    def add(self, record: Record, agent_steps: AgentSteps, matcher: TargetMatcher) -> None:
        """Note the outputs of all predictors but the author of the answer."""
        for each in _find_chain(record, agent_steps)[:-1]:
            output = _RightOutput(record.sample_id, matcher.text.casefold(), _read_words(each), _holds(each, matcher))
            self._outputs.setdefault(each.agent, set()).add(output)

    def usually_hold_target(self, agent: str) -> bool:
        """Return whether the predictor's output holds the target in most right answers."""
        found = self._list(agent)
        return len(found) >= MIN_RIGHT and sum(each.has_target for each in found) >= HABIT * len(found)

    def find_nearest_target(self, step: Step, targets: tuple[str, str]) -> str | None:
        """Return which of two targets the right answers with the most similar outputs have; None if it is not clear."""
        words, found = _read_words(step), self._list(step.agent)
        alike = [[_compare(words, each.words) for each in found if each.target == target] for target in targets]
        if not all(alike) or max(alike[0]) == max(alike[1]):
            return None
        return targets[0] if max(alike[0]) > max(alike[1]) else targets[1]

    def _list(self, agent: str) -> list[_RightOutput]:
        return list(self._outputs.get(agent, ()))  # a copy: others may be added meanwhile, by other threads


def attribute_to_predictor(
    record: Record, agent_steps: AgentSteps, matcher: TargetMatcher, right_answers: RightAnswers | None = None
) -> Attribution | None:
    """Return the predictor responsible for a wrong or failed answer; None if none has worked or can be the cause."""
    worked = [step for step in agent_steps.steps if step.outputs]
    if not worked:
        return None
    if record.error is not None:
        why = "The program's code failed on what this agent had replied, the last reply before the failure."
        is_own_code = record.error_class == "internal" and record.error_component == "system"
        return blame(worked[-1], why) if is_own_code else None
    return blame(*next(_list_faults(record, agent_steps, matcher, right_answers or RightAnswers())))


def _list_faults(
    record: Record, agent_steps: AgentSteps, matcher: TargetMatcher, right_answers: RightAnswers
) -> Iterator[tuple[Step, str]]:
    """Yield the faults that the outputs show, each with its reason; the first of them counts."""
    chain, given = _find_chain(record, agent_steps), (record.answer or "").strip()
    *earlier, author = chain
    wrong = TargetMatcher(given) if given else None

    for step in agent_steps.steps:
        if _has_wrong_field(step, matcher.text):
            yield step, "A field that this agent gave is not the one that was expected."

    holders = [number for number, step in enumerate(chain) if _holds(step, matcher)]
    if holders and holders[-1] == len(chain) - 1:
        yield author, "This agent's own output held the right content, and its answer was not that in the right form."
    elif holders:
        yield chain[holders[-1] + 1], "What this agent was given held the right answer, and what it made of it did not."

    for step in earlier:
        if wrong and (_holds(step, wrong) or _is_repeated(step, record)):
            yield step, "The wrong answer first occurs in this agent's output, and the agents after it took it over."
    for step in earlier:
        if all(len(text) <= _MAX_NOTHING and _NOTHING.fullmatch(text) for text in _list_texts(step)):
            why = "This agent's output was empty or said that there is nothing, so the agents after it had nothing."
            yield step, why
    for step in earlier:
        if right_answers.usually_hold_target(step.agent):
            why = "Where answers were right, this agent's output already held what the answer needs; here it did not."
            yield step, why

    if not matcher.is_within(author.seen):
        for step in earlier:
            if matcher.is_within(step.seen) and not matcher.is_within("\n".join(_list_texts(step))):
                yield step, "The evidence was in what this agent was given, and its output left it out."
    elif earlier:
        yield author, "The evidence was in front of this agent, and it did not draw the right answer from it."

    for step in earlier:
        results = [result for text in _list_texts(step) if (result := _calculate(text)) is not None]
        if any(map(matcher.matches, results)):
            yield author, "What this agent was given yields the right number, and its own calculation went wrong."
        if wrong and any(map(wrong.matches, results)):
            yield step, "The wrong number follows from what this agent gave to the agents after it."

    targets = (matcher.text.casefold(), given.casefold())
    nearest = [right_answers.find_nearest_target(step, targets) for step in earlier] if targets[0] != targets[1] else []
    if targets[1] in nearest:
        why = "This agent's output was like those from which, in right answers, the answer given here follows."
        yield earlier[nearest.index(targets[1])], why
    if targets[0] in nearest:
        why = "What this agent was given was like what it is given in right answers, and its own result was another."
        yield author, why
    yield author, REASONED_WRONGLY


def _find_chain(record: Record, agent_steps: AgentSteps) -> list[Step]:
    """Return the last step of each predictor that contributed to the answer, its author last."""
    worked = [step for step in agent_steps.steps if step.outputs]
    if not worked:
        return []
    answer = (record.answer or "").strip()
    authors = [step for step in worked if answer and answer in _list_texts(step)]
    author = (authors or worked)[-1]
    before = {step.agent: step for step in worked[: worked.index(author)] if step.agent != author.agent}
    earlier = sorted(before.values(), key=worked.index)
    reached = [author]
    for step in reversed(earlier):
        if any(_is_passed_on(step, later) for later in reached):
            reached.append(step)
    return [*(reversed(reached[1:]) if reached[1:] else earlier), author]


def _is_passed_on(step: Step, later: Step) -> bool:
    lines = {line.strip() for line in later.request.split("\n")}
    return any(
        text in lines or (len(text) >= _MIN_PASSED_ON and text in later.request) for text in _list_texts(step) if text
    )


def _has_wrong_field(step: Step, target: str) -> bool:
    """Compare outputs with the fields of a target that is a JSON object."""
    try:
        fields = json.loads(target)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and any(
        name in fields and _simplify(value) != _simplify(fields[name]) for name, value in step.outputs.items()
    )


def _holds(step: Step, matcher: TargetMatcher) -> bool:
    """Return whether one of the results is the text, or they contain it, apart from its form."""
    texts = _list_texts(step)
    return any(map(matcher.is_contained_in, texts)) or matcher.is_within("\n".join(texts))


def _is_repeated(step: Step, record: Record) -> bool:
    """Return whether the answer repeats a short result that is not in the question."""
    results = [TargetMatcher(text) for text in _list_texts(step) if 0 < len(text) <= _MAX_REPEATED]
    return any(each.is_within(record.answer or "") and not each.is_within(record.question) for each in results)


def _read_words(step: Step) -> frozenset[str]:
    return frozenset(_WORD.findall("\n".join(_list_texts(step)).casefold()))


def _compare(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of common words (Jaccard)."""
    return len(one & other) / len(one | other) if one | other else 0.0


def _list_texts(step: Step) -> list[str]:
    """Return the results as texts, without what led to them."""
    results = {name: value for name, value in step.outputs.items() if name not in SIDE_OUTPUTS}
    return [_text(value) for value in (results or step.outputs).values()]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    value = to_jsonable(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _calculate(text: str) -> str | None:
    """Return the value of an arithmetic expression; None if the text is none."""
    expression = text.partition("=")[0] if text.count("=") == 1 else text
    if not _EXPRESSION.fullmatch(expression.strip()):
        return None
    try:
        return str(calculator(expression))
    except ToolError:
        return None


def _simplify(value: object) -> object:
    """Return a value in a form in which fields of a target and of an output are comparable."""
    if isinstance(value, Mapping):
        return {str(key): _simplify(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(str(_simplify(each)) for each in value)
    return str(value).strip().casefold()
