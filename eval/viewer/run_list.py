"""Rows of the start page: one a run."""

import time
from pathlib import Path

from eval.analysis.summary.summary import Summary, read_summary
from eval.reports.notes import format_floor, format_interval
from eval.runs.folder import DATABASE, is_in_use
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore, StoreError
from eval.viewer.catalogue import Catalogue

_MAX_RUNS = 500
Json = dict[str, object]


def list_rows(catalogue: Catalogue) -> list[Json]:
    """Return what the list shows of each run, the newest first; runs that cannot be read are named as such."""
    evaluations = [_describe(catalogue, each) for each in catalogue.list_evaluations()[:_MAX_RUNS]]
    tuning = [_describe_tuning(catalogue, each) for each in catalogue.list_tuning_runs()[:_MAX_RUNS]]
    return sorted([*evaluations, *tuning], key=lambda each: str(each["when"]), reverse=True)


def _describe(catalogue: Catalogue, folder: Path) -> Json:
    row: Json = {"id": folder.name, "name": folder.name, "kind": "evaluation", "state": "unreadable", "score": ""}
    row |= {"system": "", "model": "", "when": _read_time(folder), "links": catalogue.list_pages(folder)}
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            info = store.read_info()
        row |= {"system": info.system, "model": _name_model(info), "when": info.started_at[:16].replace("T", " ")}
        if is_in_use(folder / DATABASE):
            return row | {"state": "running", "score": "…"}
        summary = read_summary(folder / "summary.json")
    except FileNotFoundError:
        return row | {"state": "no summary"}
    except (StoreError, OSError, ValueError, TypeError, LookupError, AttributeError):  # a run from elsewhere
        return row
    return row | {"state": "stopped" if summary.incomplete else "finished", "score": _format_score(summary)}


def describe_parts(folder: Path) -> str:
    """Return in one line what a run was made of; empty if that cannot be read."""
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            info = store.read_info()
    except StoreError:
        return ""
    data, epochs = info.part("data").get("name"), f", {info.epochs} epochs" if info.epochs > 1 else ""
    parts = (("system", info.system), ("model", _name_model(info)), ("data", data), ("prompts", info.prompts_name))
    return " · ".join(f"{name} {value}" for name, value in parts if value) + epochs


def _name_model(info: RunInfo) -> str:
    return f"{info.model} (simulated)" if info.simulated else info.model


def _format_score(summary: Summary) -> str:
    interval = f" ({format_interval(summary.score_ci95)})" if summary.score_ci95 else ""
    return f"{summary.metric} {format_floor(summary.score, summary.incomplete)}{interval}, n = {summary.n_scored}"


def _describe_tuning(catalogue: Catalogue, folder: Path) -> Json:
    return {
        "id": folder.name,
        "name": folder.name,
        "kind": "tuning run",
        "state": "",
        "score": "",
        "system": "",
        "model": "",
        "when": _read_time(folder),
        "links": catalogue.list_pages(folder),
    }


def _read_time(folder: Path) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(folder.stat().st_mtime))
    except OSError:
        return ""
