"""The steps of an evaluation around its samples, on runs that were made before."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from eval.benchmarks.dataset import Sample
from eval.benchmarks.selection import select_samples
from eval.cli.command import FAILURES, FINISHED, STOPPED, InterruptedRunError
from eval.config.evaluation import EvalConfig, read_config
from eval.execution.console import MissingServices, Output
from eval.execution.termination import StopReason
from eval.mlflow_export.exporter_launcher import ExportOutcome
from eval.runs.folder import format_resume_hint
from eval.runs.record import ErrorDetails, Usage
from eval.runs.run_info import RunInfo, SweepJob, TuningUse, describe_task
from eval.runs.store import RunStore, StoreError
from eval.workflows import evaluate
from eval.workflows.evaluate import Ended, Request, _Evaluation
from mas.prompt_sets.prompt_set import PromptSet, digest
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
    run.announce(5, [])
    assert lines(run)[1:] == [(SIMULATED_NOTICE, False), ("resuming run: 5 of 6 answers remaining", False)]


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


def test_the_run_ends_by_its_own_limits_and_says_so_through_its_output(
    config: EvalConfig, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(evaluate, "StopController", lambda *limits, say: given.extend([*limits, say]))
    run = make(config, drain_seconds=3.0, fail_fast=True, max_errors=4.0, max_seconds=5.0, max_same_errors=6)
    *limits, say = given
    assert limits == [3.0, True, 4.0, 5.0, 6]
    say("stopping")
    assert lines(run) == [("stopping", True)]


def test_a_session_that_may_begin_writes_what_it_is_made_of(config: EvalConfig, make: Make) -> None:
    run = make(config, WRONG, max_cost_usd=0.6, resume="run")
    recorder = run.begin(RunInfo(run_id="run-1", system="gaia"), {"limit": "1 → 2"})
    assert (recorder.info.system, run.store.read_info()) == ("gaia", recorder.info)
    assert run.store.read_state().sessions[-1].changes == {"limit": "1 → 2"}
    assert [each.question for each in run.store.read_plan()] == ["?"] * 3


def test_an_edited_set_and_questions_that_it_was_tuned_on_are_warned_of(offline: EvalConfig, make: Make) -> None:
    run = make(offline)
    prompts = PromptSet("mine", "gaia", {}, Path("prompts/mine"), edited=("planner.md",))
    changed: Any = SimpleNamespace(config=offline, prompts=prompts)
    run.request = changed
    run.samples["q3"] = Sample("q3", "?")
    run.store.write_info(replace(run.store.read_info(), tuning_use=TuningUse("tuned", ["q1"], ["q3"], {})))
    run.announce(3, [])
    assert lines(run) == [
        (SIMULATED_NOTICE, False),
        ("note: prompts/mine was edited after it was published (planner.md): its provenance no longer describes it",
         False),
        ("warning: 1 of the 2 questions with a gold answer was used to tune tuned (1 for training), so its score on it "
         "is inflated; on the other one it is reported separately", False),
    ]  # fmt: skip


def test_results_are_shown_where_the_output_wants_them(
    offline: EvalConfig, make: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(offline, *THREE)
    monkeypatch.setattr(Told, "shows_results", True)
    run.show(run.end(Recorder(), None), ExportOutcome())  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert 'wrong answers:\n  q1: What is q1? → "18", expected "17"\n  q2: ' in out
    assert f"results: {run.folder}" in out
    assert out.splitlines()[-1].startswith("report: ")
    paced: Any = SimpleNamespace(pace_history=lambda: [{"limit": 2}])
    run.config = replace(offline, model=paced)
    recorder = Recorder()
    run.end(recorder, None)  # type: ignore[arg-type]
    assert recorder.histories == [[{"limit": 2}]]


@pytest.fixture(scope="module")
def small() -> DictConfig:
    """Two questions of the toy set, answered by the simulated model."""
    return composed("system=toy", "data=toy", "scorer=exact", "limit=2", "tracking=off", "run.name=mine")


Ask = Callable[..., Ended]


@pytest.fixture
def ask(small: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Evaluates them, with options of the run; `output` is where its lines go."""
    monkeypatch.setattr("eval.runs.folder.OUTPUTS", tmp_path)
    output = Told()

    def run(command: list[str] | None = None, add_to_sweep: Any = None, **options: Any) -> Ended:
        chosen = small.copy()
        for name, value in options.items():
            OmegaConf.update(chosen, f"run.{name}", value)
        config = read_config(chosen)
        resolved: Any = OmegaConf.to_container(chosen, resolve=True)
        return evaluate.evaluate(Request(config, resolved, config.check(), command or [], add_to_sweep), output)

    run.output = output  # type: ignore[attr-defined]
    yield run


def told(ask: Ask) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = ask.output.lines  # type: ignore[attr-defined]
    return found


def test_everything_that_is_known_of_a_run_is_kept_with_its_answers(
    ask: Ask, small: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "read_origin", lambda: {"harness.pid": "7"})
    monkeypatch.setattr(EvalConfig, "redact", lambda self, text: text.replace("my-key", "***"))
    sweep, added = SweepJob("s", "n", "2026", "h", 1, 0, []), list[Any]()

    def add_to_sweep(folder: Path, config: EvalConfig) -> SweepJob:
        added.append((folder, config.run.name))
        return sweep

    ended = ask(["system=toy", "model.api_key=my-key", "run.resume=x"], add_to_sweep, epochs=2)
    assert (ended.folder.parent, ended.code) == (tmp_path / "eval", FINISHED)
    assert ended.folder.name.endswith("_mine")
    assert added == [(ended.folder, "mine")]
    assert ended.summary is not None
    assert ended.summary.n == 4
    config = read_config(small)
    samples = select_samples(config.data.load("val").samples, config.selection)
    prompts = config.check()
    assert prompts is not None
    with RunStore(ended.folder / "run.db", read_only=True) as store:
        info, kept = store.read_info(), list(store.records())
        assert store.is_signed()
    stored: Any = OmegaConf.to_container(small, resolve=True)
    stored["run"]["epochs"] = 2
    assert info == RunInfo(
        run_id=info.run_id,
        started_at=info.started_at,
        system="toy",
        model=config.model_name,
        simulated=True,
        epochs=2,
        config=stored,
        command=["system=toy"],
        task=describe_task(samples, stored["scorer"], None, info.task.labels),
        prompts={"prompts": prompts.name},
        prompts_sha256=digest(prompts),
        tuning_use=info.tuning_use,
        tools=info.tools,
        critics=info.critics,
        origin={"harness.pid": "7"},
        program_sha256=info.program_sha256,
        sweep=sweep,
    )
    assert info.tools is not None and info.critics is not None
    assert sorted((each.sample_id, each.epoch) for each in kept) == sorted(
        (each.id, epoch) for each in samples for epoch in (1, 2)
    )
    assert told(ask)[0] == (SIMULATED_NOTICE, False)
    events = [line for line in (ended.folder / "logs" / "entry_point.log").read_text().splitlines() if "run " in line]
    assert '"questions": 4' in next(each for each in events if "run started" in each)
    assert any("run ended" in each for each in events)


def test_a_floor_without_any_target_is_a_mistake(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(evaluate, "select_samples", lambda samples, selection: [Sample("q1", "?")])
    with pytest.raises(UserError) as refused:
        ask(fail_under=0.0)
    assert str(refused.value) == ("run.fail_under is set, but none of the questions has a gold answer; leave it out.")
    assert not (tmp_path / "eval").exists()


@pytest.mark.parametrize("error", [OSError("the disk is full"), StoreError("the disk is full")])
def test_a_run_that_cannot_be_written_is_stopped_if_it_had_begun_and_else_a_mistake(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(run: _Evaluation, *_: object) -> None:
        if begun:
            run.store.write_info(RunInfo(run_id="r"))
        raise error

    monkeypatch.setattr(evaluate, "_run_session", fail)
    begun = False
    with pytest.raises(UserError) as refused:
        ask()
    assert str(refused.value) == ("the disk is full; nothing was begun: free space, then give the same command again.")
    assert told(ask) == []
    begun = True
    ended = ask()
    assert ended == Ended(ended.folder, STOPPED, None)
    assert told(ask) == [
        (f"stopped: the disk is full; what is finished is in {ended.folder / 'run.db'}", True),
        (format_resume_hint(ended.folder), True),
    ]


def test_an_interrupt_says_how_to_go_on_and_one_that_was_told_passes(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    raised: BaseException = KeyboardInterrupt("SIGTERM")

    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(evaluate, "_run_session", fail)
    with pytest.raises(InterruptedRunError) as interrupted:
        ask()
    (folder,) = (tmp_path / "eval").iterdir()
    assert str(interrupted.value) == f"stopped by SIGTERM.\n{format_resume_hint(folder)}"
    raised = InterruptedRunError("it is told")
    with pytest.raises(InterruptedRunError) as interrupted:
        ask()
    assert interrupted.value is raised


def test_a_run_that_a_signal_has_stopped_lets_no_other_job_begin(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_session(run: _Evaluation, *_: object) -> tuple[None, None]:
        run.stop.interrupted = True
        return None, None

    monkeypatch.setattr(evaluate, "_run_session", run_session)
    monkeypatch.setattr(_Evaluation, "show", lambda self, summary, tracked: Ended(self.folder, STOPPED))
    with pytest.raises(InterruptedRunError) as interrupted:
        ask()
    assert str(interrupted.value) == ""


def test_a_folder_that_is_no_store_is_a_mistake(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "given" / "run.db").mkdir(parents=True)
    with pytest.raises(UserError, match=r"run\.db"):
        ask(dir=str(tmp_path / "given"))
