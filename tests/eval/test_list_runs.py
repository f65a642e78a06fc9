"""`eval/list_runs.py`: the list, the index page, and `clean`, which never deletes what must stay."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.cli.command import FINISHED, USER_ERROR, run_cli
from eval.list_runs import task
from eval.runs.deletion import delete_run
from eval.runs.folder import DATABASE, RunLock
from mas.runtime.errors import UserError
from tests.eval.analysis.run_list.test_read_runs import finished, tuning
from tests.eval.stored_run import SESSION

PUBLISHED = {"published": True, "set": "prompts/mine", "resumable": False}
EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose outputs/ has four runs."""
    place = tmp_path / "project" / "outputs"
    old = [{**SESSION, "started_at": "2026-11-01T10:00:00+00:00"}]
    finished(place / "eval" / "2026-11-01_10-00-00_old", sessions=old, model=EVIL)
    finished(place / "eval" / "2026-11-20_10-00-00_seen")
    tuning(place / "optimize" / "2026-11-02_10-00-00_mine_gepa", PUBLISHED, began="2026-11-02T10:00:00+00:00")
    tuning(place / "optimize" / "2026-11-03_10-00-00_other_gepa", ended_at=None, began="2026-11-03T10:00:00+00:00")
    kept = tmp_path / "project" / "prompts" / "mine"
    kept.mkdir(parents=True)
    (kept / "provenance.yaml").write_text("run: 2026-11-02_10-00-00_mine_gepa\n")
    monkeypatch.setattr("eval.list_runs.OUTPUTS", place)
    monkeypatch.setattr("eval.list_runs.PROJECT_ROOT", tmp_path / "project")
    yield place


def list_left(outputs: Path) -> set[str]:
    return {each.name.split("_")[2] for kind in ("eval", "optimize") for each in (outputs / kind).iterdir()}


def test_the_list_names_state_score_and_model(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert task(["seen"]) == FINISHED
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == "complete 2026-11-20_10-00-00_seen"
    assert "50.0% (" in shown and ", n = 2 · toy · gpt-4o-mini · " in shown
    assert "1 of 4 runs" in shown
    assert task(["kind=tuning", "--json", "sort=name"]) == FINISHED
    listed = json.loads(capsys.readouterr().out)
    assert [(run["state"], run["reason"]) for run in listed] == [
        ("complete", "published as prompts/mine"),
        ("crashed", "its process ended without notice, in its phase search"),
    ]


def test_the_index_page_links_every_report_and_executes_nothing(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (outputs / "javascript:alert(1).html").write_text("")
    assert task(["--html", str(outputs / "index.html")]) == FINISHED
    assert f"page: {outputs / 'index.html'}" in capsys.readouterr().out.replace("\n", "")
    page = (outputs / "index.html").read_text("utf-8")
    assert "./eval/2026-11-20_10-00-00_seen/report.html" in page
    assert 'href="./javascript%3Aalert%281%29.html"' in page
    assert "<img" not in page and page.count("</script>") == page.count("<script")


def test_clean_shows_first_and_deletes_only_with_yes(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert task(["clean", "older=2026-11-15"]) == FINISHED
    shown = capsys.readouterr().out
    assert len(list_left(outputs)) == 4
    assert "nothing was deleted: 2 of 3 runs," in shown and "add --yes" in shown
    assert "keep   " in shown and "prompts/mine was published by it" in shown
    assert task(["clean", "older=2026-11-15", "--yes"]) == FINISHED
    assert list_left(outputs) == {"seen", "mine"}


def test_clean_keeps_runs_in_use_and_runs_with_labels_of_people(
    outputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    label = {"sample_id": "q1", "question": "5e", "target_sha256": "5f", "label": "right", "version": 1}
    (outputs / "gold").mkdir()
    (outputs / "gold" / f"{'a' * 64}.jsonl").write_text(json.dumps({**label, "run": "2026-11-20_10-00-00_seen"}) + "\n")
    lock = RunLock(outputs / "optimize" / "2026-11-03_10-00-00_other_gepa" / "run.db")
    lock.take()
    try:
        assert task(["clean", "name=*", "--yes"]) == FINISHED
    finally:
        lock.release()
    shown = capsys.readouterr().out
    assert list_left(outputs) == {"seen", "mine", "other"}
    assert "it is running" in shown and "a person has labelled an answer of it" in shown
    (outputs / "gold" / f"{'a' * 64}.jsonl").write_text("broken\n")
    with pytest.raises(UserError, match="may name a run that must stay"):
        task(["clean", "name=*", "--yes"])


def test_nothing_outside_of_outputs_and_nothing_behind_a_link_is_deleted(
    outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = finished(tmp_path / "elsewhere" / "run")
    assert task(["clean", str(tmp_path / "elsewhere"), "name=*", "--yes"]) == FINISHED
    assert "is not inside" in capsys.readouterr().out
    (outputs / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is not inside"):
        delete_run(outputs / "linked" / "run", outputs)
    (outputs / "same").symlink_to(outputs / "eval")
    with pytest.raises(UserError, match="reached through a link"):
        delete_run(outputs / "same" / "2026-11-20_10-00-00_seen", outputs)
    (outputs / "eval" / "2026-11-20_10-00-00_seen" / "more").symlink_to(elsewhere)
    assert task(["clean", "name=*seen", "--yes"]) == FINISHED
    assert "more is a link" in capsys.readouterr().out
    assert (elsewhere / DATABASE).exists() and "seen" in list_left(outputs)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["clean"], "clean needs to know which runs; give a filter"),
        (["--yes"], "--yes only belongs to clean"),
        (["clean", "state=crashed", "--json"], "clean writes no page"),
        (["no/such"], "no/such is no folder"),
        (["modle=x"], "modle= is no filter"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(lambda: task(words)) == USER_ERROR
    assert sentence in capsys.readouterr().err
