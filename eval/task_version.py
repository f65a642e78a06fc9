"""Which task a run was given: one digest over its questions, in any order, and over the rule that scored them.

Two runs with the same version answered the same questions, of the same texts, gold answers and files, and were scored
by the same rule, whatever revision of the dataset or order of the questions they name.

    facts = task_facts(examples, scorer={"_target_": "eval.scorers.gaia.GaiaScorer"}, revision="2025-04")
    facts["task_version"]         # "5d41402abc4b2a76…"
    facts["file_sha256"]          # '{"q7": "9f86d081…"}': for each question with an attachment
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from eval.benchmarks.example import Example
from eval.dataset_digest import file_digest
from eval.run_folder.planned import PlannedQuestion

FILES = "file_sha256"  # in a store's meta: JSON, question's id → SHA-256 of its attachment


def task_facts(examples: Iterable[Example], scorer: Any, revision: str | None) -> dict[str, str]:
    """What a run's store keeps of its task.

    Args:
        examples: all that are to be answered.
        scorer: its configuration, as the run's own has it.
        revision: of the dataset, as its publisher calls it.

    Raises:
        OSError: an attachment cannot be read.
    """
    kept = list(examples)
    files = {each.id: digest for each in kept if (digest := file_digest(each)) is not None}
    questions = questions_sha256(map(PlannedQuestion.of, kept), files)
    assert questions is not None  # every attachment has just been read
    return {
        "task_version": task_version(questions, scorer),
        "data_revision": revision or "",
        FILES: json.dumps(files),
    }


def questions_sha256(questions: Iterable[PlannedQuestion], files: Mapping[str, str]) -> str | None:
    """Over id, text, gold answer and file of each; None: a file's digest is not known (a run of an older version)."""
    lines = []
    for each in questions:
        if each.file is not None and each.id not in files:
            return None
        lines.append(json.dumps([each.id, each.question, each.target, files.get(each.id)]))  # escapes lone surrogates
    return hashlib.sha256("\n".join(sorted(lines)).encode("ascii")).hexdigest()


def task_version(questions: str, scorer: Any) -> str:
    """`questions`: what `questions_sha256` gave."""
    return hashlib.sha256(json.dumps([questions, scorer], sort_keys=True, default=str).encode("ascii")).hexdigest()
