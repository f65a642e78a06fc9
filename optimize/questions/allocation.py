"""Allocation of samples to parts by the hash of their ids, alike in each stratum.

    train, val, sealed = split_by_hash(samples, (0.25, 0.25, 0.5), seed=0, pairs=find_near_duplicates(texts))

A stratum is a level and a kind of attachment.
- Nothing but a question's own id and the seed decides its place in the queue of its stratum: the order of the rows
  does not matter, and a question that is added or removed shifts at most its neighbours at the cuts of its own stratum.
- The cuts are the stratum's exact shares, rounded up or down by a number drawn from the stratum's name: each part gets
  its share of the stratum to within one question. Rounding by largest remainder would do that as well, but would give
  every question of the small strata to the largest part; drawn, these average out over the strata.
- The same question asked twice (same text, same attachment) stays in one part, and so do near-duplicates
  (`find_near_duplicates`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import accumulate
from math import floor

from eval.benchmarks.dataset import Sample, classify_attachment
from eval.benchmarks.fingerprint import IdentityKey, build_identity_keys

Part = tuple[Sample, ...]


def split_by_hash(
    samples: Sequence[Sample],
    shares: Sequence[float],
    seed: int,
    by_stratum: bool = True,
    pairs: Iterable[tuple[str, str]] = (),
) -> list[Part]:
    """Split the samples in proportion to `shares`; each part is in the order of the hashes.

    Args:
        samples: of all parts.
        shares: of each part.
        seed: of the hashes.
        by_stratum: split each stratum alike.
        pairs: of near-duplicates, which stay in one part.

    Raises:
        OSError: an attachment cannot be read; only those of questions with equal texts are.
    """
    strata: dict[str, list[list[Sample]]] = defaultdict(list)
    for group in _groups(samples, seed, pairs):
        strata[name_stratum(group[0]) if by_stratum else ""].append(group)
    parts: list[list[Sample]] = [[] for _ in shares]
    for name, groups in strata.items():
        for part, found in zip(parts, _cut(groups, shares, _fraction(seed, f"stratum {name}")), strict=True):
            part.extend(found)
    return [tuple(sorted(part, key=lambda each: _fraction(seed, each.id))) for part in parts]


def name_stratum(sample: Sample) -> str:
    return f"level {sample.level or 'none'}, {classify_attachment(sample.file.name if sample.file else None)}"


def _groups(samples: Sequence[Sample], seed: int, pairs: Iterable[tuple[str, str]]) -> list[list[Sample]]:
    """The same questions and near-duplicates together, in the order of the smallest hash of each group."""
    same, root = build_identity_keys(samples), dict[IdentityKey, IdentityKey]()

    def find(key: IdentityKey) -> IdentityKey:
        while root.get(key, key) != key:
            key = root[key]
        return key

    for one, other in pairs:
        root[find(same[one])] = find(same[other])
    groups: dict[IdentityKey, list[Sample]] = defaultdict(list)
    for sample in sorted(samples, key=lambda each: (_fraction(seed, each.id), each.id)):
        groups[find(same[sample.id])].append(sample)
    return list(groups.values())


def _cut(groups: Sequence[Sequence[Sample]], shares: Sequence[float], offset: float) -> list[list[Sample]]:
    """
    Args:
        groups: of one stratum, in the order of their hashes.
        shares: of each part.
        offset: 0 to 1: how far the cuts are moved before they are rounded down.
    """
    n, total = sum(map(len, groups)), sum(shares)
    cuts = [*(floor(n * share / total + offset) for share in list(accumulate(shares))[:-1]), n]
    parts: list[list[Sample]] = [[] for _ in shares]
    place = 0
    for group in groups:
        parts[next(part for part, cut in enumerate(cuts) if place < cut)].extend(group)
        place += len(group)
    return parts


def _fraction(seed: int, name: str) -> float:
    """From 0 to below 1, evenly."""
    return int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:6], "big") / 2**48
