"""Internals of DSPy that `mas` uses, and the check that its version has them.

Prompts are rendered and programs observed with them, and the wire types of its vendored `lm15` are among them. No other
module of `mas` imports what DSPy does not export.
"""

import re

import dspy
from dspy._vendor.lm15.providers.base import HttpResponse as HttpResponse
from dspy._vendor.lm15.serde import message_to_dict as message_to_dict
from dspy._vendor.lm15.serde import request_to_dict as request_to_dict
from dspy._vendor.lm15.serde import response_from_dict as response_from_dict
from dspy._vendor.lm15.serde import response_to_dict as response_to_dict
from dspy._vendor.lm15.types import Part as Part
from dspy.adapters.types.base_type import CUSTOM_TYPE_START_IDENTIFIER as CUSTOM_TYPE_START_IDENTIFIER
from dspy.adapters.utils import annotation_allows_none as annotation_allows_none
from dspy.adapters.utils import get_field_description_string as get_field_description_string
from dspy.adapters.utils import parse_value as parse_value
from dspy.clients.engines import AsyncLiteLLMEngine as AsyncLiteLLMEngine
from dspy.utils.callback import BaseCallback as BaseCallback

from mas.runtime.errors import UserError

OLDEST, TOO_NEW = (3, 4, 1), (3, 5)  # DSPy 3.5 changes the contract between LMs and engines


def check_dspy_version(version: str) -> None:
    """Check that DSPy has the internals of this code; UserError: it is too old or too new."""
    if not OLDEST <= tuple(map(int, re.findall(r"\d+", version)[:3])) < TOO_NEW:
        raise UserError(
            f"DSPy {version} is installed, but this program uses internals of DSPy 3.4 (mas/prompt_sets/"
            "dspy_internals.py); install it with: pip install 'dspy>=3.4.1,<3.5'."
        )


check_dspy_version(dspy.__version__)
