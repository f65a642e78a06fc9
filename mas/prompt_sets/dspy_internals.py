"""Internals of DSPy that `mas` uses, and the check that its version has them.

Prompts are rendered and programs observed with them, and the wire types of its vendored `lm15` are among them. No other
module of `mas` imports what DSPy does not export.
"""

import re

import dspy
from dspy._vendor.lm15.providers.base import HttpResponse
from dspy._vendor.lm15.serde import message_to_dict, request_to_dict, response_from_dict, response_to_dict
from dspy._vendor.lm15.types import Part
from dspy.adapters.types.base_type import CUSTOM_TYPE_START_IDENTIFIER
from dspy.adapters.utils import annotation_allows_none, get_field_description_string, parse_value
from dspy.clients.engines import AsyncLiteLLMEngine
from dspy.utils.callback import BaseCallback

from mas.runtime.errors import UserError

__all__ = [
    "CUSTOM_TYPE_START_IDENTIFIER",
    "AsyncLiteLLMEngine",
    "BaseCallback",
    "HttpResponse",
    "Part",
    "annotation_allows_none",
    "check_dspy_version",
    "get_field_description_string",
    "message_to_dict",
    "parse_value",
    "request_to_dict",
    "response_from_dict",
    "response_to_dict",
]

OLDEST, TOO_NEW = (3, 4, 1), (3, 5)  # DSPy 3.5 changes the contract between LMs and engines


def check_dspy_version(version: str) -> None:
    """Check that the internals of DSPy are those of this code; UserError: DSPy is too old or too new."""
    if not OLDEST <= tuple(map(int, re.findall(r"\d+", version)[:3])) < TOO_NEW:
        raise UserError(
            f"DSPy {version} is installed, but this program uses internals of DSPy 3.4 (mas/prompt_sets/"
            "dspy_internals.py); install it with: pip install 'dspy>=3.4.1,<3.5'."
        )


check_dspy_version(dspy.__version__)
