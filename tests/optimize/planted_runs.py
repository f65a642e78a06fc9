"""Whole tuning runs whose end is known: an optimizer that proposes what a test says, a model that obeys its prompts.

The model knows the gold answers, and what the finalizer's prompt says decides whether it gives them:

| word in the prompt | answers                                                   |
|--------------------|-----------------------------------------------------------|
| (none)             | two of ten questions right                                |
| ALWAYS             | all right                                                 |
| MUMBLE             | seven of ten right, of the others no reply can be read    |
| SLIGHTLY           | three of ten right                                        |

    tuned = planted_run(tmp_path, texts={"finalize": "ALWAYS"})
    tuned.verdict["finish_reason"]      # "improved"
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dspy.lm15 import Request as LMRequest
from dspy.lm15 import Response, Usage

from mas.llm.agent_lm import AgentLM
from mas.llm.engine import CallPolicy
from mas.llm.prices import Price
from mas.llm.profiles.model import AgentModel
from optimize.search.optimizer import Proposal, SearchCost, SearchOutcome, SearchTask
from optimize.session.config import TuneConfig
from tests.command import Finished, tuning_command
from tests.scripted_model import Reply, ScriptedModel, _AsyncEngine, _response, all_text, system_text

SMALL = (
    *("system=toy", "data=toy", "data.n_train=10", "data.n_val=10", "data.n_test=30"),
    *("shortlist.epochs=1", "gate.epochs=1", "gate.looks=1", "budget.metric_calls=100"),
)
ALWAYS, MUMBLE, SLIGHTLY = "ALWAYS give the right answer.", "MUMBLE some of the time.", "Be right SLIGHTLY more often."
WRONG, LATE = "wrong", "late"  # LATE: a wrong answer to a sealed question
_OF_TEN = {"ALWAYS": 10, "MUMBLE": 7, "SLIGHTLY": 3}
_REFLECTED = '[[ ## new_instruction ## ]]\nCount "twice".\n\n[[ ## completed ## ]]'


@dataclass
class Planted:
    """An optimizer that has found these candidates, and says what each has scored on validation."""

    candidates: Sequence[Mapping[str, str]]  # agent → what its prompt says more
    val_score: float = 1.0
    outcome: SearchOutcome = field(default_factory=SearchOutcome)
    needs_reflection: bool = False
    name: str = "planted"
    whole: bool = False  # the texts stand in place of the parent's, not after them
    during: Callable[[], None] = lambda: None

    def check(self) -> None:
        """Nothing can be wrong."""

    def estimate_cost(self, n_train: int, n_val: int, n_agents: int, max_metric_calls: int) -> SearchCost:
        return SearchCost(2 * n_val, 0)

    def search(self, task: SearchTask) -> SearchOutcome:
        self.during()
        parent = task.student.initial_prompts
        for number, more in enumerate(self.candidates, start=1):
            before = {agent: "" if self.whole else f"{text}\n\n" for agent, text in parent.texts.items()}
            texts = {agent: before[agent] + text for agent, text in more.items()}
            prompts = replace(parent, texts={**parent.texts, **texts}, edited=(), provenance={})
            changed = {"agents": tuple(more), "origin": "planted", "val_score": self.val_score}
            task.report(Proposal(f"c{number:03}", prompts, "accepted", "planted", **changed))
        return self.outcome


class Obedient(ScriptedModel):
    """See above; a request costs what its system message is long."""

    def __init__(self, *, simulated: bool = True, reflected: str = _REFLECTED, sealed_tokens: int = 0) -> None:
        """
        Args:
            reflected: its reply to a reflection.
            sealed_tokens: that a request for a sealed question takes more.
        """
        super().__init__(lambda agent, request: "")
        self.simulated = simulated
        self.prices = {self.name: Price(1.0, 1.0)}
        self._reflected, self._sealed_tokens = reflected, sealed_tokens
        self.golds: dict[str, tuple[int, str, bool]] = {}  # question → number, gold answer, whether it is sealed

    def learn(self, data: Any) -> None:
        for split in ("train", "val", "test"):
            for number, sample in enumerate(data.load(split).samples):
                self.golds[sample.question] = (number, sample.target, split == "test")

    def create_lm(self, agent: AgentModel) -> Any:
        return AgentLM(
            f"scripted/{agent.name or self.name}",
            _AsyncEngine(self),
            CallPolicy("scripted", price=self.prices[self.name]),
            temperature=agent.temperature,
            cache=False,
        )

    def list_unpriced(self, more_names: Any = ()) -> list[str]:
        return []

    def respond(self, request: LMRequest) -> Response:
        self.requests.append(("", request))
        system = system_text(request)
        if "new_instruction" in system:
            return _response(request, self._reflected)
        number, gold, sealed = next(self.golds[question] for question in self.golds if question in all_text(request))
        of_ten = next((n for word, n in _OF_TEN.items() if word in system), 2)
        right = number % 10 < of_ten
        if not right and "MUMBLE" in system:
            return _response(request, Reply("Well, let me see."))
        values = {"final_answer": gold if right else LATE if sealed else WRONG, "steps": '["count"]', "result": "?"}
        tokens = len(system) + self._sealed_tokens * sealed
        return replace(
            _response(request, values), usage=Usage(input_tokens=tokens, output_tokens=1, total_tokens=tokens + 1)
        )


def planted_run(
    place: Path,
    *overrides: str,
    texts: Mapping[str, str] | Sequence[Mapping[str, str]] = (),
    model: Obedient | None = None,
    optimizer: Any = None,
    change: Callable[[TuneConfig], None] = lambda config: None,
) -> Finished:
    """Run it in `place`; what comes twice in `overrides`, counts last.

    Args:
        texts: of the planted candidate, or of several: agent → what its prompt says more.
        optimizer: in place of the planted one.
        change: of the configuration, before it is checked.
    """

    def plant(config: TuneConfig) -> None:
        config.base.model = model or Obedient()
        config.base.model.learn(config.base.data)
        config.optimizer = optimizer or Planted([texts] if isinstance(texts, Mapping) else texts)
        change(config)

    return tuning_command(place, *SMALL, "model=offline", *overrides, change=plant)
