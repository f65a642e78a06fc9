"""Settings of worker processes."""

import os

import pytest

from eval.config.executor import ProcessesSettings
from mas.runtime.errors import UserError


def test_without_a_number_there_is_one_worker_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ProcessesSettings(workers=3).n_workers == 3
    for cores, workers in ((7, 7), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert ProcessesSettings().n_workers == workers


@pytest.mark.parametrize("workers", [None, 1, 256])
def test_a_number_within_the_range_is_accepted(workers: int | None) -> None:
    ProcessesSettings(workers=workers).check({})


@pytest.mark.parametrize("workers", [0, -1, 257])
def test_another_number_is_refused(workers: int) -> None:
    with pytest.raises(UserError, match=f"executor.workers={workers} is out of range; expected 1 to 256"):
        ProcessesSettings(workers=workers).check({})


def test_what_only_memory_holds_is_refused_but_data() -> None:
    target = {"target": "in-memory:Answers-3f2a91c0"}
    ProcessesSettings().check({"data": target, "system": {"target": "package:Program"}})
    with pytest.raises(UserError, match=r"^system and scorer: an object of this Python program"):
        ProcessesSettings().check({"data": target, "system": target, "scorer": target})
