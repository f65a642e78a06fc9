"""The page of a tuning run in MLflow, the parent of its proposals: params, tags, metrics, description and files.

write_page(parent, build_tuning_page(tuning, openings=1))
write_files(parent, tuning, openings=1)
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from eval.mlflow_export.run_page import MAX_PARAM_CHARS, MAX_TAG_CHARS, RunPage, flatten_params
from eval.mlflow_export.tracked_run import HOST_TAG, PID_TAG, TrackedRun, search_runs
from eval.mlflow_export.values import clean_text, truncate
from eval.runs.folder import REPORT
from eval.runs.run_info import RunInfo, dump_config
from eval.scorers.score import ACCURACY
from optimize.mlflow_export.report import build_report, describe_tuning
from optimize.reports.snapshot import CONFIG, SOURCES, HeadroomLine, TuningSnapshot
from optimize.search.candidate import PARENT

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

TUNING_TAG, KIND_TAG, KIND = "harness.tuning_id", "harness.kind", "tuning"
DIGEST_TAG, OPENED_TAG = "sealed_digest", "sealed_opened"
OPENED_AT_TAG = "sealed_opened_ms"  # since 1970
NOTE_TAG = "mlflow.note.content"  # the description on the run's page
FILES_TAG = "harness.files"  # of each file that was sent, the beginning of its SHA-256
_MAX_NOTE_CHARS = 5000  # MLflow itself takes 8000
_PARAMS = ("name", "system", "model", "reflection_model", "optimizer", "seed")  # fields of TuningInfo
_MAX_FILE_CHARS = 20_000_000


def build_tuning_page(tuning: TuningSnapshot, openings: int) -> RunPage:
    """Build the page; `openings` is the number of earlier runs in this MLflow that used its sealed questions."""
    own = {name: value for name in _PARAMS if (value := getattr(tuning.info, name)) not in ("", None)}
    params = {
        **dict(flatten_params(RunInfo(config=tuning.info.config))),
        **{name: _text(value) for name, value in own.items()},
    }
    return RunPage(
        params={name: truncate(text, MAX_PARAM_CHARS) for name, text in params.items()},
        tags={name: truncate(text, MAX_TAG_CHARS) for name, text in _tags(tuning, openings).items()},
        metrics=_metrics(tuning),
    )


def write_files(parent: TrackedRun, tuning: TuningSnapshot, openings: int) -> None:
    """Send the run's files that MLflow does not have as they are now."""
    files = {name: _file(tuning, name) for name in SOURCES if (tuning.folder / name).is_file()}
    if tuning.info.config:
        files[CONFIG] = dump_config(tuning.info.config)
    files.setdefault("report.md", build_report(tuning, openings))
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in sorted(files.items())}
    there = parent.client.get_run(parent.run_id).data.tags.get(FILES_TAG)
    sent = json.loads(there) if there else {}
    if sent == digests:
        return
    for name, digest in digests.items():
        if sent.get(name) != digest:
            parent.client.log_text(parent.run_id, files[name], name)
    parent.client.set_tag(parent.run_id, FILES_TAG, json.dumps(digests))


def _file(tuning: TuningSnapshot, name: str) -> str:
    text = tuning.redact((tuning.folder / name).read_text("utf-8", errors="replace"))
    if name == REPORT:  # it loads nothing; scripts that were changed would not run
        return text
    return clean_text(text, _MAX_FILE_CHARS)


def _tags(tuning: TuningSnapshot, openings: int) -> dict[str, str]:
    info, verdict = tuning.info, tuning.verdict
    found = {**_origin(info.origin), KIND_TAG: KIND, TUNING_TAG: tuning.run_id}
    found |= {
        "phase": info.state.phase,
        "split_digest": info.split_digest,
        "system": info.system,
        "model": info.model,
        "simulated": _text(tuning.simulated),
        "run_folder": tuning.folder.name,
        DIGEST_TAG: info.sealed_digest,
        OPENED_TAG: _text(tuning.sealed_opened),
        OPENED_AT_TAG: str(tuning.opened_ms or ""),
        NOTE_TAG: truncate(describe_tuning(tuning, openings), _MAX_NOTE_CHARS),
    }
    if headroom := tuning.read_part("headroom", HeadroomLine()):
        found["headroom"] = "worth it" if headroom["worth_it"] else "not here"
    if verdict:
        found |= {"published": _text(tuning.published), "finish_reason": str(verdict.get("finish_reason") or "")}
        found["winner"] = str((verdict.get("winner") or {}).get("candidate_id") or "")
    return {name: text for name, text in found.items() if text}


def _origin(origin: Mapping[str, object]) -> dict[str, str]:
    """Return the tags of user, machine and state of the code, without the process, which may be another one by now."""
    own = {
        name: _text(value) for name, value in origin.items() if value is not None and name not in (HOST_TAG, PID_TAG)
    }
    return {name if name.startswith(("mlflow.", "harness.")) else f"origin.{name}": own[name] for name in own}


def _metrics(tuning: TuningSnapshot) -> dict[str, float]:
    verdict = tuning.verdict
    found = select_finite(
        {name: verdict.get(name) for name in ("gain", "gain_shrunken", "null_gain", "p")}
    ) | build_interval_metrics("gain_ci95", verdict.get("gain_ci95"))
    for arm in ("baseline", "winner"):
        scores = verdict.get(arm) or {}
        found |= select_finite({f"{arm}_accuracy": scores.get("accuracy")})
        found |= build_interval_metrics(f"{arm}_accuracy_ci95", scores.get("ci95"))
        if (metric := verdict.get("metric", ACCURACY)) != ACCURACY:
            name = f"{arm}_{metric.replace(' ', '_')}"
            found |= select_finite({name: scores.get("score")})
            found |= build_interval_metrics(f"{name}_ci95", scores.get("score_ci95"))
    fresh = tuning.shortlist.get(PARENT) or {}
    found |= select_finite({f"baseline_{name}": fresh.get(name) for name in ("val_score", "fresh_score")})
    found |= {
        name: value for part in ("sealed", "cost") for name, value in flatten_metrics(part, verdict.get(part)).items()
    }
    found |= flatten_metrics("spend", verdict.get("spend") or tuning.info.state.spend)
    found |= select_finite({"sealed_opened_before": tuning.info.state.sealed_opened_before})
    if headroom := tuning.read_part("headroom", HeadroomLine()):
        gains = [each["gain"] for each in headroom["rewrites"]]
        found |= select_finite({"headroom.gain": max(gains, default=None), "headroom.answers": headroom["n_answers"]})
    decisions = Counter(each.decision for each in tuning.proposals)
    found |= {f"proposals.{name}": float(decisions[name]) for name in ("accepted", "rejected", "cut_off")}
    scores_seen = select_finite({each.candidate_id: each.val_score for each in tuning.proposals})
    return found | ({"best_val_score": max(scores_seen.values())} if scores_seen else {})


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def count_openings(
    client: "MlflowClient",
    experiment_ids: Sequence[str],
    sealed_digest: str,
    until_ms: int | None = None,
    besides: str = "",
) -> int:
    """Count the tuning runs in some experiments that have used the sealed questions with this digest.

    Each use makes the next result less reliable. MLflow sees what a machine's own log cannot: the tuning runs of
    everybody who works with the same server.

    Args:
        client: MLflow's.
        experiment_ids: MLflow's.
        sealed_digest: of `splits.json`.
        until_ms: only runs that had used them by then (since 1970); None: all.
        besides: MLflow's id of a run that is not counted.
    """
    wanted = f"tags.`{DIGEST_TAG}` = '{sealed_digest}' and tags.`{OPENED_TAG}` = 'true'"
    others = (each for each in search_runs(client, experiment_ids, wanted) if str(each.info.run_id) != besides)
    return sum(until_ms is None or _read_opened_ms(each) <= until_ms for each in others)


def _read_opened_ms(run: "Run") -> int:
    """Return when the run used them; its start, if that was not noted."""
    return int(run.data.tags.get(OPENED_AT_TAG) or run.info.start_time)


def select_finite(values: Mapping[str, object]) -> dict[str, float]:
    """Return the values that are finite numbers; MLflow has no null."""
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def flatten_metrics(name: str, tree: object) -> dict[str, float]:
    """Return the numbers of nested objects under dotted names.

    flatten_metrics("spend", {"lm_calls": 12, "cost_usd": None})     # {"spend.lm_calls": 12.0}
    """
    return select_finite(dict(_leaves(name, tree)))


def build_interval_metrics(name: str, bounds: Sequence[float] | None) -> dict[str, float]:
    return select_finite(dict(zip((f"{name}_low", f"{name}_high"), bounds or (), strict=False)))


def _leaves(name: str, tree: object) -> Iterator[tuple[str, object]]:
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _leaves(f"{name}.{key}", value)
    else:
        yield name, tree
