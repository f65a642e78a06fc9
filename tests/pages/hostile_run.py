"""A run in which every text that comes from outside tries to execute something on the page.

folder = write_hostile_run(tmp_path / "run")
"""

from pathlib import Path
from typing import Any

from eval.runs.record import ErrorDetails, ExtraScore, PlannedQuestion, Record, Usage
from eval.runs.store import RunStore
from tests.eval.stored_run import CONFIG, SESSION, run_facts

ATTACKS = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg/onload=alert(3)>",
    "\"'><iframe srcdoc='<script>parent.alert(4)</script>'>",
    "<!--<script>",
    "javascript:alert(5)",
    "{{ 7*7 }}${7*7}<%= 7*7 %>",
    "\u2028\u2029]]></style><style>body{display:none}",
    "=HYPERLINK(\"http://127.0.0.1:1/\",\"x\")",
    "__proto__",
    "constructor",
)  # fmt: skip


def make_record(n: int, text: str, **changes: Any) -> Record:
    spans: list[dict[str, Any]] = [
        {
            "id": 0,
            "kind": "agent",
            "name": text,
            "inputs": {text: text},
            "outputs": {text: text, "decision": "approve"},
        },
        {
            **{"id": 1, "parent": 0, "kind": "lm", "name": text, "inputs": {"system": text * 40}},
            "outputs": {"parts": [{"text": text}]},
        },
        {
            **{"id": 2, "parent": 0, "kind": "tool", "name": text, "inputs": {"file": text}, "error": text},
            "outputs": {"observation": text},
            "events": [{"name": text, "level": "warning", "seconds": 0.0, text: text}],
        },
    ]
    fields: dict[str, Any] = {
        "run_id": "run-1", "sample_id": f"{n} {text}", "epoch": 1, "attempt": 1, "thread_id": text, "question": text,
        "file": text, "level": text, "target": f"gold {text}", "answer": text, "score": 0.0, "explanation": text,
        "reasoning_trace": text, "limit": text, "usage": Usage(2, cost_usd=0.5 * n), "trajectory": spans,
        "seconds_by_agent": {text: 1.0 + n}, "extra_scores": {text: ExtraScore(0.5, text)},
        "leaks": [{"tool": text, "source": text}], "tool_errors": {text: 1},
        "calls_by_tool": {text: 1},
    }  # fmt: skip
    return Record(**{**fields, **changes})


def write_hostile_run(folder: Path, epochs: int = 1) -> Path:
    """Store a run of hostile texts: each attack once as a wrong answer, once as an error."""
    failed = {"answer": None, "score": None}
    records = []
    for n, text in enumerate(ATTACKS):
        for epoch in range(1, epochs + 1):
            records.append(make_record(2 * n, text, epoch=epoch))
            details = ErrorDetails(text, text, text, text, {text: 1})
            error = {"error": text, "error_class": text, "error_component": text, "error_details": details}
            records.append(make_record(2 * n + 1, text, epoch=epoch, **failed, **error))
    info, state = run_facts(
        run_id="run-1", config=CONFIG, sessions=[{**SESSION, "stopped": ATTACKS[0]}] * 2, epochs=epochs,
        system=ATTACKS[1], model=ATTACKS[0], command=list(ATTACKS),
    )  # fmt: skip
    with RunStore(folder / "run.db") as store:
        store.write_plan([_plan(each) for each in records if each.epoch == 1])
        store.write_info(info)
        store.write_state(state)
        for record in records:
            store.write(record)
    return folder


def _plan(record: Record) -> PlannedQuestion:
    tags = {ATTACKS[0]: record.question, "__proto__": record.question}
    return PlannedQuestion(record.sample_id, record.question, record.file, record.target, record.level, tags)
