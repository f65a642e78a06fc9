"""A tuning run's folder: its database is made again from copies, and no other command takes it for an evaluation."""

from pathlib import Path

import pytest

from eval.runs.find import find_run
from eval.runs.store import RunStore
from mas.runtime.errors import UserError
from optimize.session.tuning_store import find_tuning_run, read_original_arguments, read_tuning
from tests.eval.foreign_folder import forget_run
from tests.eval.stored_run import answered, stored_run
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_tuning, verdict


def test_a_lost_database_is_made_again_with_all_results_and_proposals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_tuning(tmp_path / "run", PROPOSALS, verdict=verdict())
    before = read_tuning(folder)
    (folder / "run.db").unlink()
    again = read_tuning(folder)
    RunStore(folder / "run.db").close()  # as the same command does that goes on with the run
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.endswith("; resume asks again what is missing")
    assert (again.verdict, again.proposals, again.state) == (before.verdict, before.proposals, before.state)
    assert again.get_prompts("c002").texts == before.get_prompts("c002").texts


def test_no_command_takes_a_tuning_run_for_an_evaluation_nor_the_other_way_round(tmp_path: Path) -> None:
    tuning, evaluation = a_tuning(tmp_path / "tuning", PROPOSALS), tmp_path / "evaluation"
    stored_run(evaluation, [answered("q1", "17")])
    with pytest.raises(UserError, match="is a tuning run"):
        find_run(tuning)
    with pytest.raises(UserError, match="is no run"):
        find_tuning_run(str(evaluation))


@pytest.mark.parametrize("command", [None, [], ["limit=3"]])
def test_a_tuning_run_from_elsewhere_is_not_resumed_by_its_name_alone(
    command: list[str] | None, tmp_path: Path
) -> None:
    folder = str(a_tuning(tmp_path / "tuning", PROPOSALS, command=command))
    forget_run(Path(folder))
    with pytest.raises(UserError, match="so nothing was run"):
        read_original_arguments(folder, [f"resume={folder}", "yes=true"])
    assert read_original_arguments(folder, [f"resume={folder}", "limit=3"]) == []


def test_a_folder_of_an_earlier_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "splits.json").write_text("{}")
    (old / "tuning.json").write_text('{"version": 5}')
    with pytest.raises(UserError, match=r"run\.db is not there; name the folder of a run"):
        read_tuning(old)
