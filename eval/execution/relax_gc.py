"""Python's collector of cyclic garbage, set for a program that holds a million objects which never become garbage.

Left as it is, it looks through DSPy, LangGraph and their pydantic classes again and again while questions run: a fourth
of a run's CPU time.

    with rare_collection():
        ...                                # the questions
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 20, 100)  # 700, 10, 10 by default: objects, then collections of the younger generation


@contextmanager
def relax_gc() -> Iterator[None]:
    """What is there now is looked at no more, and what comes is looked at more seldom."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
