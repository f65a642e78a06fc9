"""Limits that leave nothing, and kinds that nobody knows, are told before anything runs."""

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
