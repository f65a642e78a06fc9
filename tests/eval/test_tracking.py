from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from eval.paths import OUTPUTS, PROJECT_ROOT
from eval.record import Record, Usage
from eval.reporting.files import write_files
from eval.reporting.summary import summarise
from eval.tracking import Exported, LocalTracking, NoTracking, export_run
from mas.offline import SIMULATED_NOTICE

CONF = PROJECT_ROOT / "conf" / "tracking"


def finished_run(folder: Path) -> dict[str, object]:
    folder.mkdir()
    usage = Usage(lm_calls=2, tool_calls=1, input_tokens=10, output_tokens=5)
    records = [
        Record("run-1", "a", 1, 1, "t1", "Which?", None, "1", "17", answer="17", score=1.0, usage=usage),
        Record("run-1", "b", 1, 1, "t2", "Which?", None, "2/x", "18", error="it broke", usage=usage),
    ]
    summary = summarise("run-1", records, simulated=True, wall_seconds=2.0)
    write_files(folder, records, summary)
    (folder / "logs").mkdir()
    (folder / "logs" / "entry_point.log").write_text("{}\n")
    return summary


def test_a_run_is_found_again_in_a_real_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One test, since a new store takes seconds to make."""
    elsewhere = tmp_path / "cwd"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    config = LocalTracking(experiment="mine", folder=str(tmp_path / "my outputs"))
    summary = finished_run(tmp_path / "run-1")
    params: dict[str, object] = {f"many{n}": n for n in range(150)}
    params |= {"model": {"name": "m", "temperature": 0.0}, "long": "x" * 9000, "none": None, "agents": ["a", "b"]}

    link, warning = export_run(config, tmp_path / "run-1", summary, params, {"dataset": "sample"})
    again, _ = export_run(config, tmp_path / "run-1", summary, {})

    assert warning is None
    assert link is not None and again is not None
    assert link["uri"] == f"sqlite:///{tmp_path}/my outputs/mlflow.db"
    assert again["experiment_id"] == link["experiment_id"]
    assert again["run_id"] != link["run_id"]

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=link["uri"])
    run = client.get_run(link["run_id"])
    assert client.get_experiment_by_name("mine").experiment_id == link["experiment_id"]
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run-1")
    assert run.info.end_time - run.info.start_time >= 2000
    assert run.data.tags["simulated"] == "true"
    assert run.data.tags["mlflow.note.content"] == SIMULATED_NOTICE
    assert run.data.tags["dataset"] == "sample"
    assert run.data.params["model.name"] == "m"
    assert run.data.params["model.temperature"] == "0.0"
    assert run.data.params["long"] == "x" * 500
    assert run.data.params["agents"] == '["a", "b"]'
    assert run.data.params["many149"] == "149"
    assert run.data.metrics == pytest.approx(
        {
            "accuracy": 0.5, "accuracy_ci95_low": 0.0945, "accuracy_ci95_high": 0.9055, "n": 2, "n_correct": 1,
            "n_error": 1, "n_unscored": 0,
            "n_scored": 2, "format_loss": 0,
            "wall_seconds": 2.0, "lm_calls": 4, "tool_calls": 2,
            "input_tokens": 20, "output_tokens": 10, "accuracy_level_1": 1.0, "accuracy_level_2/x": 0.0,
        },
        abs=1e-4,
    )  # fmt: skip
    artifacts = {found.path for found in client.list_artifacts(link["run_id"])}
    assert artifacts == {"answers.jsonl", "records.jsonl", "summary.json", "logs"}
    assert (tmp_path / "my outputs" / "mlflow-artifacts" / link["run_id"] / "artifacts" / "answers.jsonl").is_file()
    assert list(elsewhere.iterdir()) == []
    assert capfd.readouterr().out == ""


def test_a_failure_of_mlflow_is_a_warning(tmp_path: Path) -> None:
    summary = finished_run(tmp_path / "run-1")
    (tmp_path / "in the way").write_text("a file")
    link, warning = export_run(LocalTracking(folder=str(tmp_path / "in the way")), tmp_path / "run-1", summary, {})
    assert link is None
    assert warning is not None
    assert "tracking=off" in warning


def test_tracking_off_writes_nothing(tmp_path: Path) -> None:
    assert export_run(NoTracking(), tmp_path, {}, {}) == Exported(None, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "expected"), [("local", LocalTracking()), ("off", NoTracking())])
def test_config_files_hold_the_defaults(name: str, expected: object) -> None:
    config = OmegaConf.load(CONF / f"{name}.yaml")
    assert instantiate(config) == expected


def test_the_dataclasses_are_schemas_that_refuse_unknown_keys() -> None:
    schema = OmegaConf.structured(LocalTracking)
    assert OmegaConf.merge(schema, {"folder": "x"}).folder == "x"
    with pytest.raises(Exception, match="experimant"):
        OmegaConf.merge(schema, {"experimant": "x"})


def test_outputs_lie_in_the_checkout_whatever_the_folder() -> None:
    assert OUTPUTS.is_absolute()
    assert (OUTPUTS.parent / "pyproject.toml").is_file()
