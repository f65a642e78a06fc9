"""The first sample of a paid run is answered alone, before money is spent on the others."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.eval.command_line import EvalCommand
from tests.eval.test_limits import model, questions
from tests.servers.faults import fault_server

MEASURED = "estimate: 7 more answers ≈ 21 LM calls, "


def read_start(record: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(record["started_at"])


def test_the_others_wait_for_it_and_its_calls_make_the_estimate(eval_command: EvalCommand, tmp_path: Path) -> None:
    """A wrong answer is no reason to stop."""
    with fault_server() as server:
        data = questions(tmp_path, 8)
        finished = eval_command(*model(server), *data, "scorer=exact")
        assert len(server.requests()) == 24
    assert (finished.code, finished.summary["n"]) == (0, 8)
    first, *others = (finished.records[f"q{n}"] for n in range(8))
    ended = read_start(first) + timedelta(seconds=first["wall_seconds"])
    assert all(read_start(each) >= ended for each in others)
    before, _, after = finished.out.partition(MEASURED)
    assert "the first question shows it" in before and "1/8 done" in before
    assert "(measured: the first question alone)" in after


@pytest.mark.parametrize("options", [("run.max_same_errors=null",), ("limit=5",)])
def test_it_is_not_run_alone_where_that_is_not_wanted(
    eval_command: EvalCommand, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with fault_server() as server:
        finished = eval_command(*model(server), *questions(tmp_path, 8), *options)
    assert "more answers" not in finished.out and "first question" not in finished.out


def test_a_scorer_that_raises_stops_the_run_and_the_record_is_kept(eval_command: EvalCommand, tmp_path: Path) -> None:
    Path("my_rule.py").write_text("def rule(question, answer, target):\n    return {}['label']\n")
    with fault_server() as server:
        finished = eval_command(
            *model(server), *questions(tmp_path, 8), "scorer=function", "scorer.target=my_rule:rule"
        )
        assert len(server.requests()) == 3
    assert finished.code == 3
    assert list(finished.records) == ["q0"] and finished.records["q0"]["answer"] == "42"
    assert finished.summary["stopped"] == (
        "the first question failed in a way in which all would: the scorer failed (KeyError: 'label')"
    )


@pytest.mark.parametrize(("fault", "sentence"), [("404", "check model.name=faults"), ("401", "the server wants a key")])
def test_a_model_that_does_not_exist_or_a_refused_key_is_asked_once(
    eval_command: EvalCommand, tmp_path: Path, fault: str, sentence: str
) -> None:
    with fault_server({"every": 1, "fault": fault}) as server:
        finished = eval_command(*model(server), *questions(tmp_path, 8))
        assert len(server.requests()) <= 3
    assert finished.code == 3 and sentence in finished.summary["stopped"]


def test_a_limit_is_no_fault(eval_command: EvalCommand, tmp_path: Path) -> None:
    with fault_server() as server:
        finished = eval_command(*model(server), *questions(tmp_path, 8), "limits.lm_calls=1")
    assert finished.summary["n"] == 8 and finished.summary["stopped"] is None
