"""Folders of runs: where they are made, how they are found, and what must not be in them."""

import getpass
import os
import re
import socket
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.runs import folder as folders
from eval.runs.folder import (
    Holder,
    RunInUseError,
    RunLock,
    check_empty,
    check_entries,
    find_run,
    find_runs,
    format_path,
    format_resume_hint,
    get_run_name,
    is_folder_of_runs,
    is_in_use,
    keep_prompts,
    list_runs,
    make_run_folder,
    read_kept_prompts,
    read_origin,
    write_lines,
)
from mas.prompt_sets.prompt_set import PromptSet
from mas.prompt_sets.tuned_on import TunedOn
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


def test_marks_of_a_set_that_was_restored_since_are_added_and_the_last_used_set_is_the_last(tmp_path: Path) -> None:
    first, second = (TunedOn(frozenset({each}), frozenset()) for each in "xy")
    names = keep_prompts(tmp_path, {}, replace(a_set("one"), tuned_on=first))
    names = keep_prompts(tmp_path, names, a_set("two"))
    assert list(names) == ["prompts", "prompts_2"]
    names = keep_prompts(tmp_path, names, replace(a_set("one"), name="other", tuned_on=second))
    assert list(names.items()) == [("prompts_2", "mine"), ("prompts", "mine")]
    assert read_kept_prompts(tmp_path, names)["prompts"].tuned_on == TunedOn(frozenset("xy"), frozenset())


def test_a_run_with_a_link_in_its_folder_is_not_even_found(tmp_path: Path) -> None:
    run = a_run(tmp_path, "2026-01-01_10-00-00_a")
    (run / "link").symlink_to("/etc/passwd")
    for name in ("latest", "a", run):
        with pytest.raises(UserError, match="link is a link or a special file"):
            find_run(name, tmp_path)


def test_a_run_has_its_folder_where_the_user_or_the_command_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "OUTPUTS", tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    given = make_run_folder("eval", "x", "own/run", tmp_path / "parent")
    assert (given, given.stat().st_mode & 0o777) == (tmp_path / "own" / "run", 0o700)
    assert make_run_folder("eval", "x", "own/run") == given, "it may be there"
    assert make_run_folder("eval", "x", None, tmp_path / "parent").parent == tmp_path / "parent"
    assert make_run_folder("tune", "x", None).parent == tmp_path / "outputs" / "tune"


def test_runs_of_one_second_are_numbered_from_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5)
    monkeypatch.setattr(folders, "datetime", SimpleNamespace(now=lambda: now))
    names = [make_run_folder("eval", "a b", None, tmp_path).name for _ in range(3)]
    assert names == [f"2026-01-02_03-04-05_a_b{each}" for each in ("", "_2", "_3")]


def test_somebody_else_s_folder_is_used_where_this_user_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError("it is somebody else's")

    monkeypatch.setattr(Path, "chmod", refuse)
    assert make_run_folder("eval", "x", str(tmp_path / "theirs")) == tmp_path / "theirs"


@pytest.mark.parametrize("leftovers", [True, False])
def test_a_folder_that_is_not_there_is_empty(leftovers: bool, tmp_path: Path) -> None:
    check_empty(tmp_path / "none", leftovers)
    (tmp_path / "x.lock").touch()
    check_empty(tmp_path, leftovers)
    (tmp_path / "z").touch()
    with pytest.raises(UserError) as refused:
        check_empty(tmp_path, leftovers)
    assert str(refused.value) == (f"run.dir={tmp_path} has files that are no run (z); name a new or an empty folder.")


def test_files_of_a_run_are_added_up(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run")
    (run / "logs" / "deep").mkdir(parents=True)
    (run / "run.db").write_bytes(b"x" * 100)
    (run / "logs" / "deep" / "a.log").write_bytes(b"x" * 23)
    assert check_entries(run) == 123
    assert check_entries(tmp_path / "none") == 0, "it was renamed meanwhile"


@pytest.mark.parametrize("name", ["a.json", "b.yaml", "c.txt"])
def test_only_files_that_are_read_whole_have_a_largest_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_MAX_BYTES", 1234)
    run = a_run(tmp_path, "run")
    (run / "a.jsonl").write_bytes(b"x" * 1235)
    (run / name).write_bytes(b"x" * 1234)
    assert check_entries(run) == 2469
    (run / name).write_bytes(b"x" * 1235)
    with pytest.raises(UserError) as refused:
        check_entries(run)
    assert str(refused.value) == f"{run / name} has more than 1,234 bytes, so no run wrote it; remove it."


def test_a_folder_that_cannot_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> Any:
        raise PermissionError("no")

    monkeypatch.setattr(folders.os, "scandir", refuse)
    with pytest.raises(UserError) as refused:
        check_entries(tmp_path)
    assert str(refused.value) == f"{tmp_path} cannot be read (no); check its permissions."


def test_a_file_that_is_renamed_while_its_size_is_asked_for_has_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"xyz")
    (entry,) = os.scandir(tmp_path)
    assert folders._get_size(entry) == 3
    (other,) = os.scandir(tmp_path)
    (tmp_path / "a").unlink()
    assert folders._get_size(other) == 0


def test_all_runs_of_a_folder_are_found_or_the_one_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "OUTPUTS", tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    old, new = (a_run(tmp_path / "outputs" / "eval", f"2026-01-0{n}_10-00-00_r{n}") for n in (1, 2))
    aside = a_run(tmp_path / "aside", "2026-01-03_10-00-00_x")
    for name, runs in (("outputs", [new, old]), ("outputs/eval", [new, old]), ("aside", [aside]), ("r1", [old])):
        assert find_runs(name) == runs
        assert is_folder_of_runs(name) is (name != "r1")
    assert not is_folder_of_runs("outputs/eval/2026-01-01_10-00-00_r1") and not is_folder_of_runs("none")
    with pytest.raises(UserError, match="none is no run"):
        find_runs("none")
    (aside / "link").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="is a link or a special file"):
        find_runs("aside")


def test_a_run_whose_database_has_vanished_is_known_by_its_journal_and_no_other_kind_is(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run", "run.journal")
    assert find_run(run, tmp_path) == run
    with pytest.raises(UserError) as refused:
        find_run(run, tmp_path, "tuning.json", "python optimize/run.py")
    assert str(refused.value) == (
        f"{run} is no run: neither a folder with a tuning.json nor one of the runs under {tmp_path}, for there are "
        "none."
    )
    with pytest.raises(UserError) as refused:
        find_run("latest", tmp_path, "tuning.json", "python optimize/run.py")
    assert str(refused.value) == f"there is no run under {tmp_path} yet; start one with python optimize/run.py."


@pytest.mark.parametrize(("n_runs", "more"), [(1, ""), (5, ""), (6, " and 1 older ones"), (8, " and 3 older ones")])
def test_up_to_five_runs_are_listed(n_runs: int, more: str, tmp_path: Path) -> None:
    names = [a_run(tmp_path, f"2026-01-0{number}_10-00-00_a").name for number in range(1, n_runs + 1)][::-1]
    with pytest.raises(UserError) as refused:
        find_run("z", tmp_path)
    assert str(refused.value) == (
        f"z is no run: neither a folder with a run.db nor one of the runs under {tmp_path}: latest, "
        f"{', '.join(names[:5])}{more}."
    )
    if n_runs > 1:
        with pytest.raises(UserError) as refused:
            find_run("a", tmp_path)
        assert str(refused.value) == (
            f"{n_runs} runs are named a; give the folder's whole name, such as {', '.join(names[:5])}."
        )


def test_a_run_that_was_named_by_hand_began_when_its_configuration_was_written(tmp_path: Path) -> None:
    between = datetime(2026, 1, 15, 12).timestamp()
    a_run(tmp_path, "2026-01-01_10-00-00_a"), a_run(tmp_path, "2026-02-01_10-00-00_b")
    by_hand = a_run(tmp_path, "by-hand")
    (by_hand / "config.yaml").touch()
    for name, written in (("config.yaml", between), ("run.db", between + 10**8)):
        os.utime(by_hand / name, (written, written))
    assert [each.name[-1] for each in list_runs(tmp_path)] == ["b", "d", "a"]
    journal = a_run(tmp_path, "restored-c", "run.journal")
    os.utime(journal, (between + 1, between + 1))
    assert [each.name[-1] for each in list_runs(tmp_path)] == ["b", "c", "d", "a"]


def test_paths_are_shown_relative_to_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "OUTPUTS", tmp_path / "outputs")
    monkeypatch.chdir(tmp_path)
    assert (format_path(tmp_path / "a" / "b"), format_path(Path("/else/where"))) == ("a/b", "/else/where")
    hints = [format_resume_hint(tmp_path / each) for each in ("outputs/eval/run-1", "my run")]
    assert hints == [
        "continue with: python eval/run.py run.resume=run-1",
        "continue with: python eval/run.py 'run.resume=my run'",
    ]


class Git:
    """`git`, with what it prints for each command; one that it has no answer to fails."""

    def __init__(self, **printed: str) -> None:
        self.printed, self.asked = printed, list[tuple[list[str], dict[str, Any]]]()

    def run(self, command: list[str], **options: Any) -> SimpleNamespace:
        self.asked.append((command, options))
        word = {"--abbrev-ref": "branch", "HEAD": "commit", "--porcelain": "status"}[command[4]]
        if word not in self.printed:
            raise subprocess.CalledProcessError(128, command)
        return SimpleNamespace(stdout=self.printed[word])


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ({"commit": "abc\n", "branch": "main\n", "status": ""}, {"commit": "abc", "branch": "main", "dirty": "false"}),
        (
            {"commit": "abc\n", "branch": "main\n", "status": " M a\n"},
            {"commit": "abc", "branch": "main", "dirty": "true"},
        ),
        ({}, {}),
    ],
)
def test_who_starts_a_run_is_told_as_far_as_it_is_known(
    printed: dict[str, str], told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    git = Git(**printed)
    monkeypatch.setattr(folders.subprocess, "run", git.run)
    monkeypatch.setattr(getpass, "getuser", lambda: "me")
    expected = {
        "mlflow.user": "me", "mlflow.source.type": "LOCAL", "mlflow.source.name": "eval/run.py",
        "harness.host": socket.gethostname(), "harness.pid": str(os.getpid()),
        **{f"mlflow.source.git.{name}": value for name, value in told.items()},
    }  # fmt: skip
    assert read_origin() == expected
    command, options = git.asked[0]
    assert command == ["git", "-C", str(folders.PROJECT_ROOT), "rev-parse", "HEAD"]
    assert (options["check"], options["capture_output"], options["text"]) == (True, True, True)

    def fail() -> str:
        raise KeyError("no name")

    monkeypatch.setattr(getpass, "getuser", fail)
    assert "mlflow.user" not in read_origin()


def test_without_git_nothing_is_told_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **options: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(folders.subprocess, "run", fail)
    assert not [name for name in read_origin() if "git" in name]


def test_who_holds_a_run_is_named() -> None:
    holder = Holder.this_process()
    assert (holder.pid, holder.host) == (os.getpid(), socket.gethostname())
    since = datetime.fromisoformat(holder.since)
    assert since.tzinfo == UTC and since.microsecond == 0
    assert str(Holder(7, "here", "t")) == "process 7 on here since t"


def test_a_run_is_in_use_while_its_lock_is_held_and_looking_does_not_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "run.db"
    assert not is_in_use(database) and list(tmp_path.iterdir()) == []
    lock, other = RunLock(database), RunLock(database)
    lock.take()
    assert is_in_use(database) and (tmp_path / "run.lock").exists()
    with pytest.raises(RunInUseError):
        other.take(wait_seconds=0)
    monkeypatch.setattr(folders, "WAIT_SECONDS", 0.0)
    with pytest.raises(RunInUseError):
        other.take()
    lock.release()
    assert not is_in_use(database) and not is_in_use(database)
    other.take(wait_seconds=0)
    other.release()

    def fail(lock: RunLock, wait_seconds: float | None = None) -> None:
        raise OSError("the disk knows no locks")

    monkeypatch.setattr(RunLock, "take", fail)
    assert not is_in_use(database)
