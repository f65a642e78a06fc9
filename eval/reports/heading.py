"""What a run measured, for the head of its page: from its summary, and from the facts that its store keeps.

dict(about(store.meta(), summary))["questions"]      # "sample, split val: 25"
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from eval.cli.terminal_text import shorten_line
from eval.runs.folder import KEPT
from eval.runs.run_info import RESCORED_FROM

_DIGEST_CHARS = 12


def describe_run(meta: Mapping[str, str], summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and what is to be said; what an older run did not note is left out."""
    yield "run", f"{summary['folder']} (id {summary['run_id']})" if summary["folder"] else summary["run_id"]
    if summary["system"]:
        yield "system", summary["system"]
    if summary["model"]:
        yield "model", "; ".join([summary["model"], *_own_models(meta)])
    if summary["data"]:
        yield "questions", _questions(meta, summary)
    if summary["scorer"]:
        yield "scorer", summary["scorer"]
    if summary["prompts"]:
        digest = f" (sha256 {meta['prompts_sha256'][:_DIGEST_CHARS]})" if meta.get("prompts_sha256") else ""
        edited = ", edited since it was published" if json.loads(meta.get("prompts_edited", "[]")) else ""
        yield "prompts", f"{summary['prompts']}{digest}{edited}"
    yield from _course(meta, summary)


def _course(meta: Mapping[str, str], summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if source := meta.get(RESCORED_FROM):
        yield "answers", f"those of {source}, scored anew"
    if started_at := meta.get("started_at"):
        when = datetime.fromisoformat(started_at).strftime("%Y-%m-%d %H:%M UTC")
        yield "date", f"{when}; it took {format_duration(summary['wall_seconds'])}"
    origin = json.loads(meta.get("origin", "{}"))
    if commit := origin.get("mlflow.source.git.commit"):
        changed = ", with uncommitted changes" if origin.get("mlflow.source.git.dirty") == "true" else ""
        yield "harness", f"commit {commit[:_DIGEST_CHARS]}{changed}"
    if summary["command"]:
        yield "command", f"python eval/run.py {shlex.join(summary['command'])}"


def format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _questions(meta: Mapping[str, str], summary: Mapping[str, Any]) -> str:
    split = f", split {summary['split']}" if summary["split"] else ""
    revision = f", revision {meta['data_revision'][:_DIGEST_CHARS]}" if meta.get("data_revision") else ""
    times = f", {summary['epochs']} epochs" if summary["epochs"] > 1 else ""
    return f"{summary['data']}{split}{revision}: {summary['n_questions']:,}{times}"


def _own_models(meta: Mapping[str, str]) -> Iterator[str]:
    """Of agents that have another than the run's."""
    found = yaml.safe_load(meta.get("config", ""))
    system = found.get("system") if isinstance(found, dict) else None
    for agent, each in ((system or {}).get("agents") or {}).items():
        if isinstance(each, dict) and each.get("model"):
            yield f"{agent}: {each['model']}"


MAX_NAME_CHARS = 60
_DEFAULT_SCORER = "gaia"  # of conf/eval.yaml
_OURS = "eval.scorers."


def read_names(meta: Mapping[str, str], folder_name: str) -> dict[str, str | None]:
    """`folder`, `system`, `data`, `split`, `prompts`, `scorer`; null for what the run did not note.

    Args:
        meta: of the run's store.
        folder_name: of the run.
    """
    found = yaml.safe_load(meta.get("config", ""))
    config: Mapping[str, Any] = found if isinstance(found, dict) else {}
    system, data, scorer = (config.get(part) or {} for part in ("system", "data", "scorer"))
    return {
        "folder": folder_name,
        "system": meta.get("system") or system.get("name"),
        "data": data.get("name"),
        "split": config.get("split"),
        "prompts": _prompts(meta, config),
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


def _prompts(meta: Mapping[str, str], config: Mapping[str, Any]) -> str | None:
    """Those it used last; a tuning run's arms have others than their configuration."""
    if KEPT in meta:
        return str(list(json.loads(meta[KEPT]).values())[-1])
    return Path(str(config["prompts"])).name if config.get("prompts") else None


def _scorer(target: str) -> str | None:
    """The word on the command line: `gaia` for `eval.scorers.gaia.GaiaScorer`; of others the whole target."""
    if target.startswith(_OURS):
        return target.removeprefix(_OURS).partition(".")[0]
    return target or None
