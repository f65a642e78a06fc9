"""Changes between two wordings of a prompt, and estimates of what each of them does to the score.

A change is a line that is added or removed, or lines that are replaced; each can be used alone. So several rewritings
of one prompt can be combined, line by line, as a version control system merges branches. A rewriting that leaves no
line as it was is one change.

    changes = divide("plan", "A.\nB.", "A.\nB.\nC.\nD.")       # two: the line C. is added, the line D. is added
    apply_changes("A.\nB.", changes[:1])                        # "A.\nB.\nC."

The estimates come from answers of versions with several changes each. Each answer is evidence on all changes of its
version and on its question, so a hundred answers tell about as much of each of twenty changes as fifty answers with and
fifty without it (a factorial experiment). Effects add up. A change of which little was seen has the benefit of the
doubt: most advice does no harm, and what harms mostly harms much.

    effects = ChangeEffects(seed=0)
    effects.add_changes(changes)
    [mixture] = effects.draw_mixtures(1)                # some of the changes; promising ones more often
    effects.add_score(mixture, "q1", 1.0)
    effects.choose_best()                               # those that look helpful
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

_ITEM = re.compile(r"[-*•]|\d+[.)]")
SIMILAR = 0.5  # ratio of common words from which on replaced lines count as reworded

NOISE = 0.4  # standard deviation of one answer's score, around what its question and version let expect
QUESTION = 0.35  # of the difficulty of questions
EXPECTED = 0.1  # of the effects of changes
PRIOR = 0.03  # mean effect of a change of which nothing is known
_DIGITS = 9  # of estimates that are compared: the last bits depend on the machine


@dataclass(frozen=True, order=True)
class Change:
    """The lines `start` to `stop` of an agent's prompt are replaced; blank lines do not count."""

    agent: str
    start: int
    stop: int  # = start: nothing is removed
    lines: tuple[str, ...]  # empty: nothing is added

    def excludes(self, other: "Change") -> bool:
        """Return whether both cannot be applied together. Lines added at one place follow each other."""
        return self.agent == other.agent and self.start < other.stop and other.start < self.stop


def divide(agent: str, before: str, after: str) -> list[Change]:
    """Return the changes that make one prompt of an agent into another.

    Where less than half of the lines stay as they were, the prompt was written anew, which is one change.
    """
    old, new = [line.strip() for line in _lines(before)], [line.rstrip() for line in _lines(after)]
    matcher = SequenceMatcher(None, old, [line.strip() for line in new], autojunk=False)
    if 2 * sum(block.size for block in matcher.get_matching_blocks()) < len(old):
        return [Change(agent, 0, len(old), tuple(new))]
    changes = []
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        added = new[new_start:new_stop]
        if kind == "replace" and _are_similar(old[start:stop], added):
            changes.append(Change(agent, start, stop, tuple(added)))
        elif kind != "equal":
            changes += [Change(agent, place, place + 1, ()) for place in range(start, stop)]
            changes += [Change(agent, stop, stop, part) for part in _divide_block(added)]
    return changes


def apply_changes(text: str, changes: Iterable[Change]) -> str:
    """Return a prompt with changes, of which none excludes another."""
    lines = _split(text)
    for change in sorted(changes, reverse=True):  # from the end, so that the places stay
        kept_blank = [blank for blank in lines[change.start : change.stop][:1] if blank.startswith("\n")]
        added = [f"\n{line}" if kept_blank and not n else line for n, line in enumerate(change.lines)]
        lines[change.start : change.stop] = added
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _split(text: str) -> list[str]:
    """Return the lines that are not blank, each with the blank line before it, if there is one."""
    lines: list[str] = []
    blank = False
    for line in text.splitlines():
        if line.strip():
            lines.append(f"\n{line}" if blank and lines else line)
        blank = not line.strip()
    return lines


def _divide_block(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the parts of added lines that make sense alone: a heading stays with its list."""
    part: list[str] = []
    for line in lines:
        if part and not _belongs_to(part, line):
            yield tuple(part)
            part = []
        part.append(line)
    if part:
        yield tuple(part)


def _belongs_to(part: Sequence[str], line: str) -> bool:
    is_headed = part[0].endswith(":") or part[0].startswith("#")
    return line[0].isspace() or part[-1].endswith(":") or (is_headed and bool(_ITEM.match(line)))


def _are_similar(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether lines are another wording of others, and no others in their place."""
    return SequenceMatcher(None, " ".join(old).split(), " ".join(new).split(), autojunk=False).ratio() > SIMILAR


class ChangeEffects:
    """The changes of one search, and the scores of versions with them."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._changes: dict[Change, int] = {}
        self._answers: list[tuple[Set[Change], str, float]] = []

    @property
    def n_changes(self) -> int:
        return len(self._changes)

    def add_changes(self, changes: Iterable[Change]) -> None:
        for each in changes:
            self._changes.setdefault(each, len(self._changes))

    def add_score(self, changes: Set[Change], sample_id: str, score: float) -> None:
        self._answers.append((changes, sample_id, score))

    def choose_best(self) -> set[Change]:
        """Return the changes that look helpful; of those that exclude each other the best."""
        if not self._changes:
            return set()
        mean, _ = self._estimate()
        return self._select(mean)

    def draw_mixtures(self, n: int) -> list[set[Change]]:
        """Return random sets of changes, each of which is in a set as often as it is likely to help (Thompson 1933)."""
        if not self._changes:
            return []
        mean, covariance = self._estimate()
        draws = self._rng.multivariate_normal(mean, covariance, size=n, method="cholesky")
        return [self._select(each) for each in draws]

    def _select(self, effects: np.ndarray) -> set[Change]:
        rounded = np.round(effects, _DIGITS)
        chosen: list[Change] = []
        for change in sorted(self._changes, key=lambda each: -rounded[self._changes[each]]):
            if rounded[self._changes[change]] > 0 and not any(change.excludes(other) for other in chosen):
                chosen.append(change)
        return set(chosen)

    def _estimate(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior mean and covariance of the effects in a linear model with normal priors."""
        questions = {sample_id: n for n, sample_id in enumerate(dict.fromkeys(each[1] for each in self._answers))}
        n = len(self._changes)
        present = np.zeros((len(self._answers), n + len(questions) + 1))
        present[:, -1] = 1
        for row, (changes, sample_id, _) in zip(present, self._answers, strict=True):
            row[[self._changes[each] for each in changes]] = 1
            row[n + questions[sample_id]] = 1
        scores = np.array([each[2] for each in self._answers])
        precision = present.T @ present / NOISE**2
        precision += np.diag([EXPECTED**-2] * n + [QUESTION**-2] * len(questions) + [1.0])
        covariance = np.linalg.inv(precision)
        prior = np.array([PRIOR] * n + [0.0] * (len(questions) + 1))
        mean = prior + covariance @ present.T @ (scores - present @ prior) / NOISE**2
        return mean[:n], covariance[:n, :n]
