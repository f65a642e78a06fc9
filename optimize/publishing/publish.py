"""Publication of prompt sets: completely or not at all, and never over another one.

A set is written to a hidden folder in the same place and then renamed, so that a kill leaves no incomplete set.
`provenance.yaml` has its origin and test results, without paths, users and secrets, so that it can be shared.
"""

import hashlib
import platform
import re
import shlex
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from eval.config.evaluation import remove_passwords
from eval.reports.formats import format_interval, format_points
from eval.runs.run_info import RunInfo
from eval.scorers.score import ACCURACY
from mas.prompt_sets.prompt_set import PromptSet, digest, read_set_folder, write_prompt_set
from mas.prompt_sets.provenance import PROVENANCE_FILE
from mas.prompt_sets.shelf import NameTakenError, check_name_is_free
from mas.runtime.errors import UserError
from mas.runtime.text import to_jsonable

_PACKAGES = ("mas-harness", "dspy", "gepa", "langgraph", "openai")
_SCORES = ("baseline", "winner", "metric", "gain", "gain_ci95", "p", "sealed")
_PATH = re.compile(r"(?<![\w:/\\.])(?:~|[A-Za-z]:)?[\\/](?:[^\s/\\'\"]+[\\/])+([^\s/\\'\"]*)")

Redact = Callable[[str], str]  # removes secrets from a text
Provenance = dict[str, Any]  # of provenance.yaml, without what is known when the set is written


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
    redact: Redact = str,
) -> Provenance:
    """Build the provenance of a candidate from the results of its run; scores only if it was the one that was tested.

    `leaks`: the candidate's `LeakReport.to_dict()`; None: it was not checked. `run`: name of the run's folder.
    """
    task = info.tuning
    assert task is not None, "of a tuning run"
    tested = (verdict.get("winner") or {}).get("candidate_id") == candidate_id
    hits = Counter(f"{hit['split']} {hit['kind']}" for hit in (leaks or {}).get("hits", ()))
    agents = info.part("system").get("agents") or {}
    own = {name: each["model"] for name, each in agents.items() if isinstance(each, Mapping) and each.get("model")}
    models = {"task": info.model, "agents": own, "reflection": task.reflection_model}
    versions = {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    if commit := info.origin.get("mlflow.source.git.commit"):
        versions["commit"] = commit + (" with changes" if info.origin.get("mlflow.source.git.dirty") == "true" else "")
    provenance: Provenance = {
        "system": parent.system,
        "gated": gated,  # False: exported by hand
        "simulated": info.simulated,
        "parent": {"name": info.prompts_name or parent.name, "digest": digest(parent)},
        "candidate_id": candidate_id,
        "run": run,
        "optimizer": task.optimizer,
        "seed": task.seed,
        "models": {name: value for name, value in models.items() if value},
        "splits": {"digest": task.split_digest, "sealed_digest": task.sealed_digest},
        "scores": {name: verdict[name] for name in _SCORES if tested and name in verdict},
        "gate": {"settings": info.config.get("gate") or {}, "verdict": verdict.get("gate") or {} if tested else {}},
        "leaks": leaks
        and {"blocked": leaks["blocked"], "hits": dict(sorted(hits.items())), "checked": leaks["checked"]},
        "spend": verdict.get("spend"),
        "versions": versions,
        "finish_reason": verdict.get("finish_reason"),
        "labels": list(labels),  # so that the prompts may name them
    }
    return _remove_paths(provenance, redact)  # type: ignore[no-any-return]


def _remove_paths(value: Any, redact: Redact) -> Any:
    """Remove secrets, and all but the last part of paths."""
    if isinstance(value, str):
        return _PATH.sub(r"\1", redact(remove_passwords(value)))
    if isinstance(value, Mapping):
        return {str(key): _remove_paths(item, redact) for key, item in value.items()}
    return [_remove_paths(item, redact) for item in value] if isinstance(value, list | tuple) else value


def build_headline(provenance: Mapping[str, Any]) -> str:
    """Return one line about a set from the content of its provenance.yaml: its description in set.yaml."""
    scores, gain = provenance.get("scores") or {}, "not tested on sealed questions"
    if scores.get("gain") is not None:
        metric, bounds = scores.get("metric") or ACCURACY, scores.get("gain_ci95")
        name = "gain" if metric == ACCURACY else f"gain in {metric}"
        interval = f" (95% interval {format_interval((bounds[0], bounds[1]), format_points)})" if bounds else ""
        gain = f"{name} {format_points(scores['gain'])} points on sealed questions{interval}"
    parent = (provenance.get("parent") or {}).get("name", "an unnamed set")
    by = f" by {provenance['optimizer']}" if provenance.get("optimizer") else ""
    parts = [f"tuned from {parent}{by}", gain, "passed the gate" if provenance.get("gated") else "UNGATED"]
    if provenance.get("simulated"):
        parts.append("SIMULATED model")
    return ", ".join(parts)


def describe_published(place: str, splits: Mapping[str, Any]) -> str:
    """Return the line that reports a set published as `place`, and its use; `splits` is the content of splits.json."""
    use = f"prompts={shlex.quote(place.rpartition('/')[2])}"
    if option := splits.get("sealed_option"):
        return f"published: {place} (use it: {use} {option})"
    return f"published: {place} (use it: {use}; evaluations also report the score on questions not tuned on)"


def publish(prompts: PromptSet, folder: Path, provenance: Provenance) -> PromptSet:
    """Write the set as `folder`, whose name becomes the set's. A resumed run leaves its own set as it is.

    Returns the set as `read_prompt_set` will read it. NameTakenError: something else has that name. UserError: the
    folder cannot be written; nothing is left behind then.
    """
    if (folder / PROVENANCE_FILE).is_file():
        with suppress(UserError):  # it cannot be read
            there = read_set_folder(folder)
            same = all(there.provenance.get(name) == provenance[name] for name in ("run", "candidate_id", "gated"))
            if same and not there.edited and digest(there) == digest(prompts):
                return there
    check_name_is_free(folder.name, folder.parent)
    described = replace(prompts, description=build_headline(provenance))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as hidden:
            made = Path(hidden) / folder.name
            content = _write(described, made, provenance)
            mode = stat.S_IMODE(folder.parent.stat().st_mode)  # unlike a run it is a source file, for all who read it
            made.chmod(mode)
            for path in made.iterdir():
                path.chmod(mode & 0o666)
            _move(made, folder)
    except OSError as error:
        cause = (error.strerror or type(error).__name__).lower()
        raise UserError(f"{folder} cannot be written ({cause}); check the folder and the disk.") from error
    return replace(described, name=folder.name, folder=folder, provenance=content, edited=())


def _write(prompts: PromptSet, folder: Path, provenance: Provenance) -> dict[str, Any]:
    """Write a set and its provenance, and return the content of provenance.yaml."""
    prompts = write_prompt_set(folder, prompts)
    checksums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    head = {"set": prompts.name, "date": datetime.now(UTC).isoformat(timespec="seconds"), "digest": digest(prompts)}
    content: dict[str, Any] = to_jsonable({**head, **provenance, "checksums": checksums})
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    (folder / PROVENANCE_FILE).write_text(text, encoding="utf-8", newline="\n")
    return content


def _move(made: Path, folder: Path) -> None:
    if folder.exists():  # created meanwhile; an empty folder would be replaced silently
        raise NameTakenError(folder)
    made.rename(folder)
