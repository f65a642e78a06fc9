"""Attribution of a wrong answer to the first broken link of its run; its modules are loaded where answers are read."""

from dataclasses import dataclass


@dataclass
class CriticNumbers:
    """A critic as a classifier, over the last attempts: positive is a rejection."""

    n_reviews: int = 0
    approved_right: int = 0
    misses: int = 0  # wrong work that it approved
    false_alarms: int = 0  # right work that it rejected
    hits: int = 0  # wrong work that it rejected
    n_unknown: int = 0  # reviews of work of which nobody knows whether it was right
    n_rejections: int = 0
    n_quoting: int = 0  # of which: with a feedback that repeats the critic's own instructions
    n_rejecting: int = 0  # answers in which it rejected something
    n_recovered: int = 0  # of which: right in the end, after it had rejected wrong or unknown work
