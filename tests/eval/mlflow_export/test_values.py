"""Texts and values as MLflow gets them: nothing in them is a picture that its pages would load."""

import json

import pytest

from eval.mlflow_export.traces import to_json_text
from eval.mlflow_export.tracked_run import clean_text, truncate

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
