import random

import pytest

from tests.servers.refusals import Bucket, Chance, Changing, Closed, Rule, Shared, Window


def count_accepted(rule: Rule, per_second: float, seconds: float) -> int:
    return sum(rule.take(number / per_second) == 0 for number in range(int(per_second * seconds)))


@pytest.mark.parametrize(
    ("rule", "accepted"),
    [
        (Bucket(50, 50), 550),
        (Window(50, 1), 500),
        (Window(50, 10), 500),
        (Changing(((0, 50), (5, 10))), 50 + 250 + 50),
        (Closed(5, Window(50, 10)), 500),
    ],
)
def test_no_more_is_accepted_than_the_limit_allows(rule, accepted):
    assert count_accepted(rule, 401, 10) == pytest.approx(accepted, abs=3)


def test_chance_refuses_a_share_and_hands_the_others_on():
    assert count_accepted(Chance(0.3, draw=random.Random(3)), 1000, 10) == pytest.approx(7000, abs=150)
    assert count_accepted(Chance(0.3, Window(50, 1), draw=random.Random(3)), 1000, 10) == 500


def test_a_neighbour_takes_its_part():
    assert count_accepted(Shared(Bucket(50, 50), 40, draw=random.Random(3)), 7, 100) == pytest.approx(690, abs=20)
    assert count_accepted(Shared(Bucket(50, 50), 200, draw=random.Random(3)), 7.3, 100) == pytest.approx(180, abs=50)


def test_a_refusal_names_the_seconds_until_the_next_token_or_window():
    bucket, window = Bucket(2, 1), Window(1, 10)
    assert [bucket.take(0.0), bucket.take(0.0)] == [0.0, 0.5]
    assert [*(window.take(1.0) for _ in range(10)), window.take(4.0)] == [*[0.0] * 10, 6.0]
