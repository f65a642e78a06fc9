"""Folders of runs: where they are made, how they are found, and what must not be in them."""

import os
import re
from pathlib import Path

import pytest

from eval.runs import folder as folders
from eval.runs.folder import (
    check_empty,
    check_entries,
    find_run,
    get_run_name,
    keep_prompts,
    list_runs,
    make_run_folder,
    read_kept_prompts,
    write_lines,
)
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import write_atomically


def a_run(parent: Path, name: str, marker: str = "run.db") -> Path:
    (parent / name).mkdir(parents=True)
    (parent / name / marker).touch()
    return parent / name


def test_a_new_folder_has_the_time_and_a_plain_name_and_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "OUTPUTS", tmp_path)
    made = [make_run_folder("eval", "ünï cödé/2", None) for _ in range(3)]
    assert len(set(made)) == 3 and {each.parent for each in made} == {tmp_path / "eval"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_uni_code_2(_[23])?", each.name) for each in made)
    assert {get_run_name(each) for each in made} <= {"uni_code_2", "uni_code"}
    assert {each.stat().st_mode & 0o777 for each in made} == {0o700}
    assert not any(list(each.iterdir()) for each in made)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"the run folder .*/file/run cannot be written .*run\.dir="):
        make_run_folder("eval", "x", str(tmp_path / "file" / "run"))
    assert make_run_folder("eval", "x", str(tmp_path / "new" / "run")) == tmp_path / "new" / "run"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], None),
        (["run.lock", ".probe"], None),
        (["a"], r"\(a\)"),
        (["a", "b", "c"], r"\(a, b, c\)"),
        (["a", "b", "c", "d", "e"], r"\(a, b, c and 2 more\)"),
    ],
)
def test_a_chosen_folder_must_be_empty(names: list[str], shown: str | None, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    if shown is None:
        check_empty(tmp_path)
    else:
        with pytest.raises(UserError, match=f"has files that are no run {shown}; name a new"):
            check_empty(tmp_path)


def test_what_a_run_leaves_that_died_at_its_start_is_allowed_only_where_asked_for(tmp_path: Path) -> None:
    (tmp_path / "run.db-wal").touch()
    (tmp_path / "run.journal").touch()
    with pytest.raises(UserError, match="no run"):
        check_empty(tmp_path)
    (tmp_path / "run.db-wal").unlink()
    check_empty(tmp_path, leftovers=True)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError, match=r"\(notes\.txt\)"):
        check_empty(tmp_path, leftovers=True)


def test_runs_are_listed_newest_first_by_their_names_or_else_their_files(tmp_path: Path) -> None:
    old, new = a_run(tmp_path, "2026-01-01_10-00-00_a"), a_run(tmp_path, "2026-03-01_10-00-00_b")
    by_hand = a_run(tmp_path, "by-hand")
    os.utime(by_hand / "run.db", (1_769_900_000, 1_769_900_000))  # 2026-01-31
    restored = a_run(tmp_path, "2026-02-20_10-00-00_c", "run.journal")
    (tmp_path / "no-run").mkdir()
    assert list_runs(tmp_path) == [new, restored, by_hand, old]
    assert list_runs(tmp_path, "tuning.json") == []
    assert find_run("latest", tmp_path) == new


def test_a_run_is_found_by_path_folder_or_own_name(tmp_path: Path) -> None:
    first, second = a_run(tmp_path, "2026-01-01_10-00-00_a"), a_run(tmp_path, "2026-01-02_10-00-00_a_2")
    other = a_run(tmp_path, "2026-01-03_10-00-00_b")
    assert find_run(other, tmp_path) == find_run(other / "run.db", tmp_path) == find_run("b", tmp_path) == other
    assert find_run("2026-01-01_10-00-00_a", tmp_path) == first and second != first
    with pytest.raises(UserError, match="2 runs are named a; give the folder's whole name, such as 2026-01-02"):
        find_run("a", tmp_path)
    with pytest.raises(UserError, match=r"c is no run: neither a folder with a run\.db nor one of the runs under"):
        find_run("c", tmp_path)
    for number in range(4, 8):
        a_run(tmp_path, f"2026-01-0{number}_10-00-00_d")
    with pytest.raises(UserError, match=r"latest, 2026-01-07_10-00-00_d, .* and 2 older ones"):
        find_run("c", tmp_path)


@pytest.mark.parametrize("run", ["latest", "a"])
def test_without_any_run_the_command_that_starts_one_is_named(run: str, tmp_path: Path) -> None:
    words = "start one with python eval/run.py" if run == "latest" else "for there are none"
    with pytest.raises(UserError, match=words):
        find_run(run, tmp_path / "none")


def test_links_special_and_oversized_files_are_refused_wherever_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, "run")
    (run / "logs").mkdir()
    (run / "summary.json").write_text("x" * 10)
    (run / "records.jsonl").write_text("x" * 99)
    monkeypatch.setattr(folders, "_MAX_BYTES", 10)
    check_entries(run)
    (run / "summary.json").write_text("x" * 11)
    with pytest.raises(UserError, match=r"summary\.json has more than 10 bytes"):
        check_entries(run)
    (run / "summary.json").unlink()
    (run / "logs" / "link").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="logs/link is a link or a special file"):
        check_entries(run)
    (run / "logs" / "link").unlink()
    os.mkfifo(run / "logs" / "pipe")
    with pytest.raises(UserError, match="logs/pipe is a link or a special file"):
        check_entries(run)


def test_a_folder_with_too_many_files_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_MAX_ENTRIES", 4)
    run = a_run(tmp_path, "run")
    (run / "logs").mkdir()
    (run / "logs" / "a").touch()
    check_entries(run)
    (run / "logs" / "b").touch()
    with pytest.raises(UserError, match="more than 4 files"):
        check_entries(run)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_lines(path, ["old"])
    with pytest.raises(ZeroDivisionError), write_atomically(path) as file:
        file.write("half")
        raise ZeroDivisionError
    assert path.read_text() == "old\n" and list(tmp_path.iterdir()) == [path]
    with write_atomically(path) as file:
        file.write("new")
        assert path.read_text() == "old\n"
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o600


def a_set(text: str) -> PromptSet:
    return PromptSet("mine", "toy", {"solve": text}, Path("mine"))


def test_each_prompt_set_that_a_run_used_is_kept_once(tmp_path: Path) -> None:
    names = keep_prompts(tmp_path, {}, a_set("one"))
    assert names == {"prompts": "mine"}
    names = keep_prompts(tmp_path, names, a_set("one"))
    assert list(names) == ["prompts"]
    names = keep_prompts(tmp_path, names, a_set("two"))
    names = keep_prompts(tmp_path, names, a_set("three"))
    kept = read_kept_prompts(tmp_path, names)
    assert {place: each.texts["solve"] for place, each in kept.items()} == {
        "prompts": "one", "prompts_2": "two", "prompts_3": "three"
    }  # fmt: skip
    assert read_kept_prompts(tmp_path, {"../prompts": "mine", "prompts_9": "mine"}) == {}


def test_a_run_with_a_link_in_its_folder_is_not_even_found(tmp_path: Path) -> None:
    run = a_run(tmp_path, "2026-01-01_10-00-00_a")
    (run / "link").symlink_to("/etc/passwd")
    for name in ("latest", "a", run):
        with pytest.raises(UserError, match="link is a link or a special file"):
            find_run(name, tmp_path)
