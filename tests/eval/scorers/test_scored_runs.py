"""Whole runs with each scorer, over the command; the model and the judge are servers on loopback."""

from pathlib import Path
from typing import Any

import pytest

from eval.analysis.summary.summary import read_summary
from eval.cli.command import run_cli
from eval.rescore import task as rescore
from tests.eval.command_line import NO_SEARCH, EvalCommand, Finished
from tests.servers.chat_reply import complete, write_fields
from tests.servers.one_answer import server_that_answers
from tests.servers.running import RunningServer

QUESTIONS = """nr,prompt,label
007,What is 2 + 3? Give only the number.,5
1e5,What is 4 * 5? Give only the number.,20
"""
COLUMNS = ["data.columns.id=nr", "data.columns.question=prompt", "data.columns.answer=label"]


@pytest.fixture
def base(tmp_path: Path, llm_server: RunningServer) -> list[str]:
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    model = ["model=openai_compatible", f"model.base_url={llm_server.base_url}"]
    return [*model, "data=csv", f"data.path={tmp_path / 'questions.csv'}", *COLUMNS]


def saying(verdict: str, explanation: str = "It says the same.") -> dict[str, Any]:
    return complete(write_fields({"explanation": explanation, "verdict": verdict}), tokens=(100, 10))


def judged(command: EvalCommand, base: list[str], url: str, *more: str) -> Finished:
    judge = ["scorer=graded", "model@scorer.judge=openai_compatible", f"scorer.judge.base_url={url}"]
    return command(*base, *judge, "scorer.judge.num_retries=0", *more)


def test_a_judge_scores_a_run(eval_command: EvalCommand, base: list[str]) -> None:
    with server_that_answers(200, saying("incorrect", "It is not 20.")) as url:
        finished = judged(eval_command, base, url)
    assert (finished.code, finished.err) == (0, NO_SEARCH)
    summary = finished.summary
    assert (summary["accuracy"], summary["n_error"], summary["simulated"]) == (0.0, 0, False)
    assert "judged: by a model" in finished.out
    judging = summary["scorer_usage"]
    told = {key: judging[key] for key in ("lm_calls", "tool_calls", "input_tokens", "output_tokens", "cost_usd")}
    assert tuple(told.values()) == (2, 0, 200, 20, None)
    assert "judging: 2 calls, tokens 200 in, 20 out" in finished.out
    record = finished.records["1e5"]
    assert (record["score"], record["explanation"]) == (0.0, "It is not [the reference answer].")
    assert record["usage"]["lm_calls"] == sum(step["kind"] == "lm" for step in record["trajectory"]) - 1


def test_a_simulated_judge_makes_the_run_a_simulated_one(eval_command: EvalCommand, base: list[str]) -> None:
    with server_that_answers(200, saying("correct")) as url:
        finished = judged(
            eval_command, base, url, "scorer.judge._target_=tests.eval.scorers.simulated_judge.SimulatedJudge"
        )
    assert (finished.code, finished.summary["accuracy"], finished.summary["simulated"]) == (0, 1.0, True)
    assert finished.summary["notice"] in finished.out


@pytest.mark.parametrize(("status", "body"), [(200, saying("perhaps")), (500, {"error": {"message": "no"}})])
def test_a_judge_that_fails_leaves_the_answer_and_no_score(
    eval_command: EvalCommand, base: list[str], status: int, body: dict[str, Any]
) -> None:
    with server_that_answers(status, body) as url:
        finished = judged(eval_command, base, url)
    assert finished.code == 2
    assert finished.summary["errors_by_class"] == {"scorer": 2}
    record = finished.records["007"]
    assert (record["score"], record["error_component"], record["answer"]) == (None, "scorer", "5")
    assert [answer["model_answer"] for answer in finished.answers] == ["5", "20"]


def test_a_judge_without_a_valid_key_stops_the_run(eval_command: EvalCommand, base: list[str]) -> None:
    with server_that_answers(401, {"error": {"message": "no"}}) as url:
        finished = judged(eval_command, base, url, "run.concurrency=1")
    assert finished.code == 3
    assert finished.summary["errors_by_class"] == {"not_run": 2}, "it goes on where it was"
    assert "quota exhausted or key rejected" in finished.summary["stopped"]


def test_a_function_of_ones_own_gives_partial_credit(eval_command: EvalCommand, base: list[str]) -> None:
    Path("half_rules.py").write_text("def half(question, answer, target):\n    return 0.5 if target == '5' else 1\n")
    finished = eval_command(*base, "scorer=function", "scorer.target=half_rules:half")
    assert (finished.code, finished.err) == (0, NO_SEARCH)
    assert (finished.summary["accuracy"], finished.summary["score"]) == (0.5, 0.75)
    summary = finished.summary
    assert (summary["metric"], summary["score"]) == ("mean score", 0.75)
    assert "mean score" in finished.out and "fully right: 50.0% (0.3% to 99.7%) of the answers" in finished.out
    assert "accuracy" not in finished.out
    assert eval_command(*base, "scorer=function", "scorer.target=half_rules:half", "run.fail_under=0.7").code == 0


def test_a_data_file_may_choose_its_scorer_and_the_command_line_another(
    eval_command: EvalCommand, base: list[str], tmp_path: Path
) -> None:
    (tmp_path / "conf" / "data").mkdir(parents=True)
    (tmp_path / "conf" / "data" / "mine.yaml").write_text(
        "defaults: [csv, {override /scorer@_global_.scorer: numeric}, _self_]\n"
        f"path: {tmp_path / 'questions.csv'}\ncolumns: {{id: nr, question: prompt, answer: label}}\n"
    )
    given = [f"--config-dir={tmp_path / 'conf'}", "model=offline", "data=mine"]
    first = eval_command(*given)
    assert "eval.scorers.numeric" in (first.folder / "config.yaml").read_text()
    second = eval_command(*given, "scorer=exact")
    assert "ExactScorer" in (second.folder / "config.yaml").read_text()


def test_extra_scorers_are_reported_with_the_deciding_one_and_cost_no_sample(
    eval_command: EvalCommand, base: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("picky_rules.py").write_text(
        "def rule(question, answer, target):\n"
        "    if target == '5':\n        raise ValueError(f'cannot compare with {target}')\n    return 0.5\n"
    )
    with server_that_answers(200, saying("correct")) as url:
        finished = eval_command(
            *base,
            "scorer=exact",
            "extra_scorers=[contains,function,graded]",
            "extra_scorers.function.target=picky_rules:rule",
            "model@extra_scorers.graded.judge=openai_compatible",
            f"extra_scorers.graded.judge.base_url={url}",
        )
    summary, record = finished.summary, finished.records["007"]
    assert (finished.code, summary["metric"], summary["score"], summary["n_error"]) == (0, "accuracy", 1.0, 0)
    extra = summary["extra_scorers"]
    assert {name: (each["metric"], each["score"]["value"], each["n_failed"]) for name, each in extra.items()} == {
        "contains": ("accuracy", 1.0, 0), "function": ("mean score", 0.25, 1), "graded": ("accuracy", 1.0, 0)
    }  # fmt: skip
    assert all(each["score"]["ci95"] and each["score"]["n"] == 2 for each in extra.values())
    assert (record["score"], record["error"], record["extra_scores"]["function"]["value"]) == (1.0, None, None)
    failed = "the scorer failed (ValueError: cannot compare with [the reference answer])"
    assert record["extra_scores"]["function"]["error"] == failed
    assert f"1 answer could not be scored and count as 0: {failed}" in " ".join(finished.out.split())
    assert summary["scorer_usage"]["lm_calls"] == 2, "the extra judge is paid for too"
    page = finished.write_report().read_text("utf-8")
    assert "mean score" in page and "25.0%" in page and "[the reference answer]" in page

    capsys.readouterr()
    assert run_cli(lambda: rescore([str(finished.folder), "scorer=contains", "run.dir=again"])) == 0
    again = read_summary(Path("again/summary.json"))
    assert list(again.extra_scorers) == ["contains", "function"], "what calls a model is left out"


def test_a_refused_extra_judge_neither_stops_the_run_nor_costs_an_answer(
    eval_command: EvalCommand, base: list[str]
) -> None:
    with server_that_answers(401, {"error": {"message": "no"}}) as url:
        finished = eval_command(
            *base,
            "extra_scorers=[graded]",
            "model@extra_scorers.graded.judge=openai_compatible",
            f"extra_scorers.graded.judge.base_url={url}",
        )
    assert (finished.code, finished.summary["accuracy"], finished.summary["stopped"]) == (0, 1.0, None)
    graded = finished.summary["extra_scorers"]["graded"]
    assert (graded["score"]["value"], graded["n_failed"]) == (0.0, 2)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("extra_scorers=contains", "extra_scorers=contains is not a list of scorers"),
    ],
)
def test_a_mistake_in_them_is_one_sentence(
    eval_command: EvalCommand, base: list[str], given: str, sentence: str
) -> None:
    finished = eval_command(*base, given)
    assert finished.code == 1
    assert sentence in finished.err and len(finished.err.strip().splitlines()) == 1
