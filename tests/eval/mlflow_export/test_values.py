"""Texts and values as MLflow gets them: nothing in them is a picture that its pages would load."""

import json
from typing import Any

import pytest

from eval.mlflow_export.values import clean_text, to_json_text, to_storable, truncate

URL = "http://host.example/a.png"


@pytest.mark.parametrize(
    "picture",
    [
        f"![x]({URL})",
        f"![x](<{URL}> 'title')",
        f"![x][ref]\n\n[ref]: {URL}",
        f"![]({URL})",
        f"[![x]({URL})](http://elsewhere.example)",
        f"!![x]({URL})",
        f"<img src='{URL}'>",
        f"<IMG\nsrc={URL}>",
        f"<svg><image href='{URL}'/></svg>",
        f"<video poster='{URL}'>",
        json.dumps(f"![x]({URL})").replace("!", "\\u0021"),
    ],
)
def test_a_picture_is_broken_and_keeps_its_words(picture: str) -> None:
    for broken in (clean_text(picture), truncate(picture, 500), json.loads(to_json_text([picture]))[0]):
        assert "![" not in broken and "<img" not in broken.lower() and "\\u0021[" not in broken
        assert broken != picture and broken.replace("\u200b", "") == picture
        assert clean_text(broken) == broken, "once"


@pytest.mark.parametrize("text", ["a != b[0]", "what! [sic]", "[link](http://x.example)", "1 < img", "<p>"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert clean_text(text) == text


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "image", "source": {"type": "url", "url": URL}},
        {"type": "input_image", "image_url": URL},
    ],
)
def test_a_part_with_a_picture_is_no_part_that_is_shown(part: dict[str, Any]) -> None:
    stored = to_storable({"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]})
    assert isinstance(stored, dict)
    text, broken = stored["messages"][0]["content"]
    assert text == {"type": "text", "text": "see"}
    assert broken == {**part, "type": f"{part['type']} (not shown)"}
