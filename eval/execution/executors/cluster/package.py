"""Files that workers on other machines need, in one folder, which Ray hands on by its digest.

    with open_package(config, resolved, samples, ["rates.csv"]) as package:
        package.config                       # the configuration as workers read it
        package.places[sample.file]          # of an attachment, within the folder

It has the harness, the modules of the user's program and scorers, attachments, and what `executor.files` names. Workers
run in that folder. Questions, answers, runs, keys and `.env` are no part of it.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

from eval.benchmarks.dataset import Sample
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import EvalConfig
from mas.agents.source_digest import OURS, list_modules
from mas.runtime.errors import UserError

_HARNESS = ("mas", "eval")
_NOT_OF_HARNESS = ("__pycache__", "sample")
_PRIVATE = (".env*", "*.pem", "*.key", "*.p12", "*.pfx", "id_*", ".ssh", ".aws", ".git", ".netrc", "*credentials*")
_NO_TRACKING = {"_target_": "eval.config.tracking.NoTracking"}


@dataclass(frozen=True)
class Package:
    """The folder, the configuration as workers read it, and the place of each attachment within the folder."""

    folder: Path
    config: Mapping[str, object]
    places: Mapping[Path, Path]


@contextmanager
def open_package(
    config: EvalConfig, resolved: Mapping[str, object], samples: Sequence[Sample], files: Sequence[str]
) -> Iterator[Package]:
    """Collect the files of a run whose program has been built in this process.

    Args:
        config: of the run.
        resolved: the same as plain dictionaries.
        samples: of the run, with their attachments.
        files: `executor.files`.

    Raises:
        UserError: something must not leave this machine, or does not exist.
    """
    for name, part in resolved.items():  # workers have their secrets from the environment of their machine
        as_text = json.dumps({name: part}, default=str)
        if name != "tracking" and json.dumps(config.redact_tree({name: part}), default=str) != as_text:
            raise UserError(
                f"the part {name} of the configuration has a password or a key, which would be sent through the "
                "cluster; name an environment variable instead, and set it on every node."
            )
    with TemporaryDirectory(prefix="mas-package-") as place:
        folder = Path(place)
        for each in files:
            _copy_own(folder, each)
        for package in _HARNESS:
            shutil.copytree(PROJECT_ROOT / package, folder / package, ignore=shutil.ignore_patterns(*_NOT_OF_HARNESS))
        for module in sorted(_list_targets(resolved)):
            for name, path in list_modules(module).items():
                _copy_module(folder, name, path)
        places = {file: _copy_attachment(folder, file) for each in samples if (file := each.file) is not None}
        moved = {key: _move(value) for key, value in resolved.items()}
        yield Package(folder, {**moved, "tracking": _NO_TRACKING}, places)


def _list_targets(value: object) -> set[str]:
    """Return the modules of targets in a configuration."""
    if isinstance(value, Mapping):
        own = value.get("target")
        found = {own.partition(":")[0]} if isinstance(own, str) and ":" in own else set()
        return found.union(*(_list_targets(each) for each in value.values()))
    if isinstance(value, list | tuple):
        return set().union(*(_list_targets(each) for each in value))
    return set()


def _copy(file: Path, target: Path) -> None:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _copy_attachment(folder: Path, file: Path) -> Path:
    """Copy a file under its digest; return its place within the folder."""
    place = Path("files", hashlib.sha256(file.read_bytes()).hexdigest()[:16], file.name)
    _copy(file, folder / place)
    return place


def _copy_module(folder: Path, name: str, path: Path) -> None:
    """Copy a module to where it is imported from, with the packages around it."""
    if not name or name.partition(".")[0] in OURS:
        return
    parts = name.split(".")
    is_package = path.name == "__init__.py"
    _copy(path, folder.joinpath(*parts, "__init__.py") if is_package else folder.joinpath(*parts).with_suffix(".py"))
    around = path.parent.parent if is_package else path.parent
    for length in range(len(parts) - 1, 0, -1):
        if (init := around / "__init__.py").is_file():
            _copy(init, folder.joinpath(*parts[:length], "__init__.py"))
        around = around.parent


def _copy_own(folder: Path, given: str) -> None:
    here = Path.cwd()
    path = here / given
    if not path.exists() or not path.resolve().is_relative_to(here.resolve()) or path == here:
        raise UserError(
            f"executor.files: {given} is no file or folder inside of the current folder {here}; correct it, or start "
            "the command in the folder that has it."
        )
    for file in [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file()):
        place = file.relative_to(here)
        if _is_private(file) or place.parts[0] in OURS:
            raise UserError(
                f"executor.files: {place} would be sent to all nodes, and looks like a key, a run or a part of the "
                "harness; leave it out, or name the files that the program needs."
            )
        _copy(file, folder / place)


def _is_private(file: Path) -> bool:
    """Return whether a file must not leave this machine, by its name and place."""
    return file.resolve().is_relative_to(OUTPUTS) or any(
        fnmatchcase(part.lower(), pattern) for part in file.parts[1:] for pattern in _PRIVATE
    )


def _move(value: object) -> object:
    """Return a part of the configuration with files of the project where a worker has the project."""
    if isinstance(value, Mapping):
        return {str(key): _move(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_move(each) for each in value]
    is_ours = isinstance(value, str) and Path(value).is_absolute() and Path(value).is_relative_to(PROJECT_ROOT)
    return f"${{project:{Path(str(value)).relative_to(PROJECT_ROOT).as_posix()}}}" if is_ours else value
