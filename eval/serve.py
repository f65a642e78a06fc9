"""Serve a system over HTTP until Ctrl-C or SIGTERM; only systems with a service of their own, such as bos.

python eval/serve.py system=bos model=gpt-4o-mini system.sql.databases.shop.path=shop.db
python eval/serve.py system=bos model=offline system.service.port=9000      any options of eval/run.py

Exit codes: 0 stopped by a signal, requests in flight were answered · 1 a mistake in the command line, reported in one
sentence.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, run_cli
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from mas.runtime.errors import UserError
from mas.system import can_be_served


def task(arguments: list[str]) -> int:
    parser = UserErrorParser("python eval/serve.py system=bos [name=value ...]", __doc__)
    words, options = parser.read_words(arguments)
    config = read_config(compose_config([*words, *options]))
    if not can_be_served(config.system):
        raise UserError(f"system={config.system.name} has no service; choose one that has: system=bos.")
    prompts = config.check_system()
    config.check_model()
    config.system.check_service()
    from eval.workflows.service import serve

    return serve(config.system, config, prompts)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
