"""What `--help` says, against the files in conf/."""

import pytest
import yaml

from eval.cli.hydra_compat import CONF, check_overrides, describe_choices, describe_options


@pytest.mark.parametrize("command", ["eval", "optimize"])
def test_every_group_that_the_command_takes_is_there_with_all_its_choices(command: str) -> None:
    lines = describe_choices(command).splitlines()
    shown = {meaning.split()[0]: names for meaning, names in zip(lines[::2], lines[1::2], strict=True)}
    defaults = yaml.safe_load((CONF / f"{command}.yaml").read_text("utf-8"))["defaults"]
    taken = {name: choice for each in defaults if isinstance(each, dict) for name, choice in each.items()}
    taken = {name: choice for name, choice in taken.items() if not name.startswith("override ")}
    assert set(shown) == set(taken)
    for group, names in shown.items():
        check_overrides([f"{group}={name.strip().rstrip('*')}" for name in names.split(",")], command)
        starred = [name.strip() for name in names.split(",") if "*" in name]
        assert starred == ([f"{taken[group]}*"] if taken[group] else [])


@pytest.mark.parametrize("command", ["eval", "optimize"])
def test_every_option_of_the_commands_own_file_is_there_as_it_is_written(command: str) -> None:
    whole = yaml.safe_load((CONF / f"{command}.yaml").read_text("utf-8"))
    own = {key: whole[key] for key in whole if key not in ("defaults", "hydra")}
    assert yaml.safe_load(describe_options(command)) == own
