"""Diagnosis of feedback by the simulated reflection in the learnable worlds.

It finds out what the feedback on an agent complains of, and mostly writes a clause that fits. Feedback without anything
that it knows (none, or words in disorder) leads to a clause at random from the whole list: helpful, useless or harmful.

    choose_clause("A unit or currency sign stood beside the number.", draws, place=0, others=[…])
    # "Strip the unit from the result: only the number remains."
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import yaml

DIAGNOSING = ("learnable", "shuffled", "badseed", "noheadroom", "dense")  # worlds
SHUFFLED = "shuffled"  # the world in which feedback arrives with its words in disorder
_USES_FEEDBACK = 0.8  # chance, if the feedback names a subject
_NOT_CONCERNED = re.compile(
    r"nothing in this agent's part has to change|this agent's part was fine|fault lay elsewhere"
)


class _Subject(TypedDict):
    cues: list[str]
    clauses: list[str]
    contrary: str


SUBJECTS: dict[str, _Subject] = yaml.safe_load(
    Path(__file__).with_name("diagnosis_clauses.yaml").read_text(encoding="utf-8")
)
CLAUSES = [clause for subject in SUBJECTS.values() for clause in subject["clauses"]]


class Draws:
    """Random numbers that depend on a key (model name, seed and request) alone."""

    def __init__(self, key: str) -> None:
        self._key = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=16).digest()

    def draw(self, what: str) -> float:
        """Return a number from 0 to 1, uniformly distributed."""
        return int.from_bytes(hashlib.blake2b(what.encode(), key=self._key, digest_size=8).digest(), "big") / 2**64

    def choose(self, what: str, options: Sequence[str]) -> str:
        return options[int(self.draw(what) * len(options))]


def choose_clause(feedback: str, draws: Draws, place: int, others: Sequence[str]) -> str:
    """Return a clause to be added to a prompt; `others`: useless and harmful ones, which chance may bring up too."""
    found = find_subjects(feedback)
    if found and draws.draw(f"uses feedback {place}") < _USES_FEEDBACK:
        subjects = list(found.elements())
        return draws.choose(f"clause {place}", SUBJECTS[draws.choose(f"subject {place}", subjects)]["clauses"])
    return draws.choose(f"any clause {place}", [*CLAUSES, *others])


def remove_contrary(lines: Sequence[str], feedback: str, draws: Draws) -> list[str]:
    """Return a prompt's lines without the first one that says the opposite of what the feedback calls for."""
    if draws.draw("takes out") < _USES_FEEDBACK:
        for subject in find_subjects(feedback):
            contrary = re.compile(SUBJECTS[subject]["contrary"], re.IGNORECASE)
            if found := next((line for line in lines[1:] if contrary.search(line)), None):
                return [line for line in lines if line != found]
    return list(lines)


def find_subjects(feedback: str) -> Counter[str]:
    """Count, by subject, the remarks that name it; remarks that do not concern the agent name none."""
    remarks = [each for each in feedback.lower().splitlines() if not _NOT_CONCERNED.search(each)]
    counts = {
        subject: sum(any(re.search(cue, each) for cue in about["cues"]) for each in remarks)
        for subject, about in SUBJECTS.items()
    }
    return Counter({subject: count for subject, count in counts.items() if count})


def shuffle_words(feedback: str, draws: Draws) -> str:
    """Return the words of the feedback in disorder."""
    words = list(enumerate(feedback.split()))
    return " ".join(word for number, word in sorted(words, key=lambda each: draws.draw(f"word {each[0]}")))
