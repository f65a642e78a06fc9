"""DSPy's optimisers run as a part of another program: silent, reproducible, and without taking over its signals.

DSPy 3.4.1 and gepa 0.1.4 print, draw progress bars, ask an example again that takes longer than 120 s (and pay for it
again), put a handler of their own on Ctrl-C that turns it into a defect, and let one choice of GEPA's merge depend on
the hash seed of the process. What they are is left as it is; only names in their modules are replaced, for the time of
one search.

    undisturbed(lambda: dspy.GEPA(…).compile(student, trainset=…, valset=…))
"""

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import dspy
import dspy.evaluate.evaluate
import dspy.teleprompt.bootstrap
import dspy.teleprompt.random_search
import gepa.core.engine
import gepa.proposer.merge
from dspy.utils import parallelizer

T = TypeVar("T")
_ONE_AT_A_TIME = threading.Lock()  # the modules are the process's
_LOGGERS = ("dspy", "gepa")
_ABSENT = object()


def run_isolated(work: Callable[[], T]) -> T:
    """What `work` returns; it runs in a thread of its own, in the caller's context.

    DSPy handles Ctrl-C itself where it runs in the main thread; here the caller's handler gets it at once.

    Raises:
        what `work` raises; KeyboardInterrupt without waiting for it to end.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            with _ONE_AT_A_TIME, _replaced(), dspy.context(trace=None, disable_history=True):
                outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is the caller's
            outcome.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), name="search", daemon=True).start()
    return outcome.result()


class UntimedExecutor(parallelizer.ParallelExecutor):
    """Asks each example once, however long it takes: a question has a deadline of its own."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "timeout": 0, "disable_progress_bar": True})


class SortedSet(set[Any]):
    """A set that is gone through in the order of its values."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))


@contextmanager
def replace_names(module: ModuleType, **names: Any) -> Iterator[None]:
    """The module's names stand for something else inside."""
    before = {name: vars(module).get(name, _ABSENT) for name in names}
    vars(module).update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                delattr(module, name)
            else:
                setattr(module, name, value)


@contextmanager
def _replaced() -> Iterator[None]:
    bar = functools.partial(parallelizer.tqdm.tqdm, disable=True)
    with ExitStack() as stack:
        for module, names in (
            (dspy.evaluate.evaluate, {"ParallelExecutor": UntimedExecutor}),
            (dspy.teleprompt.bootstrap, {"print": _silent, "tqdm": SimpleNamespace(tqdm=bar)}),
            (dspy.teleprompt.random_search, {"print": _silent}),
            (gepa.core.engine, {"tqdm": bar}),
            (gepa.proposer.merge, {"set": SortedSet}),
        ):
            stack.enter_context(replace_names(module, **names))
        for name in _LOGGERS:
            stack.enter_context(_only_errors(logging.getLogger(name)))
        yield


def _silent(*args: Any, **settings: Any) -> None:
    """In place of `print`."""


@contextmanager
def _only_errors(logger: logging.Logger) -> Iterator[None]:
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
