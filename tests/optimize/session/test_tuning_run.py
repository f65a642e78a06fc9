"""Progress of a search is shown."""

import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hydra import compose, initialize_config_dir
from rich.console import Console

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.config.executor import WorkersSettings
from eval.execution.executors import places
from eval.execution.executors.contract import SampleHooks
from eval.execution.projection import UNKNOWN, Projection, format_projection
from eval.execution.termination import RunStoppedError
from eval.runs.folder import RunLock
from eval.runs.run_info import TUNING_PROGRESS, RunInfo, TaskInfo, TuningInfo, TuningState
from eval.scorers.labels import LabelSet
from eval.scorers.score import read_scorer_digest
from mas.prompt_sets.prompt_set import digest
from mas.runtime.errors import UserError
from mas.system import read_program_digest
from optimize.gate.verdict import EarlyVerdictError
from optimize.questions.splits import Splits
from optimize.search.budget import REFLECTION, BudgetSettings, Spend
from optimize.search.candidate import PARENT
from optimize.session import trial_processes, tuning_run
from optimize.session.config import TuningRequest, read_config
from optimize.session.run_files import RunFiles
from optimize.session.tuning_run import (
    TuningRun,
    _build_first,
    begin_session,
    format_progress,
    open_tuning_run,
    show_progress,
    write_progress,
)

SPEND = Spend(metric_calls=290, lm_calls=1204, cost_usd=1.2345, seconds=252.4)


def test_the_line_says_what_is_done_and_what_it_has_cost() -> None:
    line = format_progress(312, SPEND, BudgetSettings(metric_calls=600))
    assert line == "so far: 312 answers (290 of 600 metric calls), 1,204 requests, $1.2345, 252 s"
    assert len(line) < 80
    free = format_progress(0, Spend(), BudgetSettings(metric_calls=None))
    assert free == "so far: 0 answers (0 metric calls), 0 requests, 0 s"


def watched(terminal: bool, interval_seconds: float, seconds: float) -> str:
    screen, count = io.StringIO(), iter(range(1000))
    console = Console(file=screen, force_terminal=terminal, color_system=None, width=80)
    with show_progress(console, lambda: f"at {next(count)}", interval_seconds):
        console.print("a proposal")
        time.sleep(seconds)
    return screen.getvalue()


def test_a_log_gets_a_line_now_and_then() -> None:
    assert watched(False, 30.0, 0.05) == "a proposal\n"
    lines = watched(False, 0.05, 0.5).splitlines()
    assert lines[:2] == ["a proposal", "  at 0"] and 3 <= len(lines) <= 11


def test_a_terminal_has_one_live_line_below_what_is_printed() -> None:
    screen = watched(True, 30.0, 1.3)
    assert "at 0" in screen and "at 1" in screen
    assert screen.index("a proposal") < screen.rindex("at 1")


def test_it_ends_with_the_block_whatever_happens() -> None:
    screen = io.StringIO()
    try:
        with show_progress(Console(file=screen), lambda: "line", 0.01):
            raise ValueError
    except ValueError:
        pass
    before = screen.getvalue()
    time.sleep(0.05)
    assert screen.getvalue() == before


def test_a_page_that_follows_the_run_finds_the_newest_spend(tmp_path: Path) -> None:
    found, count = list[object](), iter(range(1000))
    with write_progress(tmp_path / "progress.json", lambda: {"at": next(count)}, 0.01):
        time.sleep(0.2)
        found.append(json.loads((tmp_path / "progress.json").read_text()))
    assert found[0] != json.loads((tmp_path / "progress.json").read_text()), "once more when the phase ends"
    assert [each.name for each in tmp_path.iterdir()] == ["progress.json"]
    with write_progress(tmp_path / "no such folder" / "progress.json", dict, 0.01):
        pass


def judge(trials: tuple[int, int], objective: tuple[int, int] = (0, 0), share: float = 0.2) -> str | None:
    """Return why a run is ended whose answers failed to be scored that often: (failed, all)."""
    run = SimpleNamespace(
        config=SimpleNamespace(gate=SimpleNamespace(max_metric_error_share=share)),
        trials=SimpleNamespace(n_metric_errors=trials[0], n_completed=trials[1], metric_error="no judge"),
        objective=SimpleNamespace(errors=objective[0], calls=objective[1], first_error="no key"),
    )
    try:
        TuningRun.check_metric(cast(TuningRun, run))
    except EarlyVerdictError as error:
        return f"{error.finish_reason}: {error}"
    return None


def test_answers_that_cannot_be_scored_end_a_run_above_the_share() -> None:
    assert judge((2, 10)) is None
    assert judge((9, 9)) is None  # too few to judge by
    told = "metric_errors: {} answers could not be scored (gate.max_metric_error_share=0.2): {}"
    assert judge((3, 10)) == told.format("3 of 10", "no judge")
    assert judge((0, 10), (3, 10)) == told.format("3 of 10", "no key")
    assert judge((0, 10), (2, 10)) is None and judge((0, 10), (9, 9)) is None
    assert judge((10, 10), share=1.0) is None


@pytest.fixture(scope="module")
def request_of_a_run() -> TuningRequest:
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        config = read_config(compose("optimize", ["system=toy", "data=toy", "model=offline", "seed=7", "name=mine"]))
    return TuningRequest(config, {"seed": 7}, config.check(), ["seed=7", "yes=true", "name=mine"])


def splits() -> Splits:
    parts = [tuple(Sample(f"{part}{at}", f"{part} {at}?", target="4") for at in range(3)) for part in ("t", "v", "s")]
    return Splits.of(parts)


def test_a_new_session_writes_what_the_run_is_made_of(request_of_a_run: TuningRequest, tmp_path: Path) -> None:
    files, questions, config = RunFiles(tmp_path), splits(), request_of_a_run.config
    assert begin_session(request_of_a_run, questions, files, {"mlflow.user": "ann"}) == 0.0
    info = files.read_info()
    assert info.is_signed and info.run_id and len(info.run_id) == 12
    assert info.started_at <= info.state.session_started_at <= datetime.now(UTC).isoformat()
    assert (tmp_path / "config.yaml").read_text() == "seed: 7\n"
    assert files.read("splits") == questions.to_dict()
    parent = files.read_candidate(PARENT, ["plan", "solve", "finalize"], "toy")
    assert parent.texts == request_of_a_run.prompts.texts
    expected = TuningInfo(
        run_id=info.run_id,
        started_at=info.started_at,
        config={"seed": 7},
        parent_set="toy_baseline",
        parent_gated=False,
        name="mine",
        system="toy",
        model=config.base.model_name,
        reflection_model=config.base.model_name,
        optimizer="gepa",
        simulated=True,
        seed=7,
        command=["seed=7", "name=mine"],
        split_digest=questions.digest,
        sealed_digest=questions.sealed_digest,
        origin={"mlflow.user": "ann"},
        parent_sha256=digest(parent),
        program_sha256=read_program_digest(config.base.system),
        scorer_sha256=read_scorer_digest(config.base.scorer),
        state=TuningState(session_started_at=info.state.session_started_at),
        signature=info.signature,
    )
    assert info == expected


def test_a_run_that_goes_on_keeps_what_its_first_session_fixed(request_of_a_run: TuningRequest, tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    begin_session(request_of_a_run, splits(), files, {})
    files.write("verdict", {"finish_reason": "budget"})
    files.update_state(ended_at="2026-11-21T10:00:00+00:00", stopped="a budget", spend={"seconds": 12.5}, phase="gate")
    first = files.read_info()
    again = RunFiles(tmp_path)
    named = replace(request_of_a_run, config=replace(request_of_a_run.config, name="yours", reflection_model="strong"))
    assert begin_session(named, splits(), again, {"mlflow.user": "bob"}) == 12.5
    info = again.read_info()
    assert (info.run_id, info.started_at, info.config) == (first.run_id, first.started_at, first.config)
    assert (info.name, info.reflection_model, info.origin) == ("yours", "strong", {"mlflow.user": "bob"})
    assert (info.state.ended_at, info.state.stopped, info.state.phase) == (None, None, "gate")
    assert info.state.session_seconds_before == 12.5 and info.is_signed and again.read("verdict") is None
    with pytest.raises(UserError, match=r"the tuning run has other options \(seed: 7 → 8\)"):
        begin_session(replace(request_of_a_run, resolved={"seed": 8}), splits(), RunFiles(tmp_path), {})
    other = replace(splits(), digest="another")
    with pytest.raises(UserError, match="are not those that the run began with"):
        begin_session(request_of_a_run, other, RunFiles(tmp_path), {})


def test_a_session_that_was_killed_ended_with_its_last_reply(request_of_a_run: TuningRequest, tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    begin_session(request_of_a_run, splits(), files, {})
    files.update_state(session_started_at="2026-11-21T10:00:00+00:00", session_seconds_before=5.0)
    began = datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp()
    for name, after in (("call_log.db", 60), ("trials.db-wal", 90), ("notes.txt", 500)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (began + after, began + after))
    assert begin_session(request_of_a_run, splits(), RunFiles(tmp_path), {}) == 95.0
    files.update_state(session_started_at="2026-11-21T12:00:00+00:00", session_seconds_before=5.0)
    assert begin_session(request_of_a_run, splits(), RunFiles(tmp_path), {}) == 5.0, "it wrote nothing"


def test_of_a_run_that_was_made_elsewhere_neither_options_nor_gate_are_signed(
    request_of_a_run: TuningRequest, tmp_path: Path
) -> None:
    before = TuningInfo(run_id="r1", config={"seed": 1}, parent_gated=True, parent_set="theirs")
    found = _build_first(request_of_a_run, before)
    assert found == replace(before, config={"seed": 7}, parent_gated=False)
    assert _build_first(request_of_a_run, before.sign()) == before.sign()


def test_one_process_at_a_time_uses_a_run(request_of_a_run: TuningRequest, tmp_path: Path) -> None:
    lock = RunLock(tmp_path / "tuning.json")
    lock.take()
    try:
        with (
            pytest.raises(UserError, match=r"another process uses .*; wait for it, or start a new run"),
            open_tuning_run(request_of_a_run, splits(), tmp_path, Console()),
        ):
            pass
    finally:
        lock.release()


def stopped_run(**parts: Any) -> Any:
    facts = {"check": lambda: None, "own_stop_reason": None, "stop_reason": None}
    trials = SimpleNamespace(**{**facts, **parts})
    return SimpleNamespace(
        trials=trials, stop=SimpleNamespace(reason=None), ledger=SimpleNamespace(refusal="the budget is used up")
    )


def test_a_run_is_stopped_by_a_signal_or_a_server_and_a_budget_only_ends_its_search() -> None:
    run = stopped_run()
    TuningRun.check_stopped(run)
    assert TuningRun.get_stop_reason(run) == "the budget is used up" and TuningRun._read_stop(run) is None
    run.trials.stop_reason = "cancelled"
    assert TuningRun.get_stop_reason(run) == "cancelled"
    run.trials.own_stop_reason = "quota exhausted"
    with pytest.raises(RunStoppedError, match="quota exhausted"):
        TuningRun.check_stopped(run)
    run.stop.reason = "interrupted by Ctrl-C"
    with pytest.raises(RunStoppedError, match="interrupted by Ctrl-C"):
        TuningRun.check_stopped(run)
    assert TuningRun._read_stop(run) == "interrupted by Ctrl-C"

    def fail() -> None:
        raise LookupError("a defect")

    with pytest.raises(LookupError):
        TuningRun.check_stopped(stopped_run(check=fail))


@pytest.mark.parametrize(
    ("spend", "budget", "line"),
    [
        (Spend(), 5, "so far: 0 answers (0 of 5 metric calls), 0 requests, 0 s"),
        (Spend(metric_calls=1234), 5678, "so far: 0 answers (1,234 of 5,678 metric calls), 0 requests, 0 s"),
        (
            Spend(cost_usd=0.0002, seconds=1234.4),
            None,
            "so far: 0 answers (0 metric calls), 0 requests, $0.0002, 1,234 s",
        ),
    ],
)
def test_a_line_leaves_out_what_is_not_limited_or_not_paid(spend: Spend, budget: int | None, line: str) -> None:
    assert format_progress(0, spend, BudgetSettings(metric_calls=budget)) == line


class Ledger:
    """Has spent something, and knows what is left if it is told."""

    refusal: str | None = None

    def __init__(self, rest: Projection = UNKNOWN) -> None:
        self.rest, self.asked = rest, list[int]()

    def spend(self) -> Spend:
        return SPEND

    def project_rest(self, concurrency: int) -> Projection:
        self.asked.append(concurrency)
        return self.rest


def test_progress_tells_what_is_left_only_if_it_is_known() -> None:
    rest = Projection(120.0, 0.5)
    config = SimpleNamespace(budget=BudgetSettings(metric_calls=600), run=SimpleNamespace(concurrency=4))
    run: Any = SimpleNamespace(config=config, ledger=Ledger(), trials=SimpleNamespace(n_completed=312))
    line = "so far: 312 answers (290 of 600 metric calls), 1,204 requests, $1.2345, 252 s"
    assert TuningRun._format_progress(run) == line
    assert TuningRun._describe_progress(run) == {
        "spend": SPEND.to_dict(),
        "eta_seconds": None,
        "projected_cost_usd": None,
    }
    run.ledger = Ledger(rest)
    assert TuningRun._format_progress(run) == f"{line}; at most {format_projection(rest)}"
    assert TuningRun._describe_progress(run) == {
        "spend": SPEND.to_dict(),
        "eta_seconds": 120.0,
        "projected_cost_usd": 0.5,
    }
    assert run.ledger.asked == [4, 4]


class Validation:
    """A run whose validation questions are answered at once; each call is noted."""

    def __init__(self, *completed: bool, refusal: str | None = None, stop_reason: str | None = None) -> None:
        self.answers = [SimpleNamespace(completed=each) for each in completed]
        self.objective = SimpleNamespace(val_ids=("v0", "v1"))
        self.ledger = SimpleNamespace(refusal=refusal)
        self.trials = SimpleNamespace(stop_reason=stop_reason)
        self.calls = list[Any]()

    @contextmanager
    def watch(self) -> Iterator[None]:
        self.calls.append("begin")
        yield
        self.calls.append("end")

    def build_student(self, prompts: object) -> Any:
        def answer_all(ids: object, epoch: int, counted: bool) -> object:
            self.calls.append((prompts, ids, epoch, counted))
            return self.answers

        return SimpleNamespace(answer_all=answer_all)

    def check_stopped(self) -> None:
        self.calls.append("stopped?")

    def check_metric(self) -> None:
        self.calls.append("metric?")


@pytest.mark.parametrize(("epoch", "counted"), [(None, True), (1, True), (2, False), (0, False)])
def test_validation_is_watched_and_only_its_first_epoch_counts(epoch: int | None, counted: bool) -> None:
    run: Any = Validation(True, True)
    given = () if epoch is None else (epoch,)
    assert TuningRun.answer_validation(run, cast(Any, "prompts"), *given) is run.answers
    asked = ("prompts", ("v0", "v1"), 1 if epoch is None else epoch, counted)
    assert run.calls == ["begin", asked, "end", "stopped?", "metric?"]


@pytest.mark.parametrize(
    ("refusal", "stop_reason", "reason"),
    [("the budget is used up", "x", "the budget is used up"), (None, "cut", "cut")],
)
def test_without_an_answer_to_each_validation_question_the_run_ends(
    refusal: str | None, stop_reason: str, reason: str
) -> None:
    run: Any = Validation(True, False, refusal=refusal, stop_reason=stop_reason)
    with pytest.raises(EarlyVerdictError) as ended:
        TuningRun.answer_validation(run, cast(Any, "prompts"))
    assert (ended.value.finish_reason, str(ended.value)) == ("budget", f"{reason}, before there was a verdict")
    assert run.calls[-2:] == ["stopped?", "metric?"]


def test_logs_that_cannot_be_written_stop_the_run_at_once() -> None:
    told = list[tuple[str, str]]()
    run: Any = SimpleNamespace(stop=SimpleNamespace(stop_now=lambda *reason: told.append(reason)))
    TuningRun._stop_for_logs(run, OSError("disk full"))
    assert told == [("the run's logs cannot be written (disk full): check that the disk has room", "storage")]


@pytest.mark.parametrize(("search", "metric_calls"), [({"metric_calls": 40}, 40), ({}, 0), (None, 0)])
def test_answers_of_earlier_sessions_count_if_their_search_is_finished(
    search: dict[str, int] | None, metric_calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning_run, "read_earlier_spend", lambda log, seconds: Spend(9, len(log), seconds=seconds))
    run: Any = SimpleNamespace(files=SimpleNamespace(read={"search": search}.get), call_log=["a", "b"])
    assert TuningRun._read_earlier_spend(run, 7.5) == Spend(metric_calls, 2, seconds=7.5)


def test_state_is_saved_with_what_was_spent_and_lines_are_shown_as_they_are_without_secrets() -> None:
    saved, screen = list[dict[str, object]](), io.StringIO()
    run: Any = SimpleNamespace(
        files=SimpleNamespace(update_state=lambda **facts: saved.append(facts)),
        ledger=Ledger(),
        config=SimpleNamespace(redact=lambda text: text.replace("sk-1", "***")),
        console=Console(file=screen, width=20, force_terminal=False),
    )
    TuningRun.save_state(run, "search", stopped="a budget")
    assert saved == [{"phase": "search", "spend": SPEND.to_dict(), "stopped": "a budget"}]
    TuningRun.show(run, f"[bold]sk-1 {'x ' * 30}")
    assert screen.getvalue() == f"[bold]*** {'x ' * 30}\n"


def test_workers_have_a_place_only_if_answers_are_given_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[Any]()

    @contextmanager
    def open_place(*given: Any) -> Iterator[str]:
        opened.append(given)
        yield "the place"
        opened.append("closed")

    monkeypatch.setattr(places, "open_place", open_place)
    config = SimpleNamespace(
        base=SimpleNamespace(executor=None),
        run=SimpleNamespace(concurrency=6),
        build_evaluation=lambda epochs, concurrency: (epochs, concurrency),
    )
    run: Any = SimpleNamespace(config=config, request=SimpleNamespace(worker_config={"a": 1}), splits=splits())
    with ExitStack() as stack:
        assert TuningRun._open_place(run, stack) is None and opened == []
        config.base.executor = WorkersSettings()
        assert TuningRun._open_place(run, stack) == cast(Any, "the place")
        [(answered, resolved, samples, n_arms)] = opened
    assert (answered, resolved, n_arms) == ((1, 6), {"a": 1}, 2)
    assert [each.id for each in samples] == ["t0", "t1", "t2", "v0", "v1", "v2", "s0", "s1", "s2"]
    assert opened[-1] == "closed"
    run.place = None
    assert TuningRun._create_workers(run) is None


def test_workers_are_given_the_run_with_its_labels_and_its_hooks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(trial_processes, "TrialProcesses", lambda *given: given)
    answers = SimpleNamespace(note=lambda: None, write=lambda: None)
    run: Any = SimpleNamespace(
        place="place",
        answers=answers,
        call_log=SimpleNamespace(read_replies=lambda: None),
        files=SimpleNamespace(folder=tmp_path),
        run_id="r1",
        splits=SimpleNamespace(labels=LabelSet(("yes", "no"))),
        request="request",
        parent=SimpleNamespace(prompts="prompts"),
        stop="stop",
    )
    found: Any = TuningRun._create_workers(run)
    hooks = SampleHooks(tmp_path, read_replies=run.call_log.read_replies, note=answers.note, log=answers.write)
    info = RunInfo(run_id="r1", task=TaskInfo(labels=["yes", "no"]))
    assert found == ("request", "prompts", info, hooks, "stop", "place")


def test_each_answer_has_its_own_log_limits_and_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_run, "SampleContext", lambda *given, **named: (given, named))
    monkeypatch.setattr(tuning_run, "SampleResults", lambda replies: ("results", replies))
    monkeypatch.setattr(tuning_run, "MaskedReplies", lambda replies, secrets: (replies, secrets))
    paid = list[Any]()
    log = SimpleNamespace(for_sample=lambda key: f"replies of {key}", pay=lambda *given: paid.append(given))

    def open_account(pay: Any, reflection: bool = False) -> tuple[str, bool]:
        pay("a request")
        return "account", reflection

    config = SimpleNamespace(base=SimpleNamespace(limits="limits", secrets="secrets"))
    run: Any = SimpleNamespace(call_log=log, config=config, ledger=SimpleNamespace(open_account=open_account))
    run._mask_replies = lambda key: TuningRun._mask_replies(run, key)
    key: Any = "q1"
    replies: Any = ("replies of q1", "secrets")
    named = {"call_log": replies, "tool_log": ("results", replies), "budget": ("account", False)}
    assert TuningRun._create_context(run, key) == cast(Any, (("q1", "limits"), named))
    of_reflection: Any = TuningRun.__dict__["_reflection"].func(run)
    masked = (f"replies of {REFLECTION}", "secrets")
    assert of_reflection == ((REFLECTION,), {"call_log": masked, "budget": ("account", True)})
    assert paid == [("q1", "a request"), (REFLECTION, "a request")]


def test_an_opened_run_has_all_its_parts_and_gives_its_folder_back(
    request_of_a_run: TuningRequest, tmp_path: Path
) -> None:
    screen = io.StringIO()
    for is_resumed in (False, True):
        with open_tuning_run(request_of_a_run, splits(), tmp_path, Console(file=screen)) as run:
            assert run.parent.id == PARENT and run.parent.prompts.texts == request_of_a_run.prompts.texts
            assert run.run_id == RunFiles(tmp_path).read_info().run_id
            assert run.origin["mlflow.source.name"] == "optimize/run.py"
            assert (run.objective.train_ids, run.objective.val_ids) == (["t0", "t1", "t2"], ["v0", "v1", "v2"])
            assert run.place is None and run.get_stop_reason() is None
            assert run.program_sha256 == read_program_digest(run.config.base.system)
            assert run.scorer_sha256 == read_scorer_digest(run.config.base.scorer)
            lm_calls = run.ledger.spend().lm_calls
            trials = run.answer_validation(run.parent.prompts)
            assert [each.record.sample_id for each in trials] == ["v0", "v1", "v2"]
            assert {each.record.run_id for each in trials} == {run.run_id}
            assert (run.ledger.spend().lm_calls == lm_calls > 0) == is_resumed, "they are asked once"
            assert run.build_student(run.parent.prompts).agents == ("plan", "solve", "finalize")
            run.save_state("baseline")
        info = RunFiles(tmp_path).read_info()
        assert info.state.phase == "baseline" and info.state.spend["lm_calls"] == run.ledger.spend().lm_calls
        assert json.loads((tmp_path / TUNING_PROGRESS).read_text())["spend"]["lm_calls"] > 0
