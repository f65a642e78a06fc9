"""`eval/compare.py --gate`: exit codes, files, and what is refused."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from eval.cli.command import FINISHED, INCONCLUSIVE, REGRESSION, USER_ERROR, run_cli
from eval.compare import task
from eval.runs.record import Record, Usage
from tests.eval.stored_run import SESSION, answered, stored_run

N = 30
HOSTILE = "q`</td>|<script>@octocat ]]> *x* https://example.org \x1b[2J"


def compare(*arguments: str | Path) -> int:
    return run_cli(lambda: task([str(each) for each in arguments]))


def run(
    folder: Path,
    right: int,
    *,
    n: int = N,
    epochs: int = 1,
    usage: Usage | None = None,
    answered_only: int | None = None,
    gold: str = "17",
    first_id: str = "q0",
    **facts: object,
) -> Path:
    """The first `right` of n questions are answered right."""
    ids = [first_id, *(f"q{place}" for place in range(1, n))]
    records: list[Record] = [
        answered(
            id,
            gold if place < right else "18",
            gold,
            epoch=epoch,
            wall_seconds=2.0,
            usage=usage or Usage(2, cost_usd=0.5),
        )
        for place, id in enumerate(ids)
        for epoch in range(1, epochs + 1)
    ]
    return stored_run(folder, records[:answered_only], planned=ids, epochs=epochs, **facts)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that no test changes; 25 of 30 are right in the base."""
    folder = tmp_path_factory.mktemp("runs")
    run(folder / "base", 25)
    run(folder / "same", 25)
    run(folder / "worse", 5)
    run(folder / "better", 30)
    return folder


def test_the_exit_code_is_the_verdict(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(runs / "base", runs / "worse", "--gate", "--margin", "0.02", "--alpha", "0.05") == REGRESSION == 4
    assert capsys.readouterr().out.endswith("gate failed: accuracy worse than allowed\n")
    assert compare(runs / "base", runs / "same", "--gate", "--margin", "0.5") == FINISHED
    assert capsys.readouterr().out.endswith("gate passed: accuracy no worse than allowed\n")
    assert compare(runs / "base", runs / "same", "--gate") == INCONCLUSIVE == 5
    out = capsys.readouterr().out
    assert out.endswith("gate inconclusive: these answers neither show nor rule out a loss in accuracy\n")
    assert "accuracy: too few questions to decide" in out, "it says why"
    assert compare(runs / "base", runs / "worse") == FINISHED, "without --gate nothing fails"


def test_the_metric_of_the_runs_decides(tmp_path: Path) -> None:
    scores = {"base": 1.0, "new": 0.9}  # of each answer: little is lost, and none is fully right any more
    base, new = (
        stored_run(tmp_path / name, [answered(f"q{place}", "17", score=score) for place in range(N)])
        for name, score in scores.items()
    )
    file = tmp_path / "gate.json"
    assert compare(base, new, "--gate", "--margin", "0.3", "--json", file) == FINISHED
    made = json.loads(file.read_text())
    (pair,) = made["comparisons"]
    assert (pair["metric"], made["gate"]["verdict"], pair["first"]["score"]) == ("mean score", "pass", 1.0)
    assert pair["second"]["score"] == pytest.approx(0.9)


def test_failures_stay_in_the_denominator(runs: Path, tmp_path: Path) -> None:
    records = [answered(f"q{place}", "17") for place in range(10)]
    failed = [answered(f"q{place}", None, error="E: no", error_class="limit", score=None) for place in range(10, N)]
    new = stored_run(tmp_path / "failing", [*records, *failed])
    assert compare(runs / "base", new, "--gate", "--json", tmp_path / "gate.json") == REGRESSION
    (pair,) = json.loads((tmp_path / "gate.json").read_text())["comparisons"]
    assert pair["second"]["score"] == pytest.approx(10 / N)


def test_questions_that_prompts_were_tuned_on_do_not_decide(runs: Path, tmp_path: Path) -> None:
    used = {"prompts": "tuned", "learnt_from": [f"q{n}" for n in range(6, N)], "picked_by": []}
    new = run(tmp_path / "tuned", 0, tuning_use=_tuning_use(used))
    compare(runs / "base", new, "--gate", "--json", tmp_path / "gate.json")
    (pair,) = json.loads((tmp_path / "gate.json").read_text())["comparisons"]
    assert (pair["n_questions"], pair["n_tuned_on"], pair["losses"]) == (6, 24, 6)


def _tuning_use(used: dict[str, object]) -> object:
    from eval.runs.run_info import TuningUse

    return TuningUse(**used)  # type: ignore[arg-type]


def test_output_and_file_hold_the_verdict_and_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run(tmp_path / "base", 25, first_id=HOSTILE, model="m|`</code>` @octocat", gold="GOLD-17")
    new = run(tmp_path / "new", 0, first_id=HOSTILE, gold="GOLD-17")
    options = ["--gate", "--json", tmp_path / "gate.json"]
    assert compare(base, new, *options) == REGRESSION
    out, text = capsys.readouterr().out, (tmp_path / "gate.json").read_text("ascii")
    assert json.loads(text)["comparisons"][0]["flips"][0]["id"] == HOSTILE
    assert out.endswith("gate failed: accuracy worse than allowed\n") and "\x1b" not in out
    for content in (out, text):
        assert "GOLD" not in content
        assert "What is" not in content


Other = Callable[[Path], Path]
BASE: Other = lambda folder: run(folder / "other", 25)  # noqa: E731
STOPPED_SESSION = {**SESSION, "stopped": "out of money"}
MISTAKES: dict[str, tuple[Other, Sequence[str], str]] = {
    "missing baseline": (lambda folder: folder / "nowhere", [], "is no run"),
    "other questions": (
        lambda folder: run(folder / "o", 5, n=N - 1),
        [],
        "their questions differ: 29 of 30 are in both",
    ),
    "one side unfinished": (
        lambda folder: run(folder / "o", 5, answered_only=20, sessions=[STOPPED_SESSION]),
        [],
        "10 answers are still missing; continue with",
    ),
    "a margin in points": (BASE, ["--margin", "2"], "2 points are 0.02"),
    "a negative margin": (BASE, ["--margin=-0.02"], "is not from 0 to below 1"),
    "no margin at all": (BASE, ["--margin", "nan"], "is not from 0 to below 1"),
    "a margin in words": (BASE, ["--margin", "small"], "small"),
    "an alpha that is no level": (BASE, ["--alpha", "5"], "--alpha is 5; expected a probability"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_ends_in_one_sentence(
    name: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, options, sentence = MISTAKES[name]
    assert compare(runs / "base", make(tmp_path), "--gate", *options) == USER_ERROR
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out


@pytest.mark.parametrize(
    ("named", "options", "sentence"),
    [
        (["base"], ["--gate"], "name two runs"),
        (["base", "same", "worse"], ["--gate"], "3 are named; name two runs"),
        (["base", "base"], ["--gate"], "is named twice"),
        (["base", "same"], ["--margin", "0.02"], "--margin belongs to --gate"),
        (["base", "same"], ["--alpha", "0.1"], "--alpha belongs to --gate"),
    ],
)
def test_runs_and_options_that_make_no_gate(
    named: list[str], options: list[str], sentence: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(*(runs / each for each in named), *options) == USER_ERROR
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_one_question_cannot_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(run(tmp_path / "a", 1, n=1), run(tmp_path / "b", 0, n=1), "--gate") == USER_ERROR
    assert "1 question cannot decide; 2 are needed at least" in capsys.readouterr().err
