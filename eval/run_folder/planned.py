"""What a run was asked to answer, as its store keeps it: a question that was never reached must not be forgotten.

store.plan(examples, epochs=3)
store.planned()[0].id                            # "q1"
not_run("run-1", store.planned()[0], epoch=2)     # counts as wrong
"""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from eval.benchmarks.example import Example
from eval.record import Record

NOT_RUN = "not_run"  # error class


@dataclass(frozen=True)
class PlannedQuestion:
    """An example without its attachment: the file itself stays with the dataset."""

    id: str
    question: str
    file: str | None = None  # bare name
    target: str | None = None  # None: unscored
    level: str | None = None
    tags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, example: Example) -> "PlannedQuestion":
        name = example.file.name if example.file else None
        return cls(example.id, example.question, name, example.target, example.level, dict(example.tags))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def not_run(run_id: str, planned: PlannedQuestion, epoch: int) -> Record:
    """What a question counts as that the run stopped short of: never stored, and never left out of a denominator."""
    return Record(
        run_id=run_id,
        example_id=planned.id,
        epoch=epoch,
        attempt=1,
        thread_id="",
        question=planned.question,
        file=planned.file,
        level=planned.level,
        target=planned.target,
        error="the run stopped before this question was answered",
        error_class=NOT_RUN,
        error_component="run",
        started_at=datetime.now(UTC).isoformat(),
    )
