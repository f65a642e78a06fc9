"""How often sealed questions were opened: across runs, splits, processes and crashes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from optimize.gate.sealed_log import SealedSet, SealedUse, describe_earlier_uses, find_earlier_uses, record_use
from optimize.questions.splits import Splits

PROMPTS = PromptSet("tuned", "toy", {"planner": "Plan."}, Path())


def a_set(own_digest: str, *texts: str) -> SealedSet:
    sealed = tuple(Sample(f"q{n}", text, target="1") for n, text in enumerate(texts))
    return SealedSet.of(Splits((), (), sealed, "of all", own_digest))


SET, OTHER = a_set("set-1", "Who?", "Where?"), a_set("set-2", "How?")


def uses(sealed: SealedSet, file: Path, besides: str | None = None) -> list[SealedUse]:
    return list(find_earlier_uses(sealed, besides, file).uses)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "optimize" / "sealed_sets.jsonl"


def test_each_run_counts_once_for_each_set(file: Path) -> None:
    assert uses(SET, file) == []
    for run, sealed in (("r1", SET), ("r2", SET), ("r1", SET), ("r3", OTHER)):
        record_use(sealed, run, PROMPTS, file)
    before = uses(SET, file, besides="r3")
    assert [(each.run, each.prompts_sha256) for each in before] == [("r1", digest(PROMPTS)), ("r2", digest(PROMPTS))]
    assert len(file.read_text().splitlines()) == 3


def test_what_others_opened_after_a_run_does_not_count_when_it_is_resumed(file: Path) -> None:
    for run in ("r1", "r2", "r3"):
        record_use(SET, run, PROMPTS, file)
    assert [each.run for each in uses(SET, file, besides="r2")] == ["r1"]


def test_questions_that_another_split_had_sealed_are_known_again(file: Path) -> None:
    record_use(a_set("one", "Who was it?", "Where?"), "r1", PROMPTS, file)
    record_use(a_set("two", "where? ", "When?"), "r2", PROMPTS, file)
    record_use(a_set("three", "Why?"), "r3", PROMPTS, file)
    before = find_earlier_uses(a_set("now", "  WHO was\nit?", "Where?", "How?", "What?"), file=file)
    assert (before.questions, before.runs) == (2, 2)
    assert describe_earlier_uses(before.questions, 4, before.runs) == (
        "2 of the 4 sealed questions were used in 2 earlier sealed tests: each test makes a lucky pass likelier"
    )
    unseen = find_earlier_uses(a_set("now", "How?"), file=file)
    assert (unseen.questions, unseen.runs, describe_earlier_uses(unseen.questions, 1, unseen.runs)) == (0, 0, None)


def test_older_lines_without_questions_count_for_the_very_same_set(file: Path) -> None:
    record_use(OTHER, "r1", PROMPTS, file)
    old = {"sealed_digest": "set-1", "run": "r0", "opened_at": "2026-11-20T10:00:00+00:00", "prompts_sha256": "aa"}
    with file.open("a") as open_file:
        open_file.write(json.dumps(old) + "\n")
    before = find_earlier_uses(SET, file=file)
    assert (before.questions, before.runs) == (2, 1)
    assert describe_earlier_uses(before.questions, SET.size, before.runs) == (
        "All 2 sealed questions were used in 1 earlier sealed test: each test makes a lucky pass likelier"
    )
    assert find_earlier_uses(a_set("another", "Who?", "Where?"), file=file).runs == 0, "nobody knows what was in it"


def test_a_line_holds_no_question_and_stays_small(file: Path) -> None:
    record_use(a_set("set", *(f"What is {n} plus one?" for n in range(53))), "r1", PROMPTS, file)
    (line,) = file.read_text().splitlines()
    assert "plus" not in line and len(line) < 1_300
    assert {len(mark) for mark in json.loads(line)["questions"]} == {16}


def test_a_line_that_a_crash_cut_off_spoils_no_other(file: Path) -> None:
    record_use(SET, "r1", PROMPTS, file)
    with file.open("ab") as open_file:
        open_file.write(b'{"sealed_digest": "set-1", "run": "r\xc3')
    assert [each.run for each in uses(SET, file)] == ["r1"]
    record_use(SET, "r3", PROMPTS, file)
    assert [each.run for each in uses(SET, file)] == ["r1", "r3"]


def test_processes_at_the_same_time_lose_nothing(file: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mas.prompt_sets.prompt_set import PromptSet\n"
        "from optimize.gate.sealed_log import *\n"
        "for n in range(5): record_use(SealedSet('set', ('00',)), f'{sys.argv[2]}-{n}', "
        "PromptSet('s', 'toy', {}, Path()), Path(sys.argv[1]))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(file), name], cwd=PROJECT_ROOT) for name in ("a", "b", "c")
    ]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    assert find_earlier_uses(SealedSet("set", ("00",)), file=file).runs == 15


def test_a_set_is_not_opened_unnoted(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    with pytest.raises(UserError, match="no sealed test runs unrecorded"):
        record_use(SET, "r1", PROMPTS, tmp_path / "taken" / "sealed_sets.jsonl")
