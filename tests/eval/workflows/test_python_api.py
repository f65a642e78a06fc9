"""What a call from Python stands for on the command line, and how runs and comparisons are shown."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pandas
import pytest

from eval.cli.command import InterruptedRunError
from eval.reports.notes import format_interval
from eval.workflows import evaluate as evaluation
from eval.workflows import python_api
from eval.workflows.evaluate import Ended
from eval.workflows.python_api import check_regression, compare, evaluate, list_overrides, open_run, render_html
from mas.agents.in_memory import find_object
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered, stored_run
from tests.eval.workflows.composing import compose_each_once

ROWS = [{"question": "2 + 2?", "answer": "4"}]


def solve(question: str) -> str:
    return question


def make() -> dspy.Module:
    return dspy.Predict("question -> answer")


class Typed(dspy.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.solve = dspy.Predict("question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        return self.solve(question=question)


def metric(gold: object, pred: object) -> bool:
    return gold == pred


Overrides = Callable[..., dict[str, str]]


@pytest.fixture(autouse=True, scope="module")
def each_command_line_composed_once() -> Iterator[None]:
    with compose_each_once(python_api):
        yield


@pytest.fixture
def overrides() -> Iterator[Overrides]:
    with ExitStack() as stack:

        def list_them(
            program: object = solve, samples: object = ROWS, scorer: Any = "exact", model: Any = None, options: Any = ()
        ) -> dict[str, str]:
            found = list_overrides(stack, program, samples, scorer, model, options)
            pairs = [each.partition("=") for each in found]
            assert len({name for name, _, _ in pairs}) == len(pairs), "each once"
            return {name: value.strip('"') for name, _, value in pairs}

        yield list_them


def test_a_function_of_the_question_is_called_as_it_is(overrides: Overrides) -> None:
    found = overrides()
    assert find_object(found["system.target"]) is solve
    assert (found["system"], found["run.name"], found["scorer"]) == ("callable", "solve", "exact")
    assert (found["system.needs_model"], found["tracking"]) == ("false", "off") and "model" not in found


@pytest.mark.parametrize(("program", "name"), [(Typed(), "Typed"), (Typed, "Typed"), (make, "make")])
def test_a_dspy_program_is_run_as_one(overrides: Overrides, program: object, name: str) -> None:
    found = overrides(program, model="offline")
    assert (found["system"], found["run.name"]) == ("dspy", name)
    assert (found["system.needs_model"], found["model"]) == ("true", "offline")
    assert find_object(found["system.target"]) is program


def test_a_name_is_a_system_and_a_target_is_loaded(overrides: Overrides) -> None:
    assert overrides("toy", model="offline")["system"] == "toy"
    here = __name__
    named = overrides(f"{here}:solve", model="offline")
    assert (named["system"], named["system.target"], named["run.name"]) == ("callable", f"{here}:solve", "solve")
    assert overrides(f"{here}:make", model="offline")["system"] == "dspy"
    with pytest.raises(UserError, match="there is no nothing in"):
        overrides(f"{here}:nothing")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"program": 5}, "an int is no program; give a dspy.Module, a function of the question"),
        ({"scorer": 5}, "an int is no scorer; give its name, or a function of"),
        ({"samples": 5}, "samples is an int; expected a list of dictionaries, a data frame or a path."),
        ({"samples": {"question": "?"}}, "samples is a dict; expected a list"),
        ({"samples": b"x"}, "samples is a bytes; expected a list"),
        ({"samples": []}, "samples is empty; give at least one."),
        ({"options": "run.epochs=3"}, "options='run.epochs=3' is a text; give a list of options: ['run.epochs=3']."),
        ({"program": make}, "the program has no language model (self): give model="),
    ],
)
def test_a_mistake_is_one_sentence(overrides: Overrides, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        overrides(**changes)
    assert str(caught.value).startswith(sentence)


def test_a_program_with_a_model_of_its_own_needs_none(overrides: Overrides) -> None:
    program = make()
    program.lm = dspy.LM("openai/none")
    assert overrides(program)["system.needs_model"] == "false"
    with dspy.context(lm=dspy.LM("openai/none")):
        assert overrides(make)["system"] == "dspy"
    assert overrides(make, options=["system.needs_model=true"])["system.needs_model"] == "true"


def test_options_that_are_given_replace_what_would_be_chosen(overrides: Overrides) -> None:
    found = overrides(options=["tracking=local", "run.name=mine", "run.epochs=3"])
    assert (found["tracking"], found["run.name"], found["run.epochs"]) == ("local", "mine", "3")


def test_a_scorer_is_a_name_a_function_or_a_target(overrides: Overrides) -> None:
    assert overrides(scorer="numeric")["scorer"] == "numeric"
    found = overrides(scorer=metric)
    assert found["scorer"] == "function" and find_object(found["scorer.target"]) is metric
    assert overrides(scorer="my_scorer:judge")["scorer.target"] == "my_scorer:judge"


@pytest.mark.parametrize(
    ("name", "data"), [("a.csv", "csv"), ("a.PARQUET", "parquet"), ("a.xlsx", "excel"), ("a.xls", "excel"),
                       ("a.xlsm", "excel"), ("a.jsonl", "jsonl"), ("a.txt", "jsonl"), ("nowhere", "jsonl")],
)  # fmt: skip
def test_a_path_is_read_by_its_suffix(overrides: Overrides, tmp_path: Path, name: str, data: str) -> None:
    for path in (tmp_path / name, str(tmp_path / name)):
        found = overrides(samples=path)
        assert (found["data"], found["data.path"]) == (data, str(tmp_path / name))


def test_the_name_of_a_dataset_is_one_unless_there_is_such_a_file(
    overrides: Overrides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = overrides(samples="toy")
    assert found["data"] == "toy" and "data.path" not in found
    assert overrides(samples=Path("toy"))["data"] == "jsonl"
    Path("toy").write_text("{}")
    assert overrides(samples="toy")["data"] == "jsonl"


def test_rows_may_be_a_generator_or_a_data_frame(overrides: Overrides) -> None:
    for samples in ((row for row in ROWS), pandas.DataFrame(ROWS), tuple(ROWS)):
        found = overrides(samples=samples)
        assert found["data"] == "in_memory" and find_object(found["data.target"]) == ROWS


def examples(*inputs: str, **fields: str) -> list[Any]:
    return [dspy.Example(**fields).with_inputs(*inputs)]


@pytest.mark.parametrize(
    ("signature", "samples", "expected"),
    [
        ("text -> label", [{"text": "a", "label": "b"}], {"data.inputs": "[text]", "data.target_column": "label"}),
        ("text -> label", [{"text": "a", "kind": "b"}], {"data.inputs": "[text]", "data.target_column": "kind"}),
        ("text -> label", [{"text": "a", "kind": "b", "note": "c"}], {"data.inputs": "[text]"}),
        ("text -> label", [{"text": "a", "id": "1", "level": "2", "label": "b"}],
         {"data.inputs": "[text]", "data.target_column": "label"}),
        ("text, context -> label", [{"text": "a", "context": "c", "label": "b"}],
         {"data.inputs": "[text,context]", "data.target_column": "label"}),
        ("text -> label, why", [{"text": "a", "label": "b", "why": "c"}], {"data.inputs": "[text]"}),
        ("question -> reply", [{"question": "a", "reply": "b"}], {"data.target_column": "reply"}),
        ("question -> reply", [{"question": "a", "kind": "b"}], {}),
        ("question -> reply", [{"question": "a", "reply": "b", "answer": "c"}], {}),
        ("text -> label", [{"words": "a", "label": "b"}], {}),
        ("text -> label", examples("text", text="a", label="b"),
         {"data.inputs": "[text]", "data.target_column": "label"}),
        ("text, context -> label", examples("text", text="a", context="c", label="b"),
         {"data.inputs": "[text]", "data.target_column": "label"}),
        ("text -> label", ["no dictionary"], {}),
    ],
)  # fmt: skip
def test_the_fields_of_a_program_are_found_among_the_keys_of_the_samples(
    overrides: Overrides, signature: str, samples: list[Any], expected: dict[str, str]
) -> None:
    found = overrides(dspy.Predict(signature), samples, model="offline")
    chosen = {name: value.replace('"', "") for name, value in found.items() if name.startswith("data.")}
    assert chosen.pop("data.target") and chosen == expected


def test_what_was_said_of_the_columns_is_not_said_again(overrides: Overrides) -> None:
    samples = [{"text": "a", "label": "b"}]
    given = overrides(dspy.Predict("text -> label"), samples, model="offline", options=["data.inputs=[text]"])
    assert given["data.inputs"] == "[text]" and "data.target_column" not in given
    for name in ("data.target_column", "data.columns.answer"):
        found = overrides(dspy.Predict("text -> label"), samples, model="offline", options=[f"{name}=other"])
        assert found[name] == "other" and found["data.inputs"] == '["text"]'
        assert sum(each.startswith(("data.target_", "data.columns")) for each in found) == 1


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    better = [answered(f"q{n}", "17") for n in range(16)]
    worse = [answered(f"q{n}", "17" if n < 8 else "18") for n in range(16)]
    return [stored_run(tmp_path / name, records) for name, records in (("worse", worse), ("better", better))]


def test_a_run_says_what_it_is_in_one_line(runs: list[Path], tmp_path: Path) -> None:
    run = open_run(runs[0])
    assert (run.folder, run.score, run.metric) == (runs[0], 0.5, "accuracy")
    assert run.interval is not None and 0 < run.interval[0] < 0.5 < run.interval[1] < 1
    assert str(run).startswith("worse: accuracy 50.0% (") and str(run).endswith(", 8/16 right")
    assert list(run.table["id"]) == [f"q{n}" for n in range(16)]
    assert "<pre" in run._repr_html_() and "50.0%" in run._repr_html_()
    failed = [answered("q1", "17"), answered("q2", None, error="it broke", error_class="tool", score=0.0)]
    assert str(open_run(stored_run(tmp_path / "failed", failed))).endswith(", 1/2 right, 1 error")
    unfinished = open_run(stored_run(tmp_path / "unfinished", [answered("q1", "17")], planned=["q1", "q2"]))
    assert unfinished.interval is None and "(" not in str(unfinished).partition(",")[0]


def test_a_comparison_is_the_second_run_minus_the_first(runs: list[Path]) -> None:
    compared = compare(*runs)
    assert compared.difference == 0.5 and 0 < compared.p < 1
    assert compared.interval is not None and compared.interval[0] <= 0.5 <= compared.interval[1]
    assert compare(runs[1], runs[0]).difference == -0.5
    assert "worse" in str(compared) and "<pre" in compared._repr_html_()
    assert compared.to_dict()


def test_a_run_is_judged_by_the_loss_that_is_allowed(runs: list[Path]) -> None:
    worse = check_regression(runs[1], runs[0], margins={"score": 0.02})
    better = check_regression(runs[0], runs[1], margins={"score": 0.02})
    assert (worse.verdict, better.verdict) == ("fail", "pass")
    with pytest.raises(UserError, match="speed"):
        check_regression(*runs, metrics=["speed"])


def test_a_run_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "run.db").write_text("not a database")
    for place in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UserError):
            open_run(place)


class Solver:
    """A program, and a scorer, without a name of its own."""

    def __call__(self, question: str, answer: str = "", target: str = "") -> str:
        return question


def test_the_whole_command_line_of_a_call(overrides: Overrides) -> None:
    found = overrides(Solver(), ROWS, Solver(), "gpt-4o-mini", ["limit=1"])
    assert found.pop("system.target").startswith("in-memory:Solver")
    assert found.pop("scorer.target").startswith("in-memory:Solver")
    assert found.pop("data.target").startswith("in-memory:samples")
    assert list(found.items()) == [
        ("system", "callable"),
        ("system.needs_model", "true"),
        ("run.name", "Solver"),
        ("model", "gpt-4o-mini"),
        ("scorer", "function"),
        ("data", "in_memory"),
        ("tracking", "off"),
        ("limit", "1"),
    ]
    named = overrides("toy", "toy", "gaia", "offline")
    assert list(named.items()) == [
        ("system", "toy"), ("model", "offline"), ("scorer", "gaia"), ("data", "toy"), ("tracking", "off"),
    ]  # fmt: skip


def test_what_tells_no_arguments_is_a_function_and_without_dspy_everything_is_one(
    overrides: Overrides, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (overrides(max)["system"], overrides(max)["run.name"]) == ("callable", "max")
    assert overrides(Solver)["system"] == "callable"
    monkeypatch.delitem(sys.modules, "dspy")
    assert overrides(make, Path("a.csv"), model="offline")["system"] == "callable"


def test_rows_are_examples_if_all_of_them_are(overrides: Overrides) -> None:
    first, second = examples("text", text="a", label="b")[0], dspy.Example(text="c", label="d")
    program = dspy.Predict("text, label -> kind")
    told = overrides(program, [first, second], model="offline")
    assert find_object(told["data.target"]) == [{"text": "a", "label": "b"}, {"text": "c", "label": "d"}]
    assert told["data.inputs"] == '["text"]'
    untold = overrides(program, [second, first], model="offline")
    assert untold["data.inputs"] == '["text","label"]'
    mixed = [first, {"text": "c", "label": "d"}]
    assert find_object(overrides(solve, mixed, model="offline")["data.target"]) == mixed


def test_an_evaluation_is_a_run_folder_and_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": "4", "answer": "4"}, {"question": "5", "answer": "6"}]
    run = evaluate(solve, rows, options=[f"run.dir={tmp_path / 'run'}"], progress=False)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    assert (run.folder, run.score, run.summary.n) == (tmp_path / "run", 0.5, 2)
    assert list(run.table["answer"]) == ["4", "5"]
    assert isinstance(run.notes, tuple) and all(isinstance(each, str) for each in run.notes)
    for options, sentence in (
        ([f"run.dir={tmp_path / 'run'}"], f"run.dir={tmp_path / 'run'} already holds a run; resume it with "),
        (["run.resume=latest"], "run.resume is not for Python: give it to eval/run.py on the command line."),
        (["scorer=nope"], "scorer=nope is not known"),
    ):
        with pytest.raises(UserError) as refused:
            evaluate(solve, rows, options=options)
        assert str(refused.value).startswith(sentence)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Puts an end, or an interrupt, in place of each evaluation, after some lines; returns the calls."""

    def put(end: object, *lines: str) -> list[Any]:
        calls: list[Any] = []

        def end_at_once(request: Any, output: Any) -> object:
            calls.append((request, output))
            for line in lines:
                output.print(line)
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setattr(evaluation, "evaluate", end_at_once)
        return calls

    return put


def test_a_run_without_results_is_a_mistake_of_its_own_words(tmp_path: Path, ended: Callable[..., list[Any]]) -> None:
    calls = ended(Ended(tmp_path, 3), "stopped: the disk is full", "continue with: it")
    with pytest.raises(UserError) as refused:
        evaluate(solve, ROWS, progress=False)
    assert str(refused.value) == "stopped: the disk is full continue with: it"
    ((request, output),) = calls
    assert request.config.system.name == "callable"
    assert (request.resolved["run"]["name"], request.prompts, request.add_to_sweep) == ("solve", None, None)
    assert "system=callable" in request.command
    assert output.console.quiet is True
    with pytest.raises(UserError):
        evaluate(solve, ROWS)
    assert calls[-1][1].console.quiet is False, "the progress is shown unless it is not wanted"


@pytest.mark.parametrize(
    ("given", "said"), [(("stopped by Ctrl-C.",), "stopped by Ctrl-C."), ((), "one line another line")]
)
def test_an_interrupt_is_the_users_own_with_what_was_said_of_it(
    ended: Callable[..., list[Any]], given: tuple[str, ...], said: str
) -> None:
    ended(InterruptedRunError(*given), "one line", "another line")
    with pytest.raises(KeyboardInterrupt) as interrupted:
        evaluate(solve, ROWS, progress=False)
    assert type(interrupted.value) is KeyboardInterrupt
    assert str(interrupted.value) == said


def test_a_run_and_a_comparison_are_shown_whole(runs: list[Path], tmp_path: Path) -> None:
    run = open_run(runs[0])
    assert run.interval is not None
    assert repr(run) == f"Run(folder={runs[0]!r})"
    assert str(run) == f"worse: accuracy 50.0% ({format_interval(run.interval)}), 8/16 right"
    partial = open_run(stored_run(tmp_path / "part", [answered("q1", "17")], planned=["q1", "q2"]))
    assert str(partial).startswith("part: accuracy at least 50.0%, 1/2 right, 1 error")
    compared = compare(*runs)
    assert repr(compared) == "Comparison()"
    score = compared.result.comparisons[0].comparison.score
    assert (compared.difference, compared.interval, compared.p) == (score.difference, score.ci95, score.p)
    assert "&lt;b&gt;" in render_html(lambda console: console.print("<b>", highlight=False))
    wide = render_html(lambda console: console.print("x" * 250))
    assert ("x" * 100 in wide, "x" * 101 in wide) == (True, False)
    assert wide.startswith('<pre style="white-space:pre;overflow-x:auto;line-height:normal">')


def test_runs_of_other_questions_are_compared_on_those_that_both_have(tmp_path: Path, runs: list[Path]) -> None:
    other = stored_run(tmp_path / "other", [answered(f"q{n}", "17") for n in range(8, 24)])
    with pytest.raises(UserError):
        compare(runs[0], other)
    assert compare(runs[0], other, intersection=True).difference == 1.0


def test_a_gate_has_the_metrics_margins_and_level_that_are_given(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def read(*arguments: object) -> object:
        given.append(arguments)
        return "settings"

    monkeypatch.setattr("eval.analysis.comparison.regression_gate.read_gate_settings", read)
    monkeypatch.setattr(
        "eval.analysis.comparison.regression_gate.judge_runs",
        lambda base, new, settings: SimpleNamespace(names=(base.folder.name, new.folder.name), settings=settings),
    )
    found: Any = check_regression(runs[1], runs[0])
    assert (found.names, found.settings) == (("better", "worse"), "settings")
    check_regression(*runs, metrics=("score", "cost"), margins={"score": 0.02, "cost": 0.1}, alpha=0.01)
    assert given == [("score", [], 0.05), ("score,cost", ["score=0.02", "cost=0.1"], 0.01)]


def test_a_database_that_cannot_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise python_api.StoreError("it is damaged")

    monkeypatch.setattr(python_api, "RunStore", fail)
    stored_run(tmp_path / "run", [answered("q1", "17")])
    with pytest.raises(UserError) as refused:
        open_run(tmp_path / "run")
    assert str(refused.value) == "it is damaged."
