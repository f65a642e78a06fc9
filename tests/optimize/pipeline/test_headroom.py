"""The headroom preflight: what it says, what it costs, and that the search is the same with and without it."""

import signal
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from eval.cli.command import FINISHED, STOPPED
from mas.runtime.errors import UserError
from optimize.pipeline.headroom import Headroom, Rewrite
from optimize.search.optimizers.prompt_rewriter import PromptRewriter
from optimize.session.config import HeadroomSettings
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
