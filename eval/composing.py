"""`conf/eval.yaml` composed with overrides for a command that has a command line of its own, not Hydra's.

composed(["model=offline", "system.agents.expert.temperature=0.7"]).model.name      # "offline"
"""

from collections.abc import Sequence

from dotenv import load_dotenv
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from eval.command_line import check_overrides
from eval.paths import OUTPUTS, PROJECT_ROOT


def composed(overrides: Sequence[str]) -> DictConfig:
    """The configuration as `eval/run.py` would compose it, with `.env` read first.

    Raises:
        UserError: something that is no override, a question without quotes most likely; or that no group takes.
        HydraException, OmegaConfBaseException: the same mistakes as in `eval/run.py`; see `eval.command.sentence`.
    """
    check_overrides(overrides, "eval")
    load_dotenv(PROJECT_ROOT / ".env")
    OmegaConf.register_new_resolver("outputs", lambda: str(OUTPUTS), replace=True)
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        return compose("eval", list(overrides))
