"""Settings of the program: `conf/system/bos.yaml` without its models and its service."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from mas.runtime.errors import UserError
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.context import Clock, read_clock
from mas.systems.bos.contracts import AGENT_NAMES
from mas.systems.bos.sql.settings import SqlSettings

MATCHES = ("substring", "word")


@dataclass
class PlannerSettings:
    """Keywords that propose agents before the language model decides."""

    match: str = "substring"  # substring: "capital" counts for "api" | word: whole words alone
    keywords: dict[str, list[str]] = field(default_factory=dict)  # by agent, in lower case

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: one is unknown.
        """
        if self.match not in MATCHES:
            raise UserError(f"system.planner.match={self.match} is not known; choose one of: {', '.join(MATCHES)}.")
        if unknown := sorted(set(self.keywords) - set(AGENT_NAMES)):
            raise UserError(
                f"system.planner.keywords names {', '.join(unknown)}; the agents are {', '.join(AGENT_NAMES)}."
            )
        for name, words in self.keywords.items():
            if wrong := [word for word in words if not word or word != word.lower()]:
                raise UserError(
                    f"system.planner.keywords.{name} holds {wrong[0]!r}; expected words in lower case: they are looked "
                    "for in the question's lower-case text."
                )


@dataclass
class ComputationSettings:
    """Code of the computation agent; limits of time, memory and output are in `tools.sandbox`."""

    allowed_imports: list[str] = field(default_factory=list)  # top-level modules; code that imports others is refused
    repair_attempts: int = 0  # after an error of the code, with the error as feedback

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: a number is out of range.
        """
        if not 0 <= self.repair_attempts <= 5:
            raise UserError(
                f"system.computation.repair_attempts={self.repair_attempts} is out of range; expected 0 to 5."
            )


@dataclass
class BosSettings:
    """Settings of the program: the keys of `conf/system/bos.yaml` that it and its agents read."""

    share_results: bool = False  # true: an agent sees what earlier ones found
    current_time: str | None = None  # in all requests, with its UTC offset; None: when each began
    planner: PlannerSettings = field(default_factory=PlannerSettings)
    computation: ComputationSettings = field(default_factory=ComputationSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    sql: SqlSettings = field(default_factory=SqlSettings)

    def check_parts(self) -> None:
        """Check the settings before anything is loaded.

        Raises:
            UserError: one is unknown or out of range.
        """
        self.read_clock()
        self.planner.check()
        self.computation.check()
        self.api.check()
        self.sql.check()

    def read_clock(self) -> Clock:
        """Return the clock of all requests: one that always shows `current_time` if that is given."""
        if self.current_time is None:
            return read_clock
        try:
            fixed = datetime.fromisoformat(self.current_time)
        except ValueError:
            fixed = None
        if fixed is None or fixed.tzinfo is None:
            raise UserError(
                f"system.current_time={self.current_time} is not a time with a UTC offset; expected one like "
                "2026-11-22T09:30:00+00:00, or null for the present time."
            )
        now = fixed.astimezone(UTC)
        return lambda: now
