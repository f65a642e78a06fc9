"""Part `log` of the configuration: what the lines in a run's `logs/` look like."""

from dataclasses import dataclass

from mas.runtime.errors import UserError

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("json", "text")


@dataclass
class LogSettings:
    level: str = "info"  # the least level that is written: debug, info, warning, error
    format: str = "json"  # json: one object a line | text: for people
    terminal: bool = False  # true: the lines on standard error, too, as text; --verbose sets it

    def check(self) -> None:
        """Check the values.

        Raises:
            UserError: one of them is not known.
        """
        for key, value, known in (("level", self.level, LEVELS), ("format", self.format, FORMATS)):
            if value not in known:
                raise UserError(f"log.{key}={value} is not known; choose one of: {', '.join(known)}.")
