"""How far two right-or-wrong verdicts on the same answers agree, beyond what chance alone would give.

Cohen's kappa (Cohen 1960): 1 is full agreement, 0 what two judges with these shares of "right" would reach by chance.

    agreement([(True, True), (True, False), (False, False)])      # {"n": 3, "share": 0.6667, "kappa": 0.4}
"""

from collections.abc import Sequence
from typing import Any


def agreement(pairs: Sequence[tuple[bool, bool]]) -> dict[str, Any]:
    """`n`, the `share` of equal verdicts, and `kappa`, null where both always say the same one thing."""
    n = len(pairs)
    share = sum(first == second for first, second in pairs) / n
    right_first, right_second = (sum(pair[which] for pair in pairs) / n for which in (0, 1))
    by_chance = right_first * right_second + (1 - right_first) * (1 - right_second)
    kappa = None if by_chance == 1 else (share - by_chance) / (1 - by_chance)
    return {"n": n, "share": round(share, 4), "kappa": None if kappa is None else round(kappa, 4)}
