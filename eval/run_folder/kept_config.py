"""The configuration that a run keeps in its store, for those who come later: sync, and the table of a sweep.

kept_config(folder)["tracking"]["experiment"]      # "mas-harness"
"""

from pathlib import Path
from typing import Any

import yaml

from eval.runs import DATABASE
from eval.store import RunStore, StoreError
from eval.tracking.settings import without_passwords
from mas.errors import UserError


def kept_config(folder: Path) -> dict[str, Any]:
    """As nested dictionaries, no address with a password; empty if the run never began.

    Raises:
        UserError: the run's store cannot be read.
    """
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            found = yaml.safe_load(without_passwords(store.meta().get("config", "")))
    except StoreError as error:
        raise UserError(f"{error}.") from error
    return found if isinstance(found, dict) else {}
