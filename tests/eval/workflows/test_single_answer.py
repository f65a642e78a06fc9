"""One question that is answered outside a run: what is shown, and how the program is run."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.config.evaluation import EvalConfig
from eval.runs.record import ErrorDetails, Record
from eval.workflows import single_answer
from eval.workflows.single_answer import answer_sample, show_answer
from mas.runtime.sample_context import SampleKey, current_context
from mas.runtime.trace import span
from mas.simulation import SIMULATED_NOTICE
from tests.eval.config.test_evaluation import config as read
from tests.eval.stored_run import answered

SAMPLE = Sample("question", "What is 2 + 2?")


class System:
    """What a single answer needs of a system; it is its program, too."""

    name, needs_model, limits = "own", True, None

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.calls = fails, list[Any]()

    @contextmanager
    def open_resources(self, settings: object, report_missing: Callable[[str], None]) -> Iterator[str]:
        report_missing("there is no search")
        self.calls.append(settings)
        yield "the resources"
        self.calls.append("closed")

    def secrets(self) -> list[str]:
        return []

    def build(self, *parts: object) -> "System":
        self.calls.append(parts)
        return self

    async def acall(self, question: str, file: object = None, inputs: object = None) -> dict[str, Any]:
        self.calls.append((question, file, inputs, current_context()))
        for _ in range(3):  # a deadline may end it here
            await asyncio.sleep(0)
        with span("agent", "solver"):
            if self.fails:
                raise ValueError("my-secret-key was refused")
        return {"final_answer": "4", "final_reasoning_trace": "my-secret-key"}


@pytest.fixture(scope="module")
def config() -> EvalConfig:
    return read("system=toy", "limits.lm_calls=7")


@pytest.fixture(scope="module")
def paid() -> EvalConfig:
    return read("model=openai_compatible", "model.base_url=http://h", "model.name=m")


def test_the_program_is_run_as_in_a_run_and_what_is_missing_is_said(
    config: EvalConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    system, seen = System(), list[str]()
    changed: Any = replace(config, system=system)
    monkeypatch.setattr(EvalConfig, "simulated", False)
    monkeypatch.setattr(EvalConfig, "redact", lambda self, text: text.replace("my-secret-key", "***"))
    record = answer_sample(SAMPLE, changed, "the prompts", lambda each: seen.append(each.name))  # type: ignore[arg-type]
    settings, parts, call, closed = system.calls
    assert (settings, parts, closed) == (config.tools, (config.model, "the prompts", "the resources"), "closed")
    assert call[:3] == ("What is 2 + 2?", None, None)
    assert (call[3].key, call[3].limits) == (SampleKey("question"), config.limits)
    assert (record.run_id, record.sample_id, record.epoch, record.attempt) == ("ask", "question", 1, 1)
    assert (record.answer, record.reasoning_trace, record.score, record.error) == ("4", "***", None, None)
    assert seen == ["question", "solver", "solver", "question"]
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "note: there is no search\n")


def test_a_failure_and_a_deadline_are_in_the_record_and_a_simulated_model_misses_nothing(
    config: EvalConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    changed: Any = replace(config, system=System(fails=True))
    record = answer_sample(SAMPLE, changed, None, lambda each: None)
    assert (record.answer, record.error_class) == (None, "internal")
    assert capsys.readouterr().err == ""
    late: Any = replace(changed, run=replace(config.run, deadline_seconds=0.0))
    record = answer_sample(SAMPLE, late, None, lambda each: None)
    assert (record.limit, record.error_class) == ("deadline_seconds", "limit")


Shown = Callable[[Record | BaseException, bool, bool], tuple[int, str, str]]


@pytest.fixture
def shown(
    config: EvalConfig, paid: EvalConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shown:
    """Shows a record, or an interrupt, as the answer; the result is the exit code with what was printed."""

    def show(found: Record | BaseException, simulated: bool, terminal: bool) -> tuple[int, str, str]:
        def answer(sample: Sample, used: EvalConfig, prompts: object, observer: Callable[..., None]) -> Record:
            assert (sample, used, prompts) == (SAMPLE, changed, "prompts")
            assert observer.__name__ == "observe"
            if isinstance(found, BaseException):
                raise found
            return found

        monkeypatch.setattr(single_answer, "answer_sample", answer)
        model = (
            config.model
            if simulated
            else read("model=openai_compatible", "model.base_url=http://h", "model.name=m").model
        )
        changed = replace(config, model=model, log=replace(config.log, terminal=terminal))
        code = show_answer(SAMPLE, changed, "prompts")  # type: ignore[arg-type]
        said = capsys.readouterr()
        return code, said.out, said.err

    return show


USED = "calls: 2 to language models, 0 to tools\ntokens: 0 in, 0 out\ntime: 0.0 s\ncost: $0.5000\n"


def test_an_answer_is_shown_with_its_reasons_and_the_notice_of_a_simulated_model(shown: Shown) -> None:
    text = f"\nanswer: 4\nreasoning: because\n{USED}"
    assert shown(answered("question", "4"), True, True) == (FINISHED, f"{SIMULATED_NOTICE}\n{text}", "")
    assert shown(answered("question", "4"), False, True) == (FINISHED, text, "")


@pytest.mark.parametrize(
    ("details", "terminal", "stack"),
    [
        (ErrorDetails(stack="line 1\nline 2"), True, "line 1\nline 2\n"),
        (ErrorDetails(stack="line 1"), False, ""),
        (None, True, ""),
    ],
)
def test_an_error_is_shown_with_its_stack_if_the_log_goes_to_the_terminal(
    shown: Shown, details: ErrorDetails | None, terminal: bool, stack: str
) -> None:
    failed = answered("question", None, error="it broke", error_component="solver", error_details=details)
    assert shown(failed, False, terminal) == (FAILURES, f"\n{USED}", f"error: solver: it broke\n{stack}")


def test_an_interrupt_is_told_and_stores_nothing(shown: Shown) -> None:
    assert shown(KeyboardInterrupt(), False, False) == (STOPPED, "", "error: interrupted; nothing is stored.\n")
