"""Texts and values as MLflow gets them: nothing in them is a picture that its pages would load."""

import json
import re
from typing import Any

import pytest

from eval.mlflow_export.values import (
    clean_text,
    derive_assessment_id,
    derive_span_id,
    derive_trace_id,
    get_record_key,
    to_json_text,
    to_storable,
    truncate,
)
from tests.eval.mlflow_export.records import a_record

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


def test_a_text_of_exactly_the_limit_is_whole() -> None:
    assert (truncate("a" * 5, 5), truncate("a" * 6, 5), truncate("", 5)) == ("aaaaa", "aaaa…", "")
    assert clean_text("a" * 20_000) == "a" * 20_000
    assert clean_text("ab" * 3, 5) == "ababa\n[cut: the first 5 of 6 characters; records.jsonl has the whole]"
    assert clean_text("é\x00\ud83d", 3) == "é\N{REPLACEMENT CHARACTER}?"


def test_values_that_are_no_json_or_too_large_become_texts() -> None:
    bounds = (2**63 - 1, 2**63, -(2**63), -(2**63) - 1)
    assert to_storable({1: [float("inf"), 0.5, True, None], "a\x00": bounds, "type": "text"}) == {
        "1": ["inf", 0.5, True, None],
        "a\N{REPLACEMENT CHARACTER}": [2**63 - 1, str(2**63), -(2**63), str(-(2**63) - 1)],
        "type": "text",
    }
    assert to_json_text({"é": 1}) == '{"é": 1}'


def test_ids_are_of_the_key_and_what_they_name() -> None:
    key = ("run", "q1", 1, 2)
    assert re.fullmatch("tr-[0-9a-f]{32}", derive_trace_id(key)) and re.fullmatch(
        "[0-9a-f]{16}", derive_span_id(key, 0)
    )
    assert re.fullmatch("a-[0-9a-f]{32}", derive_assessment_id(key, "correct"))
    assert derive_span_id(key, 0) != derive_span_id(key, 1)
    assert derive_assessment_id(key, "correct") != derive_assessment_id(key, "span")
    assert derive_trace_id(("run", "q1", 2, 1)) != derive_trace_id(key)
    assert derive_trace_id(("run", "\ud83d", 1, 1)).startswith("tr-")
    assert get_record_key(a_record("q9", epoch=3, attempt=2)) == ("run-1", "q9", 3, 2)
