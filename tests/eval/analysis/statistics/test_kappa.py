import random

import pytest

from eval.analysis.statistics.kappa import HumanAgreement, estimate_agreement


def test_kappa_of_labels_on_all_answers_is_that_of_the_table() -> None:
    # Accepted 25: right 20; rejected 25: right 10. Agreement 0.7, by chance 0.5.
    found = estimate_agreement(accepted=(20, 25), rejected=(10, 25), n_accepted=25, n_rejected=25)
    assert found is not None
    assert (found.n, found.n_accepted, found.n_confirmed) == (50, 25, 35)
    assert (found.share, found.kappa) == (0.7, pytest.approx(0.4))
    assert found.kappa_ci95 is not None
    assert found.kappa_ci95[0] < 0.4 < found.kappa_ci95[1]


def test_labels_that_are_mostly_of_failures_are_weighted_by_what_the_run_has() -> None:
    as_reviewed = estimate_agreement(accepted=(2, 2), rejected=(10, 40), n_accepted=2, n_rejected=40)
    as_run = estimate_agreement(accepted=(2, 2), rejected=(10, 40), n_accepted=60, n_rejected=40)
    assert as_reviewed and as_run
    assert as_reviewed.kappa < 0.3 < 0.75 < as_run.kappa  # type: ignore[operator]


@pytest.mark.parametrize(("accepted", "rejected"), [((0, 0), (3, 30)), ((5, 5), (0, 0))])
def test_labels_of_one_verdict_only_give_no_kappa(accepted: tuple[int, int], rejected: tuple[int, int]) -> None:
    found = estimate_agreement(accepted, rejected, n_accepted=50, n_rejected=50)
    assert found is not None
    assert (found.share, found.kappa, found.kappa_ci95) == (None, None, None)


def test_without_labels_there_is_no_agreement() -> None:
    assert estimate_agreement((0, 0), (0, 0), 5, 5) is None


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(10, 20), (30, 30), (60, 15)])
def test_the_interval_covers_the_true_kappa(sizes: tuple[int, int]) -> None:
    """At shares of 0.7 to 0.99 and 5 to 100 labels of each verdict, 1,500 draws gave 92 to 97 of 100."""
    draw, right, missed = random.Random(3), 0.9, 0.2
    weight = 0.6
    agreed, positive = weight * right + 0.4 * (1 - missed), weight * right + 0.4 * missed
    by_chance = weight * positive + 0.4 * (1 - positive)
    true = (agreed - by_chance) / (1 - by_chance)
    covered = 0
    for _ in range(300):
        accepted = (sum(draw.random() < right for _ in range(sizes[0])), sizes[0])
        rejected = (sum(draw.random() < missed for _ in range(sizes[1])), sizes[1])
        found = estimate_agreement(accepted, rejected, n_accepted=60, n_rejected=40)
        assert found and found.kappa_ci95
        covered += found.kappa_ci95[0] <= true <= found.kappa_ci95[1]
    assert covered >= 270


def test_the_agreement_of_an_example_whole() -> None:
    found = estimate_agreement(accepted=(18, 20), rejected=(3, 30), n_accepted=400, n_rejected=100)
    assert found is not None and found.kappa_ci95 is not None
    assert (found.n, found.n_accepted, found.n_confirmed, found.share) == (50, 20, 45, 0.9)
    assert found.kappa == 0.7191, "agreement 0.9, by chance 0.8·0.74 + 0.2·0.26 = 0.644"
    assert found.kappa_ci95 == (pytest.approx(0.42, abs=0.005), pytest.approx(0.89, abs=0.005))


def test_verdicts_that_cannot_differ_have_a_kappa_of_0() -> None:
    found = estimate_agreement(accepted=(5, 5), rejected=(0, 1), n_accepted=5, n_rejected=0)
    assert found is not None and (found.share, found.kappa) == (1.0, 0.0)


def test_the_interval_is_the_middle_of_draws_from_the_distributions_of_both_shares() -> None:
    """4,000 draws, of which 100 are below and 100 above: Jeffreys' prior is Beta(1/2, 1/2)."""
    draw, weight, found = random.Random(7), 0.75, list[float]()
    for _ in range(4_000):
        right, missed = draw.betavariate(8.5, 2.5), draw.betavariate(1.5, 4.5)
        agreed, positive = weight * right + (1 - weight) * (1 - missed), weight * right + (1 - weight) * missed
        by_chance = weight * positive + (1 - weight) * (1 - positive)
        found.append((agreed - by_chance) / (1 - by_chance))
    found.sort()
    # Agreement 0.75·0.8 + 0.25·0.8 = 0.8; right 0.75·0.8 + 0.25·0.2 = 0.65; by chance 0.75·0.65 + 0.25·0.35 = 0.575
    assert estimate_agreement(accepted=(8, 10), rejected=(1, 5), n_accepted=30, n_rejected=10) == HumanAgreement(
        n=15, n_accepted=10, n_confirmed=12, share=0.8, kappa=round((0.8 - 0.575) / 0.425, 4),
        kappa_ci95=(round(found[100], 4), round(found[3_899], 4)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("accepted", "rejected", "expected"),
    [((5, 6), (0, 0), (6, 6, 5)), ((0, 0), (3, 30), (30, 0, 27)), ((2, 6), (1, 3), (9, 6, 4))],
)
def test_labels_are_counted_and_those_that_say_the_same_as_the_judge(
    accepted: tuple[int, int], rejected: tuple[int, int], expected: tuple[int, int, int]
) -> None:
    found = estimate_agreement(accepted, rejected, n_accepted=50, n_rejected=50)
    assert found is not None and (found.n, found.n_accepted, found.n_confirmed) == expected
