"""Prompt sets: what is read is what DSPy holds, and every mistake in a folder becomes one sentence."""

import hashlib
import json
import os
import subprocess
import sys
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
    NameTakenError,
    PromptSet,
    apply_prompt_set,
    check_name_is_free,
    check_set_name,
    describe_edits,
    digest,
    find_set_folder,
    is_gated,
    name_prompt_file,
    read_applied_prompts,
    read_prompt_set,
    read_set_folder,
    write_prompt_set,
)
from mas.prompt_sets.provenance import PROVENANCE_FILE, sign_provenance
from mas.prompt_sets.tuned_on import TUNED_ON_FILE, TunedOn
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


def test_a_set_is_read_by_absolute_path_and_by_path_from_either_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere, root = tmp_path_factory.mktemp("elsewhere"), folder.parents[1]
    by_name = read(folder)
    assert read_prompt_set(folder, AGENTS, "toy", elsewhere) == by_name
    monkeypatch.chdir(elsewhere)
    assert read_prompt_set("prompts/mine", AGENTS, "toy", root) == by_name
    monkeypatch.chdir(folder.parent)
    assert read_prompt_set("./mine", AGENTS, "toy", elsewhere) == by_name


def test_files_of_a_tuned_set_do_not_disturb(folder: Path) -> None:
    plain = read(folder)
    (folder / DEMOS_FILE).write_text('{"expert": []}')
    (folder / PROVENANCE_FILE).write_text("model: m\n")
    (folder / "notes.md").write_text("mine")
    assert read(folder) == replace(plain, provenance={"model": "m"})
    assert digest(read(folder)) == digest(plain)


DEMO = {"question": "q", "answer": "a"}


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def put(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def make_folder(name: str) -> Callable[[Path], None]:
    def mistake(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return mistake


def make_link_to_itself(name: str) -> Callable[[Path], None]:
    def mistake(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(folder / name)

    return mistake


EXPERT = f"expert{SUFFIX}"
MISTAKES = {
    "no set.yaml": (remove("set.yaml"), ["has no set.yaml", "'system'"]),
    "broken YAML": (put("set.yaml", b"a: b\nsystem: [toy"), ["not valid YAML", "line 2", "'system'"]),
    "set.yaml is a list": (put("set.yaml", b"- toy\n"), ["set.yaml", "expected the keys"]),
    "set.yaml is empty": (put("set.yaml", b""), ["set.yaml", "expected the keys"]),
    "unknown key": (put("set.yaml", b"system: toy\nmodel: m\n"), ["expected the keys", "nothing else"]),
    "no system": (put("set.yaml", b"description: x\n"), ["does not name its system"]),
    "system is no text": (put("set.yaml", b"system: 5\n"), ["does not name its system"]),
    "description is no text": (put("set.yaml", b"system: toy\ndescription: [a]\n"), ["description", "not a text"]),
    "set.yaml not UTF-8": (put("set.yaml", b"system: \xff\n"), ["set.yaml is not UTF-8", "byte 8"]),
    "other system": (put("set.yaml", b"system: bos\n"), ["made for the system 'bos', not for 'toy'"]),
    "missing prompt": (remove(EXPERT), [f"lacks {EXPERT}"]),
    "empty prompt": (put(EXPERT, b""), [EXPERT, "is empty"]),
    "only whitespace": (put(EXPERT, b" \r\n\t\n"), [EXPERT, "is empty"]),
    "not UTF-8": (put(EXPERT, "résumé".encode("latin-1")), [EXPERT, "not UTF-8 text (byte 1)"]),
    "prompt is a folder": (make_folder(EXPERT), [EXPERT, "cannot be read: is a directory"]),
    "prompt is a looping link": (make_link_to_itself(EXPERT), [EXPERT, "cannot be read: too many levels"]),
    "demos not JSON": (
        put(DEMOS_FILE, b'{\n"expert": [}'),
        [DEMOS_FILE, "not valid JSON (line 2)", "expected an agent"],
    ),
    "demos nested too deep": (put(DEMOS_FILE, b"[" * 100_000), [DEMOS_FILE, "not valid JSON"]),
    "demos are a list": (put(DEMOS_FILE, b"[]"), [DEMOS_FILE, "holds no object"]),
    "demos of nobody": (put(DEMOS_FILE, b'{"exprt": []}'), ["examples for exprt", "agents are planner, expert"]),
    "demos are one": (put(DEMOS_FILE, b'{"expert": {"a": 1}}'), ["examples of 'expert'", "no list of objects"]),
    "a demo is a text": (put(DEMOS_FILE, b'{"expert": ["a"]}'), ["examples of 'expert'", "no list of objects"]),
    "provenance not YAML": (put(PROVENANCE_FILE, b"a: [b"), [PROVENANCE_FILE, "not valid YAML"]),
    "provenance is a list": (put(PROVENANCE_FILE, b"- a"), [PROVENANCE_FILE, "no keys and values"]),
    "provenance not UTF-8": (put(PROVENANCE_FILE, b"a: \xff"), [PROVENANCE_FILE, "not valid YAML"]),
    "provenance is a folder": (lambda folder: (folder / PROVENANCE_FILE).mkdir(), [PROVENANCE_FILE, "is a directory"]),
    "no checksums": (put(PROVENANCE_FILE, b"checksums:"), ["'checksums'", "no file names"]),
    "checksums are a list": (
        put(PROVENANCE_FILE, b"checksums: [a]"),
        ["'checksums'", PROVENANCE_FILE, "no file names"],
    ),
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", [EXPERT, "set.yaml", "."])
def test_a_file_without_permission_is_named(folder: Path, name: str) -> None:
    (folder / name).chmod(0)
    try:
        with pytest.raises(UserError, match="permission denied"):
            read(folder)
    finally:
        (folder / name).chmod(0o700)


@pytest.mark.parametrize("name", ["mien", "", "not/there", "mine/set.yaml", "x" * 300])
def test_an_unknown_set_lists_the_available_ones(folder: Path, name: str) -> None:
    (folder.parent / "no_set_at_all").mkdir()
    with pytest.raises(UserError, match=r"no prompt set .*\(available: mine\)"):
        read_prompt_set(name, AGENTS, "toy", folder.parents[1])


def test_no_sets_at_all_says_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"available: none"):
        read_prompt_set("baseline", AGENTS, "toy", tmp_path)


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


def test_what_a_cut_off_writing_left_behind_is_not_taken_for_the_sets(folder: Path) -> None:
    (folder / "set.yaml").unlink()
    (folder / DEMOS_FILE).write_text(json.dumps({"expert": [DEMO]}))
    write_prompt_set(folder, PromptSet("mine", "toy", dict.fromkeys(AGENTS, "Do."), folder))
    assert read(folder).demos == {}


def test_a_set_whose_writing_was_cut_off_is_none(folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "prompts" / "new"
    new.mkdir()
    (new / "set.yaml").symlink_to(tmp_path / "nowhere" / "set.yaml")
    with pytest.raises(UserError, match="cannot be written"):
        write_prompt_set(new, replace(read(folder), demos={"expert": [DEMO]}))
    assert (new / DEMOS_FILE).exists() and (new / EXPERT).exists()
    with pytest.raises(UserError, match=r"set\.yaml cannot be read"):
        read_prompt_set("new", AGENTS, "toy", tmp_path)


def test_a_set_is_never_overwritten(folder: Path) -> None:
    prompts = read(folder)
    with pytest.raises(UserError, match="holds a prompt set already"):
        write_prompt_set(folder, replace(prompts, texts=dict.fromkeys(AGENTS, "changed")))
    assert read(folder) == prompts


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be written to .*expert.*: not a directory"):
        write_prompt_set(folder / EXPERT / "new", read(folder))


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


def test_digest_of_a_set_without_examples_is_over_its_texts_alone() -> None:
    text = json.dumps({"expert": "b", "planner": "a"})
    prompts = PromptSet("mine", "toy", {"planner": "a", "expert": "b"}, Path())
    assert digest(prompts) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("agents", [["planner"], ["planner", "expert", "critic"], ["planner", "exprt"]])
def test_predictors_and_agents_must_match_and_nothing_changes_otherwise(folder: Path, agents: list[str]) -> None:
    program = Program(agents)
    before = instructions(program)
    with pytest.raises(ValueError, match="must have the same names"):
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


def test_reading_a_set_with_examples_does_not_load_dspy(folder: Path) -> None:
    (folder / DEMOS_FILE).write_text(json.dumps({"expert": [DEMO]}))
    program = (
        "import sys, pathlib; from mas.prompt_sets.prompt_set import *; "
        f"read_prompt_set('mine', {AGENTS}, 'toy', pathlib.Path(sys.argv[1])); sys.exit('dspy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder.parents[1])], cwd=PROJECT, check=False)
    assert done.returncode == 0


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


def test_examples_that_came_later_and_files_without_a_checksum_are_noticed(folder: Path) -> None:
    publish(folder)
    (folder / DEMOS_FILE).write_text("{}")
    assert read(folder).edited == (DEMOS_FILE,)
    publish(folder, checksums={})
    assert read(folder).edited == (DEMOS_FILE, *sorted(f"{agent}{SUFFIX}" for agent in AGENTS))
    (folder / PROVENANCE_FILE).write_text("gated: false\n")
    assert read(folder).edited == ()


def test_a_copy_of_a_published_set_is_not_published(folder: Path, tmp_path: Path) -> None:
    publish(folder)
    (folder / EXPERT).write_text("Other.")
    written = write_prompt_set(tmp_path / "copy", read(folder))
    assert (written.edited, dict(written.provenance)) == ((), {})
    assert read_prompt_set(tmp_path / "copy", AGENTS, "toy", tmp_path).edited == ()


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


@pytest.mark.parametrize("agent", GAIA_AGENTS)
def test_a_baseline_text_opens_with_its_role_and_leaves_the_format_to_the_adapter(agent: str) -> None:
    text = read_prompt_set("baseline", GAIA_AGENTS, "gaia", PROJECT).texts[agent]
    role = f"{agent.removeprefix('critic_')}'s critic" if agent.startswith("critic_") else agent
    assert text.startswith(f"You are the {role}:")
    assert 120 <= len(text.split()) <= 350
    assert [marker for marker in ("[[ ##", "{", "```", "JSON") if marker in text] == []


def test_fields_taken_out_of_a_signature_are_gone_and_found_again_as_the_same_class() -> None:
    program = dspy.Predict("request, history -> answer")
    prompts = PromptSet("own", "own", {"self": "Answer it."}, Path())
    apply_prompt_set(program, prompts)
    shorter = program.signature.delete("history")
    assert list(shorter.fields) == ["request", "answer"]
    assert shorter.instructions == "Answer it."
    assert program.signature.delete("history") is shorter
    assert list(program.signature.fields) == ["request", "history", "answer"]
    assert list(shorter.delete("answer").fields) == ["request"]


def test_a_set_is_read_with_everything_that_it_has(folder: Path) -> None:
    (folder / DEMOS_FILE).write_text(json.dumps({"expert": [DEMO], "planner": []}))
    (folder / TUNED_ON_FILE).write_text('{"learnt_from": ["aa"], "picked_by": ["bb"]}')
    (folder / PROVENANCE_FILE).write_text("gated: true\nchecksums: {}\n")
    (folder / "notes.md").write_text("mine")
    whole = PromptSet(
        name="mine",
        system="toy",
        texts={"expert": "You are the expert.", "planner": "You are the planner."},
        folder=folder.resolve(),
        description="two agents",
        demos={"expert": [DEMO]},
        edited=(DEMOS_FILE, EXPERT, f"planner{SUFFIX}", TUNED_ON_FILE),
        provenance={"gated": True, "checksums": {}},
        tuned_on=TunedOn(frozenset({"aa"}), frozenset({"bb"})),
    )
    assert read(folder) == read_set_folder(folder) == whole
    assert list(read(folder).texts) == AGENTS
    assert list(read_set_folder(folder).texts) == sorted(AGENTS)


def test_the_system_of_a_set_is_read_without_blanks_and_its_description_may_be_missing(folder: Path) -> None:
    (folder / "set.yaml").write_text("system: ' toy '\n")
    assert (read(folder).system, read(folder).description) == ("toy", "")
    assert read_set_folder(folder).system == "toy"
    (folder / "set.yaml").write_text("system: ' '\n")
    with pytest.raises(UserError, match="does not name its system"):
        read(folder)


def test_a_folder_read_for_its_own_agents_is_found_from_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert read_set_folder(Path("mine")) == read(folder)
    with pytest.raises(UserError, match=r"There is no prompt set '/.*/nobody'"):
        read_set_folder(Path("nobody"))


@pytest.mark.parametrize(
    ("agent", "file"),
    [
        ("expert", "expert_system_prompt.txt"),
        ("classify.predict", "classify.predict_system_prompt.txt"),
        ("answers['long/short']", "answers['long%2Fshort']_system_prompt.txt"),
        ('a%b:c*d?e"f<g>h|i\\j\n', "a%25b%3Ac%2Ad%3Fe%22f%3Cg%3Eh%7Ci%5Cj%0A_system_prompt.txt"),
    ],
)
def test_the_file_of_a_predictor_with_any_name_is_read_as_its_own(folder: Path, agent: str, file: str) -> None:
    assert name_prompt_file(agent) == file
    made = write_prompt_set(folder.parent / "new", PromptSet("x", "toy", {agent: "Do it."}, folder))
    assert sorted(path.name for path in made.folder.iterdir()) == sorted([file, "set.yaml"])
    assert read_set_folder(made.folder).texts == {agent: "Do it."}


def test_the_files_of_a_written_set_are_these(tmp_path: Path) -> None:
    marks = TunedOn(frozenset({"bb", "aa"}), frozenset())
    description = "Größe " + "and so on " * 9  # over the usual width of YAML
    made = PromptSet(
        "x", "toy", {"planner": "Plan: ü.\n\nWell."}, tmp_path, description.strip(),
        {"planner": [{"b": "ü", "a": None}]}, ("set.yaml",), {"gated": True}, marks,
    )  # fmt: skip
    new = tmp_path / "deep" / "new"
    assert write_prompt_set(new, made) == replace(made, name="new", folder=new, edited=(), provenance={})
    assert {path.name: path.read_bytes().decode() for path in new.iterdir()} == {
        "planner_system_prompt.txt": "Plan: ü.\n\nWell.\n",
        DEMOS_FILE: '{\n  "planner": [\n    {\n      "b": "ü",\n      "a": null\n    }\n  ]\n}\n',
        TUNED_ON_FILE: '{\n "learnt_from": [\n  "aa",\n  "bb"\n ],\n "picked_by": []\n}\n',
        "set.yaml": f"system: toy\ndescription: {description.strip()}\n",
    }


def test_a_set_goes_into_a_folder_that_is_there_if_that_holds_no_set(folder: Path) -> None:
    (folder / "set.yaml").unlink()
    for name in (DEMOS_FILE, TUNED_ON_FILE, "notes.md"):
        (folder / name).write_text("old")
    write_prompt_set(folder, PromptSet("x", "toy", dict.fromkeys(AGENTS, "Do."), folder))
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [EXPERT, f"planner{SUFFIX}", "set.yaml", "notes.md"]
    )


def test_mistakes_in_a_folder_say_the_whole_list_and_what_to_do(folder: Path) -> None:
    for name in ("b", "a"):
        (folder / f"{name}{SUFFIX}").write_text("x")
    with pytest.raises(UserError) as caught:
        read(folder)
    assert str(caught.value) == (
        f"The prompt set {folder} has a{SUFFIX}, b{SUFFIX}, which belong to no agent of the system; "
        "remove or rename them (the agents are planner, expert)."
    )
    for path in folder.glob(f"*{SUFFIX}"):
        path.unlink()
    with pytest.raises(UserError) as caught:
        read(folder)
    assert str(caught.value) == (
        f"The prompt set {folder} lacks {EXPERT}, planner{SUFFIX}; add one text file for each agent."
    )
    (folder / "set.yaml").write_bytes(b"system: toy\nsystem: \x07\n")
    with pytest.raises(UserError, match=r"set\.yaml is not valid YAML; expected"):
        read(folder)


@pytest.mark.parametrize("examples", [{"a": 1}, [DEMO, "b"], None, "text"])
def test_examples_that_are_no_list_of_objects_are_refused(folder: Path, examples: object) -> None:
    (folder / DEMOS_FILE).write_text(json.dumps({"planner": [], "expert": examples}))
    with pytest.raises(UserError) as caught:
        read(folder)
    assert str(caught.value) == (
        f"The examples of 'expert' in {folder / DEMOS_FILE} are no list of objects; expected an agent's name → a list "
        "of its examples, each an object of fields and values."
    )


def test_sets_that_can_be_chosen_are_listed_in_their_order(folder: Path) -> None:
    for name in ("zebra", "apple"):
        write_prompt_set(folder.parent / name, PromptSet("x", "toy", {"planner": "Do."}, folder))
    with pytest.raises(UserError) as caught:
        find_set_folder("nobody", folder.parents[1])
    assert str(caught.value) == (
        f"There is no prompt set 'nobody'; give the name of one in {folder.parent} (available: apple, mine, zebra) or "
        "the path of a folder, with a '/' in it."
    )


def test_the_folder_of_the_home_may_be_named_by_a_tilde(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert find_set_folder("~/mine", tmp_path_factory.mktemp("root")) == folder.resolve()


@pytest.mark.parametrize("name", ["a", "7", "a.b-c_d", "mine_", "mine-", "a" * 100])
def test_a_plain_name_that_is_free_gives_its_folder(tmp_path: Path, name: str) -> None:
    check_set_name(name)
    assert check_name_is_free(name, tmp_path) == tmp_path / name
    assert check_name_is_free(name, tmp_path / "no_shelf_yet") == tmp_path / "no_shelf_yet" / name


@pytest.mark.parametrize("name", ["", ".", "a.", "_a", "-a", ".a", "a/b", "a b", "ü", "a\n", "a" * 101])
def test_a_name_that_is_no_plain_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        check_set_name(name)
    assert str(caught.value) == (
        f"name={name} is no plain name of a folder; use up to 100 letters, digits, '-', '_' and '.', with a letter or "
        "digit first and no '.' at the end."
    )
    with pytest.raises(UserError, match="is no plain name"):
        check_name_is_free(name, tmp_path)


@pytest.mark.parametrize("name", ["mine", "MINE", "Mine"])
def test_a_name_that_is_taken_in_any_letter_case_is_refused(folder: Path, name: str) -> None:
    (folder / PROVENANCE_FILE).write_text("run: first\ngated: true\n")
    for run in (None, "", "second") if name == "mine" else (None, "first"):
        with pytest.raises(NameTakenError) as caught:
            check_name_is_free(name, folder.parent, run)
        assert str(caught.value) == (
            "prompts/mine is there already, and no prompt set is ever overwritten; choose another name, or remove that "
            "folder first."
        )
    assert check_name_is_free("mine2", folder.parent) == folder.parent / "mine2"


@pytest.mark.parametrize(
    ("provenance", "allowed"),
    [
        ("run: first\ngated: true\n", True),
        ("run: first\ngated: false\n", False),
        ("run: first\ngated: 1\n", False),
        ("run: first\n", False),
        ("run: second\ngated: true\n", False),
        ("gated: true\n", False),
        ("- run", False),
        (None, False),
    ],
)
def test_a_run_may_find_only_the_set_that_it_published_itself(
    folder: Path, provenance: str | None, allowed: bool
) -> None:
    if provenance is not None:
        (folder / PROVENANCE_FILE).write_text(provenance)
    if allowed:
        assert check_name_is_free("mine", folder.parent, "first") == folder
    else:
        with pytest.raises(NameTakenError):
            check_name_is_free("mine", folder.parent, "first")


def test_a_shelf_that_cannot_be_read_is_named(folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        check_name_is_free("new", folder / EXPERT)
    assert str(caught.value) == f"{folder / EXPERT} cannot be read (not a directory); check its permissions."


def gated(folder: Path, **changes: Any) -> PromptSet:
    """The set with what the gate writes, signed by this installation."""
    made = replace(read(folder), demos={"expert": [DEMO]})
    facts = {"gated": True, "leaks": {"blocked": False}, "checksums": {}, "digest": digest(made), **changes}
    return replace(made, provenance=sign_provenance({name: fact for name, fact in facts.items() if fact is not None}))


def test_a_set_is_gated_only_if_nothing_of_its_gate_is_missing_or_changed(folder: Path) -> None:
    passed = gated(folder)
    assert is_gated(passed) is True
    refused = {
        "never published": read(folder),
        "not gated": gated(folder, gated=False),
        "gated is no yes or no": gated(folder, gated="true"),
        "leaks unknown": gated(folder, leaks=None),
        "leaks no facts": gated(folder, leaks=["blocked"]),
        "leaks found": gated(folder, leaks={"blocked": True}),
        "leaks not decided": gated(folder, leaks={}),
        "no checksums": gated(folder, checksums=None),
        "digest of another": gated(folder, digest=digest(read(folder))),
        "files edited": replace(passed, edited=("set.yaml",)),
        "text changed": replace(passed, texts={**passed.texts, "expert": "Other."}),
        "not signed": replace(passed, provenance={**passed.provenance, "signature": ""}),
        "signed otherwise": replace(passed, provenance={**passed.provenance, "more": 1}),
    }
    assert {name: is_gated(each) for name, each in refused.items()} == dict.fromkeys(refused, False)


def test_prompts_of_a_changed_program_are_read_with_the_name_of_those_it_was_given(folder: Path) -> None:
    base = replace(
        read(folder),
        demos={"planner": [DEMO]},
        edited=("set.yaml",),
        provenance={"gated": True},
        tuned_on=TunedOn(frozenset({"aa"}), frozenset()),
    )
    program = Program(AGENTS)
    apply_prompt_set(program, base)
    assert read_applied_prompts(program, base) == replace(base, edited=(), provenance={})
    program.expert.signature = program.expert.signature.with_instructions("Changed.")
    program.expert.demos, program.planner.demos = [dspy.Example(**DEMO, score=1)], []
    assert read_applied_prompts(program, base) == replace(
        base, texts={**base.texts, "expert": "Changed."}, demos={"expert": [DEMO]}, edited=(), provenance={}
    )


def test_a_digest_is_over_texts_and_examples_in_the_order_of_the_agents() -> None:
    demos: dict[str, list[dict[str, object]]] = {"planner": [{"b": 1, "a": 2}], "expert": [{"c": None}]}
    prompts = PromptSet("mine", "toy", {"planner": "p", "expert": "e"}, Path(), demos=demos)
    text = '{"expert": "e", "planner": "p"}\n{"expert": [{"c": null}], "planner": [{"b": 1, "a": 2}]}'
    assert digest(prompts) == hashlib.sha256(text.encode()).hexdigest()


def test_edits_are_told_of_every_file(folder: Path) -> None:
    assert describe_edits(read(folder)) is None
    assert describe_edits(replace(read(folder), edited=("a", "b"))) == (
        "note: prompts/mine was edited after it was published (a, b): its provenance no longer describes it"
    )


@pytest.mark.parametrize("plain", [True, False])
def test_a_program_of_anyone_gets_examples_as_they_are(folder: Path, plain: bool) -> None:
    program = Program(AGENTS)
    program.plain_demos = plain
    prompts = replace(read(folder), demos={"expert": [{"answer": 5}]})
    if plain:
        apply_prompt_set(program, prompts)
        assert [dict(demo.items()) for demo in program.expert.demos] == [{"augmented": True, "answer": 5}]
        return
    with pytest.raises(UserError) as caught:
        apply_prompt_set(program, prompts)
    assert str(caught.value) == (
        f"Example 1 of 'expert' in {folder / DEMOS_FILE} has an unfit value in its answer (input should be a valid "
        "string); correct it or remove it."
    )
