import gc
import weakref

from eval.execution.executors.local import GC_THRESHOLDS, relax_gc


class Knot:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_in_circles_still_goes_away_while_questions_run() -> None:
    with relax_gc():
        knot = weakref.ref(Knot())
        pile: list[list[int]] = []
        while knot() is not None and len(pile) < 10 * GC_THRESHOLDS[0]:
            pile.append([len(pile)])
        assert knot() is None


def test_afterwards_everything_is_as_before() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    with relax_gc():
        assert gc.get_freeze_count() > before[1]
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
