"""Sentences about a prompt set's origin and its test."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.runs.run_info import TuningInfo, TuningState
from mas.prompt_sets.prompt_set import PromptSet, digest
from optimize.publishing.provenance import (
    Provenance,
    build_headline,
    build_provenance,
    collect_versions,
    describe_gain,
    describe_labels,
    describe_provenance,
    format_provenance,
)

SCORES = {"gain": 0.082, "gain_ci95": [0.021, 0.143], "p": 0.0123}
GAIN = "gain +8.2 points on sealed questions (95% interval +2.1 to +14.3), p = 0.0123"
TUNED = Provenance("toy", True, False, {"name": "base"}, "c004", "run", "gepa", scores=SCORES, finish_reason="improved")
UNTESTED = "UNGATED, not tested on sealed questions as it stands: "


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"Tuned from base by gepa; {GAIN}."),
        ({"optimizer": ""}, f"Tuned; {GAIN}."),
        ({"scores": {}}, "Tuned from base by gepa."),
        ({"gated": False}, f"{UNTESTED}Tuned from base by gepa; {GAIN}."),
        ({"gated": False, "scores": {}, "finish_reason": None}, f"{UNTESTED}Tuned from base by gepa."),
        ({"gated": False, "scores": {}, "finish_reason": "too_long"}, f"{UNTESTED}Tuned from base by gepa."),
        ({"gated": False, "finish_reason": "too_long"}, f"UNGATED (too_long): Tuned from base by gepa; {GAIN}."),
        ({"finish_reason": "too_long"}, f"Tuned from base by gepa; {GAIN}."),
        (
            {"scores": {}, "simulated": True},
            "Tuned from base by gepa. With a simulated model: the numbers say nothing about a real one.",
        ),
        ({"scores": {}, "labels": ["a", "b"]}, "Tuned from base by gepa. Labels known to the search: a, b."),
    ],
)
def test_a_description_says_where_a_set_is_from_and_whether_it_was_tested(changes: dict[str, Any], said: str) -> None:
    assert describe_provenance(replace(TUNED, **changes)) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"tuned from base by gepa, {GAIN}, passed the gate"),
        ({"optimizer": "", "scores": {}}, "tuned from base, not tested on sealed questions, passed the gate"),
        ({"parent": {}, "gated": False}, f"tuned from an unnamed set by gepa, {GAIN}, UNGATED"),
        ({"simulated": True}, f"tuned from base by gepa, {GAIN}, passed the gate, SIMULATED model"),
    ],
)
def test_a_headline_is_one_line(changes: dict[str, Any], said: str) -> None:
    assert build_headline(replace(TUNED, **changes).to_dict()) == said


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"gain": 0.0}, "gain +0.0 points on sealed questions"),
        ({"gain": -0.05, "p": 1}, "gain -5.0 points on sealed questions, p = 1"),
        ({"gain": "?", "p": "?"}, "gain ? points on sealed questions"),
        ({"gain": 0.1, "metric": "accuracy"}, "gain +10.0 points on sealed questions"),
        ({"gain": 0.1, "metric": "f1"}, "gain in f1 +10.0 points on sealed questions"),
        (
            {"gain": 0.1, "sealed": {"known_to_parent": 3}},
            "gain +10.0 points on sealed questions, 3 of which its parent was tuned on",
        ),
        ({"gain": 0.1, "sealed": {"known_to_parent": 0}}, "gain +10.0 points on sealed questions"),
    ],
)
def test_a_gain_is_said_with_what_is_known_about_it(scores: dict[str, Any], said: str) -> None:
    assert describe_gain(scores) == said


def test_of_many_labels_the_first_twenty_are_named() -> None:
    names = [f"l{n}" for n in range(22)]
    assert describe_labels(names[:20]) == f"Labels known to the search: {', '.join(names[:20])}"
    assert describe_labels(names[:21]) == f"Labels known to the search: {', '.join(names[:20])}, and 1 more"


def test_the_commit_says_whether_there_were_changes() -> None:
    known = {"mlflow.source.git.commit": "abc"}
    assert collect_versions({**known, "mlflow.source.git.dirty": "true"})["commit"] == "abc with changes"
    assert collect_versions({**known, "mlflow.source.git.dirty": "false"})["commit"] == "abc"
    assert "commit" not in collect_versions({}) and {"python", "dspy"} <= collect_versions({}).keys()


PARENT = PromptSet("base", "toy", {"plan": "Plan."}, Path("base"))
INFO = TuningInfo(
    run_id="r1", model="m", reflection_model="strong", optimizer="gepa", seed=7, simulated=True, parent_set="first",
    split_digest="5d", sealed_digest="5e", origin={"mlflow.source.git.commit": "abc"},
    config={"gate": {"epochs": 5}, "system": {"agents": {"plan": {"model": "own"}, "solve": {"model": None}, "x": 3}}},
    state=TuningState(spend={"lm_calls": 3}),
)  # fmt: skip
VERDICT = {
    "winner": {"candidate_id": "c004", "score": 0.5}, "gain": 0.1, "p": 0.01, "reasons": ["x"], "metric": "f1",
    "finish_reason": "improved", "spend": {"lm_calls": 9}, "gate": {"settings": {"epochs": 3}, "checks": ["passed: a"]},
}  # fmt: skip
HIT = {"status": "blocking", "split": "val", "kind": "gold"}


def built(verdict: Any, leaks: Any = None, candidate_id: str = "c004", info: TuningInfo = INFO) -> Provenance:
    found = build_provenance(
        info, verdict, leaks, run="run", parent=PARENT, candidate_id=candidate_id, gated=True, labels=("a", "key-123"),
        redact=lambda text: text.replace("key-123", "***"),
    )  # fmt: skip
    assert found.versions == collect_versions(info.origin)
    return replace(found, versions={})


def test_a_provenance_has_what_the_run_knew_and_the_scores_of_the_tested_candidate_alone() -> None:
    tested = Provenance(
        system="toy",
        gated=True,
        simulated=True,
        parent={"name": "first", "digest": digest(PARENT)},
        candidate_id="c004",
        run="run",
        optimizer="gepa",
        seed=7,
        models={"task": "m", "agents": {"plan": "own"}, "reflection": "strong"},
        splits={"digest": "5d", "sealed_digest": "5e"},
        scores={"winner": VERDICT["winner"], "metric": "f1", "gain": 0.1, "p": 0.01},
        gate={"settings": {"epochs": 5}, "verdict": {"checks": ["passed: a"]}},
        leaks={"blocked": True, "hits": {"blocking val gold": 2, "shown train id": 1}, "checked": {"val": 3}},
        spend={"lm_calls": 9},
        finish_reason="improved",
        labels=["a", "***"],
    )
    hits = [{"status": "shown", "split": "train", "kind": "id"}, HIT, HIT]
    leaks = {"blocked": True, "hits": hits, "checked": {"val": 3}}
    assert built(VERDICT, leaks) == tested
    other = replace(tested, candidate_id="c005", scores={}, leaks=None, gate={**tested.gate, "verdict": {}})
    assert built(VERDICT, None, "c005") == other
    bare = replace(
        other, candidate_id="c004", spend={"lm_calls": 3}, finish_reason=None, models={},
        parent={"name": "base", "digest": digest(PARENT)}, gate={"settings": {}, "verdict": {}},
    )  # fmt: skip
    assert built({}, info=replace(INFO, parent_set="", model="", reflection_model="", config={})) == bare


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("file /home/ann/data/train.csv of mine", "file train.csv of mine"),
        ("~/data/x.csv", "x.csv"),
        ("C:\\data\\x.csv", "x.csv"),
        ("data/x.csv or a/b/c", "data/x.csv or a/b/c"),  # nothing of a machine
        ("http://host/v1/models", "http://host/v1/models"),
        ("1/2", "1/2"),
    ],
)
def test_of_a_path_only_the_last_part_is_written(text: str, kept: str) -> None:
    verdict = {**VERDICT, "gate": {"checks": [text], "deep": {text: (text, 1)}}}
    found = built(verdict).gate["verdict"]
    assert found["checks"] == [kept] and list(found["deep"].values()) == [[kept, 1]]


def test_a_file_of_provenance_names_the_set_its_digest_and_its_files() -> None:
    prompts = replace(PARENT, name="mine")
    written = format_provenance(TUNED, prompts, {"plan.txt": "ab"})
    assert list(written)[:3] == ["set", "date", "digest"]
    assert (written["set"], written["digest"], written["checksums"]) == ("mine", digest(prompts), {"plan.txt": "ab"})
    assert {name: written[name] for name in TUNED.to_dict()} == TUNED.to_dict()


@pytest.mark.parametrize(
    ("sealed", "said"),
    [({"look": 1, "looks": 4}, ", stopped at look 1 of 4"), ({"look": 4, "looks": 4}, ""), ({"looks": 1}, "")],
)
def test_a_gain_says_whether_its_test_stopped_early(sealed: dict[str, int], said: str) -> None:
    scores = {"gain": 0.1, "p": 0.5, "sealed": sealed, "gain_shrunken": 0.05}
    assert describe_gain(scores) == f"gain +10.0 points on sealed questions, p = 0.5{said}, estimated true gain +5.0"
