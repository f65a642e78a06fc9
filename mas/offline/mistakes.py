"""How often the simulated model errs, and the dice that decide: a pure function of the request's text and its seed.

dice = Dice("…the whole request…", seed=7)
dice.falls("misreads", RESEARCHER_MISREADS)      # the same answer for the same request, for ever
"""

import hashlib

# Chances between 0 and 1, each drawn once a request.
PLANNER_FORGETS_FILE = 0.05
RESEARCHER_MISREADS = 0.15
EXPERT_SLIPS = 0.15
CRITIC_MISSES_FLAW = 0.5  # approves work in which it could have seen the mistake
CRITIC_FALSE_ALARM = 0.05  # rejects work that it found right
FINALIZER_WRAPS_IN_PROSE = 0.12
REPLY_MALFORMED = 0.01  # no format at all: DSPy's adapter cannot parse it
JSON_REPLY_MALFORMED = 0.005  # half of those stay malformed when asked again for JSON: the same draw is compared


class Dice:
    """Independent draws, one per named kind of mistake."""

    def __init__(self, text: str, seed: int | None = None) -> None:
        self._key = hashlib.blake2b(f"{seed}\n{text}".encode("utf-8", "replace"), digest_size=16).digest()

    def falls(self, mistake: str, chance: float) -> bool:
        digest = hashlib.blake2b(mistake.encode(), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64 < chance
