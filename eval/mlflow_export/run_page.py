"""The page of a run in MLflow: params, tags, metrics, and the files of its folder.

Made from the store's `RunInfo`, and the summary once there is one. It can be written any number of times: only what
differs from MLflow's page is sent.

    page = build_page(store.read_info(), summary, compute_latencies(store.final_records()), redact=config.redact)
    write_page(run, page)
    write_artifacts(run, run_folder, prompts)
"""

import json
import math
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.analysis.statistics.intervals import Interval
from eval.analysis.summary.summary import Summary
from eval.mlflow_export.tracked_run import TrackedRun, to_ms
from eval.mlflow_export.values import truncate
from eval.runs.record import Record, Usage
from eval.runs.run_info import RunInfo, RunState
from eval.scorers.score import ACCURACY
from mas.prompt_sets.prompt_set import PromptSet, name_prompt_file

JsonObject = Mapping[str, Any]  # of the configuration

MAX_PARAM_CHARS = 500  # MLflow itself takes 6000
MAX_TAG_CHARS = 5000  # MLflow itself takes 8000
MAX_LABELS = 30  # with metrics of their own
PER_CALL = 100  # MLflow's limit for params and tags; metrics have a higher one
ARTIFACTS = (
    "summary.json",
    "answers.jsonl",
    "records.jsonl",
    "report.html",
    "config.yaml",
    "correlation_ids.jsonl",
    "logs",
)
CHANGED_TAG = "harness.config_changed"
_PLAIN = {  # fields of the summary that are metrics under their own names
    *("n", "n_correct", "n_wrong", "n_scored", "n_infrastructure", "n_unscored", "n_questions", "n_error"),
    *("epochs", "format_loss", "waited_seconds", "wall_seconds", "peak_memory_mb", *vars(Usage())),
}
_MAY_VANISH = ("errors/", "limits/", "lost/")  # when a run is resumed


@dataclass(frozen=True)
class RunPage:
    """Content of a run's page; empty where nothing is known yet."""

    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


def build_page(
    info: RunInfo,
    summary: Summary | None = None,
    numbers: Mapping[str, float] | None = None,
    *,
    folder_name: str = "",
    redact: Callable[[str], str] = str,
) -> RunPage:
    """Build the page of an evaluation.

    Args:
        info: facts about the run, from its store.
        summary: None while the run has not ended.
        numbers: further metrics.
        folder_name: name of the run's folder.
        redact: takes secrets out; every param and tag goes through it.
    """
    tags = {**_tags(info, summary), **({"run_folder": folder_name} if folder_name else {})}
    return RunPage(
        params={name: truncate(redact(text), MAX_PARAM_CHARS) for name, text in flatten_params(info)},
        tags={name: truncate(redact(text), MAX_TAG_CHARS) for name, text in tags.items()},
        metrics={_name(name): value for name, value in {**_metrics(summary), **(numbers or {})}.items()},
    )


def build_run_name(info: RunInfo, folder_name: str) -> str:
    """Return the name given to the run, else system and model before its folder's name; a simulation is marked.

    Lists show little more than its beginning. No two folders of runs have the same name.
    """
    given = info.part("run").get("name")
    asked = " ".join(filter(None, (info.system, info.model)))
    name = str(given or " · ".join(filter(None, (asked, folder_name or info.run_id))) or "run")
    return f"{name} (simulated)" if info.simulated else name


def flatten_params(info: RunInfo) -> Iterator[tuple[str, str]]:
    """Return the resolved configuration under dotted names, without model settings if no model of ours is called."""
    shown = {**info.config, "model": {"name": "none"}} if info.model == "none" else info.config
    for key, text in _flatten(shown):
        yield _name(key), text


def read_status(summary: Summary) -> str:
    """Return KILLED for a run that ended before all its questions did, else FINISHED."""
    return "KILLED" if summary.stopped else "FINISHED"


def read_start_ms(info: RunInfo) -> int:
    """Return the start in milliseconds since 1970; now, if it is unknown."""
    return to_ms(info.started_at) if info.started_at else round(time.time() * 1000)


def read_end_ms(state: RunState) -> int | None:
    """Return the end of the last session that ended, in milliseconds since 1970; None: unknown."""
    ended = [session.ended_at for session in state.sessions if session.ended_at]
    return to_ms(ended[-1]) if ended else None


def write_page(run: TrackedRun, page: RunPage) -> None:
    """Send what differs from what MLflow has.

    A param cannot be changed there: a run that was resumed with another configuration keeps its first values, and the
    tag `harness.config_changed` lists the others.
    """
    from mlflow.entities import Metric, Param, RunTag

    known = run.client.get_run(run.run_id).data
    new = [Param(name, text) for name, text in page.params.items() if name not in known.params]
    other = {name: text for name, text in page.params.items() if known.params.get(name, text) != text}
    changed = {CHANGED_TAG: truncate(json.dumps(other, ensure_ascii=False), MAX_TAG_CHARS)} if other else {}
    wanted_tags = {**page.tags, **changed}
    tags = [RunTag(name, text) for name, text in wanted_tags.items() if text and known.tags.get(name) != text]
    now = round(time.time() * 1000)  # of two values MLflow shows the later one, or the greater one of the same moment
    gone = [name for name in known.metrics if name.startswith(_MAY_VANISH)] if page.metrics else []
    wanted = {**dict.fromkeys(gone, math.nan), **page.metrics}  # MLflow cannot delete a metric
    changed_metrics = {name: value for name, value in wanted.items() if str(known.metrics.get(name)) != str(value)}
    metrics = [Metric(name, value, now, 0) for name, value in changed_metrics.items()]
    if CHANGED_TAG in known.tags and not other:  # it has returned to its first configuration
        run.client.delete_tag(run.run_id, CHANGED_TAG)
    for start in range(0, max(len(new), len(tags), len(metrics)), PER_CALL):
        part = slice(start, start + PER_CALL)
        run.client.log_batch(run.run_id, metrics=metrics[part], params=new[part], tags=tags[part])


def write_artifacts(run: TrackedRun, folder: Path, prompts: Mapping[str, PromptSet]) -> None:
    """Send the run's files that exist, and its prompts: folder in the run's → the set in it."""
    for name in ARTIFACTS:
        if (folder / name).exists():
            run.client.log_artifact(run.run_id, str(folder / name))
    for place, prompt_set in prompts.items():
        for agent, text in prompt_set.texts.items():
            run.client.log_text(run.run_id, f"{text}\n", f"{place}/{name_prompt_file(agent)}")


def _tags(info: RunInfo, summary: Summary | None) -> dict[str, str]:
    config = info.config
    part = {name: info.part(name) for name in ("system", "model", "data", "scorer")}
    asks = info.model != "none"
    found = {
        "prompts_sha256": info.prompts_sha256,
        "dataset_sha256": info.task.dataset_sha256,
        "task_version": info.task.task_version,
        "simulated": json.dumps(info.simulated) if info.has_begun else "",
        "epochs": str(info.epochs) if info.has_begun else "",
        "harness.command": "" if info.command is None else json.dumps(info.command),
        "harness.started_at": info.started_at,
        "harness.rescored_from": info.rescored_from,
        "harness.sweep": info.sweep.id if info.sweep else "",
        "harness.sweep_job": str(info.sweep.job) if info.sweep else "",
        "harness.sweep_differs": " ".join(info.sweep.differs) if info.sweep else "",
        "harness.rescored_by": json.dumps(info.rescored_by) if info.rescored_from else "",
    }
    found |= {
        "system": str(part["system"].get("name", "")),
        "model": str(info.model or part["model"].get("name", "")),
        "scorer": str(part["scorer"].get("_target_", "")).rpartition(".")[2],
        "dataset": str(part["data"].get("name", "")),
        "split": str(config.get("split") or ""),
        "prompts": Path(str(config.get("prompts") or "none")).name,
        "tools": ", ".join(sorted(part["system"].get("tools") or {})),
    }
    found |= {f"model.{agent}": name for agent, name in _models(part["system"], part["model"]).items() if asks}
    if summary is not None:
        found["simulated"] = str(summary.simulated).lower()
        notes = [summary.notice, summary.stopped and f"Stopped: {summary.stopped}"]
        found["mlflow.note.content"] = "\n\n".join(each for each in notes if each)  # the description on the run's page
    return {_name(name): text for name, text in found.items() if text}


def _models(system: JsonObject, model: JsonObject) -> dict[str, str]:
    """Return the model of each agent, chosen as `mas.llm.profiles.profile` does."""
    of_system, of_model = system.get("agents") or {}, model.get("agents") or {}
    return {
        agent: str(
            (of_system.get(agent) or {}).get("model")
            or (of_model.get(agent) or {}).get("name")
            or model.get("name", "")
        )
        for agent in {**of_system, **of_model}
    }


def _metrics(summary: Summary | None) -> dict[str, float]:
    """Return the summary's numbers, without the unknown ones: MLflow has no null."""
    found: dict[str, object] = {}
    for name, value, bounds in _list_numbers(summary) if summary else ():
        found[name] = value
        found |= dict(zip((f"{name}_ci95_low", f"{name}_ci95_high"), bounds or (), strict=False))
    return {name: round(float(value), 6) for name, value in found.items() if isinstance(value, int | float)}


def _list_numbers(summary: Summary) -> Iterator[tuple[str, object, Interval | None]]:
    """Yield the name in MLflow, the value, and the interval if there is one."""
    plain = {**vars(summary), **vars(summary.usage)}
    plain |= {f"tools/{name}_calls": n for name, n in summary.calls_by_tool.items()}
    plain |= {f"tools/{name}_errors": summary.tool_errors.get(name, 0) for name in summary.calls_by_tool}
    metric, is_graded = summary.metric.replace(" ", "_"), summary.metric != ACCURACY
    yield "accuracy", summary.accuracy, summary.accuracy_ci95
    if is_graded:
        yield metric, summary.score, summary.score_ci95
    for level, counts in summary.by_level.items():
        name, of_level = f"{metric}/level_{level}", (counts.score, counts.score_ci95)
        yield name, *(of_level if is_graded else (counts.accuracy, counts.accuracy_ci95))
        yield f"{name}_n", counts.n, None
    for tag, values in summary.by_tag.items():
        yield from _list_scores({f"{metric}/{tag}_{value}": counts for value, counts in values.items()}, "n")
    yield from _list_scores({f"part/{name}": part for name, part in summary.parts.items()}, "n")
    yield from _list_scores({f"extra/{name}": extra for name, extra in summary.extra_scorers.items()}, "failed")
    for lost in summary.attribution or ():
        kind = "" if lost.kind in ("agent", "tool") else f"{lost.kind}_"
        yield f"lost/{kind}{lost.name}", lost.points, lost.points_ci95
    for critic, numbers in summary.critics.items():
        for key in vars(numbers):
            yield f"critics/{critic}_{key}", getattr(numbers, key), getattr(numbers, f"{key}_ci95", None)
    if labels := summary.labels:
        yield "labels/macro_f1", labels.macro_f1, labels.macro_f1_ci95
        for name, each in labels.by_label.items() if len(labels.by_label) <= MAX_LABELS else ():
            for key in ("precision", "recall", "f1"):
                yield f"labels/{name}_{key}", getattr(each, key), getattr(each, f"{key}_ci95")
            yield f"labels/{name}_n", each.n, None
        plain |= {"labels/other_answers": labels.n_other, "labels/no_answer": labels.n_no_answer}
    if epochs := summary.by_epochs:
        estimates = {"majority": epochs.majority}
        estimates |= {f"pass_at_{k}": each for k, each in epochs.pass_at.items()}
        estimates |= {f"pass_hat_{k}": each for k, each in epochs.pass_hat.items()}
        for name, estimate in estimates.items():
            yield f"epochs/{name}", estimate.value, estimate.ci95
        plain["epochs/icc"] = epochs.icc
    for name, overlap in {"leaks": summary.leaks, "tuned_on": summary.used_to_tune}.items():
        if overlap:
            yield f"{name}/questions", overlap.n_questions, None
            yield f"{name}/score_without", overlap.score_without, overlap.score_without_ci95
    yield "leaks/blocked_pages", sum(summary.blocked_pages.values()), None
    families: dict[str, Mapping[str, object]] = {
        "errors/": summary.errors_by_class,
        "limits/": summary.limits,
        "agents/": {f"{name}_seconds": seconds for name, seconds in summary.by_agent.items()},
        "retried/": vars(summary.retried),
        "judge/": vars(summary.scorer_usage) if summary.scorer_usage.lm_calls else {},
        "": {name: value for name, value in plain.items() if name in _PLAIN or "/" in name},
    }
    for family, content in families.items():
        for name, value in content.items():
            yield f"{family}{name}", value, None


def _list_scores(scores: Mapping[str, Any], count: str) -> Iterator[tuple[str, object, Interval | None]]:
    """Yield the score of each, with its interval, and a count: `n` or `failed`."""
    for name, each in scores.items():
        yield name, each.score, each.score_ci95
        yield f"{name}_{count}", each.n if count == "n" else each.n_failed, None


def _flatten(tree: JsonObject, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves under their dotted path; lists as JSON."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, default=str)


def _name(text: str) -> str:
    """Replace characters that MLflow does not allow in a name, and what makes it an unusual path."""
    parts = re.sub(r"[^\w\-. /]", "_", text, flags=re.ASCII).split("/")
    return "/".join(part for part in parts if part.strip(". "))[:250]


def compute_latencies(records: Iterable[Record]) -> dict[str, float]:
    """Return the median and the 95th percentile of the seconds that a question took, by the names of the metrics."""
    seconds = [record.wall_seconds for record in records]
    if not seconds:
        return {}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return {"latency/question_p50_seconds": cuts[49], "latency/question_p95_seconds": cuts[94]}
