"""Count our files that setting up a run enters, from the command to the first sample.

    python scripts/trace_setup.py                                        # an evaluation: eval/run.py experiment=offline
    python scripts/trace_setup.py optimize system=toy data=toy yes=true   # a tuning run

A file is entered when one of its functions is called while the command runs, until the first sample is answered
(`SampleRunner.run_sample`); importing a module does not count, nor do the bodies of classes. Files of replaceable
parts, which are called through their contracts (the system, model and tools in `mas/`, datasets, scorers,
tracking), are listed but not counted: whoever follows the set-up of a run stops there. Printed with each file: how
often it was
entered from another one.
"""

import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = tuple(str(ROOT / package) for package in ("mas", "eval", "optimize"))
FIRST_SAMPLE = "run_sample"
REPLACEABLE = ("mas/", "eval/benchmarks/", "eval/scorers/", "eval/config/tracking.py", "optimize/search/optimizers/")


class FirstSampleError(BaseException):
    """The run has come to its first sample."""


class SetupTracer:
    """Profile function that notes which of our files call into which."""

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self.has_first_sample = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self.has_first_sample:  # seen by another thread
            return
        if event != "call" or not (path := own_path(frame.f_code)):
            return
        if frame.f_code.co_name == FIRST_SAMPLE:
            threading.setprofile(None)
            sys.setprofile(None)
            self.has_first_sample = True
            raise FirstSampleError
        if is_body(frame):
            return
        caller = frame.f_back
        while caller is not None and not own_path(caller.f_code):
            caller = caller.f_back
        if caller is None or own_path(caller.f_code) != path:
            self.entered[path] += 1


def own_path(code: CodeType) -> str | None:
    """Return the path of one of our source files, relative to the project; None for any other code."""
    return code.co_filename[len(str(ROOT)) + 1 :] if code.co_filename.startswith(PACKAGES) else None


def is_body(frame: FrameType) -> bool:
    """Return whether the frame executes a module or the body of a class."""
    return frame.f_code.co_name == "<module>" or "__module__" in frame.f_locals


def main(arguments: list[str]) -> int:
    command = "optimize" if arguments[:1] == ["optimize"] else "eval"
    folder = tempfile.mkdtemp()
    overrides = arguments[1:] if command == "optimize" else arguments or ["experiment=offline"]
    sys.argv = [f"{command}/run.py", *overrides, "tracking=off", f"run.dir={folder}"]
    tracer = SetupTracer()
    if command == "eval":
        from eval.run import main as run
    else:
        from optimize.run import main as run
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        run()
    except FirstSampleError:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if not tracer.has_first_sample:
        print("error: the run ended before its first sample, so nothing was counted", file=sys.stderr)
        return 1
    replaceable = {path for path in tracer.entered if path.startswith(REPLACEABLE)}
    for path, times in sorted(tracer.entered.items(), key=lambda item: (item[0] in replaceable, item[0])):
        print(f"{times:5} {path}{' (through a contract)' if path in replaceable else ''}")
    print(f"{len(tracer.entered) - len(replaceable)} files are entered before the first sample", end="")
    print(f", and {len(replaceable)} of parts behind a contract")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
