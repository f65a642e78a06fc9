"""Where a run is in MLflow, as its folder says, and whether that may be believed."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from eval.config.tracking import LocalTracking, ServerTracking
from eval.runs.mlflow_state import ExportState, read_link, read_state, rebuild_tracking, reset_state, write_state


def a_state(uri: str = "http://mlflow.example:5000") -> ExportState:
    return ExportState(
        uri, "evals", "7", "r1", "FINISHED", complete=True, counts={"traces": {"store": 2}}, warning="late"
    )


def test_a_state_is_read_as_it_was_written_and_anything_else_is_none(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None and read_link(tmp_path) is None
    state = a_state()
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert read_link(tmp_path) == {"uri": state.uri, "experiment_id": "7", "run_id": "r1"}
    for text in ("{", "[]", '{"unknown": 1}'):
        (tmp_path / "mlflow.json").write_text(text)
        assert read_state(tmp_path) is None


def test_a_run_that_goes_on_is_incomplete_and_keeps_its_place(tmp_path: Path) -> None:
    reset_state(tmp_path)
    assert list(tmp_path.iterdir()) == []
    write_state(tmp_path, a_state())
    reset_state(tmp_path)
    state = read_state(tmp_path)
    assert state is not None
    assert (state.complete, state.status, state.counts, state.warning) == (False, "RUNNING", {}, None)
    assert (state.run_id, state.uri) == ("r1", "http://mlflow.example:5000")


def test_a_run_that_mlflow_does_not_have_has_no_link(tmp_path: Path) -> None:
    write_state(tmp_path, ExportState("http://mlflow.example:5000", "evals"))
    assert read_link(tmp_path) is None


@pytest.mark.parametrize(
    ("uri", "settings"),
    [
        ("http://mlflow.example:5000", ServerTracking(uri="http://mlflow.example:5000", experiment="evals")),
        ("sqlite:////data/store/mlflow.db", LocalTracking(experiment="evals", folder="/data/store")),
    ],
)
def test_an_address_is_used_again_only_if_it_is_this_installations_own(
    uri: str, settings: object, tmp_path: Path
) -> None:
    state = a_state(uri)
    assert rebuild_tracking(state) is None
    write_state(tmp_path, state)
    assert rebuild_tracking(state) == settings
    state.uri = "http://elsewhere.example"
    assert rebuild_tracking(state) is None


def test_a_state_of_which_nothing_is_said_is_that_of_a_run_that_was_never_sent() -> None:
    assert asdict(ExportState()) == {
        **dict.fromkeys(("uri", "experiment", "experiment_id", "run_id", "signature"), ""),
        "status": "RUNNING", "complete": False, "counts": {}, "warning": None, "cpu_seconds": 0.0,
        "seconds_after_the_end": 0.0,
    }  # fmt: skip
    assert ExportState("u", "e", "1", "r").place == {"uri": "u", "experiment": "e"}


@pytest.mark.parametrize("field", ["uri", "experiment"])
def test_both_parts_of_the_place_are_signed_and_nothing_else_is(field: str, tmp_path: Path) -> None:
    state = a_state()
    write_state(tmp_path, state)
    changed = replace(state, experiment_id="8", run_id="r2", complete=False, status="FAILED", cpu_seconds=3.0)
    assert rebuild_tracking(changed) == ServerTracking(uri=state.uri, experiment="evals")
    assert rebuild_tracking(replace(changed, **{field: "other"})) is None  # type: ignore[arg-type]
    assert rebuild_tracking(replace(changed, signature="")) is None
    write_state(tmp_path, changed)
    reset_state(tmp_path)
    found = read_state(tmp_path)
    assert found == replace(changed, status="RUNNING", counts={}, warning=None)
    text = (tmp_path / "mlflow.json").read_text()
    assert text == json.dumps(asdict(replace(changed, status="RUNNING", counts={}, warning=None)), indent=2) + "\n"
