"""What a process uses, read from /proc; on a system without it nothing is known and nothing is found too much.

usage(os.getpid())     # Usage(resident_bytes=30_000_000, threads=1)
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    resident_bytes: int = 0
    threads: int = 0


def usage(pid: int) -> Usage:
    """All zero for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (OSError, ValueError):
        return Usage()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return Usage(int(found.get("VmRSS", "0").split()[0]) * 1024, int(found.get("Threads", "0")))
