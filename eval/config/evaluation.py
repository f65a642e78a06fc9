"""Configuration of one evaluation, checked: Hydra's YAML → dataclasses whose types and keys are enforced.

Nothing heavy is imported here: a mistake in the configuration is reported in a fraction of a second. `_target_` names
the dataclass of each replaceable part (PARTS below); the rest of its node are the fields of that dataclass.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from omegaconf import DictConfig, OmegaConf, open_dict

from eval.benchmarks.dataset import Dataset, Selection
from eval.cli.paths import PROJECT_ROOT
from eval.config.measured import MAX_EPOCHS
from eval.scorers.score import Scorer
from mas.llm import Traffic
from mas.llm.profiles.model import Model, check_agents
from mas.prompt_sets.prompt_set import PromptSet, read_prompt_set
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleLimits
from mas.runtime.security.redaction import build_redactor, redact_value, sort_secrets
from mas.system import System, agent_names, can_derive_prompts
from mas.tools.catalogue import load_function
from mas.tools.settings import ToolSettings

if TYPE_CHECKING:
    from eval.config.executor import RaySettings

# `${project:FOLDER}` in `conf/`: the data that come with the project, wherever a command is started.
OmegaConf.register_new_resolver("project", lambda path: str(PROJECT_ROOT / path), replace=True)

_ADDRESS = re.compile(r"(https?://)(?:([^\s/?#]*)@|([^\s/?#@:\[]*:(?!\d*[/?#])\S*)@)", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,}")  # given as a user's name
_OWN_PRICES = "model.prices"  # the key that has those of the models under test
LOG_LEVELS = ("debug", "info", "warning", "error", "warn")  # in any case


@dataclass
class RunSettings:
    name: str | None = None  # null: made from system, model and data
    dir: str | None = None  # the run's own folder; null: outputs/eval/<time>_<name>
    concurrency: int = 16  # questions at once
    epochs: int = 1  # times that each question is asked
    deadline_seconds: float = 900.0  # wall time of one question
    max_seconds: float | None = None  # of this session; then nothing new is started; null: no limit
    max_cost_usd: float | None = None  # of the whole run, all sessions together; null: no limit
    max_errors: float | None = None  # from 1: stop at so many; below 1: stop beyond this share; null: never
    max_same_errors: int | None = 5  # stop when the first so many answers all fail in the same way; null: never
    drain_seconds: float = 30.0  # for what is in flight when a run stops early
    fail_under: float | None = None  # of the metric, 0 to 1, below which the exit code is 2; null: any will do
    resume: str | None = None  # resume this run: latest, a name or a path; `dir` and `name` are then its own
    retry_errors: bool = False  # with resume: run again what failed for reasons of infrastructure
    allow_config_change: bool = False  # with resume: go on although the configuration is another


@dataclass
class CacheSettings:
    """Part `cache`: results of tools that this run may use again."""

    tools: str = "run"  # off | run: the same call once per run


@dataclass
class LogSettings:
    """Part `log`: what the lines in a run's `logs/` look like."""

    level: str = "info"  # the least level that is written: debug, info, warning (warn), error
    terminal: bool = False  # the lines are printed as text, too


@dataclass
class LocalSettings:
    """`executor=local`: samples are answered in the command's own process."""

    def check(self, resolved: Mapping[str, object]) -> None:
        pass


@dataclass
class NoTracking:
    """`tracking=off`: nothing is sent to MLflow."""

    def check(self) -> None:
        pass

    def secrets(self) -> Sequence[str]:
        return ()


@dataclass
class EvalConfig:
    system: System
    model: Model
    scorer: Scorer
    data: Dataset
    tracking: Any
    selection: Selection
    tools: ToolSettings
    run: RunSettings
    limits: SampleLimits
    cache: CacheSettings
    log: LogSettings
    prompts: str | None  # prompt set: a folder under prompts/, or a path; null: none
    split: str  # of the dataset
    extra_scorers: dict[str, Scorer] = field(default_factory=dict)  # by name; reported, they decide nothing
    executor: "LocalSettings | RaySettings" = field(default_factory=LocalSettings)
    resolved: dict[str, Any] = field(default_factory=dict)  # the same as plain values, from which workers build it

    def check(self) -> PromptSet | None:
        """Check everything that can be seen before anything heavy is imported; return the prompt set."""
        _check_resuming(self.run)
        self.check_scorers()
        self.check_model()
        self.check_budget()
        self.tracking.check()
        self.executor.check(self.resolved)
        self.data.check()
        return self.check_system()

    def check_scorers(self) -> None:
        self.scorer.check()
        for name, scorer in self.extra_scorers.items():
            try:
                scorer.check()
            except UserError as error:
                raise UserError(str(error).replace("scorer.", f"extra_scorers.{name}.")) from error

    def check_system(self) -> PromptSet | None:
        self.system.check()
        self.tools.check()
        return self.read_prompts()

    def read_prompts(self) -> PromptSet | None:
        if self.prompts is None:
            if can_derive_prompts(self.system) and agent_names(self.system):
                return self.system.derive_prompts()
            return None
        return read_prompt_set(self.prompts, agent_names(self.system), self.system.name, PROJECT_ROOT)

    def check_model(self) -> None:
        if self.needs_model:
            check_agents(self.model, agent_names(self.system))
            self.model.check()
            if isinstance(self.executor, LocalSettings):  # at once no more questions than the server takes
                self.run.concurrency = max(1, min(self.run.concurrency, self.model.max_connections))

    def check_budget(self) -> None:
        budgets = {"run.max_cost_usd": self.run.max_cost_usd, "limits.cost_usd": self.limits.cost_usd}
        given = next((f"{key}={value:g}" for key, value in budgets.items() if value is not None), None)
        if given and not self.needs_model:
            raise UserError(f"{given} cannot be kept: what this system spends is not seen here; leave it out.")
        for key, names in self._unpriced().items() if given else ():
            if names:
                raise UserError(
                    f"{given} cannot be kept, because no price is known for {', '.join(names)}; give it as "
                    f"{_price_override(key, names)} with the prices that hold there, or leave the budget out."
                )

    def _unpriced(self) -> dict[str, list[str]]:
        """Return the models whose price is unknown, the judge's included, by the key that would have it."""
        asked = self.model.list_unpriced(self.system.model_names()) if self.needs_model else []
        judging = {f"{key}.judge.prices": judge.list_unpriced() for key, judge in self.judges.items()}
        return {_OWN_PRICES: asked, **judging}

    def list_unpriced_models(self, more_names: Sequence[str] = ()) -> list[str]:
        found = {name for names in self._unpriced().values() for name in names}
        return sorted({*found, *self.model.list_unpriced(more_names)})

    @property
    def needs_model(self) -> bool:
        return bool(self.system.needs_model)

    def list_traffic(self) -> list[Traffic]:
        """Return the counts of the model's requests until now, one entry per server."""
        return self.model.list_traffic() if self.needs_model else []

    @property
    def model_name(self) -> str:
        """Name of the model in results; "none" if the system calls no model of ours."""
        return str(self.model.name) if self.needs_model else "none"

    @property
    def simulated(self) -> bool:
        """True if any model of the run is simulated, the judge included."""
        models = [*self.judges.values(), *([self.model] if self.needs_model else [])]
        return any(model.simulated for model in models)

    @property
    def judges(self) -> dict[str, Model]:
        """Return the models that judge answers, by the key of their scorer."""
        scorers = {"scorer": self.scorer}
        scorers |= {f"extra_scorers.{name}": each for name, each in self.extra_scorers.items()}
        found = {key: getattr(scorer, "judge", None) for key, scorer in scorers.items()}
        return {key: judge for key, judge in found.items() if judge is not None}

    def secrets(self) -> list[str]:
        """Longest first: one may contain another."""
        judges = [secret for judge in self.judges.values() for secret in judge.secrets()]
        others = [*self.tracking.secrets(), *self.tools.secrets()]
        return sort_secrets([*self.model.secrets(), *self.system.secrets(), *judges, *others])

    def redact(self, text: str) -> str:
        return build_redactor(tuple(self.secrets()))(text)

    @property
    def stored_config(self) -> dict[str, Any]:
        """The configuration without secrets and without passwords in addresses, as it is stored with a run."""
        return self.redact_tree(self.resolved)

    def redact_tree(self, tree: Mapping[str, object]) -> dict[str, Any]:
        # Addresses first: with `***` for a password the address would be used with that password.
        return cast(dict[str, Any], redact_value(dict(tree), lambda text: self.redact(remove_passwords(text))))


def remove_passwords(text: str) -> str:
    """Remove passwords and tokens from http addresses in a text; users' names stay.

    Nothing replaces them: whoever reads the address again takes the password from the environment.
    """
    return _ADDRESS.sub(_without_password, text)


def _without_password(address: re.Match[str]) -> str:
    user = (address[2] if address[2] is not None else address[3]).partition(":")[0]
    return address[1] + (f"{user}@" if user and not _TOKEN.fullmatch(user) else "")


def _price_override(key: str, names: Sequence[str]) -> str:
    """Return prices as an option for a shell: only inside braces may a name have dots, colons and slashes."""
    escaped = (re.sub(r"([\\()\[\]{}:=, ])", r"\\\1", name) for name in names)
    prices = ", ".join(f"{name}: {{input_usd_per_million: 0.15, output_usd_per_million: 0.6}}" for name in escaped)
    return shlex.quote(f"++{key}={{{prices}}}")


@dataclass
class _Plain:
    """Part of the configuration that is the same for every choice."""

    prompts: str | None = None
    split: str | None = None
    limit: int | None = None
    ids: list[str] = field(default_factory=list)
    level: str | None = None
    shuffle: bool = False
    seed: int = 0
    tools: ToolSettings = field(default_factory=ToolSettings)
    run: RunSettings = field(default_factory=RunSettings)
    limits: SampleLimits = field(default_factory=SampleLimits)
    cache: CacheSettings = field(default_factory=CacheSettings)
    log: LogSettings = field(default_factory=LogSettings)


PARTS = ("system", "model", "scorer", "data", "tracking")
_NO_PLAIN = ("executor", "experiment", "debug", "extra_scorers")  # options that are no field of `_Plain`


def read_config(composed: DictConfig) -> EvalConfig:
    """Check what Hydra made of `conf/` and the command line, and build its parts.

    The prompts, the split and the name of the data are put into it. UserError, OmegaConfBaseException: a value of the
    wrong kind, out of range, or missing.
    """
    parts = {name: build_part(composed[name], name) for name in PARTS}
    if not isinstance(extra := composed.get("extra_scorers") or OmegaConf.create(), DictConfig):
        raise UserError(
            "extra_scorers is a list, which only the command line can have; in a file write `- "
            "/scorer@extra_scorers.contains: contains` into its defaults."
        )
    executor = build_part(composed.executor, "executor") if "executor" in composed else LocalSettings()
    rest = {key: value for key, value in composed.items() if key not in PARTS and key not in _NO_PLAIN}
    schema = OmegaConf.structured(_Plain)
    check_branches(schema, rest)
    plain: _Plain = OmegaConf.to_object(OmegaConf.merge(schema, rest))  # type: ignore[assignment]
    _check_ranges(plain)
    composed.prompts = plain.prompts or parts["system"].default_prompts
    composed.split = plain.split or parts["data"].default_split
    with open_dict(composed):
        composed.data.name = parts["data"].name
    return EvalConfig(
        **parts,
        **{name: getattr(plain, name) for name in ("tools", "run", "limits", "cache", "log")},
        selection=Selection(plain.limit, plain.ids, plain.level, plain.shuffle, plain.seed),
        prompts=composed.prompts,
        split=composed.split,
        extra_scorers={str(name): build_part(node, f"extra_scorers.{name!s}") for name, node in extra.items()},
        executor=executor,
        resolved=cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True)),
    )


def build_part(node: DictConfig, key: str) -> Any:
    """Build the dataclass that a node's `_target_` names from the rest of the node."""
    if missing := [str(name) for name in node if OmegaConf.is_missing(node, name)]:
        raise UserError(f"{key}.{missing[0]} has no value; give it on the command line: {key}.{missing[0]}=…")
    values = dict(OmegaConf.to_container(node, resolve=True))  # type: ignore[arg-type]
    if not isinstance(target := values.pop("_target_", None), str):
        raise UserError(f"{key} has no _target_; its file in conf/ must name the dataclass that {key} is made of.")
    nested = {name: value for name, value in values.items() if isinstance(value, dict) and "_target_" in value}
    schema = OmegaConf.structured(load_function(target))
    own = {name: value for name, value in values.items() if name not in nested}
    check_branches(schema, own, f"{key}.")
    typed = OmegaConf.merge({key: schema}, {key: own})
    part = OmegaConf.to_object(cast(DictConfig, typed)[key])
    for name in nested:
        setattr(part, name, build_part(node[name], f"{key}.{name}"))
    return part


def check_branches(schema: DictConfig, values: Mapping[Any, object], prefix: str = "") -> None:
    """Check that no value was given where several options belong; OmegaConf's own message names no key."""
    for key, value in values.items():
        if key not in schema or not isinstance(options := schema[key], DictConfig):  # an unknown key is reported later
            continue
        if isinstance(value, Mapping):
            check_branches(options, value, f"{prefix}{key}.")
            continue
        branch, shown = f"{prefix}{key}", "null" if value is None else value
        inner = ", ".join(f"{branch}.{each!s}" for each in options) or f"{branch}.NAME"
        raise UserError(f"{branch}={shown} is not possible: {branch} consists of options; give one of them: {inner}.")


def _check_resuming(run: RunSettings) -> None:
    if run.resume is not None and not run.resume.strip():
        raise UserError("run.resume is empty; name the run to resume (latest, a name or a path), or leave it out.")
    for key in ("retry_errors", "allow_config_change"):
        if run.resume is None and getattr(run, key):
            raise UserError(f"run.{key}=true is for a run that goes on; name it with run.resume=…, or leave this out.")


def require(valid: bool, key: str, value: object, expected: str) -> None:
    """Raise a UserError for a value that is not valid."""
    if not valid:
        raise UserError(f"{key}={value} is out of range; expected {expected}.")


def _check_ranges(plain: _Plain) -> None:
    need, run, errors, same = require, plain.run, plain.run.max_errors, plain.run.max_same_errors
    need(plain.limit is None or plain.limit >= 1, "limit", plain.limit, "at least 1, or null for all questions")
    need(run.concurrency >= 1, "run.concurrency", run.concurrency, "at least 1")
    need(run.deadline_seconds > 0, "run.deadline_seconds", run.deadline_seconds, "more than 0 seconds")
    need(1 <= run.epochs <= MAX_EPOCHS, "run.epochs", run.epochs, f"1 to {MAX_EPOCHS:,}")
    need(run.drain_seconds >= 0, "run.drain_seconds", run.drain_seconds, "0 seconds or more")
    limits = {f"limits.{key}": value for key, value in vars(plain.limits).items()}
    for key, value in {"run.max_seconds": run.max_seconds, "run.max_cost_usd": run.max_cost_usd, **limits}.items():
        need(value is None or value > 0, key, value, "more than 0, or null for no limit")
    is_count = errors is None or 0 < errors < 1 or (errors >= 1 and errors % 1 == 0)
    need(is_count, "run.max_errors", errors, "a number of questions from 1, a share between 0 and 1, or null")
    need(same is None or same >= 1, "run.max_same_errors", same, "a number of answers from 1, or null")
    need(plain.cache.tools in ("off", "run"), "cache.tools", plain.cache.tools, "off or run")
    need(run.fail_under is None or 0 <= run.fail_under <= 1, "run.fail_under", run.fail_under, "0 to 1, or null")
    need(plain.log.level.lower() in LOG_LEVELS, "log.level", plain.log.level, f"one of: {', '.join(LOG_LEVELS)}")
