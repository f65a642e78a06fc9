"""A gold answer cannot hide in a prompt, and ordinary prompts are not taken for leaks."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.toy_set import ToyDataset
from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.prompt_set import SUFFIX, PromptSet, read_prompt_set
from mas.simulation.reflection import HELPFUL, USELESS
from optimize.publishing.leaks import Hit, LeakIndex

TRAIN = (
    Sample("train-0001", "How many lanterns did the harbour of Ostrel sell in its first winter?", target="4,812"),
    Sample("train-0002", "Which keeper of the Velm lighthouse burned the least oil?", target="Gorvanna"),
)
VAL = (
    Sample("val-0001", "What is the name of the ferry that crossed the Quell strait twice?", target="Marabunda"),
    Sample("val-0002", "How many bridges span the river Osk inside the old walls of Tamber?", target="7"),
    Sample("val-0003", "Did the tallest windmill of Pelgrave survive the flood of that autumn?", target="yes"),
)
SEALED = (
    Sample(
        "8f3ac2d1-77aa-4c10-9e5b-0d3c5e1f9a20",
        "Add up the tolls that the gate of Hamrun took between Easter and midsummer, in crowns.",
        file=Path("/data/hamrun_tolls.csv"),
        target="$1,234.50",
    ),
    Sample(
        "test-0002",
        "List the three pilots who reached Cape Dorn, in the order of arrival.",
        target="Ilka, Brandt; Soria",
    ),
    Sample(
        "test-0003", "Which maxim is carved over the library door in Ghentis?", target="The Sea gives; nobody asks Why"
    ),
    Sample("test-0004", "Which city?", target="Crème Brûlée"),
    Sample("test-0005", "Welcher Fluss fließt durch die Stadt?", target="東京都庁"),
)
INDEX = LeakIndex(TRAIN, VAL, SEALED)
PLAIN = "You answer questions.\n\nGive the number alone, with at most 2000 characters around it, and say yes or no."


def prompts(text: str = PLAIN, agent: str = "solver", **demos: Any) -> PromptSet:
    return PromptSet("candidate", "toy", {agent: text}, Path("candidate"), demos=demos)


def found(text: str) -> list[Hit]:
    return INDEX.check(prompts(f"{PLAIN}\n{text}"), prompts()).hits


def blocking(text: str) -> set[tuple[str, str]]:
    return {(hit.kind, hit.sample_id) for hit in found(text) if hit.split != "train"}


@pytest.mark.parametrize(
    "text",
    [
        "it was Marabunda.",
        "it was MARABUNDA!",
        "**Mara**bunda",
        "Mara&#98;unda and more",
        "Mar\u200babunda",
        "Marab\u00adunda",
        "".join(chr(ord(letter) + 0xFEE0) for letter in "Marabunda"),  # full width
        "Ma\u0301rabunda",
        "Mara-bunda",
        "Mara\ud800bunda",
        "Mara\x00bunda",
        "\\nMarabunda",
        "\\u004darabunda",
        "Mara\nbunda",
        "'Marabunda'",
        "\u202eMarabunda\u202c",
    ],
)
def test_a_name_is_found_however_it_is_written(text: str) -> None:
    assert ("gold", "val-0001") in blocking(text)


@pytest.mark.parametrize("text", ["xMarabunda", "Mara bun da x".replace("da", "do"), "marabund"])
def test_a_part_of_another_word_is_no_gold(text: str) -> None:
    assert blocking(text) == set()


@pytest.mark.parametrize(
    "text",
    [
        "1234.5", "1,234.50", "$1234.50", "1 234.5", "1\u202f234.5", "1'234.5", "1.234,50", "1234.5 crowns", "1234.5kg",
        "\uff11\uff12\uff13\uff14.5", "= 1234.500.", "(1234.5)", "12\u200b34.5", "-1234.5", "1&#44;234.5", "x=1234.5",
    ],
)  # fmt: skip
def test_a_number_is_found_with_any_separators(text: str) -> None:
    assert ("gold", SEALED[0].id) in blocking(f"take {text} here")


@pytest.mark.parametrize("text", ["12345", "1234.51", "11234.5", "1234.5.2", "f1234.5", "123", "0.12345"])
def test_another_number_is_no_gold(text: str) -> None:
    assert blocking(f"take {text} here") == set()


@pytest.mark.parametrize(
    "text",
    [
        "Ilka, Brandt, Soria",
        "first ilka",
        "SORIA",
        "ilka brandt and soria",
        "the sea gives",
        "creme brulee",
        "東京都庁です",
    ],
)
def test_lists_count_as_a_whole_and_by_item(text: str) -> None:
    assert blocking(text)


@pytest.mark.parametrize(
    ("text", "kind", "sample_id"),
    [
        ("when the ferry that crossed the Quell strait twice is asked", "question", "val-0001"),
        ("THE FERRY, that crossed: the Quell strait twice", "question", "val-0001"),
        ("see 8f3ac2d1-77aa-4c10-9e5b-0d3c5e1f9a20", "id", SEALED[0].id),
        ("read hamrun_tolls.csv first", "file", SEALED[0].id),
        ("the Hamrun tolls", "file", SEALED[0].id),
    ],
)
def test_questions_ids_and_files_block(text: str, kind: str, sample_id: str) -> None:
    assert (kind, sample_id) in blocking(text)


def test_a_short_or_common_gold_counts_only_beside_its_question() -> None:
    assert blocking("Answer 7, or yes.") == set()
    assert ("gold", "val-0002") in blocking("If the river Osk inside the old town is meant, say 7.")
    assert ("gold", "val-0003") in blocking("On the tallest windmill of Pelgrave:\nyes.")
    assert blocking("On the river Osk inside the old town.\n\nSay 7.") == set()  # another paragraph
    assert blocking("Is it 7 for val-0002?") == {("id", "val-0002"), ("gold", "val-0002")}


def test_training_questions_are_only_shown_and_their_gold_is_not_quoted() -> None:
    report = INDEX.check(prompts("The lanterns of Ostrel were 4812; Gorvanna did it."), prompts())
    assert not report.blocked
    assert {hit.split for hit in report.hits} == {"train"}
    told = json.dumps(report.to_dict())
    assert "4812" not in told and "orvanna" not in told


def test_a_report_never_quotes_a_gold_even_beside_a_training_hit() -> None:
    report = INDEX.check(prompts("Gorvanna met Marabunda for 1,234.50 with Ilka."), prompts())
    told = (json.dumps(report.to_dict(), ensure_ascii=False) + report.summary()).lower()
    for gold in ("gorvanna", "marabunda", "1,234.50", "1234.5", "ilka"):
        assert gold not in told


def test_what_a_gated_parent_says_as_often_is_no_hit() -> None:
    parent = prompts("Say Marabunda.\nBe brief.")
    moved = INDEX.check(prompts("Be very brief.\nSay Marabunda, please."), parent, is_parent_gated=True)
    assert moved.hits == []
    twice = INDEX.check(prompts("Say Marabunda.\nBe brief.\nMarabunda!"), parent, is_parent_gated=True)
    assert [hit.place for hit in twice.hits] == ["text line 3"] and twice.blocked
    other = PromptSet("p", "toy", {"planner": "Say Marabunda.", "solver": "Be brief."}, Path("p"))
    moved_on = PromptSet("c", "toy", {"planner": "Go.", "solver": "Say Marabunda."}, Path("c"))
    assert INDEX.check(moved_on, other, is_parent_gated=True).blocked


def test_what_any_other_parent_says_is_a_leak() -> None:
    parent = prompts("It was marabunda. Then marabunda again, and Gorvanna.")
    same = INDEX.check(parent, parent)
    assert same.blocked and [hit.split for hit in same.hits] == ["val", "train"], "what blocks comes first"
    assert same.summary().endswith("; 1 of training questions")
    assert not INDEX.check(parent, parent, is_parent_gated=True).blocked


def test_demos_are_checked_in_all_their_depth() -> None:
    history = {"messages": [{"content": "x", "tool_calls": [{"args": {"q": ["Marabunda"]}}]}]}
    report = INDEX.check(prompts(solver=[{"task": "a"}, {"history": history, "result": "b"}]), prompts())
    assert [hit.place for hit in report.hits] == ["demo 2 field history"] and report.blocked
    by_key = INDEX.check(prompts(solver=[{"args": {"Marabunda": None, "n": 3.5, "ok": True}}]), prompts())
    assert by_key.blocked


def test_a_demo_of_a_training_question_may_hold_the_models_own_answer() -> None:
    demo = {"task": TRAIN[0].question, "working": "4000 and 812", "result": "4812"}
    assert INDEX.check(prompts(solver=[demo]), prompts()).hits == []


def test_a_demo_of_a_training_question_with_the_gold_of_another_is_blocked() -> None:
    for result in ("Marabunda", "1234.5"):
        demo = {"task": TRAIN[0].question, "result": result}
        assert INDEX.check(prompts(solver=[demo]), prompts()).blocked
    stranger = {"task": VAL[0].question, "result": "Marabunda"}
    assert INDEX.check(prompts(solver=[stranger]), prompts()).blocked


def test_words_of_the_system_and_of_training_questions_need_the_question_beside_them() -> None:
    index = LeakIndex(
        (Sample("t-000001", "Was it the calculator of Ostrel or the abacus?", target="3"),),
        (
            Sample("v-000001", "What did Brimm's clerk use for the sums of May?", target="abacus"),
            Sample("v-000002", "What lies beside the scales on Brimm's long desk?", target="unit_converter"),
        ),
        (),
    )
    text = prompts("Use the unit_converter, or an abacus.")
    assert {hit.sample_id for hit in index.check(text, prompts()).hits} == {"v-000002"}
    assert index.check(text, prompts(), ["unit_converter"]).hits == []
    beside = prompts("What Brimm's clerk use for sums is the abacus.")
    assert index.check(beside, prompts(), ["unit_converter"]).blocked


def test_a_gold_query_is_protected_and_neither_its_json_nor_what_a_training_query_has_as_well() -> None:
    def ask(split: str, *queries: str) -> list[Sample]:
        tables = [[{"database": "shop", "query": query}] for query in queries]
        tags = [{"expected": json.dumps({"agents": ["sql"], "tables": table})} for table in tables]
        return [Sample(f"{split}-{at:06}", f"{split} {at}?", target="7", tags=each) for at, each in enumerate(tags)]

    counted = "SELECT count(*) FROM customers WHERE city ="
    train, own = f"{counted} 'Oslo'", "SELECT sum(tolls) FROM gates WHERE harbour = 'Dorn' AND season = 'winter'"
    index = LeakIndex(ask("train", train), ask("val", f"{counted} 'Turku'", own), ask("test", own))
    assert (
        index.check(prompts(f"Call sql on the database shop: {counted} …; agents, tables, query."), prompts()).hits
        == []
    )
    report = index.check(prompts(f"Try {own}."), prompts())
    assert report.blocked and {hit.sample_id for hit in report.hits} == {"val-000001", "test-000000"}


def benchmarks() -> list[dict[str, tuple[Sample, ...]]]:
    sample = BundledDataset()
    toy = ToyDataset(name="toy", n_train=60, n_val=60, n_test=100, default_split="val")
    return [{split: each.load(split).samples for split in ("train", "val", "test")} for each in (sample, toy)]


def shipped() -> list[PromptSet]:
    found = []
    for folder, system in (("baseline", "gaia"), ("toy_baseline", "toy"), ("single_agent_baseline", "single_agent")):
        files = (PROJECT_ROOT / "prompts" / folder).glob(f"*{SUFFIX}")
        agents = sorted(path.name.removesuffix(SUFFIX) for path in files)
        found.append(read_prompt_set(folder, agents, system, PROJECT_ROOT))
    return found


@pytest.mark.parametrize("data", benchmarks(), ids=["sample", "toy"])
def test_prompts_written_without_sight_of_the_data_do_not_block(data: dict[str, tuple[Sample, ...]]) -> None:
    index = LeakIndex(data["train"], data["val"], data["test"])
    clauses = "\n".join([*(each for group in HELPFUL.values() for each in group), *USELESS])
    for each in [*shipped(), prompts(clauses)]:
        nothing = PromptSet("empty", each.system, dict.fromkeys(each.texts, ""), each.folder)
        assert index.check(each, nothing).hits == []


@pytest.mark.parametrize("data", benchmarks(), ids=["sample", "toy"])
def test_every_planted_gold_is_found_in_any_company(data: dict[str, tuple[Sample, ...]]) -> None:
    """A long one alone; a short one, and a name that training questions have as well, beside its question."""
    index = LeakIndex(data["train"], data["val"], data["test"])
    draw = random.Random(7)
    words = [word for each in shipped() for text in each.texts.values() for word in text.split()]
    asked_in_training = " ".join(sample.question for sample in data["train"])
    n_alone = 0
    for sample in (*data["val"], *data["test"][:60]):
        gold = str(sample.target)
        alone = len(gold.removesuffix(".00")) > 5 and not any(
            item.strip() in asked_in_training for item in gold.split(",")
        )
        n_alone += alone
        around = draw.choices(words, k=40)
        around.insert(20, f"({gold})" if alone else f"{sample.question} - {gold}")
        hits = index.check(prompts(" ".join(around)), prompts()).hits
        assert any(hit.sample_id == sample.id for hit in hits), gold
    assert n_alone > 20
