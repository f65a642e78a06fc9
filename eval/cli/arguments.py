"""Command lines that are not Hydra's: argparse whose complaints are one sentence.

parser = UserErrorParser(usage="python eval/doctor.py [name=value ...]")
"""

from __future__ import annotations  # read by eval/doctor.py under Pythons that are too old for the rest

import argparse
from typing import NoReturn

from mas.runtime.errors import UserError


class UserErrorParser(argparse.ArgumentParser):
    """Raises UserError where argparse would print its usage and exit with 2; options are written in full."""

    def __init__(self, usage: str, description: str) -> None:
        super().__init__(usage=usage, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.format_usage().strip()}")
