import threading
from dataclasses import replace
from pathlib import Path

import pytest

from eval.analysis.human_review.labels import (
    LabelBook,
    append_label,
    describe_label,
    read_labels,
    withdraw,
)
from eval.runs.record import Record
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered

DATA = "d" * 64


def label(record: Record | None = None, kind: str = "right", **parts: str) -> object:
    return describe_label(record or answered("q1", "18"), kind, file_sha256=None, who="ada", run="night", **parts)


def test_a_label_is_read_as_it_was_written_and_a_withdrawn_one_no_longer_holds(tmp_path: Path) -> None:
    first = label(kind="wrong_gold", target=" 18 ", note="see table 2")
    second = label(answered("q2", "\ud800 17"), "wrong")
    for each in (first, second, withdraw(second, "ada")):
        path = append_label(tmp_path / "gold", DATA, each)
    assert path.name == f"{DATA}.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    found = read_labels(tmp_path / "gold")
    assert found == LabelBook([first], [])
    assert (found.labels[0].target, found.labels[0].note, found.labels[0].who) == ("18", "see table 2", "ada")


def test_a_line_that_a_crash_cut_off_costs_itself_and_no_other(tmp_path: Path) -> None:
    path = append_label(tmp_path, DATA, label())
    with path.open("ab") as file:
        file.write(b'{"version": 1, "sam')
    append_label(tmp_path, DATA, label(answered("q2", "18")))
    book = read_labels(path)
    assert ([each.sample_id for each in book.labels], book.unreadable) == (["q1", "q2"], [f"{path.name}:2"])


def test_several_writers_lose_no_line(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for place in range(5):
            append_label(tmp_path, DATA, label(answered(f"q{number}-{place}", "18")))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    book = read_labels(tmp_path)
    assert (len({each.sample_id for each in book.labels}), book.unreadable) == (30, [])


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        ("great", {}, "choose one of right, wrong"),
        ("wrong_gold", {}, "corrected target is missing"),
        ("wrong_gold", {"target": "17"}, "is the old one"),
    ],
)
def test_a_label_that_says_nothing_is_refused(kind: str, parts: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        label(kind=kind, **parts)


def test_an_answer_without_a_target_or_a_missing_answer_cannot_be_right() -> None:
    with pytest.raises(UserError, match="no target"):
        label(answered("q1", "18", gold=None))
    with pytest.raises(UserError, match="no answer"):
        label(replace(answered("q1", "18"), answer=None))
