"""The headroom preflight: what it says, what it costs, and that the search is the same with and without it."""

import random
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.benchmarks.dataset import Sample
from eval.cli.command import FINISHED, STOPPED
from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from optimize.gate.gate import GateSettings, compute_smallest_gain
from optimize.pipeline import headroom
from optimize.pipeline.headroom import Headroom, Rewrite
from optimize.search.optimizers.prompt_rewriter import PromptRewriter
from optimize.session.config import HeadroomSettings
from optimize.session.tuning_run import TuningRun
from tests.optimize.tuning_command import Tuned, tuning_command

SMALL = (
    *("system=toy", "data=toy", "model=offline", "model.world=badseed", "prompts=mas/simulation/bad_seed"),
    *("optimizer=bootstrap", "optimizer.candidates=1", "data.n_train=8", "data.n_val=6", "data.n_test=20"),
    *("gate.epochs=2", "gate.looks=1", "shortlist.epochs=1", "headroom.max_share=0.2", "budget.metric_calls=40"),
)
FOUND = Headroom(
    worth_it=True,
    n_questions=30,
    parent_score=0.5,
    rewrites=[Rewrite("with general rules", 0.5, 0.0, None, 1.0), Rewrite("rewritten", 0.7, 0.2, (0.1, 0.3), 0.03)],
    failures={"in error": 2, "wrong in form alone": 5, "with a failed tool": 0},
    first_broken={"solve": 9, "plan": 6},
    smallest_gain=0.061,
    n_answers=90,
    n_planned=2000,
    n_reflections=8,
)


def count_trials(tuned: Tuned) -> dict[str, int]:
    with closing(sqlite3.connect(tuned.folder / "trials.db")) as database:
        found = database.execute("SELECT sample_id, COUNT(*) FROM trials GROUP BY sample_id").fetchall()
    return dict(found)


def test_it_says_why_and_what_it_took() -> None:
    assert list(FOUND.lines()) == [
        "headroom: worth it: the prompts rewritten are better: +20.0 points on 30 training questions, 80% interval "
        "+10.0 to +30.0",
        "  15 answers of 30 lost points: 2 in error, 5 wrong in form alone; first broken link: solve 9, plan 6",
        "  the sealed questions can show a gain of 6.1 points or more; 90 answers and 8 reflections for this, 4.5% of "
        "the 2,000 answers planned",
    ]
    full = replace(FOUND, worth_it=False, parent_score=1.0, rewrites=[], failures={}, first_broken={})
    assert next(full.lines()) == "headroom: not here: 100.0% of 30 training questions are right already"
    assert Headroom.from_dict(asdict(FOUND)) == FOUND


def test_it_claims_no_more_than_it_has_measured() -> None:
    assert not any("no proof" in line or "failed:" in line for line in FOUND.lines())
    nothing = replace(FOUND, worth_it=False, rewrites=FOUND.rewrites[:1], smallest_gain=None, reflection_failed=True)
    verdict, _, failed, proof, least = nothing.lines()
    assert verdict.startswith("headroom: not here: the prompts with general rules are not better beyond chance")
    assert failed.startswith("  the reflection failed: no usable reply any more, or none at all, after 8 requests, ")
    assert proof.startswith("  this is no proof")
    assert least.startswith(
        "  the sealed questions can show no gain, however large: seal more questions; 90 answers and"
    )


@pytest.mark.parametrize(
    ("settings", "said"), [({"mode": "maybe"}, "headroom.mode=maybe"), ({"max_share": 0.0}, "=0 ")]
)
def test_a_setting_that_is_not_known_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        HeadroomSettings(**settings).check()  # type: ignore[arg-type]


@pytest.mark.slow
def test_reflections_of_a_session_that_was_interrupted_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite(self: PromptRewriter, *given: Any) -> str | None:
        text = write(self, *given)
        if self.requests == 4:
            signal.raise_signal(signal.SIGINT)
        return text

    write = PromptRewriter._rewrite
    whole = tuning_command(tmp_path / "whole", *SMALL, "headroom.mode=only").read("headroom")
    with monkeypatch.context() as patched:
        patched.setattr(PromptRewriter, "_rewrite", rewrite)
        stopped = tuning_command(tmp_path, *SMALL, "headroom.mode=only")
    assert stopped.code == STOPPED and not (stopped.folder / "headroom.json").exists()
    resumed = tuning_command(tmp_path, f"resume={stopped.folder}", "headroom.mode=only").read("headroom")
    assert resumed == whole and whole["n_reflections"] > 4 and not whole["reflection_failed"]


@pytest.mark.slow
def test_a_reflection_model_without_a_usable_reply_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> str:
        raise ValueError("no prompt in it")

    monkeypatch.setattr(PromptRewriter, "rewrite_once", fail)
    tuned = tuning_command(tmp_path, *SMALL, "headroom.mode=only")
    found = tuned.read("headroom")
    assert found["reflection_failed"] and found["n_reflections"] == 10
    assert [each["name"] for each in found["rewrites"]] == ["with general rules"]
    assert "none at all, after 10 requests, so fewer" in tuned.out


@pytest.mark.slow
def test_it_may_end_the_run_which_then_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    only = tuning_command(tmp_path, *SMALL, "headroom.mode=only")
    assert only.code == FINISHED, only.err
    assert "headroom: worth it" in only.out and "headroom.mode=report" in only.out
    found, n_asked = only.read("headroom"), count_trials(only)
    assert found["n_answers"] == sum(n_asked.values()) == 24 <= 0.2 * found["n_planned"]
    train = set(only.read("splits")["train"])
    assert set(n_asked) <= train and not (only.folder / "verdict.json").exists()

    resumed = tuning_command(tmp_path, f"resume={only.folder}", "headroom.mode=report")
    plain = tuning_command(tmp_path / "plain", *SMALL)
    assert resumed.out.count("headroom:") == 0
    for name in ("val_score", "decision"):
        assert [each[name] for each in resumed.proposals] == [each[name] for each in plain.proposals]
    assert resumed.verdict["finish_reason"] == plain.verdict["finish_reason"]
    assert resumed.verdict["spend"]["metric_calls"] == plain.verdict["spend"]["metric_calls"]
    # 8 answers of the starting prompts were there already
    n_rewritten = found["n_answers"] - 8
    assert sum(count_trials(resumed).values()) == sum(count_trials(plain).values()) + n_rewritten


IDS = [f"t{at}" for at in range(12)]
PARENT = PromptSet("parent", "toy", {"plan": "Plan.", "solve": "Solve."}, Path("parent"))


def a_trial(sample_id: str, value: float, steps: Any = (), **parts: Any) -> Any:
    record = Record("r", sample_id, 1, 1, "t", "How many?", None, "1", "42", score=value, **parts)
    return SimpleNamespace(record=record, completed=True, steps=steps)


class Stub:
    """A tuning run whose answers are given: right with these words in the solver's prompt."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, right_with: str, rewritten: bool, share: float = 0.15) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.shown: list[str] = []
        self.show = self.shown.append
        self.kept: dict[str, Any] = {}
        self.files = SimpleNamespace(read=self.kept.get, write=self.kept.__setitem__)
        self.config = SimpleNamespace(
            optimizer=None, agents=["solve"], budget=None, shortlist=None, seed=3,
            headroom=SimpleNamespace(max_share=share), gate=GateSettings(), base=SimpleNamespace(simulated=True),
        )  # fmt: skip
        self.objective = SimpleNamespace(train_ids=IDS, labels=LabelSet())
        self.splits = SimpleNamespace(sealed=[Sample(f"s{at}", f"{at}?", target="4") for at in range(200)])
        self.parent = SimpleNamespace(prompts=PARENT)

        def answer(run: Any, prompts: PromptSet, asked: list[str]) -> list[Any] | None:
            if right_with == "no budget":
                return None
            self.asked.append((prompts.texts["solve"], asked))
            return [a_trial(each, float(right_with in prompts.texts["solve"])) for each in asked]

        def reflect(run: Any, failed: list[Any]) -> Any:
            assert len(failed) == 8
            texts = {**PARENT.texts, "solve": "Solve well."} if rewritten else PARENT.texts
            return headroom._Reflected(texts, 5, not rewritten)

        plan = SimpleNamespace(baseline=10, search=100, shortlist=20, sealed=30)
        monkeypatch.setattr(headroom, "build_plan", lambda *given: plan)
        monkeypatch.setattr(headroom, "find_allowance", lambda *given: SimpleNamespace(level=0.02))
        monkeypatch.setattr(headroom, "_answer", answer)
        monkeypatch.setattr(headroom, "_reflect_on_failures", reflect)

    def check(self) -> Headroom | None:
        return headroom.check_headroom(cast(TuningRun, self))


def test_what_better_prompts_win_is_measured_on_the_same_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Stub(monkeypatch, "Before you reply", rewritten=True)
    asked = random.Random(3).sample(IDS, 8)
    found = stub.check()
    general = f"Solve.\n\n{headroom.RULES}"
    assert stub.asked == [("Solve.", asked), ("Solve well.", asked), (general, asked)]
    none, all_right = (run_paired_test([Pair((0.0,), (right,))] * 8) for right in (0.0, 1.0))
    rewrites = [
        Rewrite("rewritten from its failures", 0.0, 0.0, none.compute_interval(0.2), none.p),
        Rewrite("with general rules", 1.0, 1.0, all_right.compute_interval(0.2), all_right.p),
    ]
    assert found == Headroom(
        worth_it=True,
        n_questions=8,
        parent_score=0.0,
        rewrites=rewrites,
        failures={"in error": 0, "wrong in form alone": 0, "with a failed tool": 0},
        first_broken={"unknown": 8},
        smallest_gain=compute_smallest_gain(200, 5, 0.01, level=0.02),
        n_answers=24,
        n_planned=160,
        n_reflections=5,
        reflection_failed=False,
    )
    assert stub.shown == list(found.lines()) and stub.kept["headroom"] == asdict(found)
    assert stub.check() == found and len(stub.shown) == len(list(found.lines())), "a resumed run shows nothing again"


def test_prompts_that_are_right_already_are_not_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Stub(monkeypatch, "Solve", rewritten=True).check()
    assert found is not None and not found.worth_it
    assert (found.rewrites, found.n_answers, found.n_reflections, found.parent_score) == ([], 8, 0, 1.0)
    assert found.smallest_gain == compute_smallest_gain(200, 5, 0.99, level=0.02) and not found.first_broken


def test_without_a_reflection_the_general_rules_are_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Stub(monkeypatch, "never", rewritten=False).check()
    assert found is not None and [each.name for each in found.rewrites] == ["with general rules"]
    assert (found.worth_it, found.n_answers, found.reflection_failed) == (False, 16, True)


@pytest.mark.parametrize(
    ("share", "right_with", "why"),
    [
        (0.149, "", "headroom.max_share=0.149 of 160 planned answers do not allow 8 training questions with 3 answers "
                    "each"),
        (0.15, "no budget", "a budget is used up"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_told(
    monkeypatch: pytest.MonkeyPatch, share: float, right_with: str, why: str
) -> None:
    stub = Stub(monkeypatch, right_with, rewritten=True, share=share)
    assert stub.check() is None and stub.shown == [f"headroom: not measured: {why}"] and stub.kept == {}


def test_all_training_questions_are_asked_where_the_share_would_allow_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Stub(monkeypatch, "Solve", rewritten=True, share=1.0).check()
    assert found is not None and found.n_questions == 12


@pytest.mark.parametrize("completed", [(True, True), (True, False), (False, True)])
def test_answers_count_for_no_search_and_only_if_all_were_allowed(completed: tuple[bool, ...]) -> None:
    trials = [SimpleNamespace(completed=each) for each in completed]
    done: list[object] = []

    class Asked:
        @contextmanager
        def watch(self) -> Iterator[None]:
            done.append("watched")
            yield
            done.append("no longer")

        def build_student(self, prompts: PromptSet) -> "Asked":
            done.append(prompts)
            return self

        def answer_all(self, asked: list[str], *, counted: bool) -> list[Any]:
            done.append((asked, counted))
            return trials

        def check_stopped(self) -> None:
            done.append("stopped?")

        def check_metric(self) -> None:
            done.append("metric?")

    found = headroom._answer(cast(TuningRun, Asked()), PARENT, IDS)
    assert found == (trials if all(completed) else None)
    assert done == ["watched", PARENT, (IDS, False), "no longer", "stopped?", "metric?"]


def test_wrong_answers_are_counted_by_kind() -> None:
    run: Any = SimpleNamespace(objective=SimpleNamespace(labels=LabelSet()), parent=SimpleNamespace(prompts=PARENT))
    trials = [
        a_trial("t1", 1.0, answer="42"),
        a_trial("t2", 0.5, answer="It is 42 crowns."),
        a_trial("t3", 0.0, answer="17"),
        a_trial("t4", 0.0, answer=None, error="too late", error_class="timeout"),
    ]
    kinds, agents = headroom._read_failures(run, trials)
    assert kinds == {"in error": 1, "wrong in form alone": 1, "with a failed tool": 0}
    assert sum(agents.values()) == 3
    assert headroom._read_failures(run, trials[:1]) == ({}, {})


def test_a_reflection_reads_the_last_step_of_an_agent_with_its_feedback() -> None:
    run: Any = SimpleNamespace(objective=lambda gold, answered, pred_name: SimpleNamespace(
        feedback=f"{pred_name} of {gold.sample_id}, {answered.trial.record.sample_id}"))  # fmt: skip
    steps = [("plan", {"q": 1}, {"p": "first"}), ("solve", {"q": 2}, {"s": 3}), ("plan", {"q": 4}, {"p": "last"})]
    trials = [a_trial("t1", 0.0, steps), a_trial("t2", 0.0, steps[1:2])]
    assert list(headroom._list_examples(run, "plan", trials)) == [
        {"Inputs": {"q": "4"}, "Generated Outputs": {"p": "last"}, "Feedback": "plan of t1, t1"}
    ]
