import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from eval.analysis.human_review import labels as labels_module
from eval.analysis.human_review.labels import (
    HumanLabel,
    LabelBook,
    append_label,
    compute_answer_digest,
    compute_text_digest,
    describe_label,
    is_dataset_digest,
    read_labels,
    withdraw,
)
from eval.benchmarks.fingerprint import compute_fingerprint
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
    assert found == LabelBook([first], [second], [])
    assert (found.labels[0].target, found.labels[0].note, found.labels[0].who) == ("18", "see table 2", "ada")


def test_answers_are_the_same_without_case_spacing_and_spelling_of_a_number() -> None:
    assert compute_answer_digest(" 1,000 ") == compute_answer_digest("1000.0")
    assert compute_answer_digest("No") != compute_answer_digest("Now")


def test_a_line_that_a_crash_cut_off_costs_itself_and_no_other(tmp_path: Path) -> None:
    path = append_label(tmp_path, DATA, label())
    with path.open("ab") as file:
        file.write(b'{"version": 1, "sam')
    append_label(tmp_path, DATA, label(answered("q2", "18")))
    book = read_labels(path)
    assert ([each.sample_id for each in book.labels], book.unreadable) == (["q1", "q2"], [f"{path.name}:2"])


def test_lines_of_others_are_data_of_the_right_types_or_no_labels(tmp_path: Path) -> None:
    good = vars(label())
    bad = [{**good, "epoch": "1"}, {**good, "label": "great"}, {**good, "evil": "x"}, {**good, "note": ["x"]}, [], 7]
    lines = [*map(json.dumps, bad), "[" * 100_000, json.dumps(good)]
    (tmp_path / f"{DATA}.jsonl").write_text("\n".join(lines))
    book = read_labels(tmp_path)
    assert (len(book.labels), len(book.unreadable)) == (1, 7)


def test_a_link_is_neither_read_nor_written(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine\n")
    (tmp_path / f"{DATA}.jsonl").symlink_to(tmp_path / "other")
    with pytest.raises(UserError, match="not saved"):
        append_label(tmp_path, DATA, label())
    with pytest.raises(UserError, match="ordinary file"):
        read_labels(tmp_path)
    assert (tmp_path / "other").read_text() == "mine\n"


def test_a_digest_from_another_folder_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="which data"):
        append_label(tmp_path, "../../etc/cron", label())
    assert list(tmp_path.iterdir()) == []


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
        ("right", {"note": "x" * 2001}, "the note has 2,001"),
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


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"note": "x" * 2_000, "target": "y" * 20_000}, None),
        ({"note": "x" * 2_001}, "the note has 2,001 characters, 2,000 are possible; shorten it."),
        ({"target": "y" * 20_001}, "the corrected target has 20,001 characters, 20,000 are possible; shorten it."),
        ({"who": "a" * 100}, None),
        ({"who": "a" * 101}, "the name of the person has 101 characters, 100 are possible; shorten it."),
    ],
)
def test_texts_of_a_label_have_a_most_length(parts: dict[str, str], complaint: str | None) -> None:
    record, given = answered("q1", "18"), {"target": "18", "who": "ada", **parts}
    if complaint is None:
        made = describe_label(record, "wrong_gold", file_sha256=None, run="night", **given)
        assert {name: getattr(made, name) for name in given} == given
        return
    with pytest.raises(UserError) as refused:
        describe_label(record, "wrong_gold", file_sha256=None, run="night", **given)
    assert str(refused.value) == complaint


def test_a_label_has_all_that_finds_its_answer_again() -> None:
    record = replace(answered("q1", "x" * 3_000), epoch=2, attempt=3)
    made = describe_label(record, "wrong", file_sha256="of the file", who="ada", run="night", note=" why ", target="9")
    assert (made.sample_id, made.label, made.target, made.note) == ("q1", "wrong", None, "why")
    assert made.question == compute_fingerprint(record.question, "of the file")
    assert (made.target_sha256, made.answer) == (compute_text_digest("17"), "x" * 2_000)
    assert made.answer_sha256 == compute_answer_digest("x" * 3_000)
    assert (made.who, made.run, made.epoch, made.attempt) == ("ada", "night", 2, 3)
    assert (len(made.id), made.withdraws) == (16, "")
    back = withdraw(made, "bob")
    assert back.key == made.key and back.id != made.id and len(back.id) == 16
    assert (back.label, back.withdraws, back.who, back.run, back.epoch, back.attempt, back.answer_sha256) == (
        "withdrawn", made.id, "bob", "night", 2, 3, made.answer_sha256
    )  # fmt: skip


def test_labels_of_all_files_are_read_in_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    late, early, middle = (
        replace(describe_label(answered(name, "18"), "wrong", file_sha256=None, who="ada", run="r"), when=when)
        for name, when in (("late", "3"), ("early", "1"), ("middle", "2"))
    )
    gold = tmp_path / "deep" / "gold"
    first = append_label(gold, "a" * 64, late)
    second = append_label(gold, "b" * 64, early)
    append_label(gold, "b" * 64, middle)
    assert gold.stat().st_mode & 0o777 == 0o700 and second.stat().st_mode & 0o777 == 0o600
    with first.open("a") as file:
        file.write("\n  \nno label\n")
    (gold / "note.txt").write_text("no label")
    assert read_labels(gold) == LabelBook([early, middle, late], [], [f"{first.name}:2"]), "empty lines are none"
    assert read_labels(second) == LabelBook([early, middle], [], [])
    assert read_labels(tmp_path / "nothing") == read_labels(tmp_path / "none.jsonl") == LabelBook()


def test_what_is_no_file_of_labels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = append_label(tmp_path, DATA, label())
    size = path.stat().st_size
    monkeypatch.setattr(labels_module, "_MAX_FILE_BYTES", size)
    assert len(read_labels(path).labels) == 1
    monkeypatch.setattr(labels_module, "_MAX_FILE_BYTES", size - 1)
    with pytest.raises(UserError) as refused:
        read_labels(path)
    assert str(refused.value) == (f"{path} is no file of labels: a special file, or larger than {size - 1:,} bytes.")
    os.mkfifo(tmp_path / f"{'e' * 64}.jsonl")
    with pytest.raises(UserError, match="it is no ordinary file"):
        append_label(tmp_path, "e" * 64, label())
    with pytest.raises(UserError, match="a special file"):
        read_labels(tmp_path / f"{'e' * 64}.jsonl")


@pytest.mark.parametrize(
    ("changes", "is_label"),
    [
        ({}, True),
        ({"target": None}, True),
        ({"note": None}, False),
        ({"epoch": True}, False),
        ({"attempt": 1.0}, False),
        ({"version": 2}, False),
        ({"version": None}, False),
        ({"label": "withdrawn"}, True),
        ({"label": "Right"}, False),
        ({"more": "x"}, False),
    ],
)
def test_a_line_is_a_label_of_this_version_or_none(changes: dict[str, object], is_label: bool) -> None:
    text = json.dumps({**vars(label()), **changes})
    if is_label:
        assert vars(HumanLabel.from_json(text)) == {**vars(HumanLabel.from_json(text)), **changes}
    else:
        with pytest.raises(ValueError):
            HumanLabel.from_json(text)


def test_of_a_line_only_what_names_the_question_is_needed() -> None:
    short = {"version": 1, "sample_id": "q1", "question": "f", "target_sha256": "t", "label": "wrong"}
    found = HumanLabel.from_json(json.dumps(short))
    assert vars(found) == {
        **short, "target": None, "answer": "", "answer_sha256": "", "note": "", "who": "", "when": "", "run": "",
        "epoch": 1, "attempt": 1, "withdraws": "", "id": "",
    }  # fmt: skip
    assert found.key == ("q1", "f", "t")
    with pytest.raises(ValueError, match="question"):
        HumanLabel.from_json(json.dumps({name: value for name, value in short.items() if name != "question"}))


@pytest.mark.parametrize(
    ("text", "expected"), [("d" * 64, True), ("d" * 63, False), ("d" * 65, False), ("D" * 64, False), ("g" * 64, False)]
)
def test_a_digest_has_sixty_four_hexadecimal_digits(text: str, expected: bool) -> None:
    assert is_dataset_digest(text) is expected


def test_a_write_that_fails_leaves_the_lines_that_were_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = append_label(tmp_path, DATA, label())
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError) as refused:
        append_label(tmp_path, DATA, label(answered("q2", "18")))
    assert str(refused.value) == f"the label was not saved: {path} cannot be written (the disk is full)."
    assert path.read_bytes() == before


def test_each_label_is_one_line_and_only_a_line_that_was_cut_off_is_ended_first(tmp_path: Path) -> None:
    path = append_label(tmp_path, DATA, label())
    append_label(tmp_path, DATA, label())
    assert path.read_bytes().count(b"\n") == 2 and path.read_bytes().endswith(b"}\n")
    whole = path.read_bytes()
    path.write_bytes(whole + b"{")
    append_label(tmp_path, DATA, label())
    added = path.read_bytes().removeprefix(whole)
    assert added.startswith(b'{\n{"') and added.count(b"\n") == 2
