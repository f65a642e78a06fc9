"""The Python API, as a program or a notebook uses it."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import dspy
import pandas
import pytest
from dspy.utils import DummyLM

import mas_harness
from eval.runs.own_runs import read_command
from eval.runs.store import RunStore
from optimize.session.tuning_store import read_original_arguments
from tests.eval.command_line import CONTACT, NO_BROWSER, EvalCommand
from tests.process import finish

ROWS = [{"question": f"{n} is?", "answer": str(n if n % 2 else -n), "level": f"level {n % 2}"} for n in range(6)]
Evaluate = Callable[..., mas_harness.Run]


def first_word(question: str) -> str:
    return question.split()[0]


def same(gold: dict[str, str], pred: dict[str, str], trace: object = None) -> bool:
    return gold["answer"] == pred["answer"]


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluate:
    """The function, with a folder for each run and without progress, unless the call says otherwise."""
    numbers = iter(range(100))

    def call(
        program: object = first_word, samples: object = ROWS, scorer: object = "exact", **settings: object
    ) -> mas_harness.Run:
        options = [f"run.dir={tmp_path / f'run_{next(numbers)}'}", *settings.pop("options", [])]  # type: ignore[misc]
        settings = {"progress": False, **settings, "options": options}
        return mas_harness.evaluate(program, samples, scorer, **settings)  # type: ignore[arg-type]

    return call


def test_it_works_inside_a_running_event_loop_and_prints_nothing(
    evaluate: Evaluate, capfd: pytest.CaptureFixture[str]
) -> None:
    async def notebook() -> mas_harness.Run:
        return evaluate(scorer=same)

    run = asyncio.run(notebook())
    assert (run.score, run.summary.n, capfd.readouterr()) == (4 / 6, 6, ("", ""))
    assert run.interval is not None and run.interval[0] < 4 / 6 < run.interval[1]
    assert str(run).startswith("run_0: accuracy 66.7% (") and str(run).endswith("4/6 right")
    assert run.table["score"].tolist() == [1, 1, 0, 1, 0, 1]
    assert "ids are made from the questions" in " ".join(run.notes)
    assert mas_harness.open_run(run.folder).summary.score == run.score


def test_in_a_thread_no_signal_handler_changes_and_a_program_that_exits_ends_nothing(evaluate: Evaluate) -> None:
    def exit_at_three(question: str) -> str:
        handlers.add(signal.getsignal(signal.SIGTERM))
        if question.startswith("3"):
            sys.exit(5)
        return first_word(question)

    handlers = {before := signal.getsignal(signal.SIGTERM)}
    runs: list[mas_harness.Run] = []
    thread = threading.Thread(target=lambda: runs.append(evaluate(exit_at_three)))
    thread.start()
    thread.join()
    assert handlers == {before}
    assert (runs[0].summary.n_error, runs[0].score) == (1, 3 / 6)
    assert str(runs[0]).endswith("3/6 right, 1 error")


@pytest.mark.slow
def test_samples_may_be_a_data_frame_or_a_path(evaluate: Evaluate, tmp_path: Path) -> None:
    frame = pandas.DataFrame(ROWS)
    frame.to_csv(tmp_path / "q.csv", index=False)
    frame.to_excel(tmp_path / "q.xlsx", index=False)
    runs = [evaluate(samples=each) for each in (frame, tmp_path / "q.csv", str(tmp_path / "q.xlsx"))]
    assert [run.score for run in runs] == [4 / 6] * 3
    assert len({run.table["id"].tolist()[0] for run in runs}) == 1, "the same question has the same id"
    assert mas_harness.compare(runs[0], runs[1]).difference == 0


@pytest.mark.slow
def test_the_output_of_a_program_that_takes_a_question_is_the_target(evaluate: Evaluate) -> None:
    program = dspy.Predict("question -> label")
    program.lm = DummyLM([{"label": "a"}] * 9)
    samples = [{"question": "One?", "label": "a", "kind": "x"}, {"question": "Two?", "label": "b", "kind": "x"}]
    assert evaluate(program, samples).table["target"].tolist() == ["a", "b"]
    usual = [{**each, "answer": "a"} for each in samples]
    assert evaluate(program, usual).table["target"].tolist() == ["a", "a"]


TICKETS = [("Refund", "billing"), ("Crash", "bug"), ("Invoice", "billing")]


class Classify(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classify = dspy.Predict("title, body -> label")
        self.classify.lm = DummyLM({title: {"label": "billing"} for title, _ in TICKETS})

    def forward(self, title: str, body: str) -> dspy.Prediction:
        return self.classify(title=title, body=body)


@pytest.mark.slow
def test_a_dspy_program_and_examples_need_no_option(evaluate: Evaluate) -> None:
    """An instance, its class; Examples with inputs, dictionaries; a metric of DSPy that reads a field by its name."""

    def same_label(gold: dspy.Example, pred: dspy.Prediction, trace: object = None) -> bool:
        return bool(gold.label == pred.label and gold.title)

    rows = [{"title": title, "body": "please", "label": label} for title, label in TICKETS]
    examples = [dspy.Example(**row).with_inputs("title", "body") for row in rows]
    runs = [evaluate(Classify(), examples, same_label), evaluate(Classify, rows, "exact")]
    assert [run.score for run in runs] == [2 / 3, 2 / 3]
    assert runs[0].table["answer"].tolist() == ["billing"] * 3
    assert set(runs[0].summary.by_agent) == {"classify"}


def test_runs_are_compared(evaluate: Evaluate) -> None:
    first, second = evaluate(), evaluate(lambda question: str(-int(question.split()[0])))
    comparison = mas_harness.compare(first, second)
    assert comparison.difference == pytest.approx(-1 / 6)  # 0, 2 and 4 are right
    assert comparison.interval is not None and 0 < comparison.p <= 1
    assert "run_0" in str(comparison) and "run_1" in repr(comparison)
    assert mas_harness.runs_df([first, second])["score"].tolist() == [first.score, second.score]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"program": 3}, "an int is no program"),
        ({"program": "no_such_module:answer"}, "the module no_such_module cannot be imported"),
        ({"program": dspy.Predict("question -> answer")}, "has no language model (self): give model="),
        ({"samples": []}, "samples is empty"),
        ({"samples": pandas.Series([1])}, "sample 1: the row is an int, not an object with columns"),
        ({"samples": [{"text": "a"}]}, "name what it has with"),
        ({"scorer": "exakt"}, "scorer=exakt is not known; did you mean exact"),
        ({"scorer": lambda: 1}, "cannot be called"),
        ({"options": ["run.epoch=3"]}, "run.epoch is not an option"),
        ({"options": "run.epochs=3"}, "is a text; give a list"),
        ({"options": ["run.resume=latest"]}, "run.resume is not for Python"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_run(
    given: dict[str, object], sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = f"run.dir={tmp_path / 'r'}"
    if isinstance(options := given.get("options", []), list):
        given = {**given, "options": [folder, *options]}
    arguments = {"program": first_word, "samples": ROWS, "scorer": "exact", **given}
    with pytest.raises(mas_harness.UserError) as raised:
        mas_harness.evaluate(**arguments)  # type: ignore[arg-type]
    assert sentence in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "r").exists() and capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_run_of_files_is_resumed_by_the_command_and_one_of_memory_is_refused(
    evaluate: Evaluate, eval_command: EvalCommand
) -> None:
    Path("my_words.py").write_text("def first(question):\n    return question.split()[0]\n")
    pandas.DataFrame(ROWS).to_csv("q.csv", index=False)
    run = evaluate("my_words:first", "q.csv", options=[CONTACT, NO_BROWSER])
    with RunStore(run.folder / "run.db", read_only=True) as store:
        info = store.read_info()
    assert 'system.target="my_words:first"' in (read_command(info.run_id, run.folder) or [])
    assert "nothing is left to run" in eval_command(f"run.resume={run.folder}").out
    in_memory = evaluate()
    refused = eval_command(f"run.resume={in_memory.folder}")
    assert refused.code == 1 and "only its memory held its system and data" in refused.err


def test_importing_it_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, mas_harness; print([m for m in ('dspy', 'pandas', 'mlflow', 'scipy') if m in sys.modules])"
    assert finish(tmp_path, "-c", code, script="").out == "[]\n"


@pytest.mark.slow
def test_a_system_is_tuned_silently_and_its_verdict_is_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = [{"question": f"What is {n} * 7?", "answer": str(7 * n)} for n in range(60)]
    options = [f"run.dir={tmp_path / 'tuned'}", "budget.metric_calls=60"]
    tuned = mas_harness.tune("toy", rows, "exact", model="offline", name="unheard", options=options, progress=False)
    assert capfd.readouterr() == ("", "")
    assert (tuned.folder, tuned.name, tuned.is_published) == (tmp_path / "tuned", "unheard", False)
    assert tuned.verdict is not None and "spent:" in str(tuned)
    with pytest.raises(mas_harness.UserError, match="only its memory held its data"):
        read_original_arguments(str(tuned.folder), [])


@pytest.mark.parametrize(
    ("program", "options", "sentence"),
    [
        (first_word, [], "has no prompts of ours to tune"),
        ("toy", ["resume=latest"], "resume is not for Python"),
        ("toy", ["budget.usd=-1"], "budget.usd=-1"),
    ],
)
def test_a_mistake_of_tuning_is_one_sentence(program: object, options: list[str], sentence: str) -> None:
    with pytest.raises(mas_harness.UserError) as raised:
        mas_harness.tune(program, ROWS * 3, "exact", model="offline", options=options, progress=False)
    assert sentence in str(raised.value) and "\n" not in str(raised.value)
