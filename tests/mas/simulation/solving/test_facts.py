"""Facts of a text or of JSON, as the simulated model finds them."""

import pytest

from mas.simulation.solving.facts import (
    extract_fact,
    parse_json,
    read_leaves,
    read_record_tables,
    select_leaves,
    select_sentences,
)

TEXT = (
    "The ferry is blue. It leaves from pier 12.\nWe sold 40 boxes of seed at Mora! "
    "The key hangs behind the clock? Yes.\nThe ferry leaves at noon."
)
JSON = """noise
{"a": {"b": 1, "c": [1, "x", true]}, "empty": [],
 "l": [{"name": "N", "k": null, "s": "short"}, {"id": 7, "deep": {"e": 2}}, {"v": 3}]}"""


@pytest.mark.parametrize(
    ("question", "sentence", "fact"),
    [
        ("How many crates did Orlen ship?", "In 2021 Orlen shipped 40 crates and 12 boxes.", "2021"),
        ("How many boxes did Orlen ship in 2021?", "In 2021 Orlen shipped 40 crates and 12 boxes.", "12"),
        ("How long is it?", "It is 3,500.", "3,500"),
        ("How much?", "None at all.", None),
        ("From which pier does it leave?", "It leaves from pier 12b.", "12b"),
        ("Behind what thing is it?", "It hangs behind the clock.", "clock"),
        ("Which range holds them?", "They are in A1:B7, or C1:C2.", "A1:B7"),
        ("In what year was A1:B7 made?", "Made in 1999 at A2:B3, or in 2001.", "1999"),
        ("When does it open?", "It opens on 3 May 2021.", "3 May 2021"),
        ("On what date?", "On 2021-05-03 it rained.", "2021-05-03"),
        ("Which day?", "On Tuesday at noon.", "Tuesday"),
        ("What is the code?", "The code is ab-12-x.", "12-x"),
        ("What is the password?", "Use KEY or so.", "KEY"),
        ("Who wrote it?", "It was written by Ada of Kent.", "Ada of Kent"),
        ("What colour is the ferry?", "The ferry is blue.", "blue"),
        ("What is it called?", "Ada is called the queen, they say.", "Ada"),
        ("Where is Ada?", "It rains.", None),
    ],
)
def test_a_sentence_has_what_is_asked_for(question: str, sentence: str, fact: str | None) -> None:
    assert extract_fact(question, sentence) == fact


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What colour is the ferry?", ["The ferry is blue.", "The ferry leaves at noon."]),
        ("When does the ferry leave, and from which pier?", ["It leaves from pier 12.", "The ferry leaves at noon."]),
        ("What hangs behind the clock?", ["The key hangs behind the clock?"]),
        ("Who sings?", []),
        ("How many boxes of seed?", ["We sold 40 boxes of seed at Mora!"]),
    ],
)
def test_the_sentences_that_share_most_words_come_first(question: str, expected: list[str]) -> None:
    assert select_sentences(question, TEXT) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is b of a?", ["a > b: 1", "a > c: 1, x, true"]),
        ("What is the deep e of 7?", ["l > 7 > deep > e: 2", "l > 7 > id: 7"]),
        ("What is k of N?", ["l > N, short > k: null", "l > N, short > s: short"]),
        ("What is c of a, not 1, x, true?", ["a > c: 1, x, true", "l > N, short > name: N"]),
    ],
)
def test_leaves_are_chosen_by_their_paths(question: str, expected: list[str]) -> None:
    assert [leaf.text() for leaf in select_leaves(question, read_leaves(JSON), 2)] == expected


def test_json_is_read_by_path_and_by_record() -> None:
    leaves = read_leaves(JSON)
    assert [leaf.text() for leaf in leaves] == [
        "a > b: 1",
        "a > c: 1, x, true",
        "l > N, short > name: N",
        "l > N, short > k: null",
        "l > N, short > s: short",
        "l > 7 > id: 7",
        "l > 7 > deep > e: 2",
        "l > 3 > v: 3",
    ]
    assert read_leaves("\n".join(leaf.text() for leaf in leaves if len(leaf.path) > 1)) == [
        leaf for leaf in leaves if len(leaf.path) > 1
    ]
    (table,) = read_record_tables(JSON)
    assert (table.name, table.header) == ("l", ["name", "k", "s", "id", "deep e", "v"])
    assert table.rows == [["N", "null", "short", "", "", ""], ["", "", "", "7", "2", ""], ["", "", "", "", "", "3"]]
    assert parse_json("a {1} \n [1] x") == [1] and parse_json("{") is None


@pytest.mark.parametrize(
    ("question", "sentence", "fact"),
    [
        ("Which year was it?", "Ropes of 1999.", "1999"),
        ("What year came after 1999?", "Of 1999 and 2001.", "2001"),
        ("What year was it?", "Long ago.", None),
        ("12 or how many boxes?", "It holds 12 boxes, or 14.", "14"),
        ("How many crates?", "It took 3 long crates and 5 boxes.", "3"),
        ("How many crates?", "It took 3 very long crates, and 5 crates.", "5"),
        ("How many crates?", "It took 3,400, of which 5 were lost.", "3,400"),
        ("Ada or who else?", "They say that Ada met Bo there.", "Bo"),
        ("Who else?", "Bo came.", "Bo"),
    ],
)
def test_what_the_question_names_is_not_its_answer(question: str, sentence: str, fact: str | None) -> None:
    assert extract_fact(question, sentence) == fact


LONG, SHORT = "x" * 30, "y" * 29  # a text of 30 characters is too long for a name


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("a > b: 1\nplain\na > c\nd: 2", [("a > b", "1")]),
        ('{"a": [1, {"b": 2}]}', [("a > 1", "1"), ("a > 2 > b", "2")]),
        (f'{{"a": [{{"name": "N", "s": "{LONG}", "t": "{SHORT}"}}]}}',
         [(f"a > N, {SHORT} > name", "N"), (f"a > N, {SHORT} > s", LONG), (f"a > N, {SHORT} > t", SHORT)]),
        ("[1, null, false]", [("", "1, null, false")]),
    ],
)  # fmt: skip
def test_each_scalar_has_its_path(text: str, leaves: list[tuple[str, str]]) -> None:
    assert [(" > ".join(leaf.path), leaf.value) for leaf in read_leaves(text)] == leaves


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ('[{"a": 1}]', []),
        ('[{"a": 1}, {"a": 2}]', [("", ["a"], [["1"], ["2"]])]),
        ('[{"a": 1}, 2]', []),
        ('{"x": [{"y": [{"b": 1}, {"b": 2}]}, {"b": 3}]}',
         [("x", ["y 1 b", "y 2 b", "b"], [["1", "2", ""], ["", "", "3"]]), ("y", ["b"], [["1"], ["2"]])]),
        ("no JSON", []),
    ],
)  # fmt: skip
def test_at_least_two_objects_are_a_table(text: str, tables: list[tuple[str, list[str], list[list[str]]]]) -> None:
    assert [(each.name, each.header, each.rows) for each in read_record_tables(text)] == tables


@pytest.mark.parametrize(
    ("question", "lines", "best"),
    [
        ("What is the mast colour?", ["sail colour > depth: a", "ship > mast colour: b"], "ship > mast colour: b"),
        ("What is the mast?", ["thing > mast long: b", "ship > mast: c"], "ship > mast: c"),
        ("Kip has which mast?", ["Lot > mast: a", "Kip > mast: b"], "Kip > mast: b"),
        ("Oak or which mast?", ["Lot > mast: Oak", "Kip > mast: Elm"], "Kip > mast: Elm"),
        ("What is the mast of the ship?", ["crew > ship > mast: a", "ship > mast: b"], "ship > mast: b"),
        ("Which depth?", ["sea depth > hull: a", "hull > sea depth: b"], "hull > sea depth: b"),
    ],
)
def test_the_last_step_of_a_path_counts_most_and_strange_steps_count_against_it(
    question: str, lines: list[str], best: str
) -> None:
    for order in (lines, lines[::-1]):
        assert select_leaves(question, read_leaves("\n".join(order)))[0].text() == best


def test_three_leaves_are_chosen_and_a_word_alone_is_no_sentence() -> None:
    lines = "\n".join(f"a > b{n}: {n}" for n in range(5))
    assert len(select_leaves("What is a?", read_leaves(lines))) == 3
    assert select_sentences("What is the ferry?", "Ferry. Ferry blue.") == ["Ferry blue."]
