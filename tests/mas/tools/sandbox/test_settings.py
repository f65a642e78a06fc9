"""Limits that leave nothing, and kinds that nobody knows, are told before anything runs."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from mas.runtime.errors import UserError
from mas.tools.sandbox.settings import SandboxSettings


def test_the_defaults_and_every_kind_are_fine() -> None:
    for kind in ("auto", "bubblewrap", "deno", "refuse", "unsafe_local"):
        SandboxSettings(kind=kind).check()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (SandboxSettings(kind="docker"), "tools.sandbox.kind is 'docker'; expected one of: auto, bubblewrap"),
        (SandboxSettings(seconds_per_call=0), "tools.sandbox.seconds_per_call is 0; expected a number above 0"),
        (SandboxSettings(max_code_chars=-1), "tools.sandbox.max_code_chars is -1"),
        (SandboxSettings(memory_mb=10), "tools.sandbox.memory_mb is 10; expected at least 128"),
        (SandboxSettings(max_output_chars=10**9), "expected at most 1000000"),
    ],
)
def test_a_mistake_is_named_with_its_key(settings: SandboxSettings, words: str) -> None:
    with pytest.raises(UserError, match=words.replace(".", "[.]")):
        settings.check()


def test_the_defaults_are_those_of_the_reference() -> None:
    assert asdict(SandboxSettings()) == {
        "kind": "auto", "seconds_per_call": 30.0, "seconds_per_question": 180.0, "memory_mb": 1024, "scratch_mb": 64,
        "max_output_chars": 10_000, "max_code_chars": 20_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "edge", "beyond", "sentence"),
    [
        *(
            (name, 1, 0, f"tools.sandbox.{name} is 0; expected a number above 0.")
            for name in ("scratch_mb", "max_output_chars", "max_code_chars")
        ),
        *(
            (name, 0.01, 0.0, f"tools.sandbox.{name} is 0.0; expected a number above 0.")
            for name in ("seconds_per_call", "seconds_per_question")
        ),
        ("memory_mb", 128, 127, "tools.sandbox.memory_mb is 127; expected at least 128."),
        (
            "max_output_chars", 1_000_000, 1_000_001,
            "tools.sandbox.max_output_chars is 1000001; expected at most 1000000.",
        ),
        (
            "kind", "auto", "docker",
            "tools.sandbox.kind is 'docker'; expected one of: auto, bubblewrap, deno, refuse, unsafe_local.",
        ),
    ],
)  # fmt: skip
def test_each_limit_has_an_edge(name: str, edge: Any, beyond: Any, sentence: str) -> None:
    replace(SandboxSettings(), **{name: edge}).check()
    with pytest.raises(UserError) as refused:
        replace(SandboxSettings(), **{name: beyond}).check()
    assert str(refused.value) == sentence
