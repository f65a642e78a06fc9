"""How often a set of sealed questions has been looked at: each look makes the next result a little less honest.

MLflow sees what a machine's own log cannot: the tuning runs of everybody who works with the same server.

    count_openings(parent, "5d1c…", besides=parent.run_id)          # 3
"""

from eval.tracking.sending import TrackedRun

DIGEST_TAG, OPENED_TAG = "sealed_digest", "sealed_opened"


def count_openings(run: TrackedRun, sealed_digest: str, until_ms: int | None = None, besides: str = "") -> int:
    """The tuning runs of `run`'s experiment that have opened these sealed questions.

    Args:
        run: a tuning run in MLflow, or any other of the experiment.
        sealed_digest: of `splits.json`.
        until_ms: only runs that had begun by then (since 1970); None: all.
        besides: MLflow's id of a run that is not counted.
    """
    wanted = f"tags.`{DIGEST_TAG}` = '{sealed_digest}' and tags.`{OPENED_TAG}` = 'true'"
    if until_ms is not None:
        wanted += f" and attributes.start_time <= {until_ms}"
    found, token = 0, None
    while True:
        page = run.client.search_runs([run.experiment_id], wanted, page_token=token)
        found += sum(str(each.info.run_id) != besides for each in page)
        if not (token := page.token):
            return found
