"""A report.html as its reader gets it: the rows, and what opens in them, which the page holds compressed.

page = ReportFile(folder / "report.html")
page.rows[0]["question"], page.details("q1")["steps"], page.prompts("q1")
"""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any, cast

_SCRIPT = re.compile(r"<script[^>]*>.*?</script>", re.DOTALL)


def decode_data(text: str) -> object:
    """Return the value of a compressed block."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


def read_rows(html: str) -> list[dict[str, Any]]:
    """Return the rows of a page."""
    found = re.search(r'<script type="[^"]*" class="data">([^{]*?)</script>', html)
    return cast(Any, decode_data(found[1]))["rows"] if found else []


class ReportFile:
    def __init__(self, path: Path) -> None:
        self.html = path.read_text("utf-8")
        self.visible = _SCRIPT.sub("", self.html)  # without scripts and data
        block = r'<script type="[^"]*" class="block" data-name="(.*?)" data-keys="(.*?)">(.*?)</script>'
        self._blocks = re.findall(block, self.html)
        self.rows = read_rows(self.html)

    @property
    def ids(self) -> list[str]:
        return [row["id"] for row in self.rows]

    def answers(self, sample_id: str) -> list[dict[str, Any]]:
        return next(cast(list[dict[str, Any]], row["answers"]) for row in self.rows if row["id"] == sample_id)

    def details(self, sample_id: str, epoch: int = 1) -> dict[str, Any]:
        """Everything that opens with an answer; empty: there was no room for it."""
        return self._read("steps", sample_id, epoch)

    def prompts(self, sample_id: str, epoch: int = 1) -> dict[str, Any]:
        return self._read("prompts", sample_id, epoch)

    def _read(self, name: str, sample_id: str, epoch: int) -> dict[str, Any]:
        key = next(each["key"] for each in self.answers(sample_id) if each["epoch"] == epoch)
        for block_name, keys, text in self._blocks:
            if block_name == name and str(key) in keys.split(","):
                data = cast(Any, decode_data(text))
                return cast(dict[str, Any], _resolve(data["values"][str(key)], data["texts"]))
        return {}

    @property
    def text(self) -> str:
        """All that a reader can get to see, as one text."""
        blocks = [json.dumps(decode_data(text), ensure_ascii=False) for _, _, text in self._blocks]
        return "\n".join([self.visible, json.dumps(self.rows, ensure_ascii=False), *blocks])


def _resolve(value: Any, texts: list[str]) -> Any:
    if isinstance(value, list):
        return [_resolve(each, texts) for each in value]
    if isinstance(value, dict):
        return texts[value["\0"]] if "\0" in value else {name: _resolve(each, texts) for name, each in value.items()}
    return value
