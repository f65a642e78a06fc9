"""What `--help` says of a command's own file in `conf/`: groups with their choices, options with their comments.

    register_help()      # then "${help_choices:eval}" and "${help_options:eval}" in hydra.help.template are these texts

The file is read as text: its comments are what a user wants to see, and YAML has none once it is loaded.
"""

import re

from omegaconf import OmegaConf

from eval.cli.paths import PROJECT_ROOT

CONF = PROJECT_ROOT / "conf"
_GROUP = re.compile(r"  - (?P<group>\w+): (?P<default>\S+)\s*# (?P<meaning>.+)")


def register_help() -> None:
    for name, text in (("help_choices", choices), ("help_options", options)):
        OmegaConf.register_new_resolver(name, lambda command, text=text: _plain(text(command)), replace=True)


def choices(command: str) -> str:
    """A line a group: what it is, and its choices, the default marked with a star."""
    groups = [found for line in _lines(command) if (found := _GROUP.match(line))]
    width = max(len(each["group"]) for each in groups)
    return "\n".join(
        f"{each['group']:<{width}}  {each['meaning']}\n{'':<{width}}  {_named(each['group'], each['default'])}"
        for each in groups
    )


def options(command: str) -> str:
    """What stands between the groups and Hydra's own settings, as it is written there."""
    lines = _lines(command)
    first = max(place for place, line in enumerate(lines) if line.startswith("  - ")) + 1
    return "\n".join(lines[first : lines.index("hydra:")]).strip()


def _named(group: str, default: str) -> str:
    names = sorted(file.stem for file in (CONF / group).glob("*.yaml"))
    return ", ".join(f"{name}*" if name == default else name for name in names)


def _lines(command: str) -> list[str]:
    return (CONF / f"{command}.yaml").read_text("utf-8").splitlines()


def _plain(text: str) -> str:
    """Without a meaning of `$` for the template that Hydra makes of it."""
    return text.replace("$", "$$")
