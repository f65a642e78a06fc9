"""Show runs in the browser: their pages, live runs, and a queue in which people review answers.

    python eval/view.py                                outputs/
    python eval/view.py outputs/eval/my_run port=9000  one run; port=0: any that is free
    python eval/view.py user=ada                       the name that stands with ada's labels

It listens on this machine only, and prints the address with a token: without it, nobody else on this machine can look.

Exit codes: 0 ended by a signal · 1 a mistake in the command line.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, run_cli
from eval.cli.paths import OUTPUTS
from eval.runs.folder import read_user
from mas.runtime.errors import UserError


def read_arguments(arguments: list[str]) -> tuple[Path, int, str]:
    """Return the folder, the port, and the user's name."""
    parser = UserErrorParser("python eval/view.py [FOLDER] [port=8770] [user=NAME]", __doc__)
    folders, words = parser.read_words(arguments)
    options = dict(word.split("=", 1) for word in words)
    if unknown := options.keys() - {"port", "user"}:
        parser.error(f"{sorted(unknown)[0]} is not an option here; expected port or user")
    if len(folders) > 1:
        parser.error(f"{len(folders)} folders are given; name one")
    port = options.get("port", "8770")
    if not port.isdecimal() or int(port) > 65535:
        raise UserError(f"port={port} is out of range; expected 0 to 65535.")
    user = options.get("user", "").strip() or read_user() or "unknown"
    return Path(folders[0]) if folders else OUTPUTS, int(port), user


def task(arguments: list[str]) -> int:
    folder, port, user = read_arguments(arguments)
    from eval.viewer.application import Desk, serve_viewer

    return serve_viewer(Desk(folder, user), port)


if __name__ == "__main__":
    exit_now(run_cli(lambda: task(sys.argv[1:])))
