"""Report what is missing on this machine for the chosen configuration, and how to get it: one line for each check.

    python eval/doctor.py                                 the default: GAIA Level 1 with gpt-4o-mini
    python eval/doctor.py experiment=offline              any options of eval/run.py

Each part checks itself (`check()` raises UserError), and its sentence is reported; what a run can do without is a
warning. Values of environment variables are never shown.

Exit codes: 0 the chosen configuration can run · 1 it cannot. Only lines marked `missing` count; a `warning` does not.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path, and the project may not be installed
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    import eval.cli.start  # noqa: F401

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eval.benchmarks.dataset import select_samples
from eval.cli.arguments import UserErrorParser
from eval.cli.command import exit_now, run_cli
from eval.cli.hydra_compat import MISTAKES, compose_config
from eval.cli.mistakes import describe_mistake, is_mistake
from eval.config.evaluation import EvalConfig, read_config
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from mas.tools.files.readers import converted
from mas.tools.files.readers.media import has_tesseract
from mas.tools.sandbox.repl import try_isolations
from mas.tools.settings import AUTO

OK, MISSING, WARNING = "ok", "missing", "warning"  # MISSING: the chosen configuration cannot run
_NAME_COLUMN, _WHAT_COLUMN = 9, 24  # characters before them


@dataclass(frozen=True)
class Finding:
    name: str
    state: str
    what: str
    remedy: str = ""  # how to get what is missing

    def __str__(self) -> str:
        line = f"{self.state:<{_NAME_COLUMN}}{self.name:<{_WHAT_COLUMN - _NAME_COLUMN}}{self.what}"
        return f"{line}\n{' ' * _WHAT_COLUMN}→ {self.remedy}" if self.remedy else line


def run_checks(overrides: list[str]) -> Iterator[Finding]:
    """Yield what is found of the configuration, if it can be read, and of the machine."""
    try:
        config = read_config(compose_config(overrides))
    except (*MISTAKES, ValueError) as error:
        if not is_mistake(error):
            raise
        yield Finding("configuration", MISSING, describe_mistake(error))
    else:
        yield from check_configuration(config)
    yield from check_machine()


def check_configuration(config: EvalConfig) -> Iterator[Finding]:
    """Ask each part of the configuration, then the whole."""
    system, model = config.system.name, config.model
    yield Finding("configuration", OK, f"system={system}, model={model.name}, data={config.data.name}")
    simulated = ": simulated, part of the package" if model.simulated else ""
    asked = f"{model.name}{simulated}" if config.needs_model else f"not needed by system={system}"
    parts = [
        _ask("system", config.check_system, f"{system}, prompts {config.prompts or 'of its own'}"),
        _ask("model", config.check_model, asked),
        _ask("scorer", config.check_scorers, type(config.scorer).__name__),
        _ask("data", lambda: _describe_data(config)),
        _ask("tracking", config.tracking.check, type(config.tracking).__name__),
    ]
    yield from parts
    if parts[0].state == OK:
        yield from check_tools(config)
    if all(each.state == OK for each in parts):
        yield _ask("run", config.check, "the configuration can run")


def _ask(name: str, check: Callable[[], object], success: str = "") -> Finding:
    """Return the sentence of a check that fails; else `success`, or the text that it returns."""
    try:
        found = check()
    except UserError as error:
        return Finding(name, MISSING, str(error))
    return Finding(name, OK, success or str(found))


def _describe_data(config: EvalConfig) -> str:
    """Read and count local questions; those of a repository are fetched by the first run."""
    data, name = config.data, f"{config.data.name}, split {config.split}"
    data.check()
    repo = getattr(data, "repo", None)
    if repo and not getattr(data, "path", None) and not Path(str(repo)).is_dir():
        return f"{name}: fetched at the first run, access not tried"
    split = data.load(config.split)
    n_chosen = len(select_samples(split.samples, config.selection))
    skipped = [f"{len(split.bad_rows)} bad rows skipped: {split.bad_rows[0]}"] if split.bad_rows else []
    return "; ".join((f"{name}: {len(split.samples)} questions, {n_chosen} selected", *split.notes, *skipped))


def check_tools(config: EvalConfig) -> Iterator[Finding]:
    """Open what the agents' tools need, as a run does, and report what is missing."""
    notes = list[str]()
    try:
        with config.system.open_resources(config.tools, notes.append):
            pass
    except UserError as error:
        yield Finding("tools", MISSING, str(error))
    else:
        yield from (Finding("tools", WARNING, each) for each in notes)
        if not notes:
            yield Finding("tools", OK, "the services that the agents' tools use are there")


def check_machine() -> Iterator[Finding]:
    """Check the programs that tools may use; a run can do without any of them."""
    if not has_tesseract():
        what = "no tesseract: of pictures and scanned PDF pages nothing but the size is read"
        yield Finding("files", WARNING, what, "apt-get install tesseract-ocr")
    if not converted.is_installed():
        what = "no LibreOffice: .doc, .ppt, .odt, .ods and .rtf are not read"
        yield Finding("files", WARNING, what, f"apt-get install {converted.PACKAGES}")
    yield check_isolation()


def check_isolation() -> Finding:
    """Check which isolation `tools.sandbox.kind=auto` chooses here, and why not a better one."""
    isolation, refused = try_isolations(AUTO)
    what = isolation.description if isolation else "the tool python_repl_tool refuses: code cannot be shut in here"
    return Finding("isolation", WARNING if refused else OK, what, " ".join(refused))


def main(arguments: list[str]) -> int:
    """Print each finding as soon as it is known; return the exit code."""
    words, options = UserErrorParser("python eval/doctor.py [name=value ...]", __doc__).read_words(arguments)
    missing = 0
    for finding in run_checks([*words, *options]):
        print_line(str(finding))
        missing += finding.state == MISSING
    print_line(f"\nCannot run: {missing} missing." if missing else "\nCan run.")
    return 1 if missing else 0


if __name__ == "__main__":
    exit_now(run_cli(lambda: main(sys.argv[1:])))
