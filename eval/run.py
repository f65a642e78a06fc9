"""Evaluate a system on a set of questions.

python eval/run.py model=gpt-4o-mini          GAIA Level 1, validation
python eval/run.py experiment=offline         simulated model, sample questions: no key, no network
python eval/run.py --help                     every option
"""

from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from eval.command import leave, run_command, typed_list
from eval.config import read_config


def task(composed: DictConfig) -> int:
    config = read_config(composed, raw_ids=typed_list("ids"))
    prompts = config.check()
    from eval.evaluation import evaluate  # heavy: loaded once no cheap check can fail any more

    return evaluate(config, cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True)), prompts)


if __name__ == "__main__":
    leave(run_command(task, "eval"))
