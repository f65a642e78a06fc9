"""Near-duplicates: questions that ask for the same in other words. Tuning keeps them in one split.

    find_near_duplicates(samples, COMMON_WORDS)      # [("q007", "q112")]: ids of each pair

Two questions are near-duplicates if they share three fifths of the shorter one's runs of three words, and

- they have the same target, and at least four runs are the same, or
- their distinctive words, those that are not common, numbers among them, are the same, whatever their targets.

So what is made from a template with other names or numbers is no near-duplicate, although most of its words are the
same. Runs that more than ten questions contain are boilerplate and do not count. Questions about different attachments
are different questions.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from eval.benchmarks.dataset import Sample, normalise_question
from eval.benchmarks.fingerprint import compute_file_digest
from mas.runtime.text import format_count

SHARE = 0.6  # of the shorter question's runs
MIN_RUNS = 4  # with the same target, which may be as frequent as "yes"
MAX_QUESTIONS = 10  # with a run that is not boilerplate
_RUN = 3  # words
_WORD = re.compile(r"\w+")
_FILLING = re.compile(r"[^\w.]")
_MAX_SHOWN = 3  # pairs that a warning names

Run = tuple[str, ...]
Pairs = list[tuple[str, str]]  # of questions, by id
IdentityKey = tuple[str, str | None]  # of questions that are the same: normalised text, digest of the attachment


def find_near_duplicates(samples: Sequence[Sample], common_words: Collection[str]) -> Pairs:
    """Return the pairs of near-duplicates in alphabetical order, whatever the order of the samples.

    Args:
        samples: of all splits.
        common_words: that distinguish no question from another.

    Raises:
        OSError: an attachment cannot be read; only those of similar questions are.
    """
    words = [_WORD.findall(_remove_accents(normalise_question(each.question))) for each in samples]
    distinctive = [frozenset(each).difference(common_words) for each in words]
    targets = [_normalise_target(each.target or "") for each in samples]
    runs = [frozenset(zip(*(each[at:] for at in range(_RUN)), strict=False)) or {tuple(each)} for each in words]
    places: dict[Run, list[int]] = defaultdict(list)
    for place, each in enumerate(runs):
        for run in each:
            places[run].append(place)
    rare = [found for found in places.values() if len(found) <= MAX_QUESTIONS]
    n_rare = Counter(place for found in rare for place in found)
    n_common = Counter(pair for found in rare for pair in combinations(found, 2))
    pairs = []
    for (one, other), n in n_common.items():
        has_same_target = targets[one] == targets[other] and n >= MIN_RUNS
        has_same_words = len(distinctive[one]) > 1 and distinctive[one] == distinctive[other]
        if n < SHARE * min(n_rare[one], n_rare[other]) or not (has_same_target or has_same_words):
            continue
        if _have_same_file(samples[one], samples[other]):
            pairs.append((min(samples[one].id, samples[other].id), max(samples[one].id, samples[other].id)))
    return sorted(pairs)


def format_pairs(pairs: Pairs) -> str:
    """Return `2 pairs of questions (q007 and q112, q013 and q014)`, cut where there are many."""
    shown = ", ".join(f"{one} and {other}" for one, other in pairs[:_MAX_SHOWN])
    more = ", …" if len(pairs) > _MAX_SHOWN else ""
    return f"{format_count(len(pairs), 'pair')} of questions ({shown}{more})"


def _normalise_target(target: str) -> str:
    """Return the target without white space, punctuation and thousands separators."""
    return _FILLING.sub("", _remove_accents(normalise_question(target))).rstrip(".")


def _remove_accents(text: str) -> str:
    if text.isascii():
        return text
    return "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))


def _have_same_file(one: Sample, other: Sample) -> bool:
    if one.file is None or other.file is None:
        return one.file is other.file
    return compute_file_digest(one) == compute_file_digest(other)


def build_identity_keys(samples: Iterable[Sample]) -> dict[str, IdentityKey]:
    """Of each example, by id: equal for those that are one and the same question. Case and spaces do not count.

    Raises:
        OSError: an attachment cannot be read.
    """
    texts = {each.id: (each, normalise_question(each.question)) for each in samples}
    often = Counter(text for _, text in texts.values())
    # The files matter only where the texts are equal: "How many rows are in the attached file?" may be many questions.
    return {id: (text, compute_file_digest(each) if often[text] > 1 else None) for id, (each, text) in texts.items()}
