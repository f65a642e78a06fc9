"""For each Python that tests start: it keeps their priority, since with a lower one it would hardly run beside them."""

import os

os.nice = lambda increment: 0
