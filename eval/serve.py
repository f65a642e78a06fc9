"""Serve a system over HTTP until Ctrl-C or SIGTERM; only systems with a service of their own, such as bos.

python eval/serve.py system=bos model=gpt-4o-mini system.sql.databases.shop.path=shop.db
python eval/serve.py system=bos model=offline system.service.port=9000

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
    usage = "python eval/serve.py system=bos [name=value ...]"
    parser = UserErrorParser(usage=usage, description="Serve a system over HTTP.")
    parser.add_argument("overrides", nargs="*", metavar="name=value", help="options, as of eval/run.py")
    config = read_config(compose_config(parser.parse_args(arguments).overrides))
    if not can_be_served(config.system):
        raise UserError(f"system={config.system.name} has no service; choose one that has: system=bos.")
    prompts = config.check_system()
    config.check_model()
    config.system.check_service()
    from eval.workflows.service import serve

    return serve(config.system, config, prompts)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
