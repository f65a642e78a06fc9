import hashlib
import json
from pathlib import Path

import pytest

from eval.reports.html import templates
from eval.reports.html.charts import CHARTS
from eval.reports.html.rows import ROWS
from eval.reports.html.templates import embed_json, load_scripts
from mas.runtime.terminal import escape_controls

ROOT = Path(__file__).parents[4]
VENDORED = [templates.FOLDER / "vendor", ROOT / "tests" / "pages" / "vendor"]


@pytest.mark.parametrize("folder", VENDORED, ids=["pages", "tests"])
def test_vendored_files_are_the_published_ones(folder: Path) -> None:
    listed = json.loads((folder / "vendored.json").read_text(encoding="utf-8"))
    for each in listed:
        assert hashlib.sha256((folder / each["file"]).read_bytes()).hexdigest() == each["sha256"]
        assert each["version"] in each["source"] and (folder / each["licence_file"]).stat().st_size > 500
    files = {"vendored.json", *(each[key] for each in listed for key in ("file", "licence_file"))}
    assert {each.name for each in folder.iterdir()} == files


def test_scripts_are_written_as_they_are_and_end_no_block_of_theirs() -> None:
    for text in load_scripts(*CHARTS, *ROWS).texts:
        assert "</script" not in text.lower() and "<!--" not in text
        assert escape_controls(text) == text, "the page's policy knows the text's hash"


def test_a_script_is_listed_once() -> None:
    assert len(load_scripts(*ROWS, *CHARTS, *ROWS).texts) == len(ROWS) + len(CHARTS)


def test_data_ends_no_block() -> None:
    value = {"a": "</script><!--&\u2028", "b": [1, None]}
    block = embed_json(value)
    assert not set("<>&\u2028") & set(block)
    assert json.loads(block) == value


def test_what_turns_text_around_or_fits_no_file_is_spelt_out() -> None:
    assert json.loads(embed_json({"a": ["x\u202ey\x00\ud83d\n"]})) == {"a": [r"x\u202ey\u0000\ud83d" + "\n"]}
