"""How often a set of sealed questions has been looked at: each look makes the next result a little less honest.

MLflow sees what a machine's own log cannot: the tuning runs of everybody who works with the same server.

    count_openings(client, ["1", "2"], "5d1c…", besides=parent.run_id)          # 3
"""

from collections.abc import Sequence
from typing import Any

DIGEST_TAG, OPENED_TAG = "sealed_digest", "sealed_opened"
OPENED_AT_TAG = "sealed_opened_ms"  # since 1970


def count_openings(
    client: Any, experiment_ids: Sequence[str], sealed_digest: str, until_ms: int | None = None, besides: str = ""
) -> int:
    """The tuning runs of these experiments that have opened these sealed questions.

    Args:
        client: MLflow's.
        experiment_ids: MLflow's.
        sealed_digest: of `splits.json`.
        until_ms: only runs that had opened them by then (since 1970); None: all.
        besides: MLflow's id of a run that is not counted.
    """
    wanted = f"tags.`{DIGEST_TAG}` = '{sealed_digest}' and tags.`{OPENED_TAG}` = 'true'"
    found, token = 0, None
    while True:
        page = client.search_runs(list(experiment_ids), wanted, page_token=token)
        others = (each for each in page if str(each.info.run_id) != besides)
        found += sum(until_ms is None or _opened_ms(each) <= until_ms for each in others)
        if not (token := page.token):
            return found


def _opened_ms(run: Any) -> int:
    """Of a run that was sent before it was noted: when it began. MLflow compares no tags by size."""
    return int(run.data.tags.get(OPENED_AT_TAG) or run.info.start_time)
