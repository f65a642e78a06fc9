"""The committed sample: that it is what its generator writes, and that its answers are right."""

import csv
import json
import random
import re
from pathlib import Path

import openpyxl
import pytest

from eval.benchmarks.example import Example
from eval.benchmarks.make_sample import FAMILIES, SPLITS, write_sample
from eval.benchmarks.sample_set import SAMPLE, SampleBenchmark
from mas.errors import UserError

EXAMPLES = {split: SampleBenchmark().load(split).examples for split in SPLITS}
ALL = [example for split in SPLITS for example in EXAMPLES[split]]
ATTACHED = [example for example in ALL if example.file]


def table(example: Example) -> list[dict[str, str]]:
    assert example.file
    with example.file.open(newline="") as file:
        return list(csv.DictReader(file))


def asking(*words: str) -> list[Example]:
    return [example for example in ALL if any(word in example.question for word in words)]


def named(example: Example, candidates: list[str]) -> list[str]:
    """The candidates in the order of the question."""
    found = [name for name in candidates if re.search(rf"\b{name}\b", example.question)]
    return sorted(found, key=example.question.index)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder)
    return folder


def test_the_generator_writes_the_committed_files(written: Path) -> None:
    ours = {file.relative_to(SAMPLE): file for file in SAMPLE.rglob("*") if file.is_file()}
    theirs = {file.relative_to(written): file for file in written.rglob("*") if file.is_file()}
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        if name.suffix != ".xlsx":  # another release of openpyxl may write other bytes: the next test compares cells
            assert ours[name].read_bytes() == theirs[name].read_bytes(), name


def test_the_generator_writes_the_committed_workbooks(written: Path) -> None:
    files = [example.file for example in ATTACHED if example.file and example.file.suffix == ".xlsx"]
    assert len(files) >= 6
    for file in files:
        assert cells(file) == cells(written / file.relative_to(SAMPLE))


def cells(file: Path) -> dict[str, list[tuple[object, ...]]]:
    return {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in openpyxl.load_workbook(file).worksheets}


def test_a_workbook_does_not_hold_the_time_of_writing(written: Path, tmp_path: Path) -> None:
    write_sample(tmp_path)
    for file in tmp_path.rglob("*.xlsx"):
        content = file.read_bytes()
        assert content == (written / file.relative_to(tmp_path)).read_bytes()
        assert re.findall(rb"\d{4}-\d\d-\d\dT[\d:]+Z", content) == [b"2020-01-01T00:00:00Z"] * 2


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_has_enough_questions_and_most_need_their_file(split: str) -> None:
    examples = EXAMPLES[split]
    assert len(examples) >= 22
    assert sum(example.file is not None for example in examples) >= 0.6 * len(examples)
    assert {example.level for example in examples} == {"1", "2", "3"}
    assert sum(example.level == "1" for example in examples) > len(examples) / 2


def test_no_id_or_question_is_in_two_splits() -> None:
    assert len({example.id for example in ALL}) == len({example.question for example in ALL}) == len(ALL)


def test_a_file_is_named_after_its_question() -> None:
    assert all(example.file.stem == example.id for example in ATTACHED if example.file)
    assert {example.tags["kind"] for example in ALL} == {"none", "csv", "xlsx", "json", "txt"}


@pytest.mark.parametrize("example", ATTACHED, ids=lambda example: example.id)
def test_no_question_with_a_file_gives_its_answer_away(example: Example) -> None:
    assert example.target
    assert example.target.lower() not in example.question.lower()
    assert not any(re.search(rf"\b{part}\b", example.question) for part in example.target.split(", "))


def test_golds_have_gaias_form() -> None:
    for example in ALL:
        assert example.target
        assert re.fullmatch(r"\d+(\.\d\d)?|[A-Za-z]+(, [A-Za-z]+)*", example.target), example.target


def test_every_family_stays_within_its_promises_for_any_seed() -> None:
    for family in FAMILIES.values():
        for seed in range(20):
            drawn = family(random.Random(seed))
            assert drawn.answer and drawn.question.strip() == drawn.question and "{" not in drawn.question
            assert bool(drawn.suffix) == bool(drawn.content)


# The golds again, worked out from the files by other code than the generator's.


def test_looked_up_golds_are_in_the_table() -> None:
    examples = asking("trader", "ship in", "'s store in")
    assert len(examples) == 6
    for example in examples:
        rows = {row["trader"]: row for row in table(example)}
        months = [month for month in next(iter(rows.values())) if month != "trader"]
        (trader,), (month,) = named(example, list(rows)), named(example, months)
        assert rows[trader][month] == example.target


def test_extreme_golds_are_the_extreme() -> None:
    examples = asking("which lighthouse", "Which lighthouse")
    assert len(examples) == 6
    for example in examples:
        rows = sorted(table(example), key=lambda row: int(row["oil_litres"]))
        highest = "highest" in example.question or "most oil" in example.question
        assert rows[-1 if highest else 0]["lighthouse"] == example.target


def test_totals_add_up() -> None:
    examples = asking("received by the depot", "Add up everything", "altogether")
    assert len(examples) == 6
    for example in examples:
        rows = table(example)
        (depot,) = named(example, sorted({row["depot"] for row in rows}))
        assert sum(int(row["received"]) for row in rows if row["depot"] == depot) == int(example.target or "")


def test_lists_hold_every_village_that_meets_the_condition_in_order() -> None:
    examples = asking("illages")
    assert len(examples) == 6
    for example in examples:
        (limit,) = re.findall(r"\d+", example.question)
        rows = table(example)
        chosen = [row["village"] for row in rows if row["well"] == "yes" and int(row["inhabitants"]) > int(limit)]
        assert ", ".join(sorted(chosen)) == example.target


def test_workbook_golds_are_a_cell_or_the_difference_of_two() -> None:
    examples = [example for example in ATTACHED if example.tags["kind"] == "xlsx"]
    assert len(examples) == 12
    for example in examples:
        assert example.file
        sheets = cells(example.file)
        title = next((title for title in sheets if re.search(rf"\b{title}\b", example.question)), "output")
        header, *rows = sheets[title]
        (column,) = named(example, [str(name) for name in header[1:]])
        values = {str(row[0]): row[header.index(column)] for row in rows}
        asked = [int(str(values[name])) for name in named(example, list(values))]
        assert int(example.target or "") == (asked[0] if len(asked) == 1 else abs(asked[0] - asked[1]))


def test_json_and_letter_golds_are_in_the_file_once() -> None:
    examples = [example for example in ATTACHED if example.tags["kind"] in ("json", "txt")]
    assert len(examples) == 12
    for example in examples:
        assert example.file and example.target
        text = example.file.read_text()
        if example.tags["kind"] == "txt":
            assert len(re.findall(rf"\b{example.target}\b", text)) == 1
            continue
        stations = json.loads(text)["stations"]
        (station,) = named(example, list(stations))
        roles = {member["role"]: member for member in stations[station]["crew"]}
        (role,) = named(example, list(roles))
        assert example.target in (str(roles[role]["locker"]), roles[role]["name"])


def test_converted_golds_agree_with_the_definition_of_the_units() -> None:
    factors = {"miles": 1.609344, "kilograms": 1 / 0.45359237, "feet": 0.3048, "litres": 1 / 3.785411784}
    factors |= {"inches": 2.54, "knots": 1.852}
    examples = [
        example for example in ALL if not example.file and re.search("Convert|How much|Express", example.question)
    ]
    assert len(examples) == 6
    for example in examples:
        (amount, unit) = re.search(r"([\d.]+) (\w+)", example.question).groups()  # type: ignore[union-attr]
        value = (float(amount) - 32) / 1.8 if unit == "degrees" else float(amount) * factors[unit]
        assert float(example.target or "") == pytest.approx(value, abs=0.00501)


def test_the_split_has_gaias_name_too() -> None:
    assert SampleBenchmark().load("validation") == SampleBenchmark().load("val")


def test_an_unknown_split_lists_those_there_are() -> None:
    with pytest.raises(UserError, match=r"no split 'dev': .*: test, train, val\.$"):
        SampleBenchmark().load("dev")


def test_the_check_knows_the_settings() -> None:
    SampleBenchmark().check()
    with pytest.raises(UserError, match="use one of refuse, skip"):
        SampleBenchmark(on_bad_row="drop").check()
