import base64
import hashlib
import json
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from eval.reports.html import templates
from eval.reports.html.charts import CHARTS
from eval.reports.html.rows import ROWS
from eval.reports.html.templates import embed_json, load_scripts, load_template, write_json
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


def test_a_template_escapes_its_values_and_leaves_no_lines_of_its_blocks(tmp_path: Path) -> None:
    path = tmp_path / "page.html.jinja"
    path.write_text(
        "{% if a %}\n  {% set b = a %}\n<p>{{ b }} {{ a | double }} {{ [a] | embed }}</p>\n{% endif %}\n", "utf-8"
    )
    template = load_template(path, {"double": lambda text: text * 2})
    assert template.render(a="<b>") == '<p>&lt;b&gt; &lt;b&gt;&lt;b&gt; ["\\u003cb\\u003e"]</p>\n'


def test_a_value_that_a_template_lacks_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "page.html.jinja"
    path.write_text("{{ a }}", "utf-8")
    with pytest.raises(UndefinedError):
        load_template(path).render()


def test_a_template_may_import_those_of_the_pages_but_its_own_come_first(tmp_path: Path) -> None:
    path = tmp_path / "layout.html.jinja"
    path.write_text('{% import "parts.html.jinja" as parts with context %}mine', "utf-8")
    assert load_template(path).render() == "mine"


def test_the_policy_lists_the_digest_of_each_script_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "a.js", tmp_path / "b.js"
    first.write_text("let a = '<ä>';", "utf-8")
    second.write_text("let b;", "utf-8")
    scripts = load_scripts(first, second, first)
    assert [str(each) for each in scripts.texts] == ["let a = '<ä>';", "let b;"]
    assert all(hasattr(each, "__html__") for each in scripts.texts), "they are not escaped again"
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in map(str, scripts.texts)]
    assert scripts.policy == f"'sha256-{digests[0]}' 'sha256-{digests[1]}'"


def test_json_is_short_and_as_it_is_but_for_what_cannot_be_seen() -> None:
    value = {"a\u202e": ("ä", 1, None, True), "b": {"c": ["x\u202e"]}, "d": 0.5}
    assert write_json(value) == r'{"a\\u202e":["ä",1,null,true],"b":{"c":["x\\u202e"]},"d":0.5}'
    assert embed_json("<ä>") == '"\\u003cä\\u003e"'
    assert hasattr(embed_json(1), "__html__")
