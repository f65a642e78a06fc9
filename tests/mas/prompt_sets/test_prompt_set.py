"""Prompt sets: what is read is what DSPy holds, and every mistake in a folder becomes one sentence."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
import yaml

from mas.prompt_sets.prompt_set import (
    DEMOS_FILE,
    SUFFIX,
    PromptSet,
    apply_prompt_set,
    describe_edits,
    digest,
    read_prompt_set,
    write_prompt_set,
)
from mas.prompt_sets.provenance import PROVENANCE_FILE, TUNED_ON_FILE
from mas.runtime.errors import UserError
from mas.systems.gaia.agents import AGENTS as GAIA_AGENT_NAMES
from tests.mas.systems.gaia.building import build
from tests.scripted_model import Call, ScriptedModel, answering, in_turn, plan

PROJECT = Path(__file__).parents[3]
GAIA_AGENTS = list(GAIA_AGENT_NAMES)
AGENTS = ["planner", "expert"]


class Program(dspy.Module):
    def __init__(self, agents: list[str]) -> None:
        super().__init__()
        for agent in agents:
            setattr(self, agent, dspy.Predict("question -> answer"))


def instructions(program: dspy.Module) -> dict[str, str]:
    return {name: predictor.signature.instructions for name, predictor in program.named_predictors()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A correct set named `mine` under the root `tmp_path`."""
    folder = tmp_path / "prompts" / "mine"
    folder.mkdir(parents=True)
    (folder / "set.yaml").write_text("system: toy\ndescription: two agents\n")
    for agent in AGENTS:
        (folder / f"{agent}{SUFFIX}").write_text(f"You are the {agent}.\n")
    return folder


def read(folder: Path) -> PromptSet:
    return read_prompt_set("mine", AGENTS, "toy", folder.parents[1])


def test_a_set_is_read_by_name(folder: Path) -> None:
    assert read(folder) == PromptSet(
        name="mine",
        system="toy",
        texts={"planner": "You are the planner.", "expert": "You are the expert."},
        folder=folder.resolve(),
        description="two agents",
    )


def test_a_set_may_have_a_blank_description_and_spaces_around_its_system(folder: Path) -> None:
    (folder / "set.yaml").write_text("system: ' toy '\ndescription:\n")
    found = read(folder)
    assert (found.system, found.description) == ("toy", "")


DEMO = {"question": "q", "answer": "a"}


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def put(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


EXPERT = f"expert{SUFFIX}"
MISTAKES = {
    "no set.yaml": (remove("set.yaml"), ["has no set.yaml", "'system'"]),
    "broken YAML": (put("set.yaml", b"a: b\nsystem: [toy"), ["set.yaml", "line 2", "'system'"]),
    "set.yaml is a list": (put("set.yaml", b"- toy\n"), ["set.yaml", "expected the keys"]),
    "unreadable value": (put("set.yaml", b"system: !!bool foo\n"), ["set.yaml", "foo", "expected the keys"]),
    "no number": (put(PROVENANCE_FILE, b"a: !!int ''"), [PROVENANCE_FILE, "restore it"]),
    "no time": (put(PROVENANCE_FILE, b"a: !!timestamp x"), [PROVENANCE_FILE, "restore it"]),
    "unknown key": (put("set.yaml", b"system: toy\nmodel: m\n"), ["model", "expected the keys"]),
    "no system": (put("set.yaml", b"description: x\n"), ["system", "expected the keys"]),
    "other system": (put("set.yaml", b"system: bos\n"), ["made for the system 'bos', not for 'toy'"]),
    "missing prompt": (remove(EXPERT), ["Prompt file not found: ", EXPERT]),
    "empty prompt": (put(EXPERT, b" \r\n\t\n"), [EXPERT, "is empty"]),
    "not UTF-8": (put(EXPERT, "résumé".encode("latin-1")), [EXPERT, "not UTF-8 text (byte 1)"]),
    "demos not JSON": (put(DEMOS_FILE, b'{\n"expert": [}'), [DEMOS_FILE, "line 2", "expected an agent"]),
    "demos of nobody": (put(DEMOS_FILE, b'{"exprt": []}'), ["examples for exprt", "agents are planner, expert"]),
    "a demo is a text": (put(DEMOS_FILE, b'{"expert": ["a"]}'), [DEMOS_FILE, "expert 0", "expected an agent"]),
    "provenance not YAML": (put(PROVENANCE_FILE, b"a: [b"), [PROVENANCE_FILE, "restore it"]),
    "misspelt extra file": (put(f"exprt{SUFFIX}", b"x"), [f"has exprt{SUFFIX}", "agents are planner, expert"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_folder_is_one_clear_sentence(folder: Path, mistake: str) -> None:
    commit, expected = MISTAKES[mistake]
    commit(folder)
    with pytest.raises(UserError) as caught:
        read(folder)
    message = str(caught.value)
    assert [part for part in expected if part not in message] == []
    assert "\n" not in message and message.endswith(".")


@pytest.mark.parametrize("name", ["mien", "", "not/there", "mine/set.yaml", "x" * 300])
def test_an_unknown_set_lists_the_available_ones(folder: Path, name: str) -> None:
    (folder.parent / "no_set_at_all").mkdir()
    with pytest.raises(UserError, match=r"no prompt set .*\(available: mine\)"):
        read_prompt_set(name, AGENTS, "toy", folder.parents[1])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"One.\nTwo.\n", "One.\nTwo."),
        (b"One.\r\nTwo.\r\n", "One.\nTwo."),
        (b"\xef\xbb\xbfOne.", "One."),
        (b"One. \n - Two.\n", "One. \n- Two."),
        (b"\n\n   One.\n     Two.\nThree.\n\n", "One.\n     Two.\nThree."),
        (b"One.\n   \n\tTwo.\n  Three.", "One.\n\n      Two.\nThree."),
        ("Größe: 5 µm — «x»\n".encode(), "Größe: 5 µm — «x»"),
        (b"Keep {braces}, $signs and \\n.\n", "Keep {braces}, $signs and \\n."),
    ],
)
def test_a_text_is_read_as_dspy_will_hold_it(folder: Path, content: bytes, text: str) -> None:
    (folder / EXPERT).write_bytes(content)
    prompts, program = read(folder), Program(AGENTS)
    apply_prompt_set(program, prompts)
    assert prompts.texts["expert"] == text
    assert instructions(program) == prompts.texts
    assert instructions(program.deepcopy()) == prompts.texts


def test_written_and_read_again_a_set_is_equal(tmp_path: Path) -> None:
    texts = {"planner": "\n  Plan.\r\n    Well: ü\n\n", "expert": "Calculate.\n\n- Check."}
    demos = {
        "expert": [{"question": "ü \ud83d\r\n ", "answer": "a  "}, {"question": None, "answer": "\u2028"}],
        "planner": [],
    }
    prompts = PromptSet("tuned", "toy", texts, tmp_path, "yes: [no] # é ${x}", demos)
    written = write_prompt_set(tmp_path / "prompts" / "new", prompts)
    again = read_prompt_set("new", AGENTS, "toy", tmp_path)
    assert again == replace(written, folder=written.folder.resolve())
    assert (again.name, again.texts, again.description) == ("new", prompts.texts, prompts.description)
    assert (
        again.demos == prompts.demos == {"expert": [{**demos["expert"][0], "question": "ü ?\r\n "}, demos["expert"][1]]}
    )
    assert digest(again) == digest(prompts)
    assert "ü" in (written.folder / DEMOS_FILE).read_text("utf-8"), "people read and correct it"


def test_a_set_is_never_overwritten(folder: Path) -> None:
    prompts = read(folder)
    with pytest.raises(UserError, match="holds a prompt set already"):
        write_prompt_set(folder, replace(prompts, texts=dict.fromkeys(AGENTS, "changed")))
    assert read(folder) == prompts


def test_digest_changes_with_one_character_and_only_with_the_texts(folder: Path) -> None:
    prompts = read(folder)
    changed = replace(prompts, texts={**prompts.texts, "expert": "You are the expert!"})
    swapped = replace(prompts, texts={"planner": prompts.texts["expert"], "expert": prompts.texts["planner"]})
    renamed = replace(
        prompts, name="other", folder=Path("x"), description="y", texts=dict(reversed(prompts.texts.items()))
    )
    shown, other = (replace(prompts, demos={"expert": [{**DEMO, "answer": answer}]}) for answer in ("a", "b"))
    given = replace(prompts, demos={"planner": shown.demos["expert"]})
    assert len({digest(each) for each in (prompts, changed, swapped, shown, other, given)}) == 6
    assert digest(renamed) == digest(prompts)
    published = replace(prompts, edited=("set.yaml",), provenance={"gated": True}, demos={"expert": []})
    assert digest(published) == digest(prompts)


@pytest.mark.parametrize("agents", [["planner"], ["planner", "expert", "critic"], ["planner", "exprt"]])
def test_predictors_and_agents_must_match_and_nothing_changes_otherwise(folder: Path, agents: list[str]) -> None:
    program = Program(agents)
    before = instructions(program)
    with pytest.raises(UserError, match="is for the predictors expert, planner, but this program has "):
        apply_prompt_set(program, read(folder))
    assert instructions(program) == before


def test_applying_keeps_the_fields_and_sets_the_demos(folder: Path) -> None:
    program = Program(AGENTS)
    program.planner.demos = [dspy.Example(question="old", answer="old")]
    apply_prompt_set(program, replace(read(folder), demos={"expert": [DEMO, {**DEMO, "answer": "b"}]}))
    assert list(program.expert.signature.fields) == ["question", "answer"]
    assert program.expert.demos == [dspy.Example(augmented=True, **{**DEMO, "answer": each}) for each in "ab"]
    assert program.planner.demos == []
    apply_prompt_set(program, read(folder))
    assert program.expert.demos == []


def test_an_example_with_other_fields_than_its_agents_is_refused_and_nothing_changes(folder: Path) -> None:
    program = Program(AGENTS)
    before = instructions(program)
    for demo, told in [
        ({**DEMO, "anwser": "a"}, "unknown field anwser"),
        ({"question": "q"}, "lacks the output field"),
    ]:
        (folder / DEMOS_FILE).write_text(json.dumps({"expert": [DEMO, demo]}))
        with pytest.raises(UserError, match=rf"^Example 2 of 'expert' in .*demos\.json .*{told}.*remove it\.$"):
            apply_prompt_set(program, read(folder))
    assert instructions(program) == before and program.expert.demos == []


def publish(folder: Path, **more: Any) -> None:
    """Checksums of what is there, as optimize writes them."""
    files = [file for file in folder.iterdir() if file.name != PROVENANCE_FILE]
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (folder / PROVENANCE_FILE).write_text(yaml.safe_dump({"gated": True, "checksums": sums, **more}))


EDITS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "nothing": (lambda folder: None, ()),
    "another file": (put("notes.md", b"mine"), ()),
    "a text": (put(EXPERT, b"You are the expert!\n"), (EXPERT,)),
    "one byte at the end": (put(EXPERT, b"You are the expert."), (EXPERT,)),
    "the description": (put("set.yaml", b"system: toy\n"), ("set.yaml",)),
    "examples gone": (remove(DEMOS_FILE), (DEMOS_FILE,)),
    "questions it was tuned on gone": (remove(TUNED_ON_FILE), (TUNED_ON_FILE,)),
    "none of them left": (put(TUNED_ON_FILE, b'{"learnt_from": [], "picked_by": []}'), (TUNED_ON_FILE,)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_after_it_was_published_is_noticed(folder: Path, edit: str) -> None:
    (folder / DEMOS_FILE).write_text(json.dumps({"expert": [DEMO]}))
    (folder / TUNED_ON_FILE).write_text('{"learnt_from": ["aa"], "picked_by": []}')
    publish(folder)
    change, edited = EDITS[edit]
    change(folder)
    prompts = read(folder)
    assert prompts.edited == edited
    assert prompts.provenance["gated"] is True
    note = describe_edits(prompts)
    assert note == (
        f"note: prompts/mine was edited after it was published ({edited[0]}): its provenance no longer describes it"
        if edited
        else None
    )


CALLED = {
    "tool_calls": {
        "tool_calls": [{"id": "x", "name": "calculator", "args": {"expression": "2 + 3", "Ü": ["  ", None, 1.0]}}],
        "tool_call_results": [{"call_id": "x", "name": "calculator", "value": "5\r\n «5»  \n"}],
    }
}
GAIA_DEMOS: dict[str, list[dict[str, Any]]] = {
    "planner": [
        {
            "request": "Plan\r\nit  ",
            "file": None,
            "history": {"messages": []},
            "research_steps": [],
            "expert_steps": ["ü"],
        }
    ],
    "researcher": [{"research_request": "\u2028Find\tit ", "file": "a b.csv", "result": "\n gefunden: 北 \r\n"}],
    "expert": [
        {
            "history": {"messages": [{"expert_request": "Was ist 2 + 3?  ", "file": None, **CALLED}]},
            "expert_answer": "5",
            "reasoning_trace": "  2 + 3\r\n= 5 \n",
        }
    ],
    "critic_expert": [{"answer_to_review": " \r\n", "decision": "reject", "feedback": "No. "}],
    "finalizer": [{"answer_request": "a\x85b", "final_answer": " 5", "final_reasoning_trace": "\ud83d\r"}],
}


@pytest.mark.parametrize("native_tools", [True, False], ids=["native", "text"])
def test_a_set_read_from_its_folder_sends_the_messages_of_the_set_that_was_written(
    tmp_path: Path, native_tools: bool
) -> None:
    texts = {agent: f"\n  You are the {agent}.  \r\n    Größe: 5 µm\t{{x}} \n\n" for agent in GAIA_AGENTS}
    made = PromptSet("made", "gaia", texts, tmp_path, demos=GAIA_DEMOS)
    write_prompt_set(tmp_path / "set", made)
    read_again = read_prompt_set(tmp_path / "set", GAIA_AGENTS, "gaia", tmp_path)
    assert digest(read_again) == digest(made)
    first, second = (wire(prompts, native_tools) for prompts in (made, read_again))
    assert first == second
    for agent in GAIA_DEMOS:
        shown = [text for name, text in first if name == agent]
        plain = [text for name, text in wire(replace(made, demos={}), native_tools) if name == agent]
        assert all(len(long) > len(short) for long, short in zip(shown, plain, strict=True)), agent


def wire(prompts: PromptSet, native_tools: bool) -> list[tuple[str, str]]:
    """Everything that each agent sends, one tool call and the JSON fallback included."""
    expert = in_turn([Call("calculator", {"expression": "1 + 1"})], "unreadable", STRAIGHT_ANSWER)
    model = ScriptedModel(answering(planner=plan("one"), expert=expert), native_tools=native_tools)
    program = build(model)
    apply_prompt_set(program, prompts)
    assert program(question="How many?").final_answer == "42"
    assert {agent for agent, _ in model.requests} == set(GAIA_AGENTS)
    return [(agent, repr((request.system, request.messages, request.tools))) for agent, request in model.requests]


STRAIGHT_ANSWER = {"expert_answer": "42", "reasoning_trace": "six times seven"}


def test_the_baseline_reaches_seven_predictors_byte_for_byte() -> None:
    program = Program(GAIA_AGENTS)
    apply_prompt_set(program, read_prompt_set("baseline", GAIA_AGENTS, "gaia", PROJECT))
    files = {agent: (PROJECT / "prompts/baseline" / f"{agent}{SUFFIX}").read_bytes() for agent in GAIA_AGENTS}
    assert {agent: f"{text}\n".encode() for agent, text in instructions(program).items()} == files
