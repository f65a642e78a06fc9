"""Points lost at each link, and critics as classifiers, as counts that are easily checked."""

import pytest

from eval.analysis.attribution.broken_link import BrokenLink, Evidence
from eval.analysis.attribution.critics import CriticCount, SampleReviews
from eval.analysis.statistics.intervals import compute_clustered_interval
from eval.analysis.summary.critics import summarise_critics
from eval.analysis.summary.lost_points import count_lost_points
from eval.analysis.summary.rows import Row, build_row
from eval.reports.critics import summarise_critic
from tests.eval.stored_run import answered


def row(sample_id: str, answer: str | None, epoch: int = 1, **changes: object) -> Row:
    return build_row(answered(sample_id, answer, epoch=epoch, **changes))


def link(name: str, kind: str = "agent") -> BrokenLink:
    return BrokenLink(kind, name, Evidence("e"))  # type: ignore[arg-type]


ROWS = [
    *(row("q1", "17"), row("q1", "1", 2), row("q2", "2"), row("q2", "2", 2), row("q3", "17"), row("q3", "17", 2)),
    *(row("q4", None, error="boom", error_class="lm"), row("q4", "3", 2), row("q5", "x", gold=None)),
]
LINKS = {
    ("q1", 2): link("expert"),
    ("q2", 1): link("expert"),
    ("q2", 2): link("web", "tool"),
    ("q4", 2): link("expert"),
}


def test_together_the_points_are_what_the_metric_lacks_to_1() -> None:
    lost = count_lost_points(ROWS, LINKS, incomplete=False)
    assert [(each.kind, each.name, each.n) for each in lost] == [
        ("agent", "expert", 3),
        ("error", "lm", 1),
        ("tool", "web", 1),
    ]
    assert [each.points for each in lost] == pytest.approx([3 / 8, 1 / 8, 1 / 8])
    assert sum(each.points for each in lost) == pytest.approx(1 - 3 / 8)
    for each in lost:
        assert each.points_ci95 and each.points_ci95[0] < each.points < each.points_ci95[1]


def test_without_all_answers_there_is_no_interval() -> None:
    assert all(each.points_ci95 is None for each in count_lost_points(ROWS, LINKS, incomplete=True))
    assert count_lost_points([row("q1", "17")], {}, incomplete=False) == ()


def test_a_critic_has_the_numbers_of_a_classifier() -> None:
    count = CriticCount(
        n_reviews=10, n_rejections=5, n_quoting=3, n_unknown=1, n_rejecting=4, n_recovered=2, lm_calls=10
    )
    count.judges |= {"expert", "author"}
    count.by_sample["q1"] = SampleReviews(approved_right=3, approved_wrong=1, rejected_right=0, rejected_wrong=2)
    count.by_sample["q2"] = SampleReviews(approved_right=1, approved_wrong=1, rejected_right=1, rejected_wrong=0)
    count.known_cost_usd, count.seconds = 0.25, 1.23456
    found = summarise_critics({"b": CriticCount(), "a": count}, incomplete=False)
    critic = found["a"]
    assert list(found) == ["a", "b"] and critic.judges == ("author", "expert")
    assert (critic.n_rejections, critic.n_quoting) == (5, 3)
    assert summarise_critic(critic) == (
        "it rejects in 5 of 10 reviews; 3 of these quote its instructions; it rejected 2 of 4 of wrong work, "
        "1 of 5 of right work; 2 of 4 answers right in the end after a rejection"
    )
    assert (critic.approved_right, critic.misses, critic.false_alarms, critic.hits) == (4, 2, 1, 2)
    assert (critic.precision, critic.recall) == (pytest.approx(2 / 3), 0.5)
    assert critic.precision_ci95 == compute_clustered_interval([(2, 2), (0, 1)])
    assert critic.recall_ci95 == compute_clustered_interval([(2, 3), (0, 1)])
    assert (critic.cost_usd, critic.seconds, critic.n_recovered) == (0.25, 1.235, 2)
    nothing = found["b"]
    assert nothing.precision is nothing.recall is nothing.precision_ci95 is None

    count.unknown_cost_calls = 1
    partly = summarise_critics({"a": count}, incomplete=True)["a"]
    assert partly.cost_usd is partly.precision_ci95 is partly.recall_ci95 is None
