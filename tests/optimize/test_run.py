"""The whole command: every way in which it can end, what it says then, and what it leaves behind."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.runs.run_info import RunInfo
from eval.runs.store import open_run
from eval.scorers.function import FunctionScorer
from mas.prompt_sets.prompt_set import read_prompt_set, read_set_folder
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.gate import FinishReason
from optimize.publishing.publish import build_provenance, publish
from optimize.search.optimizer import SearchOutcome
from optimize.session.config import TuneConfig
from optimize.session.tuning_store import read_tuning
from tests.command import TUNED_SET, Finished, read_side, tuning_command
from tests.eval.stored_tuning import TASK
from tests.optimize.planted_runs import ALWAYS, MUMBLE, SLIGHTLY, Obedient, Planted, planted_run

REASONS = get_args(FinishReason)
CODES = {"metric_errors": 2, "reflection_unparsable": 2}  # of the others, all of them honest, 0
KEYS = {"published", "finish_reason", "gain", "gain_ci95", "p", "spend", "simulated", "reasons"}
TOY = ("system=toy", "data=toy", "model=offline", "data.n_train=12", "data.n_val=12", "data.n_test=20")
FEW = (*TOY, "gate.epochs=1", "gate.looks=1", "shortlist.epochs=1", "budget.metric_calls=100")


def ended(tuned: Finished, finish_reason: str, *words: str, simulated: bool = True) -> dict[str, Any]:
    """All that holds of every end."""
    verdict = tuned.verdict
    assert verdict["finish_reason"] == finish_reason and finish_reason in REASONS
    assert verdict.keys() >= KEYS
    assert tuned.code == CODES.get(finish_reason, 0)
    assert verdict["published"] == (finish_reason == "improved") == tuned.shelf.exists()
    assert verdict["simulated"] is simulated
    assert verdict["spend"].keys() >= {"lm_calls", "cost_usd", "seconds"}
    assert (tuned.out.count(SIMULATED_NOTICE) >= 2) is simulated, "at its beginning and at its end"
    for word in words:
        assert word in " ".join(verdict["reasons"])
    for reason in verdict["reasons"]:
        assert reason in tuned.out
    return verdict


def test_a_better_set_is_published_with_all_that_is_known_about_it(published: Finished, tmp_path: Path) -> None:
    tuned = published
    verdict = ended(tuned, "improved")
    assert (tuned.code, tuned.err) == (0, "")
    assert verdict["gain"] == pytest.approx(0.8) and verdict["p"] < 0.001
    assert verdict["gain_ci95"][0] > 0
    assert (verdict["baseline"]["accuracy"], verdict["winner"]["accuracy"]) == (0.2, 1.0)
    found = read_prompt_set(str(tuned.shelf / TUNED_SET), ("plan", "solve", "finalize"), "toy", tmp_path)
    assert found.texts["finalize"].endswith(ALWAYS)
    assert found.description.endswith("passed the gate, SIMULATED model")
    told = found.provenance
    assert (told["gated"], told["simulated"], told["finish_reason"]) == (True, True, "improved")
    assert f"published: prompts/{TUNED_SET}" in tuned.out
    phases = [line[0] for line in tuned.out.splitlines() if re.match(r"\d/8 ", line)]
    assert phases == ["1", "2", "3", "4", "6", "7", "8"] and "5/8" in tuned.out


def test_nothing_better_on_validation_ends_the_run_unopened(tmp_path: Path) -> None:
    tuned = planted_run(tmp_path, optimizer=Planted([{"finalize": SLIGHTLY}], val_score=0.1))
    verdict = ended(tuned, "no_accepted_candidate", "of 1 proposals (1 scored on validation) none")
    assert verdict["gain"] is None
    assert tuned.read("sealed") is None


def read_log(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "logs" / f"{name}.log").read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_every_answer_of_a_tuning_run_is_logged_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    tuned = planted_run(tmp_path, texts={"finalize": MUMBLE})
    lines = read_log(tuned.folder, "entry_point")
    events = [line["event"] for line in lines]
    begun = ["application started", "configuration loaded", "loading prompts", "prompts loaded", "program built"]
    assert events[:5] == begun and events[-1] == "run ended"
    phases = [line["phase"] for line in lines if line["event"] == "phase started"]
    assert phases[:3] == ["baseline", "search", "shortlist"] and "sealed" in phases
    started, ended = (
        {line["correlation_id"]: line for line in lines if line["event"] == f"question {how}"}
        for how in ("started", "finished")
    )
    assert started.keys() == ended.keys() and len(ended) >= 20
    assert len({line["prompts_sha256"] for line in ended.values()}) == 2, "the parent's and the candidate's"
    failed = [line for line in ended.values() if line["error"]]
    assert failed and {line["error_type"] for line in failed} == {"AdapterParseError"}
    assert all(line["stack"] and line["agent"] for line in failed)
    agents = [line for line in read_log(tuned.folder, "multi_agent_system") if line["event"] == "agent finished"]
    assert {line["correlation_id"] for line in agents} == ended.keys()
    rows = [row for side in ("parent", "winner") for row in read_side(tuned.folder, side)]
    assert {row.thread_id for row in rows} <= ended.keys() and len(rows) == 2 * len(tuned.read("splits")["sealed"])


def test_luck_on_validation_does_not_open_the_sealed_questions(tmp_path: Path) -> None:
    tuned = planted_run(tmp_path, texts={"plan": "This helps nobody."})
    verdict = ended(tuned, "no_accepted_candidate", "after re-evaluation", "sealed test was not run")
    assert verdict["best_val"] == {"candidate_id": "c001", "val_gain": pytest.approx(0.8)}
    assert "picking on validation alone would have shipped c001 (+80.0 points there)" in tuned.out
    assert tuned.sealed_log.read_bytes() == b""


def test_a_prompt_with_a_validation_question_in_it_is_blocked_and_named(tmp_path: Path) -> None:
    model = Obedient()

    def quote(config: TuneConfig) -> None:
        question, gold = next((q, gold) for q, (_, gold, sealed) in model.golds.items() if sealed)
        config.optimizer = Planted([{"finalize": f"{ALWAYS} For example: {question} The answer is {gold}."}])

    tuned = planted_run(tmp_path, model=model, change=quote)
    ended(tuned, "leak_blocked", "report.html")
    assert "c001: blocked: " in tuned.out
    assert tuned.read("leaks")["c001"]["blocked"] is True
    assert tuned.read("sealed") is None


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["gated", "exported by hand"])
def test_a_leak_in_the_starting_prompts_is_excused_only_if_they_passed_the_gate_as_they_are(
    tmp_path: Path, origin: str
) -> None:
    model, folder = Obedient(), tmp_path / "parent"
    baseline = read_set_folder(PROJECT_ROOT / "prompts" / "toy_baseline")

    def begin_with_a_leak(config: TuneConfig) -> None:
        sealed = next(gold for _, gold, sealed in model.golds.values() if sealed and len(gold) > 5)
        leaks, gated = {"blocked": False, "hits": [], "checked": {}}, origin != "exported by hand"
        provenance = build_provenance(
            RunInfo(tuning=TASK), {}, leaks, run="run", parent=baseline, candidate_id="c001", gated=gated
        )
        texts = {**baseline.texts, "finalize": f"{baseline.texts['finalize']}\n\n{sealed}"}
        publish(replace(baseline, texts=texts), folder, provenance)
        config.base.prompts = str(folder)

    tuned = planted_run(tmp_path, model=model, change=begin_with_a_leak, texts={"finalize": ALWAYS})
    assert read_tuning(tuned.folder).task.parent_gated is (origin == "gated")
    if origin == "gated":
        ended(tuned, "improved")
        assert "warning: the starting prompts" not in tuned.out
    else:
        ended(tuned, "leak_blocked")
        assert "warning: the starting prompts contain text of validation or sealed questions" in tuned.out
        assert tuned.read("sealed") is None


def test_a_clean_candidate_is_tested_where_a_better_one_leaks(tmp_path: Path) -> None:
    model = Obedient()

    def quote(config: TuneConfig) -> None:
        question = next(iter(model.golds))
        sealed = next(q for q, (_, _, sealed) in model.golds.items() if sealed)
        config.optimizer = Planted([{"finalize": f"{ALWAYS} {sealed}"}, {"finalize": ALWAYS}])
        assert question != sealed

    tuned = planted_run(tmp_path, model=model, change=quote)
    assert ended(tuned, "improved")["winner"]["candidate_id"] == "c002"


@pytest.mark.parametrize(
    ("function", "said"),
    [("wrong_answers_break_it", "could not be scored"), ("sealed_answers_break_it", "sealed test's 60 answers")],
)
def test_a_scorer_that_breaks_ends_the_run_instead_of_deciding_it(tmp_path: Path, function: str, said: str) -> None:
    def change(config: TuneConfig) -> None:
        config.base.scorer = FunctionScorer(f"tests.optimize.scorer_rules:{function}")

    tuned = planted_run(tmp_path, texts={"finalize": SLIGHTLY}, change=change)
    ended(tuned, "metric_errors", said, "ZeroDivisionError")


def test_a_budget_that_allows_not_even_the_first_answer_ends_the_run(tmp_path: Path) -> None:
    tuned = planted_run(tmp_path, "budget.seconds=0.0001", texts={"finalize": ALWAYS})
    assert tuned.code == 3 and tuned.read("verdict") is None and read_calls(tuned.folder) == 0
    assert "(budget.seconds=0.0001), before there was a verdict; raise that budget\n" in tuned.err


def read_calls(folder: Path) -> float:
    """Return the number of requests that a run has paid for."""
    with open_run(folder) as store:
        return store.read_state().spend["lm_calls"]


def test_a_reflection_model_that_keeps_no_form_ends_the_run(tmp_path: Path) -> None:
    optimizer = Planted([], outcome=SearchOutcome(reflections=3, unparsable=3))
    ended(planted_run(tmp_path, optimizer=optimizer), "reflection_unparsable", "none of the 3 replies")


@pytest.mark.slow
def test_a_budget_that_ends_before_the_sealed_test_leaves_it_unopened_and_can_be_raised(tmp_path: Path) -> None:
    texts = {"finalize": ALWAYS}
    first = planted_run(tmp_path, "budget.lm_calls=225", texts=texts)
    assert first.code == 3 and first.read("verdict") is None and first.read("sealed") is None
    assert "budget.lm_calls=225 are spent; it was not begun; raise that budget\n" in first.err
    n_calls = read_calls(first.folder)
    assert f"continue with: python {PROJECT_ROOT / 'optimize' / 'run.py'} resume=run" in first.err
    second = planted_run(tmp_path, "budget.lm_calls=500", "resume=run", texts=texts)
    assert ended(second, "improved")["spend"]["lm_calls"] > n_calls


def test_a_budget_that_ends_in_the_sealed_test_keeps_what_was_paid_for(tmp_path: Path) -> None:
    texts, tokens = {"finalize": ALWAYS}, 300_000
    first = planted_run(
        tmp_path, f"budget.tokens={tokens}", "run.concurrency=2", texts=texts, model=Obedient(sealed_tokens=5_000)
    )
    assert first.code == 3 and first.read("verdict") is None and first.read("sealed")["n_earlier"] == 0
    assert "(budget.tokens=300000), in the middle of the sealed test; raise that budget\ncontinue with: " in first.err
    n_calls = read_calls(first.folder)
    model = Obedient(sealed_tokens=5_000)
    second = planted_run(tmp_path, "budget.tokens=9000000", "resume=run", texts=texts, model=model)
    total = ended(second, "improved")["spend"]["lm_calls"]
    assert len(model.requests) == total - n_calls, "nothing was paid for twice"


def test_a_run_that_could_test_nothing_ends_again_with_the_code_that_says_so(tmp_path: Path) -> None:
    planted_run(tmp_path, optimizer=Planted([], outcome=SearchOutcome(reflections=3, unparsable=3)))
    again = planted_run(tmp_path, "resume=run")
    assert again.code == 2
    assert "not published: reflection_unparsable" in again.out


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["gepa", "bootstrap", "mipro"])
def test_the_simulated_model_is_tuned_by_every_optimizer(tmp_path: Path, optimizer: str) -> None:
    tuned = tuning_command(tmp_path, *FEW, f"optimizer={optimizer}")
    assert tuned.code == 0, tuned.err
    verdict = tuned.verdict
    assert verdict["finish_reason"] in REASONS and verdict["simulated"] is True
    assert verdict["spend"]["lm_calls"] > 100
    assert bool(verdict["spend"]["reflection_calls"]) == (optimizer != "bootstrap")
    assert {line["origin"] for line in tuned.proposals} <= {"reflection", "merge", "bootstrap", "mipro"}
    assert all("()" not in line for line in tuned.out.splitlines())
