"""What a tuning run was asked for on the command line, checked.

request = Request(config, resolved, config.check(), ["system=toy", "data=toy"])
request.configuration          # "system:\n  _target_: …": as the run's folder may keep it
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from eval.cli.paths import PROJECT_ROOT
from eval.config.tracking import without_passwords
from mas.prompt_sets.prompt_set import PromptSet
from optimize.session.config import OptimizeConfig


@dataclass(frozen=True)
class Request:
    config: OptimizeConfig
    resolved: dict[str, Any]  # the same as plain dictionaries
    prompts: PromptSet  # to begin with
    command: Sequence[str]  # the overrides as typed
    shelf: Path = PROJECT_ROOT / "prompts"  # where a set is published

    @property
    def configuration(self) -> str:
        """Without secrets, YAML."""
        text = yaml.safe_dump(self.resolved, sort_keys=False, allow_unicode=True)
        return self.config.redact(without_passwords(text))

    @property
    def scorer_settings(self) -> Any:
        return yaml.safe_load(self.configuration).get("scorer")
