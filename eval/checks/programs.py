"""Programs beside Python that tools may use. None of the present tools needs one, so nothing here is `missing`."""

import shutil
import subprocess
import sys

from eval.checks.finding import OK, WARNING, Finding

TIMEOUT_SECONDS = 5.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SHUT_IN = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
NO_TOOL_YET = "no tool uses it yet"


def isolation() -> Finding:
    """Whether Python code can be shut in: bubblewrap is run, since kernels and containers may forbid what it needs."""
    if bwrap := shutil.which("bwrap"):
        failure = _failure([bwrap, *SHUT_IN, sys.executable, "-I", "-S", "-c", "print(6 * 7)"], "42")
        if failure is None:
            return Finding("isolation", OK, f"bubblewrap runs ({NO_TOOL_YET})")
        what = f"bubblewrap is there but cannot isolate here ({failure}; {NO_TOOL_YET})"
        return Finding("isolation", WARNING, what, "allow user namespaces on this machine or container")
    if deno := shutil.which("deno"):
        failure = _failure([deno, "--version"], "deno")
        state, what = (OK, "Deno runs") if failure is None else (WARNING, f"Deno does not run: {failure}")
        return Finding("isolation", state, f"{what} ({NO_TOOL_YET})")
    return Finding("isolation", WARNING, f"neither bubblewrap nor Deno ({NO_TOOL_YET})", "apt-get install bubblewrap")


def browser() -> Finding:
    if found := next(filter(None, map(shutil.which, BROWSERS)), None):
        return Finding("browser", OK, f"{found} ({NO_TOOL_YET})")
    return Finding("browser", WARNING, f"no Chromium or Chrome ({NO_TOOL_YET})", "apt-get install chromium")


def ocr() -> Finding:
    if found := shutil.which("tesseract"):
        return Finding("ocr", OK, f"{found} ({NO_TOOL_YET})")
    return Finding("ocr", WARNING, f"no tesseract ({NO_TOOL_YET})", "apt-get install tesseract-ocr")


def _failure(command: list[str], expected: str) -> str | None:
    """None if the program runs and prints what is expected."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if ended.returncode == 0 and ended.stdout.strip().startswith(expected):
        return None
    return (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[0]
