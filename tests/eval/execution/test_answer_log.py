import sys
from pathlib import Path

import pytest

from eval.execution import answer_log
from eval.execution.answer_log import measure_memory_mb, measure_peak_memory_mb


def read_kilobytes(name: str) -> int:
    """A line of this process's status, as the kernel has it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's own numbers are read from /proc")
def test_memory_is_what_the_kernel_counts_in_megabytes() -> None:
    peak, now = measure_peak_memory_mb(), measure_memory_mb()
    assert peak == pytest.approx(read_kilobytes("VmHWM") / 1024, rel=0.02)
    assert now == pytest.approx(read_kilobytes("VmRSS") / 1024, rel=0.02)
    assert (round(peak, 1), round(now, 1)) == (peak, now)


def test_where_the_system_does_not_say_what_is_used_now_the_peak_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_log, "_STATM", tmp_path / "nothing")
    assert measure_memory_mb() == pytest.approx(measure_peak_memory_mb(), rel=0.01)
