"""The only module of `optimize/` that patches DSPy and GEPA or uses names that are not part of their public interface.

They print, draw progress bars, repeat an example (and its cost) after 120 s, and let one choice of GEPA's merge depend
on the hash seed of the process. Other versions than dspy 3.4 and gepa 0.1 are refused at import: there, a patch could
silently do nothing.
"""

import functools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from importlib.metadata import version
from typing import Any, TypeVar
from unittest.mock import patch

import dspy
import dspy.evaluate.evaluate
import dspy.propose.grounded_proposer
import dspy.teleprompt.bootstrap
import dspy.teleprompt.mipro_optimizer_v2
import dspy.teleprompt.random_search
import dspy.teleprompt.utils
import gepa.proposer.merge
from dspy.primitives.base_module import BaseModule as BaseModule
from dspy.propose.grounded_proposer import GroundedProposer as GroundedProposer
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer as InstructionProposer

from mas.prompt_sets.dspy_internals import check_dspy_version
from mas.runtime.errors import UserError

check_dspy_version(dspy.__version__)
if not version("gepa").startswith("0.1."):  # which has the names used here
    raise UserError(f"gepa {version('gepa')} is installed, but tuning uses internals of gepa 0.1: make setup.")

T = TypeVar("T")
R = TypeVar("R")
Scored = Sequence[tuple[dspy.Example, dspy.Prediction, float]]  # results of dspy.Evaluate
_ONE_AT_A_TIME = threading.Lock()  # the patched modules belong to the process
_LOGGERS = ("dspy", "gepa", "optuna")
_PRINTING = (
    *(dspy.teleprompt.bootstrap, dspy.teleprompt.random_search, dspy.teleprompt.utils),
    dspy.propose.grounded_proposer,
)


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


def run_in_threads(function: Callable[[T], R], items: Sequence[T], n_threads: int) -> list[R]:
    """Return the function's result for each item, so many at once, each in a copy of the caller's context."""
    with ThreadPoolExecutor(n_threads) as pool:
        waiting = [pool.submit(copy_context().run, function, item) for item in items]
        return [each.result() for each in waiting]


class PlainExecutor:
    """DSPy's executor without a progress bar and its timeout: each question has a deadline of its own."""

    def __init__(self, num_threads: int, **settings: object) -> None:
        self._num_threads = num_threads

    def execute(self, function: Callable[[T], R], data: Sequence[T]) -> list[R]:
        return run_in_threads(function, data, self._num_threads)


@contextmanager
def observe_programs(scored: Callable[[dspy.Module, Scored], None]) -> Iterator[None]:
    """Call `scored`, whose errors end the search, for each program that random search or MIPROv2 evaluates."""

    class Evaluate(dspy.Evaluate):
        def __call__(self, program: dspy.Module, *args: object, **settings: object) -> object:
            result = super().__call__(program, *args, **settings)
            scored(program, result.results)
            return result

    def evaluate_on_all(size: int, val: Scored, program: dspy.Module, evaluate: Evaluate, rng: object) -> object:
        return evaluate(program, devset=val)

    random_search, mipro = dspy.teleprompt.random_search, dspy.teleprompt.mipro_optimizer_v2
    with (
        patch.object(random_search, "Evaluate", Evaluate),
        patch.multiple(mipro, Evaluate=Evaluate, eval_candidate_program=evaluate_on_all),
    ):
        yield


def adapt_mipro(create_proposer: Callable[..., GroundedProposer], has_demos: bool) -> AbstractContextManager[None]:
    """Let DSPy's MIPROv2 use a proposer of instructions of ours.

    Without demos no training questions are answered for them, which DSPy would then not use.
    """
    names: dict[str, Any] = {"GroundedProposer": create_proposer}
    if not has_demos:
        names["create_n_fewshot_demo_sets"] = _ignore
    patched: AbstractContextManager[None] = patch.multiple(dspy.teleprompt.mipro_optimizer_v2, **names)
    return patched


def to_examples(sample_ids: Sequence[str]) -> list[dspy.Example]:
    """Return the questions as DSPy's optimizers take them: by id, without text or answer."""
    return [dspy.Example(sample_id=each).with_inputs("sample_id") for each in sample_ids]


def _ignore(*args: object, **settings: object) -> None:
    """Do nothing, in place of `print` and the like."""


class SortedSet(set[object]):
    """Set that is iterated in the order of its values."""

    def __iter__(self) -> Iterator[object]:
        return iter(sorted(super().__iter__()))  # type: ignore[type-var]


@contextmanager
def _patched() -> Iterator[None]:
    bar: Any = dspy.evaluate.evaluate.tqdm.tqdm
    with ExitStack() as stack:
        stack.enter_context(patch.object(bar, "__init__", functools.partialmethod(bar.__init__, disable=True)))
        stack.enter_context(patch.object(dspy.evaluate.evaluate, "ParallelExecutor", PlainExecutor))
        stack.enter_context(patch.object(gepa.proposer.merge, "set", SortedSet, create=True))
        for module in _PRINTING:
            stack.enter_context(patch.object(module, "print", _ignore, create=True))
        for logger in map(logging.getLogger, _LOGGERS):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield
