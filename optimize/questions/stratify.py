"""Split of questions by the hash of their ids, alike in each stratum (level and kind of attachment).

    train, val, sealed = share_out(examples, (0.25, 0.25, 0.5), seed=0)

- Nothing but a question's own id and the seed decides its place in the queue of its stratum: the order of the rows
  does not matter, and a question that is added or removed shifts at most its neighbours at the cuts of its own stratum.
- The cuts are the stratum's exact shares, rounded up or down by a number drawn from the stratum's name: each part gets
  its share of the stratum to within one question. Rounding by largest remainder would do that as well, but would give
  every question of the small strata to the largest part; drawn, these average out over the strata.
- The same question asked twice (same text, same attachment) is not torn apart.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import floor

from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_file_digest, normalise_question

Part = tuple[Sample, ...]

_KINDS = {
    "table": ("csv", "tsv", "xls", "xlsx", "xlsm", "xlsb", "ods", "parquet"),
    "text": ("txt", "md", "pdf", "docx", "pptx", "odt", "epub", "html", "xml", "json", "jsonl", "jsonld", "pdb"),
    "picture": ("png", "jpg", "jpeg", "gif", "webp", "bmp", "svg", "tif", "tiff"),
    "sound": ("mp3", "wav", "m4a", "flac", "ogg"),
    "film": ("mp4", "mov", "avi", "mkv", "webm"),
    "program": ("py", "js", "ts", "java", "c", "cpp", "sql", "sh", "ipynb"),
    "archive": ("zip", "tar", "gz", "7z"),
}
_KIND_OF = {f".{suffix}": kind for kind, suffixes in _KINDS.items() for suffix in suffixes}

IdentityKey = tuple[
    str, str | None
]  # of questions that are one and the same: normalised text, digest of the attachment


def split_by_hash(samples: Sequence[Sample], shares: Sequence[float], seed: int, by_stratum: bool = True) -> list[Part]:
    """Split the samples in proportion to `shares`; each part is in the order of the hashes.

    Raises:
        OSError: an attachment cannot be read; only those of questions with equal texts are.
    """
    strata: dict[str, list[list[Sample]]] = defaultdict(list)
    for group in _groups(samples, seed):
        strata[name_stratum(group[0]) if by_stratum else ""].append(group)
    parts: list[list[Sample]] = [[] for _ in shares]
    for name, groups in strata.items():
        for part, found in zip(parts, _cut(groups, shares, _fraction(seed, f"stratum {name}")), strict=True):
            part.extend(found)
    return [tuple(sorted(part, key=lambda each: _fraction(seed, each.id))) for part in parts]


def name_stratum(sample: Sample) -> str:
    return f"level {sample.level or 'none'}, {classify_attachment(sample)}"


def classify_attachment(sample: Sample) -> str:
    """Return none, table, text, picture, …; an unknown suffix is a kind of its own."""
    if sample.file is None:
        return "none"
    suffix = sample.file.suffix.lower()
    return _KIND_OF.get(suffix, suffix.lstrip(".") or "other")


def build_identity_keys(samples: Iterable[Sample]) -> dict[str, IdentityKey]:
    """Of each example, by id: equal for those that are one and the same question. Case and spaces do not count.

    Raises:
        OSError: an attachment cannot be read.
    """
    texts = {each.id: (each, normalise_question(each.question)) for each in samples}
    often = Counter(text for _, text in texts.values())
    # The files matter only where the texts are equal: "How many rows are in the attached file?" may be many questions.
    return {id: (text, compute_file_digest(each) if often[text] > 1 else None) for id, (each, text) in texts.items()}


def _groups(samples: Sequence[Sample], seed: int) -> list[list[Sample]]:
    """The same questions together, in the order of the smallest hash of each group."""
    same = build_identity_keys(samples)
    groups: dict[IdentityKey, list[Sample]] = defaultdict(list)
    for sample in sorted(samples, key=lambda each: (_fraction(seed, each.id), each.id)):
        groups[same[sample.id]].append(sample)
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
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:6], "big") / 2**48
