"""Labels of people on questions and answers; its modules are loaded where a run has a folder of labels."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from eval.cli.paths import OUTPUTS
from eval.runs.record import Record
from eval.runs.run_info import RunInfo

GOLD = "gold"  # folder of the labels, under outputs/


def find_gold_folder(run_folder: Path) -> Path:
    """Return the folder of labels for a run: next to the `eval/` that the run is in; of other runs outputs/gold."""
    return run_folder.parent.with_name(GOLD) if run_folder.parent.name == "eval" else OUTPUTS / GOLD


def attach_labels(records: Iterable[Record], info: RunInfo, gold: Path) -> Iterator[Record]:
    """Yield the records of a run with the labels on them, which change no score: `eval/rescore.py` applies them.

    Those of a run that was scored again keep what they have. `gold`: folder of the labels.
    """
    if info.rescored_from or not gold.is_dir():
        yield from records
        return
    from eval.analysis.human_review.labels import list_verdicts, read_labels

    book = read_labels(gold)
    for record in records:
        found = book.find(record, info.task.file_sha256.get(record.sample_id))
        record.human = list_verdicts(record, found, is_applied=False) or record.human
        yield record
