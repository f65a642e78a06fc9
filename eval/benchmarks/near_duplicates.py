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
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Text:
    """A question as its runs, and what two near-duplicates have in common besides."""

    sample: Sample
    runs: frozenset[Run]
    target: str
    distinctive: frozenset[str]


def find_near_duplicates(samples: Sequence[Sample], common_words: Collection[str]) -> Pairs:
    """Return the pairs of near-duplicates in alphabetical order, whatever the order of the samples.

    Args:
        samples: of all splits.
        common_words: that distinguish no question from another.

    Raises:
        OSError: an attachment cannot be read; only those of similar questions are.
    """
    texts = [_read(sample, common_words) for sample in samples]
    n_questions = Counter(run for text in texts for run in text.runs)
    n_rare = [sum(n_questions[run] <= MAX_QUESTIONS for run in text.runs) for text in texts]
    shared = {run for run, n in n_questions.items() if 1 < n <= MAX_QUESTIONS}
    n_common = Counter(_list_pairs(texts, shared))
    similar = [
        (texts[one], texts[other], n)
        for (one, other), n in n_common.items()
        if n >= SHARE * min(n_rare[one], n_rare[other])
    ]
    return sorted(
        (min(one.sample.id, other.sample.id), max(one.sample.id, other.sample.id))
        for one, other, n in similar
        if _ask_for_the_same(one, other, n) and _have_same_file(one.sample, other.sample)
    )


def format_pairs(pairs: Pairs) -> str:
    """Return `2 pairs of questions (q007 and q112, q013 and q014)`, cut where there are many."""
    shown = ", ".join(f"{one} and {other}" for one, other in pairs[:_MAX_SHOWN])
    more = ", …" if len(pairs) > _MAX_SHOWN else ""
    return f"{format_count(len(pairs), 'pair')} of questions ({shown}{more})"


def _read(sample: Sample, common_words: Collection[str]) -> _Text:
    words = _WORD.findall(_remove_accents(normalise_question(sample.question)))
    runs = zip(*(words[start:] for start in range(_RUN)), strict=False) if len(words) >= _RUN else [tuple(words)]
    distinctive = frozenset(word for word in words if word not in common_words)
    return _Text(sample, frozenset(runs), _normalise_target(sample.target or ""), distinctive)


def _normalise_target(target: str) -> str:
    """Return the target without white space, punctuation and thousands separators."""
    return _FILLING.sub("", _remove_accents(normalise_question(target))).rstrip(".")


def _remove_accents(text: str) -> str:
    if text.isascii():
        return text
    return "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))


def _list_pairs(texts: Sequence[_Text], shared: set[Run]) -> Iterator[tuple[int, int]]:
    """Yield each pair of questions as often as they share a run, if their targets or distinctive words are the same."""
    places: dict[Run, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        for run in text.runs & shared:
            places[run].append(place)
    for found in places.values():
        for one, other in combinations(found, 2):
            if texts[one].target == texts[other].target or texts[one].distinctive == texts[other].distinctive:
                yield one, other


def _ask_for_the_same(one: _Text, other: _Text, n_common: int) -> bool:
    if one.target == other.target and n_common >= MIN_RUNS:
        return True
    return len(one.distinctive) > 1 and one.distinctive == other.distinctive


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
