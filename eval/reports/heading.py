"""What a run measured, for the head of its page: from its summary, and from the facts that its store keeps.

dict(about(store.read_info(), summary))["questions"]      # "sample, split val: 25"
"""

import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from eval.cli.terminal_text import shorten_line
from eval.runs.run_info import RunInfo

_DIGEST_CHARS = 12


def describe_run(info: RunInfo, summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and what is to be said; what an older run did not note is left out."""
    yield "run", f"{summary['folder']} (id {summary['run_id']})" if summary["folder"] else summary["run_id"]
    if summary["system"]:
        yield "system", summary["system"]
    if summary["model"]:
        yield "model", "; ".join([summary["model"], *_own_models(info)])
    if summary["data"]:
        yield "questions", _questions(info, summary)
    if summary["scorer"]:
        yield "scorer", summary["scorer"]
    if summary["prompts"]:
        digest = f" (sha256 {info.prompts_sha256[:_DIGEST_CHARS]})" if info.prompts_sha256 else ""
        edited = ", edited since it was published" if info.prompts_edited else ""
        yield "prompts", f"{summary['prompts']}{digest}{edited}"
    yield from _course(info, summary)


def _course(info: RunInfo, summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if source := info.rescored_from:
        yield "answers", f"those of {source}, scored anew"
    if started_at := info.started_at:
        when = datetime.fromisoformat(started_at).strftime("%Y-%m-%d %H:%M UTC")
        yield "date", f"{when}; it took {format_duration(summary['wall_seconds'])}"
    if commit := info.origin.get("mlflow.source.git.commit"):
        changed = ", with uncommitted changes" if info.origin.get("mlflow.source.git.dirty") == "true" else ""
        yield "harness", f"commit {commit[:_DIGEST_CHARS]}{changed}"
    if summary["command"]:
        yield "command", f"python eval/run.py {shlex.join(summary['command'])}"


def format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _questions(info: RunInfo, summary: Mapping[str, Any]) -> str:
    split = f", split {summary['split']}" if summary["split"] else ""
    revision = f", revision {info.task.data_revision[:_DIGEST_CHARS]}" if info.task.data_revision else ""
    times = f", {summary['epochs']} epochs" if summary["epochs"] > 1 else ""
    return f"{summary['data']}{split}{revision}: {summary['n_questions']:,}{times}"


def _own_models(info: RunInfo) -> Iterator[str]:
    """Of agents that have another than the run's."""
    for agent, each in (info.part("system").get("agents") or {}).items():
        if isinstance(each, dict) and each.get("model"):
            yield f"{agent}: {each['model']}"


MAX_NAME_CHARS = 60
_DEFAULT_SCORER = "gaia"  # of conf/eval.yaml
_OURS = "eval.scorers."


def read_names(info: RunInfo, folder_name: str) -> dict[str, str | None]:
    """`folder`, `system`, `data`, `split`, `prompts`, `scorer`; null for what the run did not note.

    Args:
        info: of the run.
        folder_name: of the run.
    """
    system, data, scorer = (info.part(name) for name in ("system", "data", "scorer"))
    return {
        "folder": folder_name,
        "system": info.system or system.get("name"),
        "data": data.get("name"),
        "split": info.config.get("split"),
        "prompts": _prompts(info),
        "scorer": _scorer(str(scorer.get("_target_") or "")),
    }


def format_title(summary: Mapping[str, Any]) -> str:
    """In one line; a summary that is older than these names has its id alone."""
    data, split, scorer = (summary.get(key) for key in ("data", "split", "scorer"))
    prompts = summary.get("prompts")
    parts = (
        summary.get("system"),
        summary.get("model"),
        f"{data}/{split}" if data and split else data,
        prompts and f"prompts {prompts}",
        f"scorer {scorer}" if scorer and scorer != _DEFAULT_SCORER else None,
        summary.get("folder") or summary["run_id"],
    )
    return " · ".join(shorten_line(str(part), MAX_NAME_CHARS) for part in parts if part)


def _prompts(info: RunInfo) -> str | None:
    """Those it used last; a tuning run's arms have others than their configuration."""
    return info.prompts_name or (Path(str(info.config["prompts"])).name if info.config.get("prompts") else None)


def _scorer(target: str) -> str | None:
    """The word on the command line: `gaia` for `eval.scorers.gaia.GaiaScorer`; of others the whole target."""
    if target.startswith(_OURS):
        return target.removeprefix(_OURS).partition(".")[0]
    return target or None
