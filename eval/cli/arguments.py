"""Command lines that are not Hydra's: argparse whose complaints are one sentence.

run, options = UserErrorParser("python eval/sync.py RUN [tracking.option=value ...]", __doc__).read_run(arguments)
"""

import argparse
from collections.abc import Sequence
from typing import NoReturn

from mas.runtime.errors import UserError


class UserErrorParser(argparse.ArgumentParser):
    """Raises UserError where argparse would print its usage and exit with 2; options are written in full."""

    def __init__(self, usage: str, description: str | None) -> None:
        """`description`: the docstring of the script, which `--help` shows as it is."""
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(usage=usage, description=description, formatter_class=form, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.format_usage().strip()}")

    def read_words(self, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words of a command line, and its options `name=value`, both in any order."""
        self.add_argument("words", nargs="*", metavar="WORD")
        words = self.parse_intermixed_args(arguments).words
        return [each for each in words if "=" not in each], [each for each in words if "=" in each]

    def read_run(self, arguments: Sequence[str]) -> tuple[str, list[str]]:
        """Return the one run that a command line names, and its options `name=value`."""
        runs, options = self.read_words(arguments)
        if len(runs) != 1:
            self.error("name one run")
        return runs[0], options
