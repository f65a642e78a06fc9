"""Sentences about a prompt set's origin and its test."""

from dataclasses import replace
from typing import Any

import pytest

from optimize.publishing.provenance import (
    Provenance,
    build_headline,
    collect_versions,
    describe_gain,
    describe_labels,
    describe_provenance,
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
