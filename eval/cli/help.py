"""Text of `--help`: the script's docstring, the choices of each group, and the options of its files in `conf/`."""

import ast
import re

from eval.cli.paths import PROJECT_ROOT

CONF = PROJECT_ROOT / "conf"
_SHARED = CONF / "every_run.yaml"  # options that evaluations and tuning runs have
_GROUP = re.compile(r"  - (?P<group>\w+): (?P<default>\S+)\s*# (?P<meaning>.+)")


def describe_command(command: str) -> str:
    """Return what `--help` shows for `eval` or `optimize`.

    The files in `conf/` are read as text: their comments are what a user wants to see, and YAML drops them. Hydra makes
    a template of the text, so `$` is escaped.
    """
    purpose = ast.get_docstring(ast.parse((PROJECT_ROOT / command / "run.py").read_text("utf-8"))) or ""
    text = (CONF / f"{command}.yaml").read_text("utf-8")
    groups = [found for line in text.splitlines() if (found := _GROUP.match(line))]
    width = max(len(each["group"]) for each in groups)
    shown = [purpose, "", "== Choices: group=name (* if none is given) =="]
    for group, default, meaning in (found.groups() for found in groups):
        names = sorted(file.stem for file in (CONF / group).glob("*.yaml"))
        choices = ", ".join(f"{name}*" if name == default else name for name in names)
        shown += [f"{group:<{width}}  {meaning}", f"{'':<{width}}  {choices}"]
    own = re.split(r"^  - .*\n", text, flags=re.MULTILINE)[-1].strip()
    shared = _SHARED.read_text("utf-8").partition("\n")[2].partition("\nhydra:")[0].strip()
    shown += ["", "== Options, with the values they have if none is given ==", own]
    shown += ["", "== Options of evaluations and of tuning runs ==", shared, ""]
    shown += ["A choice's own options, such as model.temperature: its file, such as conf/model/openai.yaml."]
    shown += ["All options with their values for what is given: --cfg job"]
    return "\n".join(shown).replace("$", "$$")
