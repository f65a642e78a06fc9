"""Tests of the contracts of datasets."""

from eval.benchmarks.dataset import classify_attachment


def test_files_are_told_apart_by_kind() -> None:
    kinds = [classify_attachment(name) for name in (None, "a.CSV", "a.xlsx", "a.pdf", "a.xyz", "noend")]
    assert kinds == ["none", "table", "table", "text", "xyz", "other"]
