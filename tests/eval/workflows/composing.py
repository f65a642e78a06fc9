"""Hydra's configurations composed once for a module of tests.

with compose_each_once(python_api): ...    # its `compose_config` composes each command line once
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

import pytest

from eval.cli.hydra_compat import compose_config


@contextmanager
def compose_each_once(module: ModuleType) -> Iterator[None]:
    """Keep what the module composes, of which each caller gets a copy: Hydra takes a third of a second."""
    compose = cache(compose_config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "compose_config", lambda overrides: compose(tuple(overrides)).copy())
        yield
