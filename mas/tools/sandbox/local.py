"""No isolation: a child process with limits, which can read the home folder, connect and start programs.

For trusted code on a machine without bubblewrap and Deno; only used when it is requested by name.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mas.tools.sandbox.bubblewrap import ENVIRONMENT, build_worker_settings
from mas.tools.sandbox.process import Launch, ProcessSession
from mas.tools.sandbox.session import Session
from mas.tools.sandbox.settings import UNSAFE_LOCAL, SandboxSettings

WARNING = (
    "tools.sandbox.kind=unsafe_local: Python code that a model writes runs as you, with your files and your network; "
    "nothing shuts it in."
)


class UnsafeLocal:
    """Child process without isolation."""

    name = UNSAFE_LOCAL

    def probe(self) -> str:
        return "a plain process without isolation, as asked for"

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> Session:
        folder = Path(tempfile.mkdtemp(prefix="mas-python-"))
        for name, path in files.items():
            shutil.copyfile(path, folder / name)
        packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
        worker = str(Path(__file__).parent / "worker.py")
        own = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.defpath, "LD_LIBRARY_PATH": ""}
        launch = Launch(
            command=[
                sys.executable,
                "-s",
                "-S",
                "-B",
                "-P",
                worker,
                json.dumps(build_worker_settings(settings, packages)),
            ],
            env={**ENVIRONMENT, **own},
            max_message_bytes=20 * settings.max_output_chars + 100_000,
            max_resident_bytes=settings.memory_mb << 20,
            cwd=str(folder),
            on_end=[lambda: shutil.rmtree(folder, ignore_errors=True)],
        )
        session = ProcessSession(launch)
        await session.wait_until_ready()
        return session
