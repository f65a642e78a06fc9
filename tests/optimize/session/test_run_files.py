"""The files of a run: whole or not there, without secrets, and read back as they were."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.runs.run_info import TuningInfo, TuningState
from mas.prompt_sets.prompt_set import PromptSet
from mas.prompt_sets.tuned_on import TunedOn
from mas.runtime.errors import UserError
from mas.runtime.installation_key import sign
from optimize.search.budget import Spend
from optimize.search.candidate import PARENT, Candidate, Proposal, describe_candidate
from optimize.session.run_files import (
    RunFiles,
    check_unchanged,
    describe_resume,
    filter_fully_scored,
    filter_overrides,
    find_parent_set,
    find_set,
    read_original_arguments,
    to_line,
)
from optimize.session.signed_files import SignedFiles

PROMPTS = PromptSet("parent", "toy", {"plan": "Plan.", "solve": "Solve «it»."}, Path("parent"))
DEMO = {"solve": [{"task": "1 + 1", "result": "2 key-123"}]}


def proposal(number: int, **changes: object) -> Proposal:
    candidate = Candidate(f"c{number:03}", PROMPTS, ("parent",), ("plan",), "reflection")
    return replace(Proposal(candidate, "rejected", "no better", spend=Spend(lm_calls=number)), **changes)  # type: ignore[arg-type]


def test_a_candidate_says_what_it_was_tuned_on_and_its_parent_only_what_that_was(tmp_path: Path) -> None:
    files, before = RunFiles(tmp_path), TunedOn(frozenset({"aa"}), frozenset({"bb"}))
    prompts = replace(PROMPTS, tuned_on=before)
    files.write("splits", {"tuned_on": {"learnt_from": ["cc"], "picked_by": ["dd"]}})
    for candidate in (Candidate(PARENT, prompts), Candidate("c001", prompts), Candidate("c002", PROMPTS)):
        files.save_candidate(candidate)
    parent, derived, first = (files.read_candidate(id, ["plan", "solve"], "toy") for id in (PARENT, "c001", "c002"))
    assert parent.tuned_on == before
    assert derived.tuned_on == TunedOn(frozenset({"aa", "cc"}), frozenset({"bb", "dd"}))
    assert first.tuned_on == TunedOn(frozenset({"cc"}), frozenset({"dd"}))


def test_what_was_written_is_read_and_what_was_not_is_none(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    assert files.read("verdict") is None
    files.write("verdict", {"gain": 0.1, "reason": "ünï"})
    assert files.read("verdict") == {"gain": 0.1, "reason": "ünï"}
    files.write_info(TuningInfo(run_id="r1"))
    files.update_state(phase="search")
    files.update_state(phase="gate", spend={"usd": 0.5})
    assert files.read_info() == TuningInfo(run_id="r1", state=TuningState("gate", spend={"usd": 0.5}))
    files.remove("verdict")
    assert files.read("verdict") is None


def test_a_write_that_fails_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.write("search", {"a": 1})
    with pytest.raises(TypeError):
        files.write("search", {"a": object()})
    broken = RunFiles(tmp_path, redact=lambda text: text[:0] if text == "never" else _full())
    with pytest.raises(OSError, match="No space"):
        broken.write("search", {"a": 2})
    assert files.read("search") == {"a": 1}


def _full() -> str:
    raise OSError(28, "No space left on device")


def test_proposals_come_in_their_order_with_their_prompts(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    assert files.read_proposals() == []
    files.clear_proposals()
    for number in (1, 2):
        files.add_proposal(proposal(number))
    first, second = files.read_proposals()
    assert (first["candidate_id"], second["candidate_id"]) == ("c001", "c002")
    assert (first["agents"], first["parent_ids"], first["spend"]["lm_calls"]) == (["plan"], ["parent"], 1)
    assert "candidate" not in first and "Plan." not in json.dumps(first), "the prompts are in their own folder"
    assert files.read_candidate("c002", ["plan", "solve"], "toy").texts == PROMPTS.texts


def test_a_half_line_is_no_proposal(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.add_proposal(proposal(1))
    with (tmp_path / "proposals.jsonl").open("a") as file:
        file.write('{"candidate_id": "c0')
    assert [line["candidate_id"] for line in files.read_proposals()] == ["c001"]


def test_a_repeated_search_that_a_budget_ends_loses_no_scored_proposal(tmp_path: Path) -> None:
    """What it repeats counts as repeated, unless it was cut off this time."""
    first = RunFiles(tmp_path)
    for number, decision in ((1, "accepted"), (2, "rejected"), (3, "cut_off"), (4, "accepted")):
        first.add_proposal(proposal(number, decision=decision, val_score=0.5))
    files = RunFiles(tmp_path)
    files.clear_proposals()
    files.add_proposal(proposal(1, decision="accepted", val_score=0.75))
    other = replace(proposal(2).candidate, prompts=replace(PROMPTS, texts={"plan": "Other.", "solve": "S."}))
    files.add_proposal(replace(proposal(2, decision="cut_off"), candidate=other))
    assert [each["candidate_id"] for each in files.list_new_proposals(with_earlier=False)] == ["c001"]
    kept = files.list_new_proposals(with_earlier=True)
    assert [(each["candidate_id"], each["val_score"]) for each in kept] == [
        ("c001", 0.75),
        ("c002", 0.5),
        ("c004", 0.5),
    ]
    assert files.read_candidate("c002", ["plan", "solve"], "toy").texts == PROMPTS.texts
    files.finish_proposals(kept)
    assert files.read_proposals() == kept


def test_proposals_that_somebody_has_changed_are_not_kept(tmp_path: Path) -> None:
    first = RunFiles(tmp_path, signed=SignedFiles(tmp_path, "r1"))
    first.add_proposal(proposal(1, decision="accepted", val_score=0.5))
    path = tmp_path / "proposals.jsonl"
    path.write_text(path.read_text().replace('"val_score": 0.5', '"val_score": 1.0'))
    files = RunFiles(tmp_path, signed=SignedFiles.read(tmp_path, "r1"))
    files.clear_proposals()
    assert files.list_new_proposals(with_earlier=True) == []


def test_another_candidate_of_the_same_id_takes_its_place(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.save_candidate(Candidate("c001", PROMPTS))
    before = (tmp_path / "candidates" / "c001").stat().st_ino
    files.save_candidate(Candidate("c001", PROMPTS))
    assert (tmp_path / "candidates" / "c001").stat().st_ino == before, "the same is left alone"
    files.save_candidate(Candidate("c001", replace(PROMPTS, texts={"plan": "Other.", "solve": "S."})))
    assert files.read_candidate("c001", ["plan", "solve"], "toy").texts["plan"] == "Other."


def test_no_secret_is_written(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, redact=lambda text: text.replace("key-123", "***"))
    said = replace(PROMPTS, texts={"plan": "Use key-123.", "solve": "S."}, demos=DEMO)
    files.add_proposal(replace(proposal(1, reason="the server said key-123"), candidate=Candidate("c001", said)))
    files.write("verdict", {"reasons": ["key-123"]})
    assert not [each for each in tmp_path.rglob("*") if each.is_file() and b"key-123" in each.read_bytes()]
    kept = files.read_candidate("c001", ["plan", "solve"], "toy")
    assert (kept.texts["plan"], kept.demos["solve"][0]["result"]) == ("Use ***.", "2 ***")
    inode = (tmp_path / "candidates" / "c001").stat().st_ino
    files.save_candidate(Candidate("c001", said))
    assert (tmp_path / "candidates" / "c001").stat().st_ino == inode, "it is the same one"


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (Candidate("c001", PROMPTS, ("parent",), ("plan", "solve"), "reflection"), "plan, solve"),
        (Candidate("c041", PROMPTS, ("c004", "c008"), (), "merge"), "merge of c004 and c008"),
        (Candidate("c041", PROMPTS, ("c004", "c008"), ("plan",), "merge"), "merge of c004 and c008"),
        (Candidate("c001", PROMPTS, ("parent",), (), "bootstrap"), "bootstrap of parent"),
        (Candidate("c001", PROMPTS), "copy of parent"),
    ],
)
def test_a_candidate_is_told_by_what_it_is_made_of(candidate: Candidate, words: str) -> None:
    assert describe_candidate(candidate) == words


def test_a_tuning_run_whose_program_or_scorer_was_changed_is_not_resumed() -> None:
    before = TuningInfo(config={"seed": 1}, program_sha256="a" * 64, scorer_sha256="c" * 64)
    check_unchanged(before, {"seed": 1}, "a" * 64, "c" * 64)
    with pytest.raises(UserError, match=r"the program's source, .* has changed .*\(aaaaaaaaaaaa → bbbbbbbbbbbb\)"):
        check_unchanged(before, {"seed": 1}, "b" * 64, "c" * 64)
    with pytest.raises(UserError, match=r"the scorer's source, .* has changed .*\(cccccccccccc → dddddddddddd\)"):
        check_unchanged(before, {"seed": 1}, "a" * 64, "d" * 64)
    check_unchanged(replace(before, scorer_sha256=""), {"seed": 1}, "a" * 64, "c" * 64)


def test_a_run_from_before_the_digest_of_scorers_stays_signed_and_none_can_be_taken_away() -> None:
    content = {name: value for name, value in asdict(TuningInfo(run_id="r1")).items() if name != "scorer_sha256"}
    old = {name: value for name, value in content.items() if name not in ("state", "signature")}
    assert TuningInfo(run_id="r1", signature=sign("tuning run", old)).is_signed
    assert not replace(TuningInfo(run_id="r1", scorer_sha256="c" * 64).sign(), scorer_sha256="").is_signed


def test_a_set_is_found_by_name_by_path_and_as_a_candidate_of_a_run(tmp_path: Path) -> None:
    run = tmp_path / "outputs" / "one"
    RunFiles(run.parent).folder.mkdir()
    run.mkdir()
    (run / "tuning.json").write_text("{}")
    with pytest.raises(UserError, match=r"^one has no candidate c009; it has none yet\.$"):
        find_set(f"{run}:c009")
    for name in ("c002", "c001"):
        RunFiles(run).save_candidate(Candidate(name, PROMPTS))
    with pytest.raises(UserError, match=r"^one has no candidate c009; choose one of: c001, c002\.$"):
        find_set(f"{run}:c009")
    found = find_set(f"{run}:c001")
    assert (found.name, found.texts) == ("c001", PROMPTS.texts)
    shelf = tmp_path / "prompts"
    shelf.mkdir()
    (run / "candidates" / "c002").rename(shelf / "mine")
    for name in ("mine", str(shelf / "mine"), "prompts/mine"):
        assert find_set(name, tmp_path).texts == PROMPTS.texts
    for name in ("", "yours", "prompts/yours"):
        with pytest.raises(UserError):
            find_set(name, tmp_path)


def test_a_path_with_a_colon_is_a_path(tmp_path: Path) -> None:
    RunFiles(tmp_path).save_candidate(Candidate("c001", PROMPTS))
    (tmp_path / "candidates" / "c001").rename(tmp_path / "a:b")
    assert find_set(str(tmp_path / "a:b")).texts == PROMPTS.texts


def test_a_line_is_a_proposal_without_its_prompts() -> None:
    candidate = Candidate("c003", PROMPTS, ("c001", "c002"), ("plan", "solve"), "merge")
    spend = Spend(metric_calls=1, lm_calls=2, input_tokens=3, output_tokens=4, cost_usd=0.5, seconds=6.0)
    found = to_line(Proposal(candidate, "accepted", "better", 7, 0.25, 0.5, 0.75, spend))
    assert found == {
        "candidate_id": "c003",
        "parent_ids": ["c001", "c002"],
        "agents": ["plan", "solve"],
        "origin": "merge",
        "decision": "accepted",
        "reason": "better",
        "iteration": 7,
        "minibatch_before": 0.25,
        "minibatch_after": 0.5,
        "val_score": 0.75,
        "spend": spend.to_dict(),
    }


def test_only_proposals_that_were_scored_whole_count_as_scored() -> None:
    lines = [
        to_line(proposal(1, val_score=0.5)),
        to_line(proposal(2, val_score=0.0)),
        to_line(proposal(3)),
        to_line(proposal(4, decision="cut_off", val_score=0.5)),
    ]
    assert [line["candidate_id"] for line in filter_fully_scored(lines)] == ["c001", "c002"]


def test_a_later_session_repeats_neither_its_own_options_nor_secrets() -> None:
    given = ["resume=latest", "yes=true", "run.dir=x", "run.trust=true", "log.terminal=debug", "+yes=true"]
    kept = ["system=toy", "run.concurrency=3", "++yesterday=1", "log.level=debug"]
    assert filter_overrides([*given, *kept, "key=key-123"], lambda text: text.replace("key-123", "***")) == kept
    assert filter_overrides(["url=http://ann:secret@host/v1"]) != ["url=http://ann:secret@host/v1"]


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({"yes": True}, True),
        ({"budget": {"usd": 2}}, True),
        ({"model": {"rate": 5, "name": "m"}}, True),
        ({"model": {"rate": 1, "name": "other"}}, False),
        ({"seed": 2}, False),
        ({"budgets": 2}, False),  # only begins like one
    ],
)
def test_only_options_of_a_session_may_differ_when_a_run_goes_on(changed: dict[str, object], allowed: bool) -> None:
    config = {"seed": 1, "yes": False, "budget": {"usd": 1}, "model": {"rate": 1, "name": "m"}, "budgets": 1}
    before = TuningInfo(config=config)
    if allowed:
        check_unchanged(before, {**config, **changed}, "", "")
        return
    with pytest.raises(UserError, match=r"^the tuning run has other options \(.+ → .+\); resume it with its own, or"):
        check_unchanged(before, {**config, **changed}, "", "")


def test_of_many_options_that_differ_ten_are_named() -> None:
    before, now = ({f"o{at:02}": value for at in range(11)} for value in (1, 2))
    with pytest.raises(UserError) as refused:
        check_unchanged(TuningInfo(config=before), now, "", "")
    assert str(refused.value).count("1 → 2") == 10 and "o09: 1 → 2);" in str(refused.value)


def test_the_arguments_of_a_run_are_read_for_the_next_session(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    files, command = RunFiles(folder), ["seed=3", "yes=true"]
    files.write_info(TuningInfo(run_id="r1", command=command).sign())
    assert read_original_arguments(str(folder), []) == ["seed=3"]
    assert find_parent_set(str(folder)) == str(folder / "candidates" / "parent")
    files.write_info(TuningInfo(run_id="r1", command=command))
    with pytest.raises(UserError, match=r"run\.trust=true"):
        read_original_arguments(str(folder), [])
    assert read_original_arguments(str(folder), ["run.trust=true"]) == ["seed=3"]


def test_the_command_that_resumes_a_run_is_as_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT_ROOT)
    script = "continue with: python optimize/run.py"
    assert describe_resume(OUTPUTS / "optimize" / "one") == f"{script} resume=one"
    assert describe_resume(tmp_path / "a b", "headroom.mode=report") == (
        f"{script} 'resume={tmp_path / 'a b'}' headroom.mode=report"
    )


def test_a_search_that_is_complete_is_checked_before_its_proposals_are_read(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, signed=SignedFiles(tmp_path, "r1"))
    files.add_proposal(proposal(1))
    path = tmp_path / "proposals.jsonl"
    path.write_text(path.read_text().replace("no better", "better"))
    assert files.read_proposals()[0]["reason"] == "better", "a search that goes on only shows them"
    files.write("search", {})
    with pytest.raises(UserError):
        files.read_proposals()
