"""The first sample of a paid run is answered alone: one question shows a fault that would fail all of them.

    if runs_first_alone(config, n_pending=53):
        ...                                            # the first sample is run, and its record is kept
        describe_fault(record)                         # "the scorer failed (KeyError: 'label')", or None

The others wait for it, so a run takes longer by the time of one sample at most. What it took is the estimate.
"""

from eval.config.evaluation import EvalConfig
from eval.execution.scoring import SCORER
from eval.runs.record import Record
from eval.workflows.estimate import is_measured

FEW = 5  # answers that are not worth waiting for
# Exceptions that say nothing about the question: the server takes no such request, the program cannot be loaded.
_FAULTS = (
    *("LMInvalidRequestError", "LMUnsupportedModelError", "LMUnsupportedFeatureError", "LMNotConfiguredError"),
    *("LMConfigurationError", "LMProviderError", "ImportError", "ModuleNotFoundError", "NameError"),
)


def runs_first_alone(config: EvalConfig, n_pending: int) -> bool:
    """Return whether the first sample of a new run is to be run before the others.

    Args:
        config: of a run whose model is paid.
        n_pending: answers that are remaining.
    """
    return n_pending > FEW and config.run.max_same_errors is not None and not is_measured(config)


def describe_fault(record: Record) -> str | None:
    """Return why the other samples would fail like this one; None: they need not."""
    if record.error is None or record.limit is not None:
        return None
    kind = record.error_details.type if record.error_details else None
    return record.error if record.error_class == SCORER or kind in _FAULTS else None
