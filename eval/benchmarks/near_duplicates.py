"""Near-duplicates: questions that ask for the same in other words. Tuning keeps them in one split.

Two questions are near-duplicates if they share three fifths of the shorter one's runs of three words, and either their
targets and four runs are the same, or their distinctive words, numbers among them. So what is made from a template with
other names is none. Questions about different attachments are different questions.

    find_near_duplicates(samples, COMMON_WORDS)      # [("q007", "q112")]: ids of each pair
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
_WORD = re.compile(r"\w+")
_FILLING = re.compile(r"[^\w.]")
_MAX_SHOWN = 3  # pairs that a warning names

Run = tuple[str, ...]
Pairs = list[tuple[str, str]]  # of questions, by id
IdentityKey = tuple[str, str | None]  # of questions that are the same: normalised text, digest of the attachment


def find_near_duplicates(samples: Sequence[Sample], common_words: Collection[str]) -> Pairs:
    """Return the pairs of near-duplicates in alphabetical order, whatever the order of the samples.

    `common_words` distinguish no question from another. OSError: an attachment of similar questions cannot be read.
    """
    words = [_WORD.findall(_remove_accents(each.question)) for each in samples]
    distinctive = [frozenset(each).difference(common_words) for each in words]
    targets = [_FILLING.sub("", _remove_accents(each.target or "")).rstrip(".") for each in samples]
    places: dict[Run, list[int]] = defaultdict(list)
    for place, each in enumerate(words):
        for run in frozenset(zip(each, each[1:], each[2:], strict=False)) or {tuple(each)}:
            places[run].append(place)
    rare = [found for found in places.values() if len(found) <= MAX_QUESTIONS]
    n_rare = Counter(place for found in rare for place in found)
    n_shared = Counter(pair for found in rare for pair in combinations(found, 2))
    pairs = []
    for (one, other), n in n_shared.items():
        has_same_target = targets[one] == targets[other] and n >= MIN_RUNS
        has_same_words = len(distinctive[one]) > 1 and distinctive[one] == distinctive[other]
        is_near = n >= SHARE * min(n_rare[one], n_rare[other]) and (has_same_target or has_same_words)
        if is_near and compute_file_digest(samples[one]) == compute_file_digest(samples[other]):
            pairs.append((min(samples[one].id, samples[other].id), max(samples[one].id, samples[other].id)))
    return sorted(pairs)


def format_pairs(pairs: Pairs) -> str:
    """Return `2 pairs of questions (q007 and q112, q013 and q014)`, cut where there are many."""
    shown = [f"{one} and {other}" for one, other in pairs[:_MAX_SHOWN]]
    more = ["…"] if len(pairs) > _MAX_SHOWN else []
    return f"{format_count(len(pairs), 'pair')} of questions ({', '.join([*shown, *more])})"


def build_identity_keys(samples: Iterable[Sample]) -> dict[str, IdentityKey]:
    """Return by id what is equal for one and the same question. OSError: an attachment cannot be read."""
    texts = {each.id: (each, normalise_question(each.question)) for each in samples}
    often = Counter(text for _, text in texts.values())
    # The files matter only where the texts are equal: "How many rows are in the attached file?" may be many questions.
    return {id: (text, compute_file_digest(each) if often[text] > 1 else None) for id, (each, text) in texts.items()}


def _remove_accents(text: str) -> str:
    parts = unicodedata.normalize("NFKD", normalise_question(text))
    return "".join(each for each in parts if not unicodedata.combining(each))
