from pathlib import Path

from tests.command import TUNED_SET as NAME
from tests.command import Finished as Tuned
from tests.command import run_command, surroundings

__all__ = ["NAME", "Tuned", "tuning_command"]


def tuning_command(place: Path, *options: str) -> Tuned:
    with surroundings(place, current="."):
        return run_command(place, "optimize", *options)
