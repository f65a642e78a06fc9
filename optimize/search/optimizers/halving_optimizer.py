"""Halving of changes: many small changes of all prompts compete in mixtures, and those that look harmful are dropped.

A round begins with the prompts that look best so far. They answer some training questions; each wrong answer is
attributed to an agent, and the reflection model rewrites agents' prompts in proportion to the answers lost with them.
The rewritten prompts are divided into their changes, and versions with different changes of all agents at once answer a
few questions each, so that each answer is evidence on many changes (a factorial experiment, in which effects add up).
What looks helpful in the end is scored on all validation questions, and is the round's proposal.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING

from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.optimizer import Decision, SearchCost, SearchOutcome, SearchTask, check_settings

if TYPE_CHECKING:
    import numpy as np

    from optimize.search.optimizers.prompt_rewriter import PromptRewriter
    from optimize.search.student import Student
    from optimize.search.trials import Trial

_LINE = re.compile(r"\s*\S.*")  # with the line break and blank lines before it
SIMILAR = 0.5  # ratio of common words from which on replaced lines count as reworded
NOISE = 0.4  # standard deviation of one answer's score, around what its question and version let expect
QUESTION = 0.35  # of the difficulty of questions
EXPECTED = 0.1  # of the effects of changes
PRIOR = 0.03  # mean effect of a change of which nothing is known: most advice does no harm, what harms does so much
_DIGITS = 9  # of estimates that are compared: the last bits depend on the machine
LEAST_QUESTIONS = 2  # of a stage, in a last round that the budget shortens
BLAME_OF_ALL = 0.5  # wrong answers added to each agent's, in shares of them: attribution may be mistaken
STAGES = 2  # of a round
EXAMPLES = 4  # wrong answers that the reflection model is shown
PATIENCE = 3  # rounds in a row without a better version, after which the search ends


@dataclass
class HalvingOptimizer:
    """Options of `optimizer=halving`; the file in conf/ has none of them."""

    name: str = "halving"
    batch: int = 12
    proposals: int = 3
    mixtures: int = 16
    questions: int = 3
    needs_reflection: bool = True

    def check(self) -> None:
        check_settings(self, {"batch": 1, "proposals": 1, "mixtures": 2, "questions": 1})

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Assume that the last round is as short as a round may be."""
        batch, questions = min(self.batch, n_train), min(self.questions, n_train)
        answers = STAGES * (batch + self.mixtures * questions) + n_val
        rounds = math.ceil(max(1, max_metric_calls - n_val) / answers) + 1
        return SearchCost(max_metric_calls, rounds * STAGES * self.proposals * n_agents)

    def search(self, task: SearchTask) -> SearchOutcome:
        from optimize.search.dspy_compat import run_isolated
        from optimize.search.optimizers.prompt_rewriter import PromptRewriter

        rewriter = PromptRewriter(task)
        run_isolated(_Rounds(self, task, rewriter).run)
        return rewriter.finish(task.student.trials)


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
    old = [line.strip() for line in _split(before)]
    new = [line.rpartition("\n")[2].rstrip() for line in _split(after)]
    matcher = SequenceMatcher(None, old, [line.strip() for line in new], autojunk=False)
    if 2 * sum(block.size for block in matcher.get_matching_blocks()) < len(old):
        return [Change(agent, 0, len(old), tuple(new))]
    changes = []
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        removed, added = " ".join(old[start:stop]).split(), new[new_start:new_stop]
        alike = SequenceMatcher(None, removed, " ".join(added).split(), autojunk=False).ratio()
        if kind == "replace" and alike > SIMILAR:
            changes.append(Change(agent, start, stop, tuple(added)))
        elif kind != "equal":
            changes += [Change(agent, place, place + 1, ()) for place in range(start, stop)]
            changes += [Change(agent, stop, stop, part) for part in _divide_block(added)]
    return changes


def apply_changes(text: str, changes: Iterable[Change]) -> str:
    """Return a prompt with changes, of which none excludes another."""
    lines = _split(text)
    for change in sorted(changes, reverse=True):  # from the end, so that the places stay
        blank = "\n" if "".join(lines[change.start : change.stop]).startswith("\n\n") else ""
        lines[change.start : change.stop] = [f"{'' if n else blank}\n{line}" for n, line in enumerate(change.lines)]
    return "".join(lines).strip("\n")


def _split(text: str) -> list[str]:
    return _LINE.findall(f"\n{text}")


def _divide_block(lines: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the parts of added lines that make sense alone."""
    parts: list[tuple[str, ...]] = []
    for line in lines:
        if parts and (line[0].isspace() or parts[-1][-1].endswith(":")):
            parts[-1] = (*parts[-1], line)
        else:
            parts.append((line,))
    return parts


class ChangeEffects:
    """The changes of one search, and the scores of versions with them."""

    def __init__(self, seed: int) -> None:
        import numpy as np

        self._rng = np.random.default_rng(seed)
        self.changes: dict[Change, int] = {}  # with their numbers
        self.answers: list[tuple[Set[Change], str, float]] = []

    def add_changes(self, changes: Iterable[Change]) -> None:
        for each in changes:
            self.changes.setdefault(each, len(self.changes))

    def choose_best(self) -> set[Change]:
        """Return the changes that look helpful; of those that exclude each other the best."""
        return self._select(self._estimate()[0]) if self.changes else set()

    def draw_mixtures(self, n: int) -> list[set[Change]]:
        """Return random sets of changes, each of which is in a set as often as it is likely to help (Thompson 1933)."""
        if not self.changes:
            return []
        draws = self._rng.multivariate_normal(*self._estimate(), size=n, method="cholesky")
        return [self._select(each) for each in draws]

    def _select(self, effects: "np.ndarray") -> set[Change]:
        rounded = effects.round(_DIGITS)
        chosen: list[Change] = []
        for change in sorted(self.changes, key=lambda each: -rounded[self.changes[each]]):
            if rounded[self.changes[change]] > 0 and not any(change.excludes(other) for other in chosen):
                chosen.append(change)
        return set(chosen)

    def _estimate(self) -> "tuple[np.ndarray, np.ndarray]":
        """Return the posterior mean and covariance of the effects in a linear model with normal priors."""
        import numpy as np

        questions = {sample_id: n for n, sample_id in enumerate(dict.fromkeys(each[1] for each in self.answers))}
        n = len(self.changes)
        present = np.zeros((len(self.answers), n + len(questions) + 1))
        present[:, -1] = 1
        for row, (changes, sample_id, _) in zip(present, self.answers, strict=True):
            row[[self.changes[each] for each in changes]] = 1
            row[n + questions[sample_id]] = 1
        scores = np.array([each[2] for each in self.answers])
        precision = present.T @ present / NOISE**2
        precision += np.diag([EXPECTED**-2] * n + [QUESTION**-2] * len(questions) + [1.0])
        covariance = np.linalg.inv(precision)
        prior = np.array([PRIOR] * n + [0.0] * (len(questions) + 1))
        mean = prior + covariance @ present.T @ (scores - present @ prior) / NOISE**2
        return mean[:n], covariance[:n, :n]


@dataclass(eq=False)
class _Version:
    """The parent with some changes, the program with these prompts, and its answers."""

    changes: frozenset[Change]
    prompts: PromptSet
    student: "Student"
    scores: dict[str, float] = field(default_factory=dict)  # by question
    wrong: dict[str, "Trial"] = field(default_factory=dict)  # training questions

    def mean(self, sample_ids: Sequence[str]) -> float | None:
        """Return the mean score; None: a question has no answer."""
        scores = [self.scores[each] for each in sample_ids if each in self.scores]
        return fmean(scores) if len(scores) == len(sample_ids) else None


@dataclass
class _Rounds:
    """One search. Used in the thread of the search."""

    settings: HalvingOptimizer
    task: SearchTask
    rewriter: "PromptRewriter"

    def __post_init__(self) -> None:
        self.student, self.objective = self.task.student, self.task.objective
        self.rng, self.effects = Random(self.task.seed), ChangeEffects(self.task.seed)
        self.parent = self.best = _Version(frozenset(), self.student.prompts, self.student)
        self.versions = {self.parent.changes: self.parent}
        self.n_proposed = self.n_answers = 0
        self.order: list[str] = []

    def run(self) -> None:
        """Hold rounds until the budget is used, a stop is requested, or nothing is left to try."""
        self.answer([self.parent], self.objective.val_ids)
        n_in_vain = 0
        while n_in_vain < PATIENCE and not self.is_over() and (plan := self.plan_round())[0]:
            n_in_vain = 0 if self.hold_round(*plan) else n_in_vain + 1

    def is_over(self) -> bool:
        return bool(self.task.get_stop_reason() or self.rewriter.failure)

    def plan_round(self) -> tuple[int, int]:
        """Return the stages that the budget allows and the questions of each; (0, 0): too few for a round."""
        settings = self.settings
        left = self.task.metric_calls - self.n_answers - len(self.objective.val_ids)
        for stages in range(STAGES, 0, -1):
            questions = min(settings.questions, (left // stages - settings.batch) // settings.mixtures)
            if questions >= min(LEAST_QUESTIONS, settings.questions):
                return stages, questions
        return 0, 0

    def draw_questions(self, n: int) -> list[str]:
        """Return the next training questions, in an order that is drawn anew when all have had their turn."""
        if len(self.order) < n:
            rest = [each for each in self.objective.train_ids if each not in self.order]
            self.order += self.rng.sample(rest, len(rest))
        drawn, self.order = self.order[:n], self.order[n:]
        return drawn

    def hold_round(self, n_stages: int, n_questions: int) -> bool:
        """Report a version, and return whether it is better than the best so far."""
        val_ids = self.objective.val_ids
        for _ in range(n_stages):
            guess = self.get_version(self.effects.choose_best())
            self.answer([guess], self.draw_questions(self.settings.batch))
            self.effects.add_changes(self.find_changes(guess))
            mixtures = [self.get_version(each) for each in self.effects.draw_mixtures(self.settings.mixtures)]
            self.answer(list(dict.fromkeys(mixtures)), self.draw_questions(n_questions))
            if self.is_over():
                break
        guess = self.get_version(self.effects.choose_best())
        if guess is self.best or not guess.changes:
            return False
        if not self.task.get_stop_reason():  # a failing reflection model is no reason to drop it
            self.answer([guess], val_ids)
        n_known = len(self.effects.changes)
        reason = f"{len(guess.changes)} of {n_known} changes look helpful after {self.n_answers} answers"
        decision: Decision = "rejected"
        score = guess.mean(val_ids)
        if score is None or self.task.get_stop_reason():
            decision, reason = "cut_off", self.task.describe_break()
        elif score > (self.best.mean(val_ids) or 0.0):
            decision, self.best = "accepted", guess
        self.n_proposed += 1
        self.task.propose(
            guess.prompts,
            self.parent.prompts,
            candidate_id=f"c{self.n_proposed:03}",
            decision=decision,
            reason=reason,
            origin="reflection",
            val_score=score,
        )
        return decision == "accepted"

    def find_changes(self, guess: _Version) -> list[Change]:
        """Return the changes of several rewritten prompts, the earliest first."""
        wrong, agents = list(guess.wrong.values()), list(self.student.agents)
        blamed = {trial.record.sample_id: self.objective.find_agent_at_fault(trial) for trial in wrong}
        lost = Counter(blamed.values())
        shares = {agent: lost[agent] + BLAME_OF_ALL * len(wrong) / len(agents) for agent in agents}
        total, owed = sum(shares.values()), dict.fromkeys(agents, 0.0)
        found: dict[Change, None] = {}
        for _ in range(self.settings.proposals * len(agents) if wrong else 0):
            for agent in agents:
                owed[agent] += shares[agent] / total
            agent = max(agents, key=lambda each: owed[each])
            owed[agent] -= 1
            text = self.rewrite(guess, agent, blamed)
            if text is not None:
                found |= dict.fromkeys(divide(agent, self.parent.prompts.texts[agent], text))
        return list(found)

    def rewrite(self, guess: _Version, agent: str, blamed: Mapping[str, str | None]) -> str | None:
        """Request a new text for an agent; None without a usable reply, or a call of the agent to learn from."""
        shuffled = self.rng.sample(list(guess.wrong.values()), len(guess.wrong))
        shuffled.sort(key=lambda trial: blamed[trial.record.sample_id] != agent)  # those that it is to blame for first
        examples = [found for trial in shuffled if (found := self.build_example(agent, trial))]
        if not examples or self.is_over():
            return None
        import dspy

        texts = {name: guess.prompts.texts[name] for name in self.student.agents}
        with dspy.context(lm=self.task.reflection_lm):
            text = self.rewriter(texts, {agent: examples[:EXAMPLES]}, [agent]).get(agent)
        return None if text == texts[agent] else text

    def build_example(self, agent: str, trial: "Trial") -> dict[str, object] | None:
        """Return the agent's last call in an answer, as GEPA shows it to its proposer."""
        steps = [(inputs, outputs) for name, inputs, outputs in trial.steps if name == agent]
        if not steps:
            return None
        inputs, outputs = ({name: str(value) for name, value in each.items()} for each in steps[-1])
        feedback = self.objective.assess(trial, agent).feedback
        return {"Inputs": inputs, "Generated Outputs": outputs, "Feedback": feedback}

    def get_version(self, changes: Set[Change]) -> _Version:
        """Return the version with these changes: the same each time, so that no question is answered twice."""
        key = frozenset(changes)
        if key not in self.versions:
            texts = dict(self.parent.prompts.texts)
            for agent in {each.agent for each in key}:
                texts[agent] = apply_changes(texts[agent], [each for each in key if each.agent == agent])
            prompts = replace(self.parent.prompts, texts=texts, edited=(), provenance={})
            self.versions[key] = _Version(key, prompts, self.student.copy_with(prompts))
        return self.versions[key]

    def answer(self, versions: Sequence[_Version], sample_ids: Sequence[str]) -> None:
        """Let each version answer the questions that it has not answered yet, all at once."""
        from optimize.search.student import run_trials

        asked = [(each, sample_id) for each in versions for sample_id in sample_ids if sample_id not in each.scores]
        self.n_answers += len(asked)
        trials = run_trials([(each.student, sample_id) for each, sample_id in asked])
        for (version, sample_id), trial in zip(asked, trials, strict=True):
            if not trial.completed:
                continue
            score = version.scores[sample_id] = self.objective.assess(trial).score
            self.effects.answers.append((version.changes, sample_id, score))
            if score < 1 and sample_id in self.objective.train_ids:
                version.wrong[sample_id] = trial
