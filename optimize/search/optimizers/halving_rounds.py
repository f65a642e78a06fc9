"""The rounds of a search by halving, each of which is one proposal.

HalvingRounds(settings, student, objective, context, report, rewriter).run()
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean
from typing import Protocol

import dspy

from eval.execution.budget import Spend
from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.optimizer import PARENT, Candidate, Decision, Proposal, ReportProposal, SearchContext
from optimize.search.optimizers.halving_changes import Change, ChangeEffects, apply_changes, divide
from optimize.search.optimizers.prompt_rewriter import PromptRewriter
from optimize.search.student import Objective, Student, run_trials
from optimize.search.trials import Trial

LEAST_QUESTIONS = 2  # of a stage, in a last round that the budget shortens
BLAME_OF_ALL = 0.5  # wrong answers added to each agent's, in shares of them: attribution may be mistaken

Example = Mapping[str, object]  # inputs, outputs and feedback of one call of an agent


class Settings(Protocol):
    """The keys of `conf/optimizer/halving.yaml` that the rounds read."""

    stages: int
    batch: int
    proposals: int
    examples: int
    mixtures: int
    questions: int
    patience: int


@dataclass(eq=False)
class _Version:
    """The parent with some changes, the program with these prompts, and its answers."""

    changes: frozenset[Change]
    prompts: PromptSet
    student: Student
    scores: dict[str, float] = field(default_factory=dict)  # by question
    wrong: dict[str, Trial] = field(default_factory=dict)  # training questions
    is_cut_off: bool = False

    def mean(self, sample_ids: Sequence[str]) -> float:
        return fmean(self.scores[each] for each in sample_ids)


class HalvingRounds:
    """One search. Used in the thread of the search."""

    def __init__(
        self,
        settings: Settings,
        student: Student,
        objective: Objective,
        context: SearchContext,
        report: ReportProposal,
        rewriter: PromptRewriter,
    ) -> None:
        self._settings, self._objective, self._context, self._report = settings, objective, context, report
        self._rewriter, self._rng = rewriter, Random(context.seed)
        self._budget = student.trials.budget
        self._parent = _Version(frozenset(), student.prompts, student)
        self._versions = {self._parent.changes: self._parent}
        self._effects = ChangeEffects(context.seed)
        self._best = self._parent
        self._proposed = {PARENT: self._parent}
        self._n_rounds = self._n_answers = 0
        self._order: list[str] = []

    def run(self) -> None:
        """Hold rounds until the budget is used, a stop is requested, or nothing is left to try."""
        self._answer([self._parent], self._objective.val_ids)
        n_in_vain = 0
        while n_in_vain < self._settings.patience and not self._is_over() and (plan := self._plan_round())[0]:
            n_in_vain = 0 if self._hold_round(*plan) else n_in_vain + 1

    def _is_over(self) -> bool:
        return bool(self._context.get_stop_reason() or self._rewriter.failure)

    def _plan_round(self) -> tuple[int, int]:
        """Return the stages that the budget allows and the questions of each; (0, 0): too few for a round."""
        settings = self._settings
        left = self._context.metric_calls - self._n_answers - len(self._objective.val_ids)
        for stages in range(settings.stages, 0, -1):
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
        """Return whether a better version was found."""
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
        self._n_rounds += 1
        if not self._context.get_stop_reason():  # a failing reflection model is no reason to drop it
            self._answer([guess], self._objective.val_ids)
        return self._decide(guess, before)

    def _decide(self, guess: _Version, before: Spend) -> bool:
        """Report a version, and return whether it is better than the best so far."""
        val_ids = self._objective.val_ids
        scored = not guess.is_cut_off and all(each in guess.scores for each in val_ids)
        decision: Decision = "rejected"
        reason = (
            f"{len(guess.changes)} of {self._effects.n_changes} changes look helpful after {self._n_answers} answers"
        )
        if self._context.get_stop_reason() or not scored:
            decision, reason = "cut_off", self._context.get_stop_reason() or "its scoring was broken off"
        elif guess.mean(val_ids) > self._best.mean(val_ids):
            decision = "accepted"
        candidate = self._describe(guess)
        self._proposed[candidate.id] = guess
        self._report(
            Proposal(
                candidate,
                decision,
                reason,
                iteration=self._n_rounds,
                val_score=guess.mean(val_ids) if scored else None,
                spend=self._budget.spend() - before,
            )
        )
        if decision == "accepted":
            self._best = guess
        return decision == "accepted"

    def _describe(self, version: _Version) -> Candidate:
        """Return a version as a candidate; its parent is the proposal that most of its changes come from."""
        included = [each for each in self._proposed if self._proposed[each].changes <= version.changes]
        parent_id = max(included, key=lambda each: len(self._proposed[each].changes))
        texts, before = version.prompts.texts, self._proposed[parent_id].prompts.texts
        agents = tuple(agent for agent in texts if texts[agent] != before[agent])
        return Candidate(f"c{self._n_rounds:03}", version.prompts, (parent_id,), agents, "reflection")

    # Proposals

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
        examples = [each for trial in shuffled for each in self._build_examples(agent, trial)]
        if not examples or self._is_over():
            return None
        texts = {name: guess.prompts.texts[name] for name in guess.student.agents}
        with dspy.context(lm=self._context.reflection_lm):
            new = self._rewriter(texts, {agent: examples[: self._settings.examples]}, [agent])
        text = new.get(agent)
        return None if text == texts[agent] else text

    def _build_examples(self, agent: str, trial: Trial) -> list[Example]:
        """Return the agent's last call in an answer, as GEPA shows it to its proposer."""
        steps = [(inputs, outputs) for name, inputs, outputs in trial.steps if name == agent]
        if not steps:
            return []
        inputs, outputs = steps[-1]
        return [
            {
                "Inputs": {name: str(value) for name, value in inputs.items()},
                "Generated Outputs": {name: str(value) for name, value in outputs.items()},
                "Feedback": self._objective.judge(trial, agent).feedback,
            }
        ]

    def _get_version(self, changes: Set[Change]) -> _Version:
        """Return the version with these changes: the same each time, so that no question is answered twice."""
        key = frozenset(changes)
        if key not in self._versions:
            parent, changed = self._parent.prompts, {each.agent for each in key}
            texts = {
                agent: apply_changes(text, [each for each in key if each.agent == agent]) if agent in changed else text
                for agent, text in parent.texts.items()
            }
            prompts = replace(parent, texts=texts, edited=(), provenance={})
            self._versions[key] = _Version(key, prompts, self._parent.student.copy_with(prompts))
        return self._versions[key]

    def _answer(self, versions: Sequence[_Version], sample_ids: Sequence[str]) -> None:
        """Let each version answer the questions that it has not answered yet, all at once."""
        asked = [(each, sample_id) for each in versions for sample_id in sample_ids if sample_id not in each.scores]
        self._n_answers += len(asked)
        trials = run_trials([(each.student, sample_id) for each, sample_id in asked])
        train = set(self._objective.train_ids)
        for (version, sample_id), trial in zip(asked, trials, strict=True):
            version.is_cut_off |= not trial.completed
            if not trial.completed:
                continue
            score = version.scores[sample_id] = self._objective.judge(trial).score
            self._effects.add_score(version.changes, sample_id, score)
            if score < 1 and sample_id in train:
                version.wrong[sample_id] = trial
