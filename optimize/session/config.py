"""Configuration of a tuning run, `conf/optimize.yaml`, as checked dataclasses. Nothing heavy is imported here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf, open_dict

from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import EvalConfig, build_part, check_branches, require
from eval.config.evaluation import read_config as read_evaluation
from eval.execution.budget import BudgetSettings
from eval.runs.folder import TUNING_FILE
from eval.runs.store import check_free
from mas.llm.profiles.model import REFLECTION
from mas.prompt_sets.prompt_set import PromptSet
from mas.prompt_sets.shelf import check_name_is_free
from mas.runtime.errors import UserError
from mas.system import agent_names
from optimize.gate.gate import GateSettings
from optimize.questions.splits import SplitSettings
from optimize.search.optimizer import Optimizer
from optimize.session.tuning_store import find_tuning_run

PARTS = ("system", "model", "scorer", "data", "tracking", "executor")
_OF_EVALUATION = ("tools", "limits", "log", "prompts", "split", "run")
_RUN = ("concurrency", "deadline_seconds", "dir", "drain_seconds")  # of an evaluation's options of `run`
_NO_OPTIONS = ("experiment", "debug")
SHELF = PROJECT_ROOT / "prompts"


@dataclass
class ShortlistSettings:
    """The `shortlist` section of the configuration."""

    size: int = 3  # number of best candidates that are re-evaluated
    epochs: int = 2  # new answers to each validation question
    min_gain: float = 0.02  # of the new answers, from which on the best candidate is tested

    def check(self) -> None:
        require(self.size >= 1, "shortlist.size", self.size, "at least 1")
        require(self.epochs >= 1, "shortlist.epochs", self.epochs, "at least 1")
        require(0 <= self.min_gain < 1, "shortlist.min_gain", self.min_gain, "0 to less than 1")


@dataclass
class TuningOptions:
    """Options of a tuning run alone, which do not depend on the chosen parts."""

    name: str = "tuned"  # of the set to be published
    agents: list[str] = field(default_factory=list)  # the tuned ones
    reflection_model: str | None = None  # None: the run's own model
    seed: int = 0
    yes: bool = False
    resume: str | None = None
    splits: SplitSettings = field(default_factory=SplitSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    shortlist: ShortlistSettings = field(default_factory=ShortlistSettings)
    gate: GateSettings = field(default_factory=GateSettings)


@dataclass(kw_only=True)
class TuneConfig(TuningOptions):
    """Configuration of one tuning run; `base` holds the parts that an evaluation has as well."""

    base: EvalConfig
    optimizer: Optimizer
    resolved: dict[str, Any]  # the same as plain dictionaries
    command: Sequence[str] = ()  # the overrides as typed
    shelf: Path = SHELF  # folder in which a set is published
    parent: PromptSet = field(init=False)  # to start from; known once it is checked

    def check(self) -> None:
        """Check everything that is possible before anything heavy is imported; UserError: the first mistake."""
        if self.resume is not None and not self.resume.strip():  # it would silently start and pay a new run
            raise UserError("resume is empty; name the run to resume (latest, a name or a path), or leave it out.")
        base, there = self.base, list(agent_names(self.base.system))
        if not there:
            raise UserError(
                f"system={base.system.name} has no prompts of ours to tune; choose another, such as system=gaia."
            )
        if unknown := [agent for agent in self.agents if agent not in there]:
            raise UserError(f"agents: {unknown[0]} is no agent of this system; choose from {', '.join(there)}.")
        self.agents = self.agents or there
        prompts = base.check_system()
        if prompts is None:
            raise UserError(f"system={base.system.name} has no prompts to start from; name a set with prompts=….")
        self.parent = prompts
        base.scorer.check()
        base.check_model()
        for part in (base.tracking, base.data, self.optimizer, self.splits, self.budget, self.shortlist, self.gate):
            part.check()
        if base.model.simulated and self.reflection_model not in (None, base.model_name):
            raise UserError(
                f"reflection_model={self.reflection_model} would not be used, since model={base.model_name} simulates "
                "the reflection as well; leave it out, or choose a real model."
            )
        base.check_budget()
        names = [self.reflection_model] if self.reflection_model else []
        if self.budget.usd is not None and (unpriced := base.list_unpriced_models(names)):
            raise UserError(
                f"budget.usd={self.budget.usd:g} cannot be kept, because no price is known for {', '.join(unpriced)}; "
                "give it in model.prices, or leave the budget out."
            )
        if self.resume:  # with another name than before, or one that is taken meanwhile
            check_name_is_free(self.name, self.shelf, find_tuning_run(self.resume).name)
            return
        check_name_is_free(self.name, self.shelf)
        if base.run.dir is not None:
            folder = Path(base.run.dir)
            if (folder / TUNING_FILE).exists():
                raise UserError(
                    f"run.dir={folder} already holds a tuning run; resume={folder} resumes it; name a new folder."
                )
            check_free(folder)

    @property
    def stored_config(self) -> dict[str, Any]:
        """The configuration without secrets, as it is stored with the run."""
        return self.base.redact_tree(self.resolved)

    @property
    def is_free(self) -> bool:
        """True if every model is simulated: the program's, which reflects as well, and all judges."""
        return self.base.model.simulated and all(judge.simulated for judge in self.base.judges.values())


def read_config(composed: DictConfig, command: Sequence[str] = (), shelf: Path = SHELF) -> TuneConfig:
    """Check a configuration composed by Hydra and build its parts; UserError, OmegaConfBaseException: a wrong value."""
    base = read_evaluation(OmegaConf.create({name: composed[name] for name in (*PARTS, *_OF_EVALUATION)}))
    base.run.max_same_errors = None  # a tuning run has a rule of its own (`Trials`)
    if unknown := [name for name in composed.run if name not in _RUN]:
        raise UserError(f"run.{unknown[0]} is not an option; choose one of: {', '.join(_RUN)}.")
    with open_dict(composed):
        composed.data.name, composed.prompts = base.data.name, base.prompts
    others = (*PARTS, *_OF_EVALUATION, *_NO_OPTIONS, "optimizer")
    rest = {key: value for key, value in composed.items() if key not in others}
    schema = OmegaConf.structured(TuningOptions)
    check_branches(schema, rest)
    options: TuningOptions = OmegaConf.to_object(OmegaConf.merge(schema, rest))  # type: ignore[assignment]
    require(options.seed >= 0, "seed", options.seed, "a whole number from 0 on")
    entry = getattr(base.model, "agents", {}).get(REFLECTION)
    options.reflection_model = options.reflection_model or (entry.name if entry else None)
    resolved = cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True))
    optimizer = build_part(composed.optimizer, "optimizer")
    return TuneConfig(**vars(options), base=base, optimizer=optimizer, resolved=resolved, command=command, shelf=shelf)
