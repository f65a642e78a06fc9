"""Prompt sets: what is read is what DSPy holds, and every mistake in a folder becomes one sentence."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dspy
import pytest

from mas.errors import UserError
from mas.prompts import SUFFIX, PromptSet, apply_prompt_set, digest, read_prompt_set, write_prompt_set

PROJECT = Path(__file__).parents[2]
GAIA_AGENTS = [
    "planner",
    "critic_planner",
    "researcher",
    "critic_researcher",
    "expert",
    "critic_expert",
    "finalizer",
]
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
    (folder / "demos.json").write_text("{}")
    (folder / "provenance.yaml").write_text("model: m\n")
    assert set(read(folder).texts) == set(AGENTS)


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
    prompts = PromptSet("tuned", "toy", texts, tmp_path, "yes: [no] # é ${x}")
    written = write_prompt_set(tmp_path / "prompts" / "new", prompts)
    again = read_prompt_set("new", AGENTS, "toy", tmp_path)
    assert again == replace(written, folder=written.folder.resolve())
    assert (again.name, again.texts, again.description) == ("new", prompts.texts, prompts.description)
    assert digest(again) == digest(prompts)


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
    assert len({digest(prompts), digest(changed), digest(swapped)}) == 3
    assert digest(renamed) == digest(prompts)


@pytest.mark.parametrize("agents", [["planner"], ["planner", "expert", "critic"], ["planner", "exprt"]])
def test_predictors_and_agents_must_match_and_nothing_changes_otherwise(folder: Path, agents: list[str]) -> None:
    program = Program(agents)
    before = instructions(program)
    with pytest.raises(ValueError, match="must have the same names"):
        apply_prompt_set(program, read(folder))
    assert instructions(program) == before


def test_applying_keeps_the_fields_and_the_demos(folder: Path) -> None:
    program = Program(AGENTS)
    program.expert.demos = [dspy.Example(question="q", answer="a")]
    apply_prompt_set(program, read(folder))
    assert list(program.expert.signature.fields) == ["question", "answer"]
    assert len(program.expert.demos) == 1


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
