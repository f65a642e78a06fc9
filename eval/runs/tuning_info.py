"""Everything known of a tuning run, and how far it is: typed and versioned as `RunInfo` is, in `tuning.json`.

    info = TuningInfo(run_id="1f3a…", system="toy", config={…}, command=["system=toy"])
    read_tuning_info(folder).state.phase         # "search"

`state` changes while the run goes on; a later session changes `name`, `command` and `origin`; the rest is fixed.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from eval.runs.run_info import VERSION, Config, parse_versioned
from mas.runtime.errors import UserError
from mas.runtime.installation_key import is_signed, sign

_SIGNED = "tuning run"
TUNING_FILE = "tuning.json"  # the file by which a tuning run's folder is known


@dataclass(frozen=True)
class TuningState:
    """The course of a tuning run so far."""

    phase: str = "preflight"
    session_started_at: str = ""  # UTC, ISO 8601, as are `ended_at` and `sealed_opened_at`
    session_seconds_before: float = 0.0  # wall time of the sessions before
    ended_at: str | None = None  # None: it is still running, or was killed
    spend: dict[str, float] = field(default_factory=dict)  # `optimize.search.budget.Spend`, of all sessions
    sealed_opened_at: str | None = None  # None: its sealed questions were not used yet, as with the next two
    sealed_opened_before: int | None = None  # earlier runs that used some of them
    sealed_questions_opened_before: int | None = None


@dataclass(frozen=True)
class TuningInfo:
    """Everything known of a tuning run. An empty field is unknown."""

    version: int = VERSION
    run_id: str = ""
    started_at: str = ""  # of the first session: UTC, ISO 8601
    name: str = ""  # of the set that it is to publish
    system: str = ""
    model: str = ""
    reflection_model: str = ""
    optimizer: str = ""
    simulated: bool = False
    seed: int | None = None
    config: Config = field(default_factory=dict)  # resolved, without secrets, of the first session
    command: list[str] = field(default_factory=list)  # the overrides as typed, without secrets
    split_digest: str = ""
    sealed_digest: str = ""
    parent_set: str = ""  # name of the set that it started from
    origin: dict[str, str] = field(default_factory=dict)  # see `eval.runs.folder.read_origin`
    parent_sha256: str = ""  # of the prompts that it started from
    program_sha256: str = ""  # as in RunInfo
    state: TuningState = field(default_factory=TuningState)
    signature: str = ""  # of all but `state`, by this installation

    @property
    def is_signed(self) -> bool:
        """True if this installation wrote it, and nobody has changed it."""
        return is_signed(_SIGNED, self._list_signed(), self.signature)

    def sign(self) -> Self:
        return replace(self, signature=sign(_SIGNED, self._list_signed()))

    def _list_signed(self) -> Config:
        """Return what the signature covers, as it is read from the file again."""
        data: Config = json.loads(json.dumps(asdict(self)))
        return {name: value for name, value in data.items() if name not in ("state", "signature")}

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """
        Raises:
            ValueError: it was written by another version of this program, or is not complete.
        """
        data = parse_versioned(text, cls)
        try:
            return cls(**{**data, "state": TuningState(**data["state"])})
        except TypeError as error:
            raise ValueError(f"its state cannot be read: {error}") from error


def read_tuning_info(folder: Path) -> TuningInfo | None:
    """Return what a folder's tuning.json says; None if there is none.

    Raises:
        UserError: it cannot be read, is damaged, or was written by another version of this program.
    """
    path = folder / TUNING_FILE
    try:
        return TuningInfo.from_json(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{folder.name}/{TUNING_FILE} cannot be read ({error}): restore the file, open the run with the program "
            "that wrote it, or start a new one."
        ) from error
