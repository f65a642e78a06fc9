"""Program around a user's `dspy.Module`: named inputs, all its outputs, and a span for each of its predictors."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dspy
import pydantic_core

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import State
from mas.prompt_sets.dspy_internals import annotation_allows_none, parse_value
from mas.runtime.errors import AgentReplyError
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.runtime.text import name_type, replace_surrogates
from mas.runtime.trace import current_trace
from mas.systems.external.dspy_spans import PredictorSpans, blocks, limit_tools
from mas.systems.external.program import TRACE_KEYS, ForeignProgram, Shared
from mas.systems.external.target import LoadedModule, choose_answer_field, describe_answer_choice, is_async

CreateLM = Callable[[str], dspy.BaseLM]  # a predictor's name, or "" for the program itself → its language model


class DspyProgram(ForeignProgram):
    """A copy of the user's module; its predictors are this program's, under the same names."""

    plain_demos = True  # as DSPy itself reads them: not always all fields

    def __init__(
        self, loaded: LoadedModule, answer: tuple[str | None, str | None], create_lm: CreateLM | None = None
    ) -> None:
        """Copy the module.

        Args:
            loaded: the user's own, which gets no models and prompts of this run.
            answer: `system.answer_field` and the data's target column.
            create_lm: makes the LM of each predictor that has none; None: they have their own.
        """
        super().__init__(loaded.target)
        self._answer = answer
        self._takes = Shared(loaded)
        self.module = loaded.module.deepcopy()
        tools = limit_tools(self.module)
        # A module with both forms, as those of DSPy: a tool that blocks would hold up all samples on the event loop.
        self._runs_in_thread = not is_async(self.module) or (
            hasattr(type(self.module), "forward") and any(map(blocks, tools))
        )
        self.lm = create_lm("") if create_lm else None  # for predictors that DSPy has frozen, or made while answering
        for name, predictor in self.named_predictors():
            if predictor.lm is None and create_lm:
                predictor.lm = create_lm(name)

    def named_parameters(self) -> list[tuple[str, dspy.Predict]]:
        parameters: list[tuple[str, dspy.Predict]] = self.module.named_parameters()
        return parameters

    async def answer_inputs(self, question: str, file: Path | None, thread_id: str, inputs: Mapping[str, str]) -> State:
        given: Mapping[str, str] = inputs or {"question": question}
        state: dict[str, object] = {"question": question, "file": file.name if file else None}
        state |= {"inputs": dict(given), "correlation_id": thread_id}
        current_trace().state = dict(state)
        with self.note_timeout():
            value = await self._call(self._list_arguments(given, file))
        outputs = _read_outputs(value, self.name)
        state["outputs"] = outputs
        current_trace().state = dict(state)
        field = choose_answer_field(outputs, *self._answer)
        if field is None:
            raise AgentReplyError(describe_answer_choice(self.name, outputs, self._answer[0]))
        answer = _write_text(outputs[field])
        trace = next((_write_text(outputs[key]) for key in TRACE_KEYS if outputs.get(key) is not None), "")
        return {**state, "final_answer": answer, "final_reasoning_trace": trace}

    def _list_arguments(self, given: Mapping[str, str], file: Path | None) -> dict[str, object]:
        takes = self._takes.value
        arguments: dict[str, object] = {}
        for name, text in given.items():
            is_optional_and_empty = not text and name not in takes.required and not self._is_text(name)
            if (name in takes.inputs or takes.takes_any) and not is_optional_and_empty:
                arguments[name] = text if self._is_text(name) else self._parse(name, text)
        takes_file = "file" in takes.inputs or (takes.takes_any and file is not None)
        return arguments | ({"file": file} if takes_file and "file" not in given else {})

    def _is_text(self, name: str) -> bool:
        return self._takes.value.annotations.get(name, str) in (str, object, Any)

    def _parse(self, name: str, text: str) -> object:
        annotation = self._takes.value.annotations[name]
        if not text and annotation_allows_none(annotation):
            return None
        try:
            return parse_value(text, annotation)
        except (ValueError, TypeError) as error:
            kind = getattr(annotation, "__name__", str(annotation))
            raise AgentReplyError(f"the input {name} of {self.name} is no {kind}: {text[:80]!r}") from error

    async def _call(self, arguments: Mapping[str, object]) -> object:
        changes: dict[str, object] = {"callbacks": [*dspy.settings.callbacks, PredictorSpans(self.module)]}
        if dspy.settings.adapter is None:
            changes["adapter"] = ChatAdapter(plain_demos=True)
        if self.lm is not None:
            changes["lm"] = self.lm
        with dspy.context(**changes):
            if self._runs_in_thread:
                return await run_in_thread(lambda: self.module(**arguments), self.describe_end)
            return await await_safely(self.module.acall(**arguments), self.describe_end)


def _read_outputs(value: object, name: str) -> dict[str, object]:
    if isinstance(value, dspy.Prediction | Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, str | int | float):
        return {"answer": value}
    raise AgentReplyError(f"{name} returned {name_type(value)}; expected a dspy.Prediction, a dict or a text")


def _write_text(value: object) -> str:
    """Return an output as the text that is scored; a list, object, set, dataclass or model is JSON."""
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    plain = pydantic_core.to_jsonable_python(value, fallback=str)
    if plain is None:
        return ""
    return replace_surrogates(
        str(plain) if isinstance(plain, str | int | float) else json.dumps(plain, ensure_ascii=False)
    )
