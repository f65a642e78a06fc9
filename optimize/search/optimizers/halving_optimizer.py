"""Halving of changes: many small changes of all prompts compete in mixtures, and those that look harmful are dropped.

A round begins with the prompts that look best so far. They answer some training questions; each wrong answer is
attributed to an agent, and the reflection model rewrites agents' prompts in proportion to the answers lost with them.
The rewritten prompts are divided into their changes: a line that is added or removed, or lines that are replaced.
Versions with different changes of all agents at once answer a few questions each, so that each answer is evidence on
many changes (a factorial experiment, in which effects add up); about half of the changes look harmful then, and are
hardly drawn again. What looks helpful in the end is scored on all validation questions, and is the round's proposal.

    HalvingOptimizer(proposals=8).search(student, objective, context, report)      # SearchOutcome(reflections=32, …)
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
from optimize.search.optimizer import (
    PARENT,
    Decision,
    Proposal,
    ReportProposal,
    SearchContext,
    SearchCost,
    SearchOutcome,
    check_settings,
)

if TYPE_CHECKING:
    import numpy as np

    from optimize.search.optimizers.prompt_rewriter import PromptRewriter
    from optimize.search.student import Objective, Student
    from optimize.search.trials import Trial

_ITEM = re.compile(r"[-*•]|\d+[.)]")
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
    max_instruction_chars: int | None = 8000
    needs_reflection: bool = True

    def check(self) -> None:
        least = {"batch": 1, "proposals": 1, "mixtures": 2, "questions": 1}
        check_settings(self, {**least, "max_instruction_chars": 1})

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        """Assume that the last round is as short as a round may be."""
        batch, questions = min(self.batch, n_train), min(self.questions, n_train)
        answers = STAGES * (batch + self.mixtures * questions) + n_val
        rounds = math.ceil(max(1, max_metric_calls - n_val) / answers) + 1
        return SearchCost(max_metric_calls, rounds * STAGES * self.proposals * n_agents)

    def search(
        self, student: "Student", objective: "Objective", context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        """Search. Reflection requests are logged and paid in the caller's sample context."""
        from optimize.search.dspy_compat import run_isolated
        from optimize.search.optimizers.prompt_rewriter import PromptRewriter

        rewriter = PromptRewriter(
            student.initial_prompts, context.get_stop_reason, self.max_instruction_chars, objective.labels.names
        )
        run_isolated(_Rounds(self, student, objective, context, report, rewriter).run)
        return rewriter.finish(student.trials)


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
    old, new = [line.strip() for line in _split(before)], [line.lstrip("\n").rstrip() for line in _split(after)]
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
        kept_blank = "\n" if "".join(lines[change.start : change.stop]).startswith("\n") else ""
        lines[change.start : change.stop] = [kept_blank * (not n) + line for n, line in enumerate(change.lines)]
    return "\n".join(lines)


def _split(text: str) -> list[str]:
    """Return the lines that are not blank, each with the blank line before it, if there is one."""
    lines: list[str] = []
    blank = False
    for line in text.splitlines():
        if line.strip():
            lines.append(f"\n{line}" if blank and lines else line)
        blank = not line.strip()
    return lines


def _divide_block(lines: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the parts of added lines that make sense alone: a heading stays with its list."""
    parts: list[tuple[str, ...]] = []
    for line in lines:
        part = parts[-1] if parts else ("",)
        is_headed = part[0].endswith(":") or part[0].startswith("#")
        if parts and (line[0].isspace() or part[-1].endswith(":") or (is_headed and _ITEM.match(line))):
            parts[-1] = (*part, line)
        else:
            parts.append((line,))
    return parts


def _are_similar(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether lines are another wording of others, and no others in their place."""
    return SequenceMatcher(None, " ".join(old).split(), " ".join(new).split(), autojunk=False).ratio() > SIMILAR


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

    def mean(self, sample_ids: Sequence[str]) -> float:
        return fmean(self.scores[each] for each in sample_ids)


class _Rounds:
    """One search. Used in the thread of the search."""

    def __init__(
        self,
        settings: HalvingOptimizer,
        student: "Student",
        objective: "Objective",
        context: SearchContext,
        report: ReportProposal,
        rewriter: "PromptRewriter",
    ) -> None:
        self._settings, self._objective, self._context, self._report = settings, objective, context, report
        self._rewriter, self._rng = rewriter, Random(context.seed)
        self._budget = student.trials.budget
        self._parent = self._best = _Version(frozenset(), student.prompts, student)
        self._versions = {self._parent.changes: self._parent}
        self._effects = ChangeEffects(context.seed)
        self._proposed = {PARENT: self._parent}
        self._n_answers = 0
        self._order: list[str] = []

    def run(self) -> None:
        """Hold rounds until the budget is used, a stop is requested, or nothing is left to try."""
        self._answer([self._parent], self._objective.val_ids)
        n_in_vain = 0
        while n_in_vain < PATIENCE and not self._is_over() and (plan := self._plan_round())[0]:
            n_in_vain = 0 if self._hold_round(*plan) else n_in_vain + 1

    def _is_over(self) -> bool:
        return bool(self._context.get_stop_reason() or self._rewriter.failure)

    def _plan_round(self) -> tuple[int, int]:
        """Return the stages that the budget allows and the questions of each; (0, 0): too few for a round."""
        settings = self._settings
        left = self._context.metric_calls - self._n_answers - len(self._objective.val_ids)
        for stages in range(STAGES, 0, -1):
            questions = min(settings.questions, (left // stages - settings.batch) // settings.mixtures)
            if questions >= min(LEAST_QUESTIONS, settings.questions):
                return stages, questions
        return 0, 0

    def _draw_questions(self, n: int) -> list[str]:
        """Return the next training questions, in an order that is drawn anew when all have had their turn."""
        if len(self._order) < n:
            rest = [each for each in self._objective.train_ids if each not in self._order]
            self._order += self._rng.sample(rest, len(rest))
        drawn, self._order = self._order[:n], self._order[n:]
        return drawn

    def _hold_round(self, n_stages: int, n_questions: int) -> bool:
        """Report a version, and return whether it is better than the best so far."""
        before = self._budget.spend()
        for _ in range(n_stages):
            guess = self._get_version(self._effects.choose_best())
            self._answer([guess], self._draw_questions(self._settings.batch))
            self._effects.add_changes(self._find_changes(guess))
            mixtures = [self._get_version(each) for each in self._effects.draw_mixtures(self._settings.mixtures)]
            self._answer(list(dict.fromkeys(mixtures)), self._draw_questions(n_questions))
            if self._is_over():
                break
        guess = self._get_version(self._effects.choose_best())
        if guess is self._best or not guess.changes:
            return False
        val_ids = self._objective.val_ids
        if not self._context.get_stop_reason():  # a failing reflection model is no reason to drop it
            self._answer([guess], val_ids)
        is_scored = all(each in guess.scores for each in val_ids)
        decision: Decision = "rejected"
        reason = (
            f"{len(guess.changes)} of {len(self._effects.changes)} changes look helpful after {self._n_answers} answers"
        )
        if self._context.get_stop_reason() or not is_scored:
            decision, reason = "cut_off", self._context.get_stop_reason() or "its scoring was broken off"
        elif guess.mean(val_ids) > self._best.mean(val_ids):
            decision, self._best = "accepted", guess
        parent_id, agents = self._find_parent(guess)
        candidate_id = f"c{len(self._proposed):03}"
        self._proposed[candidate_id] = guess
        self._report(
            Proposal(
                candidate_id,
                guess.prompts,
                decision,
                reason,
                parent_ids=(parent_id,),
                agents=agents,
                origin="reflection",
                val_score=guess.mean(val_ids) if is_scored else None,
                spend=(self._budget.spend() - before).to_dict(),
            )
        )
        return decision == "accepted"

    def _find_parent(self, version: _Version) -> tuple[str, tuple[str, ...]]:
        """Return the proposal that most of a version's changes come from, and the agents that differ from it."""
        included = [each for each in self._proposed if self._proposed[each].changes <= version.changes]
        parent_id = max(included, key=lambda each: len(self._proposed[each].changes))
        texts, before = version.prompts.texts, self._proposed[parent_id].prompts.texts
        return parent_id, tuple(agent for agent in texts if texts[agent] != before[agent])

    def _find_changes(self, guess: _Version) -> list[Change]:
        """Return the changes of several rewritten prompts, the earliest first."""
        wrong = list(guess.wrong.values())
        if not wrong:
            return []
        blamed = {trial.record.sample_id: self._objective.find_agent_at_fault(trial) for trial in wrong}
        agents = list(guess.student.agents)
        lost = Counter(blamed.values())
        weights = {agent: lost[agent] + BLAME_OF_ALL * len(wrong) / len(agents) for agent in agents}
        total, owed = sum(weights.values()), dict.fromkeys(agents, 0.0)
        found: dict[Change, None] = {}
        for _ in range(self._settings.proposals * len(agents)):
            for agent in agents:
                owed[agent] += weights[agent] / total
            agent = max(agents, key=lambda each: owed[each])
            owed[agent] -= 1
            text = self._rewrite(guess, agent, blamed)
            if text is not None:
                found |= dict.fromkeys(divide(agent, self._parent.prompts.texts[agent], text))
        return list(found)

    def _rewrite(self, guess: _Version, agent: str, blamed: Mapping[str, str | None]) -> str | None:
        """Request a new text for an agent; None without a usable reply, or a call of the agent to learn from."""
        shuffled = self._rng.sample(list(guess.wrong.values()), len(guess.wrong))
        shuffled.sort(key=lambda trial: blamed[trial.record.sample_id] != agent)  # those that it is to blame for first
        examples = [found for trial in shuffled if (found := self._build_example(agent, trial))]
        if not examples or self._is_over():
            return None
        import dspy

        texts = {name: guess.prompts.texts[name] for name in guess.student.agents}
        with dspy.context(lm=self._context.reflection_lm):
            new = self._rewriter(texts, {agent: examples[:EXAMPLES]}, [agent])
        text = new.get(agent)
        return None if text == texts[agent] else text

    def _build_example(self, agent: str, trial: "Trial") -> dict[str, object] | None:
        """Return the agent's last call in an answer, as GEPA shows it to its proposer."""
        steps = [(inputs, outputs) for name, inputs, outputs in trial.steps if name == agent]
        if not steps:
            return None
        inputs, outputs = ({name: str(value) for name, value in each.items()} for each in steps[-1])
        feedback = self._objective.judge(trial, agent).feedback
        return {"Inputs": inputs, "Generated Outputs": outputs, "Feedback": feedback}

    def _get_version(self, changes: Set[Change]) -> _Version:
        """Return the version with these changes: the same each time, so that no question is answered twice."""
        key = frozenset(changes)
        if key not in self._versions:
            texts = dict(self._parent.prompts.texts)
            for agent in {each.agent for each in key}:
                texts[agent] = apply_changes(texts[agent], [each for each in key if each.agent == agent])
            prompts = replace(self._parent.prompts, texts=texts, edited=(), provenance={})
            self._versions[key] = _Version(key, prompts, self._parent.student.copy_with(prompts))
        return self._versions[key]

    def _answer(self, versions: Sequence[_Version], sample_ids: Sequence[str]) -> None:
        """Let each version answer the questions that it has not answered yet, all at once."""
        from optimize.search.student import run_trials

        asked = [(each, sample_id) for each in versions for sample_id in sample_ids if sample_id not in each.scores]
        self._n_answers += len(asked)
        trials = run_trials([(each.student, sample_id) for each, sample_id in asked])
        train = set(self._objective.train_ids)
        for (version, sample_id), trial in zip(asked, trials, strict=True):
            if not trial.completed:
                continue
            score = version.scores[sample_id] = self._objective.judge(trial).score
            self._effects.answers.append((version.changes, sample_id, score))
            if score < 1 and sample_id in train:
                version.wrong[sample_id] = trial
