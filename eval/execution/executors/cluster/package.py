"""Files that workers on other machines need, in one folder, which Ray hands on by its digest.

    with open_package(resolved, samples, ["rates.csv"]) as package:
        package.config                       # the configuration with the places of files in the package
        package.move(sample)                 # the sample with that of its attachment

It has the harness, the modules of the user's program and scorers, files that the configuration names, attachments, and
what `executor.files` names. Questions, answers, runs, keys and `.env` are no part of it.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

from eval.benchmarks.dataset import Sample
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import EvalConfig
from mas.agents.source_digest import OURS, list_modules
from mas.runtime.errors import UserError

MAX_BYTES = 500 * 2**20  # Ray takes no more, and keeps it in the memory of the cluster's head
_HARNESS = ("mas", "eval")
_NOT_OF_HARNESS = ("__pycache__", "sample")
_NOT_FOR_WORKERS = ("data", "tracking", "run", "executor", "selection", "ids")
_PRIVATE = (".env*", "*.pem", "*.key", "*.p12", "*.pfx", "id_*", ".ssh", ".aws", ".git", ".netrc", "*credentials*")
_NO_TRACKING = {"_target_": "eval.config.tracking.NoTracking"}


@dataclass
class Package:
    """The folder, and where in it the files of this machine are."""

    folder: Path
    config: dict[str, object] = field(default_factory=dict)
    places: dict[Path, str] = field(default_factory=dict)  # file → its place within the folder

    def move(self, sample: Sample) -> Sample:
        """Return the sample as workers see it."""
        return sample if sample.file is None else replace(sample, file=Path(self.places[sample.file]))

    def add(self, file: Path) -> str:
        """Add a file under its digest; return its place."""
        if file not in self.places:
            with file.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()[:16]
            self.places[file] = self.add_as(file, f"files/{digest}/{file.name}")
        return self.places[file]

    def add_as(self, file: Path, place: str) -> str:
        """Add a file at a place within the folder."""
        target = self.folder / place
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        return place


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
        UserError: something must not leave this machine, does not exist, or is too large.
    """
    _refuse_secrets(config, resolved)
    with TemporaryDirectory(prefix="mas-package-") as folder:
        package = Package(Path(folder))
        for each in files:
            _add_own(package, each)
        for name in _HARNESS:
            shutil.copytree(PROJECT_ROOT / name, package.folder / name, ignore=shutil.ignore_patterns(*_NOT_OF_HARNESS))
        for module in sorted(_list_targets(resolved)):
            for name, path in list_modules(module).items():
                _add_module(package, name, path)
        for sample in samples:
            if sample.file is not None:
                package.add(sample.file)
        package.config = {
            name: value if name in _NOT_FOR_WORKERS else _move(value, package) for name, value in resolved.items()
        } | {"tracking": _NO_TRACKING}
        size = sum(path.stat().st_size for path in package.folder.rglob("*") if path.is_file())
        if size > MAX_BYTES:
            raise UserError(
                f"the attachments and files of this run have {size / 2**20:.0f} MB, and a cluster takes at most "
                f"{MAX_BYTES / 2**20:.0f} MB; answer fewer questions at a time (limit, ids), or use executor=local."
            )
        yield package


def _refuse_secrets(config: EvalConfig, resolved: Mapping[str, object]) -> None:
    """Refuse a configuration with a secret: workers have theirs from the environment of their machine."""
    for name, value in resolved.items():
        if name == "tracking":
            continue
        before, after = {name: value}, config.redact_tree({name: value})
        if json.dumps(before, default=str) != json.dumps(after, default=str):
            raise UserError(
                f"the part {name} of the configuration has a password or a key, which would be sent through the "
                "cluster; name an environment variable instead, and set it on every node."
            )


def _list_targets(value: object) -> set[str]:
    """Return the modules of targets in a configuration."""
    if isinstance(value, Mapping):
        own = value.get("target")
        found = {own.partition(":")[0]} if isinstance(own, str) and ":" in own else set()
        return found.union(*(_list_targets(each) for each in value.values()))
    if isinstance(value, list | tuple):
        return set().union(*(_list_targets(each) for each in value))
    return set()


def _add_module(package: Package, name: str, path: Path) -> None:
    """Add a module where it is imported from, with the packages around it."""
    if not name or name.partition(".")[0] in OURS:
        return
    parts = name.split(".")
    is_package = path.name == "__init__.py"
    package.add_as(path, "/".join([*parts, "__init__.py"]) if is_package else f"{'/'.join(parts)}.py")
    around = path.parent.parent if is_package else path.parent
    for length in range(len(parts) - 1, 0, -1):
        if (init := around / "__init__.py").is_file():
            package.add_as(init, "/".join([*parts[:length], "__init__.py"]))
        around = around.parent


def _add_own(package: Package, given: str) -> None:
    here = Path.cwd()
    path = here / given
    if not path.exists() or not path.resolve().is_relative_to(here.resolve()) or path == here:
        raise UserError(
            f"executor.files: {given} is no file or folder inside of the current folder {here}; correct it, or start "
            "the command in the folder that has it."
        )
    found = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    for file in found:
        place = file.relative_to(here)
        if is_private(file) or place.parts[0] in OURS:
            raise UserError(
                f"executor.files: {place} would be sent to all nodes, and looks like a key, a run or a part of the "
                "harness; leave it out, or name the files that the program needs."
            )
        package.places[file] = package.add_as(file, place.as_posix())


def is_private(file: Path) -> bool:
    """Return whether a file must not leave this machine, by its name and place."""
    return file.resolve().is_relative_to(OUTPUTS) or any(
        fnmatchcase(part.lower(), pattern) for part in file.parts[1:] for pattern in _PRIVATE
    )


def _move(value: object, package: Package) -> object:
    """Return a part of the configuration with the places of files that are in the package."""
    if isinstance(value, Mapping):
        return {str(key): _move(each, package) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_move(each, package) for each in value]
    if not isinstance(value, str) or not value or "\n" in value or len(value) > 1000:
        return value
    path = Path.cwd() / value
    if path.is_relative_to(PROJECT_ROOT) and (package.folder / path.relative_to(PROJECT_ROOT)).exists():
        place = path.relative_to(PROJECT_ROOT).as_posix()
        return f"${{project:{place}}}" if Path(value).is_absolute() and re.fullmatch(r"[\w./-]+", place) else value
    if path in package.places and not Path(value).is_absolute():
        return value  # workers run in the folder of the package
    if not ("/" in value or "." in value) or not path.is_file() or is_private(path):
        return value
    name = re.sub(r"[^\w.-]", "_", path.name)
    place = package.add_as(path, f"files/{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}/{name}")
    return f"${{project:{place}}}"
