"""Points lost at each link, and critics as classifiers, as counts that are easily checked."""

from typing import Any

import pytest

from eval.analysis.attribution import CriticNumbers
from eval.analysis.attribution.broken_link import BrokenLink, RunAttribution
from eval.analysis.summary.summary import Summary
from eval.reports.summary_table import list_notes
from eval.runs.record import Record
from tests.eval.stored_run import answered, summarise_records


def link(name: str, kind: str = "agent") -> BrokenLink:
    return BrokenLink(kind, name, "e")  # type: ignore[arg-type]


RECORDS = [
    *(answered("q1", "17"), answered("q1", "1", epoch=2), answered("q2", "2"), answered("q2", "2", epoch=2)),
    *(answered("q3", "17"), answered("q3", "17", epoch=2), answered("q5", "x", gold=None)),
    *(answered("q4", None, error="boom", error_class="lm"), answered("q4", "3", epoch=2)),
]
LINKS = {
    ("q1", 2): link("expert"),
    ("q2", 1): link("expert"),
    ("q2", 2): link("web", "tool"),
    ("q4", 2): link("expert"),
}


def summarised(records: list[Record], **found: Any) -> Summary:
    return summarise_records(records, epochs=2, attribution=RunAttribution(**{"links": LINKS, **found}))


def test_together_the_points_are_what_the_metric_lacks_to_1() -> None:
    lost = summarised(RECORDS).attribution or ()
    assert [(each.kind, each.name, each.points.n) for each in lost] == [
        ("agent", "expert", 3),
        ("error", "lm", 1),
        ("tool", "web", 1),
    ]
    assert [each.points.value for each in lost] == pytest.approx([3 / 8, 1 / 8, 1 / 8])
    assert sum(each.points.value or 0.0 for each in lost) == pytest.approx(1 - 3 / 8)
    for each in lost:
        assert each.points.ci95 and each.points.ci95[0] < (each.points.value or 0.0) < each.points.ci95[1]
    assert summarised([answered("q1", "17")]).attribution == ()


def test_without_all_answers_there_is_no_interval() -> None:
    missing = answered("q6", None, error="stopped", error_class="not_run", score=None)
    summary = summarised([*RECORDS, missing])
    assert summary.attribution and all(each.points.ci95 is None for each in summary.attribution)


def test_a_critic_is_described_by_what_it_found() -> None:
    numbers = CriticNumbers(
        **{"n_reviews": 10, "n_rejections": 5, "n_quoting": 3, "n_unknown": 1, "n_rejecting": 4, "n_recovered": 2},
        **{"approved_right": 4, "misses": 2, "false_alarms": 1, "hits": 2},
    )
    summary = summarised(RECORDS, critics={"b": CriticNumbers(), "a": numbers})
    assert list(summary.critics) == ["a", "b"]
    assert dict(list_notes(summary))["critic a"] == (
        "it rejects in 5 of 10 reviews; 3 of these quote its instructions; it rejected 2 of 4 of wrong work, "
        "1 of 5 of right work; 2 of 4 answers right in the end after a rejection"
    )
    assert dict(list_notes(summary))["critic b"] == "it rejects in 0 of 0 reviews"
