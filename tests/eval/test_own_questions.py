"""What a run tells about questions of one's own before it asks them."""

from pathlib import Path

from tests.eval.command_line import SUM, EvalCommand, dataset, question, write_questions


def test_columns_and_ids_that_were_guessed_are_told_once_at_the_start(
    sure_command: EvalCommand, tmp_path: Path
) -> None:
    folder = write_questions(tmp_path / "own", {"input": SUM, "target": "5"})
    finished = sure_command("data=jsonl", f"data.path={folder}")
    assert finished.summary["accuracy"] == 1.0
    lines = finished.out.splitlines()
    told = [line for line in lines if "usual names: question = 'input', answer = 'target'" in line or "ids are" in line]
    assert len(told) == 2 and all(line in lines[:5] for line in told)


def test_nothing_is_told_about_gaias_columns(sure_command: EvalCommand, tmp_path: Path) -> None:
    finished = sure_command(*dataset(tmp_path / "own", question("q1", SUM, "5")))
    assert "usual names" not in finished.out and "ids are made" not in finished.out
