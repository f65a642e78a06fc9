"""Feedback on recorded answers is the same as ever, for every agent: an optimiser's model reads it word by word.

The answers are the simulated model's to questions of the sample and the toy data, and variants of each: another
answer, an error, a scorer's explanation, a limit. After a change that is meant to alter texts,
`PYTHONPATH=. python tests/optimize/feedback/test_recorded_feedback.py` records the feedback to the same answers anew.
"""

import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval.execution.scoring import SCORER
from eval.runs.record import Record
from optimize.feedback.feedback import Expectation, build_feedback

FILE = Path(__file__).with_name("recorded_feedback.json.xz")


def read_recorded() -> list[dict[str, Any]]:
    """Return rows of `record` and `feedback`, whose keys are variants and agents."""
    return json.loads(lzma.decompress(FILE.read_bytes()))  # type: ignore[no-any-return]


def vary(record: Record) -> Iterator[tuple[str, Record]]:
    """Yield the record, and what might have come of it, by name."""
    parse = "AdapterParseError: Expected to find output fields in the LM response: [result] but found []"
    target = record.target or ""
    yield "as it was", record
    yield "right", replace(record, answer=target, score=1.0)
    yield "partly right", replace(record, score=0.5, parts={"recall": 0.5, "precision": 1.0})
    yield "wrong", replace(record, answer=f"{target} boats, 17", score=0.0, explanation="  two \n words ")
    yield "nothing", replace(record, answer="", score=0.0, explanation=f"not {target}")
    yield "error", replace(record, answer=None, score=None, error="it took too long", error_class="timeout")
    yield "unreadable", replace(record, answer=None, score=None, error=parse, error_class="malformed")
    yield "not scored", replace(record, score=None, error="ZeroDivisionError", error_class=SCORER)
    yield "given up", replace(record, score=0.0, limit="retry_limit:expert")


def build_all(record: Record) -> dict[str, dict[str, str]]:
    expectation = Expectation.of(record.target or "", record.question)
    agents = dict.fromkeys(str(span["name"]) for span in record.trajectory if span["kind"] == "agent")
    return {
        name: {agent: build_feedback(agent, varied, expectation) for agent in agents} for name, varied in vary(record)
    }


def test_feedback_is_what_was_recorded() -> None:
    for row in read_recorded():
        assert build_all(Record.from_dict(row["record"])) == row["feedback"], row["record"]["sample_id"]


if __name__ == "__main__":
    ROWS = [{**row, "feedback": build_all(Record.from_dict(row["record"]))} for row in read_recorded()]
    FILE.write_bytes(lzma.compress(json.dumps(ROWS, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))
