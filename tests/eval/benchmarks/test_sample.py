"""The committed sample: that it is what its generator writes, and that its answers are right."""

import csv
import json
import math
import random
import re
from pathlib import Path

import openpyxl
import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.sample_set import SAMPLE, SAMPLE_VERSION, BundledDataset
from eval.benchmarks.toy_set import draw_names
from mas.runtime.errors import UserError
from scripts.sample_data.make_sample import DIFFICULTIES, FAMILIES, KINDS, MARKED, SPLITS, write_sample
from tests.mas.tools.files.every_kind import EVERY_KIND

EXAMPLES = {split: BundledDataset().load(split).samples for split in SPLITS}
ALL = [sample for split in SPLITS for sample in EXAMPLES[split]]
ATTACHED = [sample for sample in ALL if sample.file]
ABOUT = {split: json.loads((SAMPLE / split / "families.json").read_text()) for split in SPLITS}
FAMILY = {sample_id: about["family"] for split in SPLITS for sample_id, about in ABOUT[split].items()}
IN_A_FAMILY = 15
GAIAS_FORM = r"\d+(\.\d\d?)?|[A-Za-z]+( [A-Za-z]+)?(, [A-Za-z]+)*"
BY_LIBRARIES = (".xlsx", ".docx", ".pptx", ".epub", ".zip", ".png", ".jpg", ".gif", ".webp")


def table(sample: Sample) -> list[dict[str, str]]:
    assert sample.file
    with sample.file.open(newline="") as file:
        return list(csv.DictReader(file))


def asking(family: str) -> list[Sample]:
    samples = [sample for sample in ALL if FAMILY[sample.id] == family]
    assert len(samples) == IN_A_FAMILY
    return samples


def named(sample: Sample, candidates: list[str]) -> list[str]:
    """The candidates in the order of the question."""
    found = [name for name in candidates if re.search(rf"\b{name}\b", sample.question)]
    return sorted(found, key=sample.question.index)


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
        if name.suffix not in BY_LIBRARIES:  # another release may write other bytes: other tests compare what they hold
            assert ours[name].read_bytes() == theirs[name].read_bytes(), name


def test_the_generator_writes_the_committed_workbooks(written: Path) -> None:
    files = [sample.file for sample in ATTACHED if sample.file and sample.file.suffix == ".xlsx"]
    assert len(files) == 2 * IN_A_FAMILY + len(MARKED)
    for file in files:
        assert cells(file) == cells(written / file.relative_to(SAMPLE))


def cells(file: Path) -> dict[str, list[tuple[object, ...]]]:
    return {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in openpyxl.load_workbook(file).worksheets}


def test_no_file_holds_the_time_of_writing(written: Path, tmp_path: Path) -> None:
    write_sample(tmp_path)
    for file in tmp_path.rglob("*.*"):
        assert file.read_bytes() == (written / file.relative_to(tmp_path)).read_bytes()
    for file in tmp_path.rglob("*.xlsx"):
        content = file.read_bytes()
        assert re.findall(rb"\d{4}-\d\d-\d\dT[\d:]+Z", content) == [b"2020-01-01T00:00:00Z"] * 2


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_has_enough_questions_and_most_need_their_file(split: str) -> None:
    samples = EXAMPLES[split]
    assert len(samples) >= 60
    assert sum(sample.file is not None for sample in samples) >= 0.6 * len(samples)
    assert {sample.level for sample in samples} == {"1", "2", "3"}
    assert sum(sample.level == "1" for sample in samples) > len(samples) / 2


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_has_every_family_in_every_difficulty(split: str) -> None:
    assert len(FAMILIES) >= 10
    assert list(ABOUT[split]) == [sample.id for sample in EXAMPLES[split]]
    found = sorted((each["family"], each["difficulty"]) for each in ABOUT[split].values() if each["family"] in FAMILIES)
    assert found == sorted((family, difficulty) for family in FAMILIES for difficulty in DIFFICULTIES)


def test_every_other_kind_of_file_is_in_one_split_and_they_are_shared_out_evenly() -> None:
    kinds = [[about["family"] for about in ABOUT[split].values() if about["family"] in KINDS] for split in SPLITS]
    assert sorted(family for each in kinds for family in each) == sorted(KINDS)
    assert {len(each) for each in kinds} == {len(KINDS) // len(SPLITS)}
    assert all(
        list(ABOUT[split].values())[-1]["family"] in KINDS for split in SPLITS
    )  # old questions keep their places


def test_a_run_does_not_see_what_family_a_question_is_of() -> None:
    assert all(sample.tags.keys() == {"kind"} for sample in ALL)


def test_the_sample_stays_small_and_says_its_version() -> None:
    files = [file for file in SAMPLE.rglob("*") if file.is_file()]
    assert len(files) == len(ATTACHED) + 2 * len(SPLITS)
    assert sum(file.stat().st_size for file in files) < 2_000_000
    assert max(file.stat().st_size for file in files) < 60_000
    assert BundledDataset().version == SAMPLE_VERSION == 4


def test_a_more_difficult_question_has_a_longer_file() -> None:
    for family in ("csv_lookup", "csv_extreme", "csv_two_step", "csv_total", "csv_list", "json_lookup", "letter_fact"):
        sizes = [len(FAMILIES[family](random.Random(1), difficulty).content) for difficulty in (1, 2, 3)]
        assert sizes == sorted(set(sizes)), family


def test_names_are_different_and_the_first_ones_look_alike() -> None:
    for seed in range(20):
        first, *others = draw_names(random.Random(seed), 30, alike=4)
        assert len({first, *others}) == 30
        shared = [name for name in others if name[:4] == first[:4]]
        assert set(others[:4]) <= set(shared)


def test_no_id_or_question_is_in_two_splits() -> None:
    assert len({sample.id for sample in ALL}) == len({sample.question for sample in ALL}) == len(ALL)


def test_a_file_is_named_after_its_question() -> None:
    assert all(sample.file.stem == sample.id for sample in ATTACHED if sample.file)
    assert {f".{sample.tags['kind']}" for sample in ALL} == {".none", *EVERY_KIND}


@pytest.mark.parametrize("sample", ATTACHED, ids=lambda sample: sample.id)
def test_no_question_with_a_file_gives_its_answer_away(sample: Sample) -> None:
    assert sample.target
    assert sample.target.lower() not in sample.question.lower()
    assert not any(re.search(rf"\b{part}\b", sample.question) for part in sample.target.split(", "))


def test_golds_have_gaias_form() -> None:
    for sample in ALL:
        assert sample.target
        form = r"=B\d\*\d+|FF[\dA-F]{6}|[A-L]\d+:[A-L]\d+" if FAMILY[sample.id] in MARKED else GAIAS_FORM
        assert re.fullmatch(f"{GAIAS_FORM}|{form}", sample.target), sample.target


def test_every_family_stays_within_its_promises_for_any_seed() -> None:
    for family in (FAMILIES | KINDS).values():
        for seed in range(20 if family in FAMILIES.values() else 3):
            drawn = family(random.Random(seed), 1 + seed % 3)
            assert drawn.answer and drawn.question.strip() == drawn.question and "{" not in drawn.question
            assert bool(drawn.suffix) == bool(drawn.content)


# The golds again, worked out from the files by other code than the generator's.


def test_looked_up_golds_are_in_the_table() -> None:
    for sample in asking("csv_lookup"):
        rows = {row["trader"]: row for row in table(sample)}
        months = [month for month in next(iter(rows.values())) if month != "trader"]
        (trader,), (month,) = named(sample, list(rows)), named(sample, months)
        assert rows[trader][month] == sample.target


def most_extreme(sample: Sample) -> dict[str, str]:
    rows = sorted(table(sample), key=lambda row: int(row["oil_burned_litres"]))
    assert int(rows[0]["oil_burned_litres"]) < int(rows[1]["oil_burned_litres"])
    assert int(rows[-2]["oil_burned_litres"]) < int(rows[-1]["oil_burned_litres"])
    return rows[-1 if "highest" in sample.question or "most oil" in sample.question else 0]


def test_extreme_golds_are_the_extreme() -> None:
    for sample in asking("csv_extreme"):
        assert most_extreme(sample)["lighthouse"] == sample.target


def test_two_step_golds_stand_in_the_row_of_the_extreme() -> None:
    for sample in asking("csv_two_step"):
        asked = "keeper" if "keeper" in sample.question else "height_m"
        assert most_extreme(sample)[asked] == sample.target


def test_totals_add_up() -> None:
    for sample in asking("csv_total"):
        rows = table(sample)
        (depot,) = named(sample, sorted({row["depot"] for row in rows}))
        assert sum(int(row["received"]) for row in rows if row["depot"] == depot) == int(sample.target or "")


def test_lists_hold_every_village_that_meets_the_condition_in_order() -> None:
    for sample in asking("csv_list"):
        (limit,) = re.findall(r"\d+", sample.question)
        rows = table(sample)
        chosen = [row["village"] for row in rows if row["well"] == "yes" and int(row["inhabitants"]) > int(limit)]
        assert ", ".join(sorted(chosen)) == sample.target


def test_workbook_golds_are_a_cell_or_the_difference_of_two() -> None:
    for sample in asking("xlsx_lookup") + asking("xlsx_difference"):
        assert sample.file
        sheets = cells(sample.file)
        title = next((title for title in sheets if re.search(rf"\b{title}\b", sample.question)), "output")
        header, *rows = sheets[title]
        (column,) = named(sample, [str(name) for name in header[1:]])
        values = {str(row[0]): row[header.index(column)] for row in rows}
        asked = [int(str(values[name])) for name in named(sample, list(values))]
        assert int(sample.target or "") == (asked[0] if len(asked) == 1 else abs(asked[0] - asked[1]))


def test_json_and_letter_golds_are_in_the_file_once() -> None:
    for sample in asking("json_lookup") + asking("letter_fact"):
        assert sample.file and sample.target
        text = sample.file.read_text()
        if sample.tags["kind"] == "txt":
            assert len(re.findall(rf"\b{sample.target}\b", text)) == 1
            continue
        stations = json.loads(text)["stations"]
        (station,) = named(sample, list(stations))
        roles = {member["role"]: member for member in stations[station]["crew"]}
        (role,) = named(sample, list(roles))
        assert sample.target in (str(roles[role]["locker"]), roles[role]["name"])


def test_converted_golds_agree_with_the_definition_of_the_units() -> None:
    factors = {"miles": 1.609344, "kilograms": 1 / 0.45359237, "feet": 0.3048, "litres": 1 / 3.785411784}
    factors |= {"inches": 2.54, "knots": 1.852}
    for sample in asking("unit_conversion"):
        (amount, unit) = re.search(r"([\d.]+) (\w+)", sample.question).groups()  # type: ignore[union-attr]
        value = (float(amount) - 32) / 1.8 if unit == "degrees" else float(amount) * factors[unit]
        assert float(sample.target or "") == pytest.approx(value, abs=0.00501)


def test_sums_come_out_as_their_text_says() -> None:
    for sample in asking("arithmetic"):
        first, *others = (int(number) for number in re.findall(r"\d+", sample.question))
        if "power" in sample.question:
            value = float(first ** others[0] % others[1])
        elif "granary" in sample.question:
            value = first * math.prod(1 - percent / 100 for percent in others)
        else:
            value = first * others[0] * others[1] - sum(others[2:])
        assert float(sample.target or "") == pytest.approx(value, abs=0.00501)


def test_puzzles_come_out_as_their_text_says() -> None:
    for sample in asking("word_puzzle"):
        if "written backwards" in sample.question:
            ordinal, words = re.search(r"the (\w+) of .* else: (.*?)\.", sample.question[::-1]).groups()  # type: ignore[union-attr]
            position = ("first", "second", "third", "fourth", "fifth", "last").index(ordinal)
            answer = words.split(", ")[-1 if ordinal == "last" else position]
        else:
            text = re.findall("`(.+)`", sample.question)[0]
            letter = re.findall(r"letter (\w) ", sample.question)
            answer = str(list(text).count(letter[0])) if letter else "".join(reversed(text))
        assert sample.target == answer


def test_the_split_has_gaias_name_too() -> None:
    assert BundledDataset().load("validation") == BundledDataset().load("val")


def test_an_unknown_split_lists_those_there_are() -> None:
    with pytest.raises(UserError, match=r"no split 'dev': .*: test, train, val\.$"):
        BundledDataset().load("dev")


def test_the_check_knows_the_settings() -> None:
    BundledDataset().check()
    with pytest.raises(UserError, match="use one of refuse, skip"):
        BundledDataset(on_bad_row="drop").check()
