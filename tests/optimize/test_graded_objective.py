"""A graded scorer decides by its mean, under its name, from the search to the set that is published."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dspy.lm15 import Request as LMRequest
from dspy.lm15 import Response, Usage

from eval.cli.command import run_cli
from eval.compare import task as compare
from eval.scorers.text import split_words
from eval.workflows.python_api import open_run
from optimize.mlflow_export.tuning_export import write_tuning_page
from optimize.session.tuning_store import read_tuning
from tests.optimize.planted_runs import ALWAYS, Obedient, planted_run
from tests.scripted_model import _response, all_text, system_text

METRIC = "mean token F1"
WordsMore = Callable[[bool, int, bool], int | None]  # tuned, number of the question, sealed → None: a wrong answer


class Wordy(Obedient):
    """Gives the gold answer and k words more for each of its own: the token F1 is 2/(2+k)."""

    def __init__(self, words_more: WordsMore) -> None:
        super().__init__()
        self._words_more = words_more

    def respond(self, request: LMRequest) -> Response:
        system = system_text(request)
        number, gold, sealed = next(self.golds[question] for question in self.golds if question in all_text(request))
        more = self._words_more("ALWAYS" in system, number, sealed)
        answer = "wrong" if more is None else " ".join([gold, *["more"] * more * len(split_words(gold))])
        values = {"final_answer": answer, "steps": '["count"]', "result": "?"}
        return replace(_response(request, values), usage=Usage(input_tokens=9, output_tokens=1, total_tokens=10))


@pytest.mark.slow
def test_a_mean_that_rises_is_published_though_few_answers_are_fully_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = planted_run(
        tmp_path,
        "scorer=token_f1",
        texts={"finalize": ALWAYS},
        model=Wordy(lambda is_tuned, number, _: (number % 10 > 6) if is_tuned else 5),
    )
    verdict = tuned.verdict
    assert (verdict["published"], verdict["metric"]) == (True, METRIC)
    assert [round(verdict[side]["score"], 3) for side in ("baseline", "winner")] == [0.286, 0.9]
    assert (verdict["baseline"]["accuracy"], verdict["winner"]["accuracy"]) == (0.0, 0.7), "keys keep their meaning"
    for line in (
        f"  {METRIC} 28.6% on 10 questions",
        f", {METRIC} 100.0% on validation; planted",
        f"  c001: {METRIC} 90.0% re-evaluated",
        f"sealed test: {METRIC} 28.6% → 90.0% with c001: +61.4 points",
        f"  passed: The gain in {METRIC} on the sealed questions is +61.4 points",
    ):
        assert line in tuned.out, tuned.out
    assert "accuracy" not in tuned.out
    published = next((tmp_path / "prompts").glob("*/set.yaml")).read_text("utf-8")
    assert f"gain in {METRIC} +61.4 points" in " ".join(published.split())
    winner = open_run(f"{tuned.folder}:c001")
    assert (winner.metric, round(winner.score or 0, 3)) == (METRIC, 0.9)
    pages: list[tuple[Any, Any, Any]] = []
    run: Any = SimpleNamespace(write_page=lambda *page: pages.append(page))
    write_tuning_page(run, read_tuning(tuned.folder))
    ((_, tags, metrics),) = pages
    assert round(metrics["winner_mean_token_F1"], 3) == 0.9
    assert f"{METRIC} 28.6% → 90.0% with c001" in tags["mlflow.note.content"]
    capsys.readouterr()
    assert run_cli(lambda: compare([f"{tuned.folder}:{side}" for side in ("parent", "c001")])) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"│ {METRIC} │ 28.6% │ 90.0% │ +61.4 points │" in out and "accuracy" not in out
    assert "│ fully right │ 0.0% │ 70.0% │" in out
