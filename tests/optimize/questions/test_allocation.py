"""Tests of the allocation of samples to parts."""

from collections import Counter
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.benchmarks.dataset import Sample
from optimize.questions.allocation import name_stratum, split_by_hash

SUFFIXES = (None, ".csv", ".xlsx", ".png", ".mp3")


def sample(number: int, level: str | None = None, suffix: str | None = None, target: str | None = "4") -> Sample:
    file = Path(f"/data/{number}{suffix}") if suffix else None
    return Sample(f"q{number:03d}", f"What is {number} plus one?", file, target, level)


DRAWN = st.lists(st.tuples(st.sampled_from(["1", "2", "3", None]), st.sampled_from(SUFFIXES)), min_size=12, max_size=70)
SHARES = st.tuples(*[st.floats(0.1, 0.4)] * 2).map(lambda two: (*two, 1 - sum(two)))


@given(DRAWN, SHARES, st.integers(0, 99))
def test_every_question_is_in_one_part_and_each_stratum_is_shared_out_to_within_one(
    drawn: list[tuple[str | None, str | None]], shares: tuple[float, ...], seed: int
) -> None:
    samples = [sample(number, level, suffix) for number, (level, suffix) in enumerate(drawn)]
    parts = split_by_hash(samples, shares, seed)
    assert sorted(each.id for part in parts for each in part) == [each.id for each in samples]
    sizes = Counter(map(name_stratum, samples))
    for part, share in zip(parts, shares, strict=True):
        found = Counter(map(name_stratum, part))
        assert all(abs(found[name] - size * share) < 1 + 1e-9 for name, size in sizes.items())


@given(DRAWN, SHARES, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    drawn: list[tuple[str | None, str | None]], shares: tuple[float, ...], random: Random
) -> None:
    samples = [sample(number, level, suffix) for number, (level, suffix) in enumerate(drawn)]
    shuffled = list(samples)
    random.shuffle(shuffled)
    assert split_by_hash(samples, shares, 0) == split_by_hash(shuffled, shares, 0)


@given(DRAWN, SHARES, st.data())
def test_without_one_question_hardly_another_moves(
    drawn: list[tuple[str | None, str | None]], shares: tuple[float, ...], data: st.DataObject
) -> None:
    samples = [sample(number, level, suffix) for number, (level, suffix) in enumerate(drawn)]
    gone = data.draw(st.sampled_from(samples))
    places = [
        {each.id: place for place, part in enumerate(split_by_hash(rows, shares, 0)) for each in part}
        for rows in (samples, [each for each in samples if each is not gone])
    ]
    moved = [each for each in samples if each is not gone and places[0][each.id] != places[1][each.id]]
    assert len(moved) <= len(shares) - 1  # one at each cut
    assert {name_stratum(each) for each in moved} <= {name_stratum(gone)}


def test_small_strata_do_not_all_land_in_the_largest_part() -> None:
    samples = [sample(number, level=str(number)) for number in range(200)]  # each a stratum of its own
    sizes = [len(part) for part in split_by_hash(samples, (0.25, 0.25, 0.5), 0)]
    assert 30 <= sizes[0] <= 70
    assert 30 <= sizes[1] <= 70


def hashed(seed: int, name: str) -> float:
    return int(sha256(f"{seed}/{name}".encode()).hexdigest()[:12], 16) / 16**12


@pytest.mark.parametrize("by_stratum", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_stratum_is_cut_at_its_shares_in_the_order_of_the_hashes(seed: int, by_stratum: bool) -> None:
    samples = [sample(number, level="1", suffix=".csv") for number in range(11)]
    queue = sorted(samples, key=lambda each: hashed(seed, each.id))
    offset = hashed(seed, f"stratum {name_stratum(samples[0]) if by_stratum else ''}")
    first, second = int(11 * 0.25 + offset), int(11 * 0.5 + offset)
    expected = [tuple(queue[:first]), tuple(queue[first:second]), tuple(queue[second:])]
    assert split_by_hash(samples, (1, 1, 2), seed, by_stratum) == expected


def test_a_stratum_is_a_level_and_a_kind_of_attachment() -> None:
    assert name_stratum(sample(1)).startswith("level none, ")
    assert name_stratum(sample(1, "2", ".png")).startswith("level 2, ")
    names = {name_stratum(sample(1, level, suffix)) for level in (None, "2") for suffix in (None, ".png", ".mp3")}
    assert len(names) == 6


@pytest.mark.parametrize("seed", range(6))
def test_near_duplicates_stay_in_one_part_also_through_others(seed: int) -> None:
    samples = [sample(number) for number in range(12)]
    pairs = [("q000", "q001"), ("q002", "q001"), ("q002", "q003"), ("q008", "q009")]
    parts = split_by_hash(samples, (0.25, 0.25, 0.5), seed, pairs=pairs)
    place = {each.id: number for number, part in enumerate(parts) for each in part}
    assert len(place) == 12
    assert len({place[f"q00{number}"] for number in range(4)}) == 1 and place["q008"] == place["q009"]
    for part in parts:
        assert list(part) == sorted(part, key=lambda each: hashed(seed, each.id))
