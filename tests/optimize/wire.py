"""A tuning run over HTTP on questions of `seal_questions.py`, with everything that the model server was sent.

with reflecting_llm(clause=CLAUSE) as server:
    wire = tune(tmp_path, server, (folder, write_seal_questions(folder)), *GEPA)
wire.tuned.verdict["finish_reason"], wire.bodies       # "improved", [{"model": "default", "messages": …}, …]
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.prompt_set import SUFFIX
from tests.command import Finished, tuning_command
from tests.eval.command_line import CONTACT, NO_BROWSER
from tests.optimize.seal_questions import OPTIONS, SealRow
from tests.optimize.sent import Sent, agents_requests
from tests.servers.running import RunningServer

BASELINE = PROJECT_ROOT / "prompts" / "baseline"
AGENTS = sorted(file.name.removesuffix(SUFFIX) for file in BASELINE.glob(f"*{SUFFIX}"))
RULE = "Reply with the bare value: nothing “around” it, 値だけ."
CLAUSE = f"{RULE}\n\t- No sentence, naïve or not.\n\n    Indented as it is.\n"
SMALL = ("gate.epochs=1", "gate.looks=1", "shortlist.epochs=1", "shortlist.size=1")
GEPA = ("optimizer=gepa", "optimizer.minibatch_size=4", "budget.metric_calls=30", *SMALL)
Questions = tuple[Path, list[SealRow]]  # their folder, and what is in it


@dataclass(frozen=True)
class Wire:
    """One tuning run and everything that its server was sent."""

    tuned: Finished
    bodies: list[dict[str, Any]]
    server: RunningServer
    folder: Path  # of the questions
    rows: Sequence[SealRow]

    @property
    def sealed(self) -> list[SealRow]:
        return [row for row in self.rows if row.level == 2]

    def about(self, row: SealRow, bodies: Sequence[dict[str, Any]]) -> list[Sent]:
        """The agents' requests for an answer to this question, in order."""
        return [sent for sent in agents_requests(bodies) if row.about in json.dumps(sent.conversation)]

    def rows_in(self, content: Any) -> set[SealRow]:
        """The questions that it speaks of."""
        text = json.dumps(content, ensure_ascii=False)
        return {row for row in self.rows if row.about in text}

    def golds_in(self, content: Any) -> set[str]:
        text = json.dumps(content, ensure_ascii=False)
        return {row.gold for row in self.rows if row.gold in text}


def tune(place: Path, server: RunningServer, questions: Questions, *options: str) -> Wire:
    folder, rows = questions
    server.reset()
    tuned = tuning_command(place, *model(server), "data=jsonl", f"data.path={folder}", *OPTIONS, *options)
    return Wire(tuned, server.requests(), server, folder, rows)


def model(server: RunningServer) -> tuple[str, ...]:
    options = "model=openai_compatible", f"model.base_url={server.base_url}", "model.num_retries=0"
    return *options, NO_BROWSER, CONTACT
