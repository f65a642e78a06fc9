import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eval.record import Record
from eval.reporting.report import MAX_ANSWERS, write_report
from eval.reporting.summary import summarise
from mas.offline import SIMULATED_NOTICE

Make = Callable[..., Record]
VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """The page's texts, each with the tags around it; every tag must be closed by its own."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.open, self.texts = html, list[str](), list[tuple[str, list[str]]]()
        self.tags: set[str] = set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}, "nothing is loaded"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and "style" not in self.open:
            self.texts.append((" ".join(data.split()), list(self.open)))

    @property
    def text(self) -> str:
        return " ".join(text for text, _ in self.texts)


def page(folder: Path, records: list[Record], example_ids: tuple[str, ...] = (), **facts: Any) -> Page:
    facts = {"simulated": False, "wall_seconds": 1.0, **facts}
    write_report(folder / "report.html", summarise("run-1", records, **facts), iter(records), example_ids)
    assert [each.name for each in folder.iterdir()] == ["report.html"]
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_the_page_needs_no_script_and_no_network(tmp_path: Path, record: Make) -> None:
    html = page(tmp_path, [record("a", score=1.0)])
    assert not {"script", "link", "img", "iframe"} & html.tags
    assert not re.search(r"https?:|url\(|@import", html.html)


def test_numbers_stand_with_their_intervals(tmp_path: Path, record: Make) -> None:
    records = [record("a", score=1.0), record("b", level="2"), record("c", level="2", error="x", score=None)]
    text = page(tmp_path, records).text
    assert "all 33.3% 6.1% to 79.2% 1 1 1 3" in text
    assert "level 2 0.0% 0.0% to 65.8% 0 1 1 2" in text


def test_data_stays_text(tmp_path: Path, record: Make) -> None:
    evil = "</td><script>alert(1)</script>\"'&{{ 7*7 }}"
    fields = dict.fromkeys(("question", "answer", "explanation", "level", "target", "limit"), evil)
    records = [record(evil, **fields), record("b", error=evil, error_class=evil, score=None)]
    facts: dict[str, Any] = {"stopped": evil, "command": [evil], "model": evil}
    html = page(tmp_path, records, **facts, sessions=[{"stopped": evil, "changes": {evil: evil}}] * 2)
    assert "script" not in html.tags
    assert html.text.count(evil) >= 10


def test_characters_that_turn_text_around_or_fit_no_file_are_spelt_out(tmp_path: Path, record: Make) -> None:
    html = page(tmp_path, [record("a", answer="x\u202eevil\x00\ud83d z")])
    assert r"x\u202eevil\u0000\ud83d z" in html.text


def test_gold_answers_are_folded_away(tmp_path: Path, record: Make) -> None:
    html = page(tmp_path, [record("a")])
    around = [tags for text, tags in html.texts if "SECRET-GOLD" in text]
    assert len(around) == 1
    assert "details" in around[0]


def test_each_epoch_of_a_question_shows_its_last_attempt(tmp_path: Path, record: Make) -> None:
    records = [
        record("a", epoch=2, answer="second", score=1.0, explanation="as expected"),
        record("a", epoch=1, answer=None, score=None, error="it broke", error_class="infrastructure"),
        record("a", epoch=1, attempt=2, answer="first", limit="tokens"),
        record("b", epoch=1, answer=None, score=None, error="the run stopped", error_class="not_run"),
    ]
    text = page(tmp_path, records, epochs=2).text
    assert "1 ✗ wrong first \N{EN DASH} ended by tokens try 2 2 ✓ right second as expected" in text
    assert "1 \N{EN DASH} not run \N{EN DASH} not_run: the run stopped" in text
    assert "it broke" not in text
    assert "Repeats: 2 epochs of each question" in text


def test_questions_stand_in_the_datasets_order(tmp_path: Path, record: Make) -> None:
    text = page(tmp_path, [record("late"), record("early"), record("other")], ("early", "unseen", "late")).text
    places = [text.index(f"{name} Which?") for name in ("early", "late", "other")]
    assert places == sorted(places)


def test_long_texts_are_cut_and_say_so(tmp_path: Path, record: Make) -> None:
    html = page(tmp_path, [record("a", answer="x" * 1_000_000)])
    assert "… (1,000,000 characters)" in html.text
    assert len(html.html) < 30_000


@pytest.mark.parametrize("epochs", [1, 4])
def test_ten_thousand_questions_fit_on_a_page(tmp_path: Path, record: Make, epochs: int) -> None:
    def stream() -> Iterator[Record]:
        for n in range(10_000 // epochs):
            for epoch in range(1, epochs + 1):
                yield record(f"q{n}", epoch=epoch, answer="y" * 10_000)

    summary = summarise("run-1", stream(), simulated=False, wall_seconds=1.0, epochs=epochs)
    write_report(tmp_path / "report.html", summary, stream())
    html = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert html.text.count("✗ wrong") == MAX_ANSWERS
    left_out = (10_000 - MAX_ANSWERS) // epochs
    assert f"{left_out:,} more questions are not shown here" in html.text


def test_the_course_of_the_run_is_told(tmp_path: Path, record: Make) -> None:
    sessions = [
        {"started_at": "2026-11-20T10:00:00.5", "ended_at": None, "stopped": None, "changes": {}},
        {"started_at": "2026-11-20T11:00:00", "ended_at": "2026-11-20T11:05:00", "changes": {"limit": "3 → 5"}},
    ]
    history = [{"seconds": 0.0, "limit": 4, "reason": "start"}, {"seconds": 2.5, "limit": 3, "reason": "rate limit"}]
    text = page(tmp_path, [record("a")], sessions=sessions, gate_history=history, simulated=True, model="m-1").text
    assert "2026-11-20 10:00:00 \N{EN DASH} killed, or still going on none" in text
    assert "2026-11-20 11:00:00 2026-11-20 11:05:00 no limit: 3 → 5" in text
    assert "2.5 3 rate limit" in text
    assert "limited once by the server" in text
    assert SIMULATED_NOTICE in text


def test_a_run_without_records_has_a_page(tmp_path: Path) -> None:
    assert "n/a" in page(tmp_path, []).text


def test_a_page_that_cannot_be_made_leaves_the_old_one(tmp_path: Path, record: Make) -> None:
    before = page(tmp_path, [record("a")]).html
    summary = summarise("run-1", [record("a")], simulated=False, wall_seconds=1.0)
    with pytest.raises(KeyError):
        write_report(tmp_path / "report.html", {**summary, "gate_history": [{}]}, [record("a")])
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before
