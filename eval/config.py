"""The configuration of one evaluation, checked: Hydra's YAML → dataclasses whose types and keys are enforced.

Nothing heavy is imported here: a mistake in the configuration is told in a fraction of a second. `_target_` names the
dataclass of each replaceable part (PARTS below); the rest of its node are that dataclass's fields.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from eval.paths import PROJECT_ROOT
from mas.errors import UserError
from mas.llm.model import check_agents
from mas.prompts import PromptSet, read_prompt_set
from mas.tools.catalogue import load_function
from mas.tools.settings import ToolSettings


@dataclass
class RunSettings:
    """The `run` part of the configuration."""

    name: str | None = None  # null: made from system, model and data
    dir: str | None = None  # the run's own folder; null: outputs/eval/<time>_<name>
    concurrency: int = 16  # questions at once
    deadline_seconds: float = 900.0  # wall time of one question
    fail_fast: bool = False  # true: stop at the first question that fails by error (exit 3)
    fail_under: float | None = None  # accuracy, 0 to 1, below which the exit code is 2; null: any accuracy will do


@dataclass
class Selection:
    """Which questions of the split are run."""

    limit: int | None = None  # the first so many, after shuffling; null: all
    ids: list[str] = field(default_factory=list)  # only these; empty: all
    level: str | None = None  # only this level; null: all
    shuffle: bool = False
    seed: int = 0  # of the shuffling


@dataclass
class EvalConfig:
    system: Any
    model: Any
    scorer: Any
    data: Any
    tracking: Any
    selection: Selection
    tools: ToolSettings
    run: RunSettings
    prompts: str | None  # prompt set: a folder under prompts/, or a path; null: none
    split: str  # of the dataset

    def check(self) -> PromptSet | None:
        """Everything that can be seen to be wrong before anything heavy is imported or anything is spent.

        Returns:
            The prompt set, since reading it is how it is checked.

        Raises:
            UserError: the first thing that is wrong.
        """
        prompts = self.check_system()
        if self.run.dir and (Path(self.run.dir) / "run.db").exists():
            raise UserError(f"run.dir={self.run.dir} already holds a run; name a new folder, or leave run.dir out.")
        self.scorer.check()
        self.check_model()
        self.data.check()
        return prompts

    def check_system(self) -> PromptSet | None:
        """The part of `check` that is about the program under test: its settings and its prompt set."""
        self.system.check()
        if self.prompts is None:
            return None
        return read_prompt_set(self.prompts, self.system.agent_names, self.system.name, PROJECT_ROOT)

    def check_model(self) -> None:
        """The part that is about the model, for this system."""
        if self.needs_model:
            check_agents(self.model, self.system.agent_names)
            self.model.check()

    @property
    def needs_model(self) -> bool:
        return bool(self.system.needs_model)

    @property
    def model_name(self) -> str:
        """As results name it: "none" if the system asks no model of ours."""
        return str(self.model.name) if self.needs_model else "none"

    @property
    def simulated(self) -> bool:
        """Whether any model that is asked is, be it the judge."""
        return (self.needs_model and bool(self.model.simulated)) or any(judge.simulated for judge in self._judges)

    @property
    def _judges(self) -> list[Any]:
        judge = getattr(self.scorer, "judge", None)
        return [] if judge is None else [judge]

    def secrets(self) -> list[str]:
        """Longest first: one may contain another. With the model's key even if no model is asked: an agent that is not
        ours may use the same one.
        """
        judges = [secret for judge in self._judges for secret in judge.secrets()]
        return sorted({*self.model.secrets(), *self.system.secrets(), *judges}, key=len, reverse=True)

    def redact(self, text: str) -> str:
        """The text without secrets: a refusal may repeat the key."""
        for secret in self.secrets():
            text = text.replace(secret, "***")
        return text


@dataclass
class _Plain:
    """The part of the configuration that is the same for every choice."""

    prompts: str | None = None
    split: str | None = None
    limit: int | None = None
    ids: list[str] = field(default_factory=list)
    level: str | None = None
    shuffle: bool = False
    seed: int = 0
    tools: ToolSettings = field(default_factory=ToolSettings)
    run: RunSettings = field(default_factory=RunSettings)


PARTS = ("system", "model", "scorer", "data", "tracking")


def read_config(composed: DictConfig, raw_ids: list[str] | None = None) -> EvalConfig:
    """Check a composed configuration and make its parts.

    Args:
        composed: what Hydra made of `conf/` and the command line.
        raw_ids: `ids` as typed, put into `composed`; Hydra has made a float of `1e10` and an int of `007`.

    Raises:
        UserError: a value of the wrong kind, out of range, or missing.
        OmegaConfBaseException: the same, found by OmegaConf; `eval.command` turns it into a sentence.
    """
    parts = {name: build_part(composed[name], name) for name in PARTS}
    if raw_ids is not None:
        composed.ids = raw_ids
    rest = {key: value for key, value in composed.items() if key not in PARTS and key not in ("experiment", "debug")}
    plain: _Plain = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(_Plain), rest))  # type: ignore[assignment]
    _check_ranges(plain)
    return EvalConfig(
        **parts,
        selection=Selection(plain.limit, plain.ids, plain.level, plain.shuffle, plain.seed),
        tools=plain.tools,
        run=plain.run,
        prompts=plain.prompts,
        split=plain.split or parts["data"].default_split,
    )


def build_part(node: DictConfig, key: str) -> Any:
    """The dataclass that a node's `_target_` names, filled with the rest of the node."""
    if missing := [str(name) for name in node if OmegaConf.is_missing(node, name)]:
        raise UserError(f"{key}.{missing[0]} has no value; give it on the command line: {key}.{missing[0]}=…")
    values = dict(OmegaConf.to_container(node, resolve=True))  # type: ignore[arg-type]
    if not isinstance(target := values.pop("_target_", None), str):
        raise UserError(f"{key} has no _target_; its file in conf/ must name the dataclass that {key} is made of.")
    nested = {name: value for name, value in values.items() if isinstance(value, dict) and "_target_" in value}
    schema = OmegaConf.structured(load_function(target))
    typed = OmegaConf.merge({key: schema}, {key: {k: v for k, v in values.items() if k not in nested}})
    part = OmegaConf.to_object(cast(DictConfig, typed)[key])
    for name in nested:
        setattr(part, name, build_part(node[name], f"{key}.{name}"))
    return part


def _check_ranges(plain: _Plain) -> None:
    def need(valid: bool, key: str, value: object, expected: str) -> None:
        if not valid:
            raise UserError(f"{key}={value} is out of range; expected {expected}.")

    run, tools = plain.run, plain.tools
    need(plain.limit is None or plain.limit >= 1, "limit", plain.limit, "at least 1, or null for all questions")
    need(run.concurrency >= 1, "run.concurrency", run.concurrency, "at least 1")
    need(run.deadline_seconds > 0, "run.deadline_seconds", run.deadline_seconds, "more than 0 seconds")
    need(run.fail_under is None or 0 <= run.fail_under <= 1, "run.fail_under", run.fail_under, "0 to 1, or null")
    need(tools.max_output_chars >= 1, "tools.max_output_chars", tools.max_output_chars, "at least 1")
