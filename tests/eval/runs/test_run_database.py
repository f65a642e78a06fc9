import errno
from pathlib import Path

import pytest

from eval.runs import recovery, run_database
from eval.runs.record import JournalContent, JournalRow
from eval.runs.recovery import Restored, are_copies_whole, has_lines, read_journal, read_lines, rewrite_copies
from eval.runs.run_database import Journal
from eval.runs.sqlite_file import compute_crc

LINES = ['{"sample_id": "q1"}', '{"sample_id": "q2"}']
ROWS = [JournalRow(n, f"q{n}", 1, 1, "2026-11-22", compute_crc(line)) for n, line in enumerate(LINES, 1)]
PLAN = [("q1", "{}"), ("q2", "{}")]
WHOLE = JournalContent({"info": "new"}, PLAN, {1: ROWS[0], 2: ROWS[1]})


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    assert (journal.exists(), read_journal(tmp_path), list(read_lines(tmp_path, {1}))) == (False, JournalContent(), [])
    journal.add_meta("info", "old")
    journal.add_plan(PLAN[:1])
    journal.add_meta("info", "new")
    journal.add_plan(PLAN)
    for row, line in zip(ROWS, LINES, strict=True):
        journal.add_row(row, line)
    return journal


def test_the_last_of_each_key_and_of_the_plan_counts_and_rows_add_up(journal: Journal, tmp_path: Path) -> None:
    assert journal.exists()
    assert read_journal(tmp_path) == WHOLE
    assert [line.strip() for line in read_lines(tmp_path, {ROWS[1].line_crc})] == LINES[1:]


def test_a_damaged_line_is_counted_and_one_that_was_cut_off_is_not(journal: Journal, tmp_path: Path) -> None:
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-10])
    assert (read_journal(tmp_path).n_damaged, list(read_journal(tmp_path).rows)) == (0, [1])
    journal.path.write_bytes(whole.replace(b'"q1", "epoch"', b'"qX", "epoch"'))
    assert (read_journal(tmp_path).n_damaged, list(read_journal(tmp_path).rows)) == (1, [2])
    journal.path.write_bytes(b"\xff\n[\n1 2\n" + whole)
    assert (read_journal(tmp_path).n_damaged, read_journal(tmp_path).rows) == (3, WHOLE.rows)


def test_a_journal_that_is_too_long_is_not_read(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = journal.path.stat().st_size
    monkeypatch.setattr(recovery, "_MAX_BYTES", size)
    assert read_journal(tmp_path) == WHOLE
    monkeypatch.setattr(recovery, "_MAX_BYTES", size - 1)
    assert read_journal(tmp_path) == JournalContent()


def test_both_files_are_compared_and_written_again(journal: Journal, tmp_path: Path) -> None:
    meta = {"info": "new"}
    assert are_copies_whole(tmp_path, meta, PLAN, ROWS)
    assert not are_copies_whole(tmp_path, {"info": "old"}, PLAN, ROWS)
    assert not are_copies_whole(tmp_path, meta, PLAN[:1], ROWS)
    assert not are_copies_whole(tmp_path, meta, PLAN, ROWS[:1])
    journal.records_path.write_text(f"{LINES[0]}\n")
    assert not are_copies_whole(tmp_path, meta, PLAN, ROWS)
    rewrite_copies(tmp_path, meta, PLAN, ROWS[:1], LINES[:1])
    assert are_copies_whole(tmp_path, meta, PLAN, ROWS[:1])
    assert read_journal(tmp_path) == JournalContent(meta, PLAN, {1: ROWS[0]})
    journal.records_path.unlink()
    assert not are_copies_whole(tmp_path, meta, PLAN, ROWS[:1])
    rewrite_copies(tmp_path, meta, [], [], [])
    journal.records_path.unlink()
    assert are_copies_whole(tmp_path, meta, [], [])


@pytest.mark.parametrize(
    ("text", "same"),
    [(LINES, True), (LINES[:1], False), ([*LINES, "more"], False), (LINES[::-1], False), ([LINES[0], "é"], False)],
)
def test_a_file_of_records_has_exactly_the_lines_with_these_checksums(
    text: list[str], same: bool, tmp_path: Path
) -> None:
    (tmp_path / "records.jsonl").write_text("".join(f"{line}\n" for line in text))
    assert has_lines(tmp_path / "records.jsonl", [row.line_crc for row in ROWS]) is same
    assert not has_lines(tmp_path / "missing", [])


class _FullDisk:
    """A file that takes a few bytes and then no more."""

    def __init__(self, file: object) -> None:
        self.file = file

    def __enter__(self) -> "_FullDisk":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self.file, name)

    def write(self, data: memoryview) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "no room")
        return int(self.file.write(data[:10]))  # type: ignore[attr-defined]


def test_a_line_that_does_not_fit_leaves_no_half_of_it_and_raises_nothing(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fdopen = run_database.os.fdopen
        patch.setattr(run_database.os, "fdopen", lambda *args, **options: _FullDisk(fdopen(*args, **options)))
        journal.add_meta("info", "x" * 100)
        journal.add_row(ROWS[0], "y" * 100)
    journal.add_meta("more", "fits")
    assert read_journal(tmp_path) == JournalContent({"info": "new", "more": "fits"}, PLAN, WHOLE.rows)
    assert journal.records_path.read_text().splitlines() == LINES


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "run.journal").symlink_to(tmp_path / "mine")
    Journal(tmp_path).add_meta("info", "x")
    assert (tmp_path / "mine").read_text() == "mine"


def test_what_was_restored_and_what_was_lost_is_listed() -> None:
    lost = [f"q{number}" for number in range(20)]
    assert Restored(3).describe() == "3 of 3 answers were restored"
    assert Restored(3, 1, ["q9"], ["info"]).describe() == (
        "3 of 4 answers were restored, 1 of them from records.jsonl; lost, and asked again by a resumed run: q9; "
        "also lost: info"
    )
    assert Restored(0, 0, lost).describe().endswith("q18, q19")
    assert Restored(0, 0, [*lost, "q20"]).describe().endswith("q18, q19 and 1 more")
