"""Evaluations from Python, over the code of the commands: `mas_harness` offers this module's names.

Nothing is printed but the progress, and nothing exits: a mistake is a UserError.
"""

import inspect
import io
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from eval.analysis.attribution.broken_link import attribute_run
from eval.analysis.summary.summarise import summarise_store
from eval.analysis.summary.summary import Summary
from eval.benchmarks.rows import USUAL, normalise_column
from eval.cli.command import read_option_name
from eval.cli.hydra_compat import CONF, MISTAKES, compose_config, format_override
from eval.cli.mistakes import describe_mistake
from eval.config.evaluation import build_part, read_config
from eval.execution.console import Console, KeptOutput
from eval.reports.data_frames import RunName, find_folders, samples_df
from eval.reports.formats import format_share
from eval.runs.own_runs import refuse_unreadable
from eval.runs.store import open_run as open_store
from mas.agents.targets import load_target, name_object
from mas.runtime.errors import UserError
from mas.runtime.text import format_count, name_type
from mas.system import Program

if TYPE_CHECKING:
    import pandas

    from eval.analysis.comparison.compare_runs import ComparisonResult
    from eval.analysis.statistics.intervals import Interval

ScorerFunction = Callable[..., object]
_BY_SUFFIX = {".csv": "csv", ".xlsx": "excel", ".xlsm": "excel", ".xls": "excel"}
_NO_TARGETS = ("id", "task_id", "level", "Level", "file", "file_name")  # keys of samples that have another meaning
_WIDTH = 100  # characters of a table as text


@dataclass(frozen=True, repr=False)
class Run:
    """An ordinary run folder, which all commands and functions take too."""

    folder: Path
    summary: Summary  # all numbers
    notes: tuple[str, ...] = ()  # lines that the command would have printed

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def metric(self) -> str:
        """Name of what `score` is."""
        return self.summary.metric

    @property
    def score(self) -> float | None:
        """Mean score of all answers; failures count as 0. None: no sample has a target."""
        return self.summary.score

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the score; None while answers are missing."""
        return self.summary.score_ci95

    @cached_property
    def table(self) -> "pandas.DataFrame":
        """A row per answer; see `samples_df`."""
        return samples_df(self)

    def __str__(self) -> str:
        summary = self.summary
        share = format_share(summary.score, self.interval, summary.incomplete)
        errors = f", {format_count(summary.n_error, 'error')}" if summary.n_error else ""
        right = f"{summary.n_correct}/{summary.n_scored} right"
        return f"{self.folder.name}: {self.metric} {share}, {right}{errors}"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Comparison:
    """The second run compared with the first, on the same samples."""

    difference: float  # score of the second minus that of the first
    interval: "Interval | None"  # of the difference, 95 %
    p: float  # chance of such a difference between equal runs
    result: "ComparisonResult"  # all numbers, and the ids of the samples on which the runs differ

    def __str__(self) -> str:
        from eval.reports.run_comparison.page import print_comparison

        return render_text(lambda console: print_comparison(self.result, console))

    __repr__ = __str__


def evaluate(
    program: object,
    samples: "str | Path | Iterable[Mapping[str, object]] | pandas.DataFrame",
    scorer: str | ScorerFunction = "exact",
    *,
    model: str | None = None,
    options: Sequence[str] = (),
    progress: bool = True,
) -> Run:
    """Answer and score all samples, as `eval/run.py` does.

    Args:
        program: a `dspy.Module` (an instance, its class, or a function that returns one), a function of the question,
            "package.module:name" of any of them, or the name of a system.
        samples: dictionaries or `dspy.Example`s, a data frame, the path of a file, or the name of a dataset.
        scorer: its name, a function of (question, answer, target), a metric of DSPy (gold, pred, …), or
            "package.module:function".
        model: a choice of `model=`; None: the program has its own language model.
        options: of `eval/run.py`: ["run.epochs=3"]. MLflow is off unless `tracking=…` is given.
        progress: show the progress on standard error.

    Raises:
        UserError: a mistake, found before anything is spent.
        KeyboardInterrupt: the run was interrupted; its folder keeps what is finished.
    """
    from eval.execution.run_session import SessionRequest
    from eval.workflows.evaluate import evaluate as run_evaluation

    with ExitStack() as stack, report_mistakes():
        overrides = list_overrides(stack, program, samples, scorer, model, options)
        config = read_config(compose_config(overrides))
        if config.run.resume:
            raise UserError("run.resume is not for Python: give it to eval/run.py on the command line.")
        output = KeptOutput(progress)
        asked = SessionRequest(config=config, prompts=config.check(), command=overrides)
        ended = run_evaluation(asked, output)
    if ended.is_interrupted:
        raise KeyboardInterrupt(" ".join(output.lines))
    if ended.summary is None:
        raise UserError(" ".join(output.lines))
    return Run(ended.folder, ended.summary, tuple(output.lines))


def open_run(run: RunName = "latest") -> Run:
    """Return a run that was made earlier: latest, a name under outputs/eval, or the path of its folder.

    Raises:
        UserError: there is no such run, or it cannot be read.
    """
    (folder,) = find_folders([run])
    with refuse_unreadable(folder), open_store(folder) as store:
        return Run(folder, summarise_store(store, attribute_run(store)))


@contextmanager
def open_program(system: str, *, model: str | None = None, options: Sequence[str] = ()) -> Iterator[Program]:
    """Open the program of a system, such as "bos", for requests outside of an evaluation, until the block ends.

    Raises:
        UserError: a mistake, found before anything is spent.
    """
    with report_mistakes():
        chosen = [f"system={system}", f"model={model}"] if model else [f"system={system}"]
        config = read_config(compose_config([*chosen, *options]))
        prompts = config.check_system()
        config.check_model()
    with config.system.open_resources(config.tools, lambda note: None) as resources:
        yield config.system.build(config.model, prompts, resources)


def compare(run_a: RunName, run_b: RunName) -> Comparison:
    """Compare two runs sample by sample, as `eval/compare.py` does.

    Raises:
        UserError: there is no such run, or the two cannot be compared.
    """
    from eval.analysis.comparison.compare_runs import compare_read_runs, read_runs

    folders = find_folders([run_a, run_b])
    with refuse_unreadable(*folders):
        result = compare_read_runs(read_runs(folders))
    score = result.comparisons[0].comparison.score
    return Comparison(score.difference, score.ci95, score.p, result)


def list_overrides(
    stack: ExitStack,
    program: object,
    samples: object,
    scorer: str | ScorerFunction,
    model: str | None,
    options: Sequence[str],
) -> list[str]:
    """Return the command line of an evaluation; what is no file or name gets one, until the stack is closed."""
    if isinstance(options, str):
        raise UserError(f"options={options!r} is a text; give a list of options: [{options!r}].")
    overrides = _describe_program(stack, program, model is not None)
    overrides += [f"model={model}"] if model else []
    overrides += [*_describe_scorer(stack, scorer), "tracking=off"]
    given = {read_option_name(each) for each in options}
    loaded = None  # a DSPy program, with the names of its fields
    if "system=dspy" in overrides:
        own = [each for each in (*overrides, *options) if read_option_name(each).startswith("system")]
        loaded = build_part(compose_config(own)["system"], "system").loaded
    overrides += _describe_samples(stack, samples, given, loaded)
    return [each for each in overrides if read_option_name(each) not in given] + list(options)


def _describe_program(stack: ExitStack, program: object, needs_model: bool) -> list[str]:
    if isinstance(program, str) and ":" not in program:
        return [f"system={program}"]
    if isinstance(program, str):
        target, name, program = program, program.rpartition(":")[2], load_target(program)
    elif callable(program):
        name = getattr(program, "__name__", type(program).__name__)
        target = stack.enter_context(name_object(program, name))
    else:
        raise UserError(
            f"{name_type(program)} is no program; give a dspy.Module, a function of the question, or "
            '"package.module:name".'
        )
    return [
        "system=dspy" if _is_dspy_program(program) else "system=callable",
        format_override("system.target", target),
        format_override("system.needs_model", needs_model),
        format_override("run.name", name),
    ]


def _is_dspy_program(program: object) -> bool:
    if (dspy := sys.modules.get("dspy")) is None:
        return False
    if inspect.isclass(program):
        return issubclass(program, dspy.Module)
    try:
        return isinstance(program, dspy.Module) or not inspect.signature(cast(Any, program)).parameters
    except (TypeError, ValueError):
        return False


def _describe_scorer(stack: ExitStack, scorer: str | ScorerFunction) -> list[str]:
    if isinstance(scorer, str) and ":" not in scorer:
        return [f"scorer={scorer}"]
    if not isinstance(scorer, str):
        if not callable(scorer):
            raise UserError(f"{name_type(scorer)} is no scorer; give its name, or a function of (gold, pred).")
        scorer = stack.enter_context(name_object(scorer, getattr(scorer, "__name__", type(scorer).__name__)))
    return ["scorer=function", format_override("scorer.target", scorer)]


def _describe_samples(stack: ExitStack, samples: object, given: Collection[str], loaded: object) -> list[str]:
    if isinstance(samples, str | Path):
        path = Path(samples)
        if isinstance(samples, str) and not path.exists() and (CONF / "data" / f"{samples}.yaml").is_file():
            return [f"data={samples}"]
        return [f"data={_BY_SUFFIX.get(path.suffix.lower(), 'jsonl')}", format_override("data.path", str(samples))]
    rows, inputs = _list_rows(samples)
    target = stack.enter_context(name_object(rows, "samples"))
    columns = _choose_columns(rows[0] if isinstance(rows[0], Mapping) else {}, inputs, given, loaded)
    return ["data=in_memory", format_override("data.target", target), *columns]


def _list_rows(samples: object) -> tuple[list[object], list[str]]:
    """Return the samples as rows, and the names of their inputs if they are `dspy.Example`s that say so."""
    if (frame := getattr(sys.modules.get("pandas"), "DataFrame", None)) and isinstance(samples, frame):
        samples = samples.to_dict(orient="records")
    if not isinstance(samples, Iterable) or isinstance(samples, Mapping | bytes):
        raise UserError(f"samples is {name_type(samples)}; expected a list of dictionaries, a data frame or a path.")
    rows = list(samples)
    if not rows:
        raise UserError("samples is empty; give at least one.")
    example = getattr(sys.modules.get("dspy"), "Example", None)
    if example is None or not all(isinstance(row, example) for row in rows):
        return rows, []
    first, inputs = rows[0], getattr(rows[0], "_input_keys", None) or ()
    return [row.toDict() for row in rows], [name for name in first.keys() if name in inputs]  # noqa: SIM118


def _choose_columns(
    first: Mapping[str, object], inputs: Sequence[str], given: Collection[str], loaded: object
) -> list[str]:
    """Return the options that map the keys of the first row to the fields of a DSPy program, as far as it is clear."""
    taken = list(inputs) or [name for name in getattr(loaded, "inputs", ()) if name in first and name != "file"]
    is_question = taken == ["question"]  # the data's own field, and targets have usual names
    if "data.inputs" in given or not taken:
        return []
    if is_question and not set(USUAL["answer"]).isdisjoint(map(normalise_column, first)):
        return []
    options = [] if is_question else [format_override("data.inputs", taken)]
    others = [str(name) for name in first if name not in taken and name not in _NO_TARGETS]
    returned = [name for name in others if name in (getattr(loaded, "outputs", None) or ())]
    clear = returned if is_question else returned or others
    if len(clear) == 1 and not {"data.target_column", "data.columns.answer"}.intersection(given):
        options.append(format_override("data.target_column", clear[0]))
    return options


@contextmanager
def report_mistakes() -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except MISTAKES as error:
        raise UserError(describe_mistake(error)) from None


def render_text(show: Callable[[Console], None]) -> str:
    """Return what is shown on a console as text."""
    console = Console(record=True, file=io.StringIO(), width=_WIDTH, force_jupyter=False, force_terminal=False)
    show(console)
    return console.export_text()
