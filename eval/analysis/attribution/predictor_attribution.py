"""Attribution of a wrong answer to a predictor of the user's own program, whose roles nobody has declared.

    attribute_to_predictor(record, AgentSteps.of(record), TargetMatcher(target)).agent        # "extract"

Without any evidence the author of the answer is named. Reasons never quote anybody.
"""

import json
from collections.abc import Iterator

from eval.analysis.attribution.agent_steps import REASONED_WRONGLY, AgentSteps, Attribution, Step, blame
from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.runs.record import Record
from mas.runtime.text import to_jsonable

SIDE_OUTPUTS = ("reasoning", "trajectory")  # what a predictor thought or did before it replied
_MAX_REPEATED = 60  # characters of a result that an answer may repeat as a whole


def attribute_to_predictor(record: Record, agent_steps: AgentSteps, matcher: TargetMatcher) -> Attribution | None:
    """Return the predictor responsible for a wrong or failed answer; None if none has worked or can be the cause."""
    worked = [step for step in agent_steps.steps if step.outputs]
    if not worked:
        return None
    if record.error is not None:
        why = "The program's code failed on what this agent had replied, the last reply before the failure."
        is_own_code = record.error_class == "internal" and record.error_component == "system"
        return blame(worked[-1], why) if is_own_code else None
    return blame(*next(_list_faults(record, worked, matcher)))


def _list_faults(record: Record, worked: list[Step], matcher: TargetMatcher) -> Iterator[tuple[Step, str]]:
    """Yield the faults that the outputs show, each with its reason; the first of them counts."""
    chain, given = _find_chain(record, worked), (record.answer or "").strip()
    *earlier, author = chain

    for step in worked:
        if _has_wrong_field(step, matcher.text):
            yield step, "A field that this agent gave is not the one that was expected."

    holders = [number for number, step in enumerate(chain) if _holds(step, matcher)]
    if holders and holders[-1] == len(chain) - 1:
        yield author, "This agent's own output held the right content, and its answer was not that in the right form."
    elif holders:
        yield chain[holders[-1] + 1], "What this agent was given held the right answer, and what it made of it did not."

    for step in earlier:
        if given and (_holds(step, TargetMatcher(given)) or _is_repeated(step, record)):
            yield step, "The wrong answer first occurs in this agent's output, and the agents after it took it over."

    for step in earlier:
        if not any(_list_texts(step)):
            yield step, "This agent's output was empty, so the agents after it had nothing."
    if not matcher.is_within(author.seen):
        for step in earlier:
            if matcher.is_within(step.seen) and not matcher.is_within("\n".join(_list_texts(step))):
                yield step, "The evidence was in what this agent was given, and its output left it out."
    elif earlier:
        yield author, "The evidence was in front of this agent, and it did not draw the right answer from it."
    yield author, REASONED_WRONGLY


def _find_chain(record: Record, worked: list[Step]) -> list[Step]:
    """Return the last step of each predictor up to the author of the answer, who is the last."""
    answer = (record.answer or "").strip()
    authors = [step for step in worked if answer and answer in _list_texts(step)]
    author = (authors or worked)[-1]
    before = {step.agent: step for step in worked[: worked.index(author)] if step.agent != author.agent}
    return [*sorted(before.values(), key=worked.index), author]


def _has_wrong_field(step: Step, target: str) -> bool:
    """Compare outputs with the fields of a target that is a JSON object."""
    try:
        fields = json.loads(target)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and any(
        name in fields and _simplify(value) != _simplify(fields[name]) for name, value in step.outputs.items()
    )


def _simplify(value: object) -> object:
    """Return a value in a form in which fields of a target and of an output are comparable: lists in any order."""
    value = to_jsonable(value)
    return sorted(_text(each).casefold() for each in value) if isinstance(value, list) else _text(value).casefold()


def _holds(step: Step, matcher: TargetMatcher) -> bool:
    """Return whether one of the results is the text, or they contain it, apart from its form."""
    texts = _list_texts(step)
    return any(map(matcher.is_contained_in, texts)) or matcher.is_within("\n".join(texts))


def _is_repeated(step: Step, record: Record) -> bool:
    """Return whether the answer repeats a short result that is not in the question."""
    results = [TargetMatcher(text) for text in _list_texts(step) if 0 < len(text) <= _MAX_REPEATED]
    return any(each.is_within(record.answer or "") and not each.is_within(record.question) for each in results)


def _list_texts(step: Step) -> list[str]:
    """Return the results as texts, without what led to them."""
    results = {name: value for name, value in step.outputs.items() if name not in SIDE_OUTPUTS}
    return [_text(value) for value in (results or step.outputs).values()]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    value = to_jsonable(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
