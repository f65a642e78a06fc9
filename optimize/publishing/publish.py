"""Publication of prompt sets: completely or not at all, and never over another one.

    shelf = PROJECT_ROOT / "prompts"
    check_name_is_free("tuned", shelf)                          # before anything is spent
    publish(candidate.prompts, shelf / "tuned", provenance)     # texts, demos, set.yaml, tuned_on.json, provenance.yaml
    reject(candidate.prompts, run_folder, "c004", provenance)   # the same, in the run's rejected/c004

A set is written to a hidden folder in the same place and then renamed, so that a kill leaves no incomplete set.

`provenance.yaml` has the origin and the test results of a set, without paths, users and secrets, so that it can be
shared:

    provenance = build_provenance(info, verdict, leaks, parent=parent, candidate_id="c004", gated=True)
    build_headline(provenance)        # "tuned from baseline: gain +8.2 points (95% +2.1 to +14.3), …"
"""

import hashlib
import platform
import re
import shlex
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from eval.config.tracking import remove_passwords
from eval.reports.formats import format_points
from eval.runs.run_info import RunInfo
from eval.scorers.score import ACCURACY
from mas.prompt_sets.prompt_set import (
    NameTakenError,
    PromptSet,
    check_name_is_free,
    digest,
    read_set_folder,
    write_prompt_set,
)
from mas.prompt_sets.provenance import PROVENANCE_FILE
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import flush_to_disk
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


def build_headline(provenance: Mapping[str, Any]) -> str:
    """Return one line about a set from the content of its provenance.yaml: its description in set.yaml."""
    scores = provenance.get("scores") or {}
    parts = [f"tuned from {(provenance.get('parent') or {}).get('name', 'an unnamed set')}"]
    if optimizer := provenance.get("optimizer"):
        parts[0] += f" by {optimizer}"
    parts.append(describe_gain(scores) if scores.get("gain") is not None else "not tested on sealed questions")
    reason = provenance.get("finish_reason") if scores else None
    ungated = f"UNGATED ({reason})" if reason not in (None, "improved") else "UNGATED"
    parts.append("passed the gate" if provenance.get("gated") else ungated)
    if provenance.get("simulated"):
        parts.append("SIMULATED model")
    labels = provenance.get("labels")
    return f"{', '.join(parts)}{f'; {describe_labels(labels)}' if labels else ''}"


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


REJECTED = "rejected"


def describe_published(place: str, splits: Mapping[str, Any]) -> str:
    """Return the line that reports a published set and its use.

    Args:
        place: of the set, such as prompts/tuned.
        splits: content of splits.json.
    """
    use = f"prompts={shlex.quote(place.rpartition('/')[2])}"
    if option := splits.get("sealed_option"):
        return f"published: {place} (use it: {use} {option})"
    return f"published: {place} (use it: {use}; evaluations also report the score on questions not tuned on)"


def publish(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet:
    """Write the set as `folder`, whose name becomes the set's. A resumed run leaves its own set as it is.

    Returns:
        The set as `read_prompt_set` will read it.

    Raises:
        NameTakenError: something else has that name.
        UserError: the folder cannot be written; nothing is left behind then.
    """
    if (mine := _find_published(prompts, folder, provenance)) is not None:
        return mine
    check_name_is_free(folder.name, folder.parent)
    return _write_atomically(prompts, folder, provenance)


def reject(prompts: PromptSet, run_folder: Path, candidate_id: str, provenance: Provenance) -> PromptSet:
    """Write a set that was tested and not published to the run's folder, replacing one of an earlier session.

    Raises:
        UserError: it cannot be written.
    """
    folder = run_folder / REJECTED / candidate_id
    shutil.rmtree(folder, ignore_errors=True)
    return _write_atomically(prompts, folder, provenance)


def _find_published(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet | None:
    """Return the set in the folder if it is this one."""
    if not (folder / PROVENANCE_FILE).is_file():
        return None
    try:
        there = read_set_folder(folder)
    except UserError:  # it cannot be read
        return None
    same_source = all(there.provenance.get(name) == provenance[name] for name in ("run", "candidate_id", "gated"))
    return there if same_source and not there.edited and digest(there) == digest(prompts) else None


def _write_atomically(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as hidden:
            made = Path(hidden) / folder.name
            _write(replace(prompts, description=build_headline(provenance)), made, provenance)
            _share(made, folder.parent)
            _move(made, folder)
        flush_to_disk(folder.parent)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({_cause(error)}); check the folder and the disk.") from error
    written = yaml.safe_load((folder / PROVENANCE_FILE).read_text("utf-8"))
    return replace(
        prompts,
        name=folder.name,
        folder=folder,
        description=build_headline(provenance),
        provenance=written,
        edited=(),
    )


def _write(prompts: PromptSet, folder: Path, provenance: Provenance) -> None:
    prompts = write_prompt_set(folder, prompts)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    checksums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    text = yaml.safe_dump(
        format_provenance(provenance, prompts, checksums), sort_keys=False, allow_unicode=True, width=120
    )
    (folder / PROVENANCE_FILE).write_text(text, encoding="utf-8", newline="\n")
    for path in (*files, folder / PROVENANCE_FILE, folder):
        flush_to_disk(path)


def _share(made: Path, shelf: Path) -> None:
    """Let whoever may read the shelf read the set: unlike a run it is a source file."""
    mode = stat.S_IMODE(shelf.stat().st_mode)
    made.chmod(mode)
    for path in made.iterdir():
        path.chmod(mode & 0o666)


def _move(made: Path, folder: Path) -> None:
    if folder.exists():  # created meanwhile; an empty folder would be replaced silently
        raise NameTakenError(folder)
    made.rename(folder)


def _cause(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
