"""The settings of all tools together: their secrets, and each part is checked."""

import pytest

from mas.runtime.errors import UserError
from mas.runtime.security.redaction import MIN_SECRET_CHARS
from mas.tools.settings import ToolSettings


def test_keys_that_are_long_enough_to_be_one_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ToolSettings()
    settings.web.search_api_key_env, settings.transcription.api_key_env = "SEARCH_KEY", "SPEECH_KEY"
    monkeypatch.setenv("SEARCH_KEY", "s" * MIN_SECRET_CHARS)
    monkeypatch.setenv("SPEECH_KEY", "t" * (MIN_SECRET_CHARS + 1))
    assert settings.secrets() == ["s" * MIN_SECRET_CHARS, "t" * (MIN_SECRET_CHARS + 1)]
    monkeypatch.setenv("SPEECH_KEY", "t" * (MIN_SECRET_CHARS - 1))
    assert settings.secrets() == ["s" * MIN_SECRET_CHARS]


@pytest.mark.parametrize(
    ("part", "name", "wrong"),
    [
        ("transcription", "seconds", 0),
        ("web", "attempts", 0),
        ("browser", "max_sessions", 0),
        ("files", "ocr_languages", "eng+"),
    ],
)
def test_each_part_is_checked(part: str, name: str, wrong: object) -> None:
    settings = ToolSettings()
    settings.check()
    setattr(getattr(settings, part), name, wrong)
    with pytest.raises(UserError, match=name):
        settings.check()
