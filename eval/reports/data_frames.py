"""Results of runs as pandas data frames, read from their folders: a row per answer, per call, per run.

    samples_df("latest").groupby("level")["score"].mean()
    calls_df(["baseline", "careful"]).groupby(["run", "agent"])["total_tokens"].sum()
    runs_df()[["run", "model", "metric", "score", "cost_usd"]]

Columns have Inspect's names where Inspect has them (`id`, `epoch`, `input`, `target`, `total_tokens`, `total_time`,
`working_time`, `error`, `limit`). A folder is only read: nothing that it names is imported, resolved or followed.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval.analysis.attribution.broken_link import BrokenLink, attribute_run, find_broken_link
from eval.analysis.run_list.read_runs import read_entry
from eval.analysis.summary.summarise import is_planned, read_missing
from eval.runs.find import find_run, list_runs
from eval.runs.own_runs import refuse_unreadable
from eval.runs.record import Record
from eval.runs.store import open_run

if TYPE_CHECKING:
    import pandas

Row = dict[str, object]
CALL_COLUMNS = (
    *("run", "run_id", "id", "epoch", "attempt", "event", "agent", "name", "span_id", "parent_id"),
    *("total_tokens", "input_tokens", "output_tokens", "cost_usd", "total_time", "started", "error"),
)
RUN_COLUMNS = ("run", "state", "system", "model", "data", "prompts", "metric", "score", "ci_low", "ci_high", "n")
EVENTS = {"lm": "model", "tool": "tool"}  # kind of a span → Inspect's name of the event
_SAME = (  # columns that are fields of a record
    *("run_id", "epoch", "attempt", "file", "target", "answer", "level", "explanation"),
    *("error", "error_class", "error_component", "limit", "started_at", "thread_id"),
)
_SAME_USAGE = ("input_tokens", "output_tokens", "cost_usd", "tool_calls", "retries")

RunName = str | PathLike[str]  # a `mas_harness.Run` is one: the path of its folder
RunNames = RunName | Iterable[RunName]


def samples_df(runs: RunNames = "latest") -> "pandas.DataFrame":
    """Return a row per sample and epoch: the last attempt at it.

    `score` is 0 for an answer in error, or not run, whose sample has a target: its mean is the run's own mean. It is
    missing for samples without a target alone. Tags of the data are columns `metadata_TAG`, diagnostics of the scorer
    `score_PART`. `runs`: one or several: latest, a name under outputs/eval, a path, or a `Run`. Raise UserError if
    there is no such run, or it cannot be read.
    """
    return _build_frame(row for folder in find_folders(runs) for row in _read_samples(folder))


def calls_df(runs: RunNames = "latest") -> "pandas.DataFrame":
    """Return a row per call of a language model or a tool (`event`: model, tool), in order, of all attempts.

    Argument and errors are those of `samples_df`.
    """
    return _build_frame((row for folder in find_folders(runs) for row in _read_calls(folder)), CALL_COLUMNS)


def runs_df(runs: RunNames | None = None) -> "pandas.DataFrame":
    """Return a row per run as `eval/list_runs.py` lists it, the newest first; `reason` says why one is `refused`.

    `runs`: as of `samples_df`; None: all under outputs/eval. Raise UserError if one does not exist.
    """
    folders = list_runs() if runs is None else find_folders(runs)
    return _build_frame(map(_describe_run, folders), RUN_COLUMNS)


def find_folders(runs: RunNames) -> list[Path]:
    """Return the folders of runs; raise UserError if there is no such run."""
    return [find_run(fspath(each)) for each in ([runs] if isinstance(runs, str | PathLike) else runs)]


def _read_samples(folder: Path) -> Iterator[Row]:
    with refuse_unreadable(folder), open_run(folder) as store:
        links, info = attribute_run(store).links, store.read_info()
        tags = {planned.id: planned.tags for planned in store.read_plan()}
        planned = (each for each in store.final_records() if is_planned(each, info.epochs, tags))
        for record in chain(planned, read_missing(store)):
            link = links.get((record.sample_id, record.epoch)) or find_broken_link(record)
            yield _describe_sample(folder.name, record, tags.get(record.sample_id, {}), link)


def _describe_sample(run: str, record: Record, tags: Mapping[str, str], link: BrokenLink | None) -> Row:
    usage = record.usage
    return {
        "run": run,
        "id": record.sample_id,
        "input": record.question,
        "score": record.score if record.error is None or not record.scored else 0.0,
        **{name: getattr(record, name) for name in _SAME},
        "lost_at_kind": link and link.kind,
        "lost_at": link and link.name,
        "model_calls": usage.lm_calls,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        **{name: getattr(usage, name) for name in _SAME_USAGE},
        "total_time": record.wall_seconds,
        "working_time": record.wall_seconds - record.waited_seconds,
        **{f"metadata_{name}": value for name, value in tags.items()},
        **{f"score_{name}": value for name, value in record.parts.items()},
    }


def _read_calls(folder: Path) -> Iterator[Row]:
    with refuse_unreadable(folder), open_run(folder) as store:
        for record in store.records():
            agents: dict[object, object] = {}  # id of a span → agent that it belongs to
            for span in record.trajectory:
                inner = span["name"] if span["kind"] == "agent" else agents.get(span["parent"])
                agents[span["id"]] = inner
                if span["kind"] in EVENTS:
                    yield _describe_call(folder.name, record, span, inner)


def _describe_call(run: str, record: Record, span: Mapping[str, Any], agent: object) -> Row:
    attributes, began, ended = span.get("attributes") or {}, span["start_seconds"], span.get("end_seconds")
    n_in, n_out = attributes.get("input_tokens"), attributes.get("output_tokens")
    values = (
        *(run, record.run_id, record.sample_id, record.epoch, record.attempt, EVENTS[span["kind"]], agent),
        *(span["name"], span["id"], span["parent"]),
        *(None if n_in is None or n_out is None else n_in + n_out, n_in, n_out, attributes.get("cost_usd")),
        *(None if ended is None else ended - began, began, span.get("error")),
    )
    return dict(zip(CALL_COLUMNS, values, strict=True))


def _describe_run(folder: Path) -> Row:
    found = read_entry(folder).to_dict()
    bounds: Any = found.pop("score_ci95") or (None, None)
    return {"run": found.pop("name"), **found, **dict(zip(("ci_low", "ci_high"), bounds, strict=True))}


def _build_frame(rows: Iterable[Row], columns: tuple[str, ...] = ()) -> "pandas.DataFrame":
    """Return a frame with these columns first, whether or not there is a row; columns of a few runs come last."""
    import pandas

    kept = list(rows)
    return pandas.DataFrame(kept, columns=list(dict.fromkeys([*columns, *(name for row in kept for name in row)])))
