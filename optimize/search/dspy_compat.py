"""The only module of `optimize/` that patches DSPy and GEPA or uses names that are not part of their public interface.

DSPy 3.4.1 and gepa 0.1.4 print, draw progress bars, repeat an example (and its cost) after 120 s, install a handler of
their own for Ctrl-C, and let one choice of GEPA's merge depend on the hash seed of the process. During a search,
names in their modules are replaced; afterwards everything is as before.

    run_isolated(lambda: dspy.GEPA(…).compile(student, trainset=…, valset=…))

Other versions than dspy 3.4 and gepa 0.1 are refused at import: there, a patch could silently do nothing.
"""

import functools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar
from unittest.mock import patch

import dspy
import dspy.evaluate.evaluate
import dspy.propose.grounded_proposer
import dspy.teleprompt.bootstrap
import dspy.teleprompt.mipro_optimizer_v2
import dspy.teleprompt.random_search
import dspy.teleprompt.utils
import gepa.core.engine
import gepa.proposer.merge
from dspy.primitives.base_module import BaseModule as BaseModule
from dspy.propose.grounded_proposer import GroundedProposer as GroundedProposer
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer as InstructionProposer
from dspy.utils import parallelizer

from mas.prompt_sets.dspy_internals import check_dspy_version
from mas.runtime.errors import UserError

check_dspy_version(dspy.__version__)
if not version("gepa").startswith("0.1."):  # which has the names used here
    raise UserError(
        f"gepa {version('gepa')} is installed, but tuning (optimize/search/dspy_compat.py) uses internals of gepa 0.1; "
        "install the locked packages: make setup."
    )

T = TypeVar("T")
Scored = Sequence[tuple[dspy.Example, dspy.Prediction, float]]  # results of dspy.Evaluate
_ONE_AT_A_TIME = threading.Lock()  # the patched modules belong to the process
_LOGGERS = ("dspy", "gepa", "optuna")


def run_isolated(work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own, in the caller's context, and return its result, or raise what it raised.

    DSPy handles Ctrl-C itself where it runs in the main thread; this way the caller's handler gets it at once.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            with _ONE_AT_A_TIME, _patched(), dspy.context(trace=None, disable_history=True):
                outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  re-raised for the caller
            outcome.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), name="search", daemon=True).start()
    return outcome.result()


@contextmanager
def observe_draws(scored: Callable[[dspy.Module, Scored], None]) -> Iterator[None]:
    """Call `scored` for each program that DSPy's random search evaluates; DSPy itself reports none before its end."""

    class Evaluate(dspy.Evaluate):
        def __call__(self, program: dspy.Module, *args: object, **settings: object) -> object:
            result = super().__call__(program, *args, **settings)
            scored(program, result.results)
            return result

    with patch.multiple(dspy.teleprompt.random_search, Evaluate=Evaluate):
        yield


@contextmanager
def adapt_mipro(
    create_proposer: Callable[..., GroundedProposer], scored: Callable[[dspy.Module, Scored], None], has_demos: bool
) -> Iterator[None]:
    """Let DSPy's MIPROv2 use a proposer of instructions of ours, and report what it scores.

    Without demos no training questions are answered for them, which DSPy would then not use.
    """

    def score(
        batch_size: int, valset: list[dspy.Example], program: dspy.Module, evaluate: dspy.Evaluate, rng: object = None
    ) -> dspy.Prediction:
        result = evaluate(program, devset=valset)
        scored(program, result.results)
        return result

    mipro = dspy.teleprompt.mipro_optimizer_v2
    names: dict[str, Any] = {"GroundedProposer": create_proposer, "eval_candidate_program": score}
    if not has_demos:
        names["create_n_fewshot_demo_sets"] = _ignore
    with patch.multiple(mipro, **names):
        yield


def to_examples(sample_ids: Sequence[str]) -> list[dspy.Example]:
    """Return the questions as DSPy's optimizers take them: by id, without text or answer."""
    return [dspy.Example(sample_id=each).with_inputs("sample_id") for each in sample_ids]


class UntimedExecutor(parallelizer.ParallelExecutor):
    """DSPy's executor without its timeout: each question has a deadline of its own."""

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, **{**settings, "timeout": 0, "disable_progress_bar": True})


def _ignore(*args: object, **settings: object) -> None:
    """Replace `print`, and the methods of a progress bar."""


class NoBar:
    """Progress bar that shows nothing. DSPy clears tqdm's list of all bars, at which several of them would fail."""

    _instances: ClassVar[set[object]] = set()  # as tqdm has it
    n = 0
    __init__ = update = set_description = close = _ignore


class SortedSet(set[object]):
    """Set that is iterated in the order of its values."""

    def __iter__(self) -> Iterator[object]:
        return iter(sorted(super().__iter__()))  # type: ignore[type-var]


@contextmanager
def _patched() -> Iterator[None]:
    bar = functools.partial(parallelizer.tqdm.tqdm, disable=True)
    with ExitStack() as stack:
        for module, names in (
            (dspy.evaluate.evaluate, {"ParallelExecutor": UntimedExecutor}),
            (parallelizer, {"tqdm": SimpleNamespace(tqdm=NoBar)}),
            (dspy.teleprompt.bootstrap, {"print": _ignore, "tqdm": SimpleNamespace(tqdm=bar)}),
            (dspy.teleprompt.random_search, {"print": _ignore}),
            (dspy.teleprompt.utils, {"print": _ignore}),
            (dspy.propose.grounded_proposer, {"print": _ignore}),
            (gepa.core.engine, {"tqdm": bar}),
            (gepa.proposer.merge, {"set": SortedSet}),
        ):
            stack.enter_context(patch.multiple(module, create=True, **names))
        for name in _LOGGERS:
            stack.enter_context(_only_errors(logging.getLogger(name)))
        yield


@contextmanager
def _only_errors(logger: logging.Logger) -> Iterator[None]:
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
