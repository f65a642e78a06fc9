"""Estimates of what each change of a prompt does to the score, from answers of versions with several changes each.

Each answer is evidence on all changes of its version and on its question, so a hundred answers tell about as much of
each of twenty changes as fifty answers with and fifty without it (a factorial experiment). Effects add up. A change of
which little was seen has the benefit of the doubt: most advice does no harm, and what harms mostly harms much.

    effects = ChangeEffects(seed=0)
    effects.add_changes(changes)
    [mixture] = effects.draw_mixtures(1)                # some of the changes; promising ones more often
    effects.add_score(mixture, "q1", 1.0)
    effects.choose_best()                               # those that look helpful
"""

from collections.abc import Iterable, Set

import numpy as np

from optimize.search.optimizers.prompt_changes import Change

NOISE = 0.4  # standard deviation of one answer's score, around what its question and version let expect
QUESTION = 0.35  # of the difficulty of questions
EXPECTED = 0.1  # of the effects of changes
PRIOR = 0.03  # mean effect of a change of which nothing is known
_DIGITS = 9  # of estimates that are compared: the last bits depend on the machine


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

    def _select(self, effects: "np.ndarray") -> set[Change]:
        rounded = np.round(effects, _DIGITS)
        chosen: list[Change] = []
        for change in sorted(self._changes, key=lambda each: -rounded[self._changes[each]]):
            if rounded[self._changes[change]] > 0 and not any(change.excludes(other) for other in chosen):
                chosen.append(change)
        return set(chosen)

    def _estimate(self) -> tuple["np.ndarray", "np.ndarray"]:
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
