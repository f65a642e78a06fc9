"""Runs that the viewer finds, and pages that it may show."""

import os
from pathlib import Path

import pytest

from eval.cli.paths import OUTPUTS
from eval.runs.run_info import TuningInfo
from eval.viewer import catalogue
from eval.viewer.catalogue import Catalogue, describe_parts, list_notices
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from tests.eval.stored_run import answered, stored_run


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for name in ("first", "second"):
        stored_run(tmp_path / "outputs" / "eval" / name, [answered("q1", "17")], system="toy", model="small")
    tuned = tmp_path / "outputs" / "optimize" / "tuned"
    tuned.mkdir(parents=True)
    info = TuningInfo(run_id="t1", system="toy", model="small", name="better", optimizer="gepa", simulated=True)
    (tuned / "tuning.json").write_text(info.to_json())
    (tmp_path / "outputs" / "compared.html").write_text("<p>")
    return tmp_path / "outputs"


def test_runs_have_an_id_that_is_no_path(outputs: Path) -> None:
    found = Catalogue(outputs)
    assert sorted(found.list_evaluations()) == ["eval~first", "eval~second"]
    assert found.find("eval~first") == outputs / "eval" / "first"
    assert found.find("optimize~tuned") == outputs / "optimize" / "tuned"
    assert [found.find(each) for each in ("eval/first", "eval~third", "..", "")] == [None] * 4
    assert Catalogue(outputs / "eval").list_evaluations() == ["second", "first"]
    assert Catalogue(outputs / "eval" / "first").list_evaluations() == ["first"]
    with pytest.raises(UserError, match="is no folder; name one with runs"):
        Catalogue(outputs / "nothing")


def test_labels_lie_next_to_the_evaluations(outputs: Path) -> None:
    for folder in (outputs, outputs / "eval", outputs / "eval" / "first"):
        assert Catalogue(folder).gold == outputs / "gold"
    assert Catalogue(outputs / "optimize").gold == OUTPUTS / "gold"


def test_a_page_is_a_file_of_the_folder_with_a_plain_name(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, run = Catalogue(outputs), outputs / "eval" / "first"
    for name in ("report.html", "a-b.2.html"):
        (run / name).write_text("<p>page")
    os.link(run / "report.html", run / ".hidden.html")
    (run / "link.html").symlink_to(run / "report.html")
    (run / "folder.html").mkdir()
    assert found.list_pages(run) == ["a-b.2.html", "report.html"]
    assert found.find_page(run, "report.html") == run / "report.html"
    for name in (".hidden.html", "link.html", "folder.html", "none.html", "run.db", "../first/report.html", "a b.html"):
        assert found.find_page(run, name) is None
    monkeypatch.setattr(catalogue, "MAX_PAGE_BYTES", len("<p>page"))
    assert found.find_page(run, "report.html") is not None
    monkeypatch.setattr(catalogue, "MAX_PAGE_BYTES", len("<p>page") - 1)
    assert found.find_page(run, "report.html") is None


def test_a_page_of_no_run_is_found_by_its_id(outputs: Path) -> None:
    found = Catalogue(outputs)
    assert found.find_other_page("compared.html") == outputs / "compared.html"
    assert found.find_other_page("other.html") is None
    (outputs / "linked.html").symlink_to(outputs / "compared.html")
    assert found.find_other_page("linked.html") is None


def test_a_run_is_described_by_its_parts(outputs: Path, tmp_path: Path) -> None:
    assert describe_parts(outputs / "eval" / "first") == "system toy · model small"
    facts = {"system": "toy", "model": "small", "simulated": True, "config": {"data": {"name": "sample"}}}
    full = stored_run(tmp_path / "full", [answered("q1", "17")], epochs=2, **facts)
    assert describe_parts(full) == "system toy · model small (simulated) · data sample, 2 epochs"
    assert describe_parts(tmp_path / "nothing") == ""
    tuned = describe_parts(outputs / "optimize" / "tuned")
    assert tuned.startswith("system toy · model small (simulated)") and tuned.endswith(" · optimizer gepa")


def test_a_simulation_is_noticed_before_any_number(outputs: Path) -> None:
    assert list_notices(outputs / "eval" / "first") == []
    assert list_notices(outputs / "optimize" / "tuned") == [SIMULATED_NOTICE]


def test_pages_are_listed_by_name_and_runs_newest_name_first(outputs: Path) -> None:
    found = Catalogue(outputs)
    assert found.list_evaluations() == ["eval~second", "eval~first"]
    assert [found.name(each) for each in (outputs, outputs / "eval" / "first")] == ["outputs", "eval~first"]
    alone = Catalogue(outputs / "eval" / "first")
    assert alone.find("first") == outputs / "eval" / "first" and alone.find("second") is None
    assert Catalogue(outputs / "eval").gold == outputs / "gold"


def test_a_folder_of_which_no_part_is_called_eval_has_the_labels_of_the_installation(tmp_path: Path) -> None:
    run = stored_run(tmp_path / "mine" / "night", [answered("q1", "17")])
    assert Catalogue(run).gold == Catalogue(tmp_path / "mine").gold == OUTPUTS / "gold"
    (tmp_path / "eval").write_text("a file")
    assert Catalogue(tmp_path).gold == OUTPUTS / "gold"


def test_every_part_of_a_run_is_named_and_one_epoch_is_not(tmp_path: Path) -> None:
    facts = {"system": "toy", "model": "small", "prompts": {"prompts": "mine"}, "config": {"data": {"name": "sample"}}}
    run = stored_run(tmp_path / "night", [answered("q1", "17")], **facts)
    assert describe_parts(run) == "system toy · model small · data sample · prompts mine"
    proof = stored_run(tmp_path / "proof", [answered("q1", "17")], gold_informed="expert", simulated=True)
    first, second = list_notices(proof)
    assert first == SIMULATED_NOTICE
    assert second.startswith("No measurement: it gave expert the right answers") and second.endswith("no system.")


def test_a_tuning_run_is_described_by_its_parts(outputs: Path) -> None:
    assert describe_parts(outputs / "optimize" / "tuned") == (
        "system toy · model small (simulated) · new set better · optimizer gepa"
    )
