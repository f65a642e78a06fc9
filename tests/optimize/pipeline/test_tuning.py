"""A stopped tuning run writes its files, however often the user asks it to stop."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.execution.termination import RunStoppedError, StopController
from eval.runs.run_info import TuningInfo, TuningState
from mas.runtime.errors import UserError
from optimize.gate.verdict import EarlyVerdictError
from optimize.pipeline import tuning
from optimize.pipeline.tuning import _ignoring_repeated_signals
from optimize.reports import tuning_page
from optimize.search.budget import Spend
from optimize.session.run_files import describe_resume
from optimize.session.tuning_run import TuningRun
from tests.optimize.tuning_command import tuning_command

SMALL = (
    *("system=toy", "data=toy", "model=offline", "optimizer=bootstrap", "optimizer.candidates=1", "shortlist.epochs=1"),
    *("data.n_train=8", "data.n_val=6", "data.n_test=20", "gate.epochs=1", "gate.looks=1", "budget.metric_calls=40"),
)


def test_the_first_signal_interrupts_and_those_after_it_are_ignored() -> None:
    stop, before = StopController(), signal.getsignal(signal.SIGTERM)
    reached = False
    with _ignoring_repeated_signals(stop):
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        reached = stop.interrupted
    assert reached and signal.getsignal(signal.SIGTERM) == before


def test_a_signal_while_requests_were_waited_for_is_the_first() -> None:
    stop = StopController()
    stop.interrupted = True
    with _ignoring_repeated_signals(stop):
        signal.raise_signal(signal.SIGINT)


def test_signals_while_a_stopped_run_writes_its_files_do_not_cut_it_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*given: object) -> None:
        signal.raise_signal(signal.SIGINT)

    def write(folder: Path, *more: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        (folder / "page").write_text("whole")

    monkeypatch.setattr("optimize.pipeline.tuning.measure_baseline", stop)
    monkeypatch.setattr(tuning_page, "write_tuning_page", write)
    tuned = tuning_command(tmp_path, *SMALL)
    assert (tuned.folder / "page").read_text() == "whole", tuned.err
    state = tuned.read("tuning")["state"]
    assert state["stopped"] == "interrupted by Ctrl-C" and state["ended_at"]
    assert "stopped: interrupted by Ctrl-C" in tuned.err and "continue with: python" in tuned.err


class Stub:
    """A tuning run of which every phase is noted instead of held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, searched: bool = False, **config: Any) -> None:
        self.done: list[Any] = []
        self.kept: dict[str, Any] = {"search": {}} if searched else {}
        self.stop, self.metric = StopController(), "accuracy"
        self.ledger = SimpleNamespace(release=lambda: self.done.append("release"), spend=Spend)
        self.files = SimpleNamespace(
            folder=Path("run"), read=self.kept.get, update_state=lambda **facts: self.done.append(facts),
            read_info=lambda: self.info,
        )  # fmt: skip
        self.info = TuningInfo(state=TuningState(spend_by_phase={"baseline": {"lm_calls": 1}}))
        self.config = SimpleNamespace(redact=lambda text: text.replace("key-123", "***"), **config)
        self.program_sha256 = self.scorer_sha256 = ""
        self.answers = SimpleNamespace(note=lambda what, **facts: self.done.append((what, facts)))
        self.console, self.show = None, self.done.append
        self.printed: list[tuple[str, bool]] = []
        self.shows_results = True
        self.raised: BaseException | None = None

        def note(name: str, result: Any = None) -> Any:
            def phase(*given: Any) -> Any:
                self.done.append((name, *given[1:]))
                if self.raised is not None and name == "run_phases":
                    raise self.raised
                return result

            return phase

        measured = SimpleNamespace(val_score=0.25, n_questions=8)
        results = {"measure_baseline": measured, "run_search": "proposals", "choose_winner": "winner"}
        results |= {"approve_winner": "approved", "run_sealed_test": "tested", "judge_winner": "verdict"}
        self.measured = measured
        names = ["warn_of_leaks_in_parent", "reserve_test_budget", "check_test_budget", "publish_winner"]
        for name in [*results, *names, "check_reflection_model", "write_early_verdict"]:
            monkeypatch.setattr(tuning, name, note(name, results.get(name)))
        monkeypatch.setattr("optimize.pipeline.headroom.check_headroom", note("check_headroom"))
        monkeypatch.setattr(tuning, "show_verdict", lambda files, console: self.done.append("shown"))
        self.note = note

    def save_state(self, phase: str, **facts: Any) -> None:
        self.done.append((phase, facts))

    def print(self, text: str, error: bool = False) -> None:
        self.printed.append((text, error))


@pytest.mark.parametrize("searched", [False, True])
def test_the_phases_come_in_their_order(monkeypatch: pytest.MonkeyPatch, searched: bool) -> None:
    stub = Stub(monkeypatch, searched)
    monkeypatch.setattr(tuning, "_begin", lambda run, phase, line: stub.done.append(f"{phase}: {line}"))
    tuning.run_phases(cast(TuningRun, stub))
    assert stub.done == [
        "baseline: 2/8 baseline on validation",
        ("measure_baseline",),
        "  accuracy 25.0% on 8 questions",
        *([] if searched else [("warn_of_leaks_in_parent",)]),
        "search: 3/8 search",
        ("reserve_test_budget", stub.measured),
        ("run_search",),
        "release",
        "shortlist: 4/8 shortlist, 5/8 leak check",
        ("choose_winner", "proposals", stub.measured),
        ("approve_winner", "winner"),
        ("check_test_budget", stub.measured, "winner"),
        "sealed: 6/8 sealed test",
        ("run_sealed_test", "approved"),
        "gate: 7/8 gate",
        ("judge_winner", "tested"),
        ("publish_winner", "tested", "verdict"),
    ]


@pytest.mark.parametrize(
    ("searched", "reflects", "mode", "expected"),
    [
        (False, True, "report", [("check_reflection_model",), ("check_headroom",)]),
        (False, True, "only", [("check_reflection_model",), ("check_headroom",)]),
        (False, True, "skip", [("check_reflection_model",)]),
        (False, False, "report", [("check_headroom",)]),
        (True, True, "report", []),
    ],
)
def test_the_preflight_checks_what_is_needed_once(
    monkeypatch: pytest.MonkeyPatch, searched: bool, reflects: bool, mode: str, expected: list[Any]
) -> None:
    optimizer, headroom = SimpleNamespace(needs_reflection=reflects), SimpleNamespace(mode=mode)
    stub = Stub(monkeypatch, searched, optimizer=optimizer, headroom=headroom)
    tuning.run_preflight(cast(TuningRun, stub))
    spent = {"baseline": {"lm_calls": 1}, "preflight": Spend().to_dict()}
    assert stub.done == [
        ("preflight", {"spend_by_phase": spent}),
        ("phase started", {"phase": "preflight"}),
        "1/8 preflight",
        *expected,
    ]


def test_a_phase_that_goes_on_keeps_what_was_spent_before_it_and_a_changed_program_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stub = Stub(monkeypatch)
    tuning._begin(cast(TuningRun, stub), "baseline", "line")
    assert stub.done[0] == ("baseline", {"spend_by_phase": {"baseline": {"lm_calls": 1}}})
    stub.program_sha256 = "b" * 64
    with pytest.raises(UserError, match="the program's source"):
        tuning._begin(cast(TuningRun, stub), "baseline", "line")


def run_to_verdict(stub: Stub, monkeypatch: pytest.MonkeyPatch, raised: BaseException | None) -> int:
    stub.raised = raised
    monkeypatch.setattr(tuning, "run_preflight", lambda run: None)
    monkeypatch.setattr(tuning, "run_phases", stub.note("run_phases"))
    return tuning._run_to_verdict(cast(TuningRun, stub), cast(Any, stub))


@pytest.mark.parametrize("shows", [True, False])
@pytest.mark.parametrize(
    ("reason", "resumable", "code"),
    [("improved", False, FINISHED), ("budget", True, STOPPED), ("metric_errors", False, FAILURES)],
)
def test_a_verdict_is_shown_and_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, shows: bool, reason: str, resumable: bool, code: int
) -> None:
    stub = Stub(monkeypatch, headroom=SimpleNamespace(mode="report"))
    stub.kept["verdict"], stub.shows_results = {"finish_reason": reason, "resumable": resumable}, shows
    end = EarlyVerdictError("budget", "used up") if resumable else None
    assert run_to_verdict(stub, monkeypatch, end) == code
    early = [("write_early_verdict", end)] if end else []
    assert stub.done == [("run_phases",), *early, *(["shown"] if shows else [])]
    again = f"raise that budget and {describe_resume(Path('run'))}"
    assert stub.printed == ([(again, True)] if resumable else [])


def test_a_run_that_was_stopped_says_why_and_how_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Stub(monkeypatch, headroom=SimpleNamespace(mode="report"))
    assert run_to_verdict(stub, monkeypatch, RunStoppedError("no more, key-123", "a=1")) == STOPPED
    assert stub.done == [("run_phases",), {"stopped": "no more, ***"}]
    assert stub.printed == [("stopped: no more, ***", True), (describe_resume(Path("run"), "a=1"), True)]
    stub = Stub(monkeypatch, headroom=SimpleNamespace(mode="report"))
    assert run_to_verdict(stub, monkeypatch, KeyboardInterrupt("SIGTERM")) == STOPPED
    assert stub.stop.interrupted and stub.printed[0][1] and stub.printed[0][0].startswith("stopped: interrupted by ")


def test_after_the_headroom_alone_the_command_for_the_search_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Stub(monkeypatch, headroom=SimpleNamespace(mode="only"))
    assert run_to_verdict(stub, monkeypatch, None) == FINISHED
    assert stub.done == [{"stopped": "ended after the preflight, as headroom.mode=only asks for"}]
    assert stub.printed == [(describe_resume(Path("run"), "headroom.mode=report"), False)]
