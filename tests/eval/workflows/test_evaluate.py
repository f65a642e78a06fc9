"""The steps of an evaluation around its samples, on runs that were made before."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.command import FAILURES, FINISHED
from eval.config.evaluation import EvalConfig, read_config
from eval.execution.console import MissingServices, Output
from eval.execution.termination import StopReason
from eval.mlflow_export.exporter_launcher import ExportOutcome
from eval.runs.record import ErrorDetails, Usage
from eval.runs.store import RunStore
from eval.workflows import evaluate
from eval.workflows.evaluate import _Evaluation
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from tests.eval.config.test_evaluation import composed
from tests.eval.stored_run import answered, stored_run

PAID = ("model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1", "model.name=mine", "system=gaia")


class Told(Output):
    """Keeps the lines."""

    shows_results = False

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, bool]] = []

    def print(self, text: str, error: bool = False, style: str | None = None) -> None:
        self.lines.append((text, error))


@pytest.fixture(scope="module")
def config() -> EvalConfig:
    return read_config(composed(*PAID))


@pytest.fixture(scope="module")
def offline() -> EvalConfig:
    return read_config(composed("experiment=offline"))


Make = Callable[..., _Evaluation]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Return the steps for a run of three questions, of which these have records."""
    with ExitStack() as stack:

        def evaluation(config: EvalConfig, *records: Any, **run: Any) -> _Evaluation:
            folder = stored_run(tmp_path / "run", records, ["q1", "q2", "q3"])
            samples = [Sample(f"q{number}", "?", target="17") for number in (1, 2, 3)]
            request: Any = SimpleNamespace(config=replace(config, run=replace(config.run, **run)), prompts=None)
            store = stack.enter_context(RunStore(folder / "run.db"))
            return _Evaluation(request, folder, store, samples, MissingServices(simulated=False), Told())

        yield evaluation


def lines(evaluation: _Evaluation) -> list[tuple[str, bool]]:
    assert isinstance(evaluation.output, Told)
    return evaluation.output.lines


WRONG = answered("q1", "18")
FAILED = answered("q2", None, error="down", error_class="infrastructure", score=None)


def test_a_run_that_has_spent_its_money_is_not_begun(config: EvalConfig, make: Make) -> None:
    spent = make(config, WRONG, max_cost_usd=0.5, resume="run")
    with pytest.raises(UserError) as caught:
        spent.begin(spent.store.read_info(), {})
    assert str(caught.value) == "the run has already spent $0.5000 of run.max_cost_usd=0.5; give it more."


@pytest.mark.parametrize("budget", [0.5001, None])
def test_a_folder_that_another_process_has_filled_is_refused_unless_it_is_resumed(
    config: EvalConfig, make: Make, budget: float | None
) -> None:
    taken = make(config, WRONG, max_cost_usd=budget)
    with pytest.raises(UserError) as caught:
        taken.begin(taken.store.read_info(), {})
    assert str(caught.value) == (
        f"{taken.folder} already holds a run; resume it with run.resume={taken.folder}, or name a new folder."
    )


def test_what_has_no_final_record_is_pending(config: EvalConfig, make: Make) -> None:
    run = make(config, WRONG, FAILED, epochs=2)

    def pending(retry_errors: bool) -> list[tuple[str, str, int]]:
        return [(sample.id, key.sample_id, key.epoch) for sample, key in run.list_pending(retry_errors)]

    missing = {("q3", "q3", 1), ("q1", "q1", 2), ("q2", "q2", 2), ("q3", "q3", 2)}
    assert set(pending(retry_errors=False)) == missing
    assert set(pending(retry_errors=True)) == {*missing, ("q2", "q2", 1)}


def test_what_is_known_before_the_first_sample_is_told(
    config: EvalConfig, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "format_estimate", lambda config, n: f"estimate of {n}")
    monkeypatch.setattr(evaluate, "runs_first_alone", lambda config, n: n == 3)
    run = make(config)
    told = lines(run)

    def announce(n_pending: int, *notes: str) -> list[tuple[str, bool]]:
        told.clear()
        run.announce(n_pending, notes)
        return list(told)

    assert announce(3, "a note", "another") == [
        ("a note", False), ("another", False), ("estimate of 3; the first question shows it", False),
    ]  # fmt: skip
    assert announce(2) == [("resuming run: 2 of 3 answers remaining", False), ("estimate of 2", False)]
    assert announce(0) == [("resuming run: 0 of 3 answers remaining", False)]


def test_a_simulated_model_is_told_and_costs_nothing(offline: EvalConfig, make: Make) -> None:
    run = make(offline, epochs=2)
    run.announce(6, [])
    assert lines(run) == [(SIMULATED_NOTICE, False)]
    assert not run.is_paid and run.begin_alone(100) is None


@pytest.mark.parametrize(
    ("resume", "is_alone", "wanted"), [(None, True, True), ("run", True, False), (None, False, False)]
)
def test_the_first_sample_of_a_new_paid_run_goes_alone(
    config: EvalConfig, make: Make, resume: str | None, is_alone: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "runs_first_alone", lambda config, n: is_alone and n == 9)
    run = make(config, resume=resume)
    assert run.is_paid and (run.begin_alone(9) is not None) is wanted


def test_what_the_first_sample_shows_is_an_estimate_or_the_end(
    config: EvalConfig, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "runs_first_alone", lambda config, n: True)
    monkeypatch.setattr(evaluate, "format_measured", lambda config, usage, n: f"{usage.lm_calls} calls, {n} more")
    run = make(config)
    judge_first = run.begin_alone(9)
    assert judge_first is not None
    judge_first(answered("q1", "17", usage=Usage(0)))
    assert (lines(run), run.stop.reason) == ([], None)
    judge_first(answered("q1", "17", usage=Usage(3)))
    assert (lines(run), run.stop.reason) == ([("3 calls, 8 more", False)], None)
    judge_first(replace(FAILED, error="it broke", error_details=ErrorDetails("ImportError")))
    assert run.stop.reason == StopReason("errors", "the first question failed in a way in which all would: it broke")
    assert len(lines(run)) == 1


class Recorder:
    """Keeps how the session ended."""

    def __init__(self) -> None:
        self.ended: list[str | None] = []
        self.histories: list[object] = []

    def end(self, stopped: str | None, history: object) -> None:
        self.ended.append(stopped)
        self.histories.append(history)


THREE = [answered(f"q{number}", "18") for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("records", "reason", "stopped", "ended"),
    [
        (THREE, None, None, None),
        (THREE[:2], None, None, evaluate.WITHOUT_RECORD),
        (THREE[:2], StopReason("errors", "too many"), "too many", "too many"),
        (THREE, StopReason("errors", "too many"), "too many", None),
        (THREE, StopReason("limit", "no money"), "no money", "no money"),
        (THREE[:2], StopReason("limit", "no money"), "no money", "no money"),
    ],
)
def test_a_session_was_stopped_if_something_is_left_to_run(
    config: EvalConfig, make: Make, records: list[Any], reason: StopReason | None, stopped: str | None,
    ended: str | None,
) -> None:  # fmt: skip
    run, recorder = make(config, *records), Recorder()
    run.stop.reason = reason
    summary = run.end(recorder, stopped)  # type: ignore[arg-type]
    assert (recorder.ended, recorder.histories) == ([ended], [[]])
    assert summary.n - summary.n_not_run == len(records) and (run.folder / "summary.json").exists()


def test_the_first_three_wrong_answers_are_shown(offline: EvalConfig, tmp_path: Path) -> None:
    right, unscored = answered("q0", "17"), answered("q1", "18", gold=None)
    failed = answered("q2", None, error="down", error_class="tool", score=0.0)
    wrong = [answered(f"q{number}", "18") for number in (3, 4, 5, 6)]
    folder = stored_run(tmp_path / "run", [right, unscored, failed, *wrong])
    with RunStore(folder / "run.db") as store:
        request: Any = SimpleNamespace(config=offline, prompts=None)
        samples = [Sample(f"q{number}", "?", target="17") for number in range(7)]
        run = _Evaluation(request, folder, store, samples, MissingServices(simulated=True), Told())
        run.end(Recorder(), None)  # type: ignore[arg-type]
    assert [each.sample_id for each in run.wrong] == ["q3", "q4", "q5"]


def test_the_end_is_told_with_its_code_and_where_the_run_is_in_mlflow(config: EvalConfig, make: Make) -> None:
    run = make(config, *THREE, fail_under=0.5)
    summary = run.end(Recorder(), None)  # type: ignore[arg-type]
    plain = run.show(summary, ExportOutcome())
    assert (plain.folder, plain.code, plain.summary, lines(run)) == (run.folder, FAILURES, summary, [])
    link = {"uri": "u", "experiment_id": "e", "run_id": "r"}
    shown = run.show(summary, ExportOutcome(link, "one trace is missing", "look there"))
    assert lines(run) == [("warning: one trace is missing", True), ("look there", False)]
    assert shown.summary == replace(summary, mlflow=link)
    assert '"run_id": "r"' in (run.folder / "summary.json").read_text()
    run.config = replace(config, run=replace(config.run, fail_under=None))
    assert run.show(summary, ExportOutcome()).code == FINISHED


def test_a_run_whose_store_cannot_be_read_may_have_begun(config: EvalConfig, make: Make) -> None:
    run = make(config)
    assert run.has_begun() is run.store.read_info().has_begun
    run.store.close()
    assert run.has_begun() is True
