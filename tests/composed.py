"""Hydra's composition, done once for the commands of one process that choose the same files of `conf/`.

It was a third of the time of a whole command in a test. What differs between commands, the values of single options, is
applied each time by Hydra itself. Commands in processes of their own have Hydra as it is.
"""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra

from eval.cli.hydra_compat import CONF


def compose_once(patch: pytest.MonkeyPatch) -> None:
    """Keep the compositions of `conf/`, and leave out those for `hydra.mode` alone, which nothing in `conf/` sets."""
    create_list, compose = config_loader_impl.create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list
    lists: dict[tuple[object, ...], Any] = {}
    composed: dict[int, bytes] = {}  # by the id of the list of files, which is kept above

    def create_list_once(repo: Any, config_name: str | None, overrides_list: list[Any], **flags: bool) -> Any:
        values = [each for each in overrides_list if not each.is_sweep_override()]
        values = [each for each in values if isinstance(each.value(), dict) or not repo.group_exists(each.key_or_group)]
        choices = tuple(each.input_line for each in overrides_list if each not in values)
        paths = {source.path for source in repo.get_sources() if source.scheme() == "file"}
        if paths != {str(CONF)}:  # files of a test, which it may change
            return create_list(repo, config_name, overrides_list, **flags)
        key = (config_name, choices, *flags.items())
        if key not in lists:
            lists[key] = create_list(repo, config_name, overrides_list, **flags)
        return replace(lists[key], config_overrides=values)

    def compose_kept(loader: Any, defaults: list[Any], repo: Any) -> Any:
        if not any(each.defaults is defaults for each in lists.values()):
            return compose(loader, defaults=defaults, repo=repo)
        if id(defaults) not in composed:
            composed[id(defaults)] = pickle.dumps(compose(loader, defaults=defaults, repo=repo))
        return pickle.loads(composed[id(defaults)])

    patch.setattr(Hydra, "get_mode", lambda *_, **__: None)
    patch.setattr(config_loader_impl, "create_defaults_list", create_list_once)
    patch.setattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", compose_kept)
