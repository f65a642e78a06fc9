"""Origin and test results of a prompt set: `provenance.yaml`.

    provenance = build_provenance(info, verdict, leaks, parent=parent, candidate_id="c004", gated=True)
    provenance["scores"]["gain_ci95"]          # [0.021, 0.143]
    build_headline(published)                  # "tuned from baseline: gain +8.2 points (95% +2.1 to +14.3), …"

It contains no paths, no users and no secrets, so that a set can be shared.
"""

import platform
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any

from eval.config.tracking import remove_passwords
from eval.reports.formats import format_points
from eval.runs.run_info import RunInfo
from eval.scorers.score import ACCURACY
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.text import to_jsonable
from optimize.gate.words import describe_labels

_PACKAGES = ("dspy", "gepa", "langgraph", "openai")
_SCORES = ("baseline", "winner", "metric", "gain", "gain_ci95", "gain_shrunken", "p", "sealed")
_PATH = re.compile(r"(?<![\w:/\\.])(?:~|[A-Za-z]:)?[\\/](?:[^\s/\\'\"]+[\\/])+([^\s/\\'\"]*)")
_COMMIT, _DIRTY = "mlflow.source.git.commit", "mlflow.source.git.dirty"

Redact = Callable[[str], str]
Provenance = dict[str, Any]  # of provenance.yaml, without what `format_provenance` adds


def build_provenance(
    info: RunInfo,
    verdict: Mapping[str, Any],
    leaks: Mapping[str, Any] | None,
    *,
    run: str,
    parent: PromptSet,
    candidate_id: str,
    gated: bool,
    labels: Sequence[str] = (),
    spend: Mapping[str, float] = MappingProxyType({}),
    redact: Redact = str,
) -> Provenance:
    """Build the provenance of a candidate from the files of its run.

    Args:
        info: of the run.
        verdict: of the run; empty: there is none.
        leaks: the candidate's `LeakReport.to_dict()`; None: it was not checked.
        run: name of the run's folder.
        parent: the set that the search started from.
        candidate_id: scores are left out if another candidate was tested.
        gated: it passed the gate.
        labels: known to the search.
        spend: of the run, if it has no verdict.
        redact: removes secrets from a text.
    """
    task = info.tuning
    assert task is not None, "of a tuning run"
    tested = (verdict.get("winner") or {}).get("candidate_id") == candidate_id
    judged = {name: value for name, value in (verdict.get("gate") or {}).items() if name != "settings"}
    provenance: Provenance = {
        "system": parent.system,
        "gated": gated,  # False: exported by hand, or rejected
        "simulated": info.simulated,
        "parent": {"name": info.prompts_name or parent.name, "digest": digest(parent)},
        "candidate_id": candidate_id,
        "run": run,
        "optimizer": task.optimizer,
        "seed": task.seed,
        "models": _models(info),
        "splits": {"digest": task.split_digest, "sealed_digest": task.sealed_digest},
        "scores": {name: verdict[name] for name in _SCORES if tested and name in verdict},
        "gate": {"settings": info.config.get("gate") or {}, "verdict": judged if tested else {}},
        "leaks": None if leaks is None else count_leaks(leaks),
        "spend": dict(verdict.get("spend") or spend),
        "versions": collect_versions(info.origin),
        "finish_reason": verdict.get("finish_reason"),
        "labels": list(labels),  # so that the prompts may name them
    }
    portable: Provenance = _portable(provenance, redact)
    return portable


def count_leaks(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of a leak report."""
    hits = Counter(f"{hit['status']} {hit['split']} {hit['kind']}" for hit in report["hits"])
    return {"blocked": report["blocked"], "hits": dict(sorted(hits.items())), "checked": dict(report["checked"])}


def collect_versions(origin: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the software that made the set.

    Args:
        origin: of the run's code, as `run_info.json` has it; only the commit is used.
    """
    found = {"python": platform.python_version(), "mas-harness": _version("mas-harness")}
    found |= {name: _version(name) for name in _PACKAGES}
    if commit := origin.get(_COMMIT):
        found["commit"] = commit + (" with changes" if origin.get(_DIRTY) == "true" else "")
    return {name: value for name, value in found.items() if value}


def format_provenance(provenance: Provenance, prompts: PromptSet, checksums: Mapping[str, str]) -> dict[str, object]:
    """Return the content of provenance.yaml for a set that is written now."""
    head = {"set": prompts.name, "date": datetime.now(UTC).isoformat(timespec="seconds"), "digest": digest(prompts)}
    content: dict[str, object] = to_jsonable({**head, **provenance, "checksums": dict(checksums)})
    return content


def describe_provenance(provenance: Provenance) -> str:
    """Return the description for set.yaml."""
    optimizer, scores, reason = (provenance[name] for name in ("optimizer", "scores", "finish_reason"))
    source = f"Tuned from {provenance['parent']['name']} by {optimizer}" if optimizer else "Tuned"
    state = "" if provenance["gated"] else "UNGATED, not tested on sealed questions as it stands: "
    if state and scores and reason not in (None, "improved"):
        state = f"UNGATED ({reason}): "
    note = " With a simulated model: the numbers say nothing about a real one." if provenance["simulated"] else ""
    gain = f"; {describe_gain(scores)}" if scores.get("gain") is not None else ""
    labels = f" {describe_labels(provenance['labels'])}." if provenance["labels"] else ""
    return f"{state}{source}{gain}.{labels}{note}"


def build_headline(provenance: Mapping[str, Any]) -> str:
    """Return one line about a set from the content of its provenance.yaml."""
    scores = provenance.get("scores") or {}
    parts = [f"tuned from {(provenance.get('parent') or {}).get('name', 'an unnamed set')}"]
    if optimizer := provenance.get("optimizer"):
        parts[0] += f" by {optimizer}"
    parts.append(describe_gain(scores) if scores.get("gain") is not None else "not tested on sealed questions")
    parts.append("passed the gate" if provenance.get("gated") else "UNGATED")
    if provenance.get("simulated"):
        parts.append("SIMULATED model")
    return ", ".join(parts)


def describe_gain(scores: Mapping[str, Any]) -> str:
    """Return `gain +8.2 points on sealed questions (95% interval +2.1 to +14.3), p = 0.012`.

    A metric that is not the accuracy is named.
    """
    metric = scores.get("metric") or ACCURACY
    name = "gain" if metric == ACCURACY else f"gain in {metric}"
    line = f"{name} {format_points(scores['gain'])} points on sealed questions"
    sealed = scores.get("sealed") or {}
    if known := sealed.get("known_to_parent"):
        line += f", {known} of which its parent was tuned on"
    if bounds := scores.get("gain_ci95"):
        line += f" (95% interval {format_points(bounds[0])} to {format_points(bounds[1])})"
    if (p := scores.get("p")) is not None:
        line += f", p = {p:.3g}"
    if sealed.get("look", 1) < sealed.get("looks", 1):
        line += f", stopped at look {sealed['look']} of {sealed['looks']}"
    shrunken = scores.get("gain_shrunken")
    return line if shrunken is None else f"{line}, estimated true gain {format_points(shrunken)}"


def _models(info: RunInfo) -> dict[str, Any]:
    agents = ((info.config.get("system") or {}).get("agents")) or {}
    own = {name: each["model"] for name, each in agents.items() if isinstance(each, Mapping) and each.get("model")}
    found = {"task": info.model, "agents": own, "reflection": info.tuning and info.tuning.reflection_model}
    return {name: value for name, value in found.items() if value}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _portable(value: Any, redact: Redact) -> Any:
    """Remove secrets, and all but the last part of paths."""
    if isinstance(value, str):
        return _PATH.sub(r"\1", redact(remove_passwords(value)))
    if isinstance(value, Mapping):
        return {str(key): _portable(item, redact) for key, item in value.items()}
    return [_portable(item, redact) for item in value] if isinstance(value, list | tuple) else value
