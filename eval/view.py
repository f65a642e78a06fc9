"""Show runs in the browser: their pages, live runs, and a queue in which people review answers.

    python eval/view.py                                outputs/
    python eval/view.py outputs/eval/my_run port=9000
    python eval/view.py user=ada                       the name that stands with ada's labels

It listens on this machine only, and prints the address with a token: without it, nobody else on this machine can look.

Exit codes: 0 ended by a signal · 1 a mistake in the command line.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

import argparse

from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, run_cli
from eval.cli.paths import OUTPUTS
from eval.runs.folder import read_user
from mas.runtime.errors import UserError

PORT = "8770"  # 0: any that is free


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    usage = "python eval/view.py [FOLDER] [port=8770] [user=NAME]"
    parser = UserErrorParser(usage=usage, description="Show runs in the browser.")
    words = "FOLDER: of runs, or of one run (outputs); port=…, 0: any that is free; user=…: your name on labels"
    parser.add_argument("words", nargs="*", metavar="FOLDER", help=words)
    given = parser.parse_args(arguments)
    options = dict(word.split("=", 1) for word in given.words if "=" in word)
    folders = [word for word in given.words if "=" not in word]
    if unknown := options.keys() - {"port", "user"}:
        raise UserError(f"{sorted(unknown)[0]} is not an option here; expected port or user; usage: {usage}.")
    if len(folders) > 1:
        raise UserError(f"{len(folders)} folders are given; name one; usage: {usage}.")
    port = options.get("port", PORT)
    if not port.isdecimal() or int(port) > 65535:
        raise UserError(f"port={port} is out of range; expected 0 to 65535.")
    given.folder, given.port = Path(folders[0]) if folders else OUTPUTS, int(port)
    given.user = options.get("user", "").strip() or read_user() or "unknown"
    return given


def task(arguments: list[str]) -> int:
    given = read_arguments(arguments)
    from eval.viewer.application import Desk, serve_viewer

    return serve_viewer(Desk(given.folder, given.user), given.port)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
