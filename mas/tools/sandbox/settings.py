"""Settings of the sandbox: isolation and limits.

SandboxSettings(kind="bubblewrap", memory_mb=512).check()
"""

from dataclasses import dataclass

from mas.runtime.errors import UserError

AUTO, BUBBLEWRAP, DENO, REFUSE, UNSAFE_LOCAL = "auto", "bubblewrap", "deno", "refuse", "unsafe_local"
KINDS = (AUTO, BUBBLEWRAP, DENO, REFUSE, UNSAFE_LOCAL)
MIN_MEMORY_MB = 128  # Python itself, and numpy
MAX_CODE_CHARS = 20_000  # a longer text is refused
MAX_OUTPUT_CHARS = 1_000_000  # one reply is held in memory as a whole


@dataclass
class SandboxSettings:
    """The `tools.sandbox` part of the configuration."""

    kind: str = AUTO  # auto: bubblewrap, else Deno, else refuse; unsafe_local has no isolation: at your own risk
    seconds_per_call: float = 30.0  # wall time; then the code is stopped and its variables are lost
    seconds_per_question: float = 180.0  # wall time of all calls of one question together
    memory_mb: int = 1024  # address space of the code; with Deno: resident memory
    scratch_mb: int = 64  # of the working folder, and again of /tmp; also the largest file
    max_output_chars: int = 10_000  # of what one call prints and returns; the rest is cut and the cut is said

    def check(self) -> None:
        """Check the kind and the limits.

        Raises:
            UserError: a value is unknown or out of range.
        """
        if self.kind not in KINDS:
            raise UserError(f"tools.sandbox.kind is {self.kind!r}; expected one of: {', '.join(KINDS)}.")
        for name in ("seconds_per_call", "seconds_per_question", "scratch_mb", "max_output_chars"):
            if getattr(self, name) <= 0:
                raise UserError(f"tools.sandbox.{name} is {getattr(self, name)}; expected a number above 0.")
        if self.memory_mb < MIN_MEMORY_MB:
            raise UserError(f"tools.sandbox.memory_mb is {self.memory_mb}; expected at least {MIN_MEMORY_MB}.")
        if self.max_output_chars > MAX_OUTPUT_CHARS:
            raise UserError(
                f"tools.sandbox.max_output_chars is {self.max_output_chars}; expected at most {MAX_OUTPUT_CHARS}."
            )
