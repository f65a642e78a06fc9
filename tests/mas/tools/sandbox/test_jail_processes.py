"""Code in the jail makes no process and no namespace, and finds neither the harness nor its environment."""

import ctypes
import platform
from collections.abc import Callable

import pytest

from mas.tools.sandbox.isolations import ALLOWED
from tests.mas.tools.sandbox.conftest import Sandbox

SECRET = "sk-this-must-never-be-inside"
REFUSED = "PermissionError: [Errno 1] Operation not permitted"
SYSCALL = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return errno.errorcode.get(ctypes.get_errno(), result)
"""


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.fork()",
        "import subprocess; subprocess.run(['/python/bin/python3'])",
        "import subprocess; subprocess.Popen('id', shell=True)",
        "import multiprocessing; multiprocessing.Process(target=print).start()",
        "import os; os.posix_spawn('/lib64/ld-linux-x86-64.so.2', ['ld'], {})",
        "import os; os.popen('id').read()",
    ],
)
def test_no_process_is_made(jail: Sandbox, code: str) -> None:
    assert jail.error(code).startswith(REFUSED)


def test_os_system_a_terminal_and_a_pool_fail_too(jail: Sandbox) -> None:
    for code in ("import os; os.forkpty()", "import pty; pty.fork()", "import pty; pty.spawn('sh')"):
        assert "Error: " in jail.error(code)
    assert jail.value("import os; os.system('echo hello > /scratch/hello')") != "0"
    assert "Error" in jail.error(
        "from concurrent.futures import ProcessPoolExecutor as P\nwith P(1) as pool: print(list(pool.map(abs, [-1])))"
    )
    assert jail.value("import os; os.path.exists('/scratch/hello')") == "False"


def test_there_is_no_program_to_become(jail: Sandbox) -> None:
    for program in ("/bin/sh", "/usr/bin/id", "sh"):
        assert jail.error(f"import os; os.execvp({program!r}, ['x'])").startswith("FileNotFoundError")
    assert "ended the Python process" in jail.lost("import os, sys; os.execv(sys.executable, ['python', '-c', ''])")


def number_of(call: str) -> int:
    return int(ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name(call.encode()))


def test_every_system_call_that_is_not_on_the_list_is_refused_also_by_its_number(jail: Sandbox) -> None:
    allowed = {number_of(name) for name in (*ALLOWED, "clone")}
    jail.value(SYSCALL)
    uprobes = {335, 336}  # which no filter sees: the kernel's own trampoline uses them, other callers are killed
    refused = sorted(set(range(480)) - allowed - uprobes)
    answers = jail.value(f"sorted({{str(syscall(number, 0, 0, 0, 0, 0)) for number in {refused!r}}})")
    assert answers == "['ENOSYS', 'EPERM']"
    assert jail.value("syscall(457, 0, 0, 0, 0), syscall(458, 0, 0, 0, 0)") == "('ENOSYS', 'ENOSYS')"  # listmount
    assert len(refused) > 250


@pytest.mark.parametrize("flags", ["17", "0x11 | 0x4000 | 0x100", "0x10000000 | 17", "0x00010000 | 0x10000000", "0x80"])
def test_clone_makes_threads_only(jail: Sandbox, flags: str) -> None:
    jail.value(SYSCALL)
    assert jail.value(f"syscall({number_of('clone')}, {flags}, 0, 0, 0, 0)") == "'EPERM'"
    assert jail.value(f"syscall({number_of('clone3')}, 0, 0)") == "'ENOSYS'"
    assert jail.value("import threading as t; x = []; a = t.Thread(target=x.append, args=[1]); a.start(); a.join(); x")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other numberings are x86's")
def test_the_other_numberings_of_system_calls_are_closed(jail: Sandbox) -> None:
    jail.value(SYSCALL)
    assert "SIGSYS" in jail.lost("syscall(0x40000000 | 57)")  # fork, as x32 numbers it
    in_32_bit = """
import mmap, ctypes
page = mmap.mmap(-1, 4096, prot=7)
page.write(b"\\xb8\\x02\\x00\\x00\\x00\\xcd\\x80\\xc3")  # mov eax, 2 (fork); int 0x80; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()"""
    assert "SIGSYS" in jail.lost(in_32_bit)


@pytest.mark.parametrize("call", ["os.unshare(0x10000000)", "os.setns(0)"])
def test_no_namespace_through_pythons_own_functions(jail: Sandbox, call: str) -> None:
    if "True" in jail.value(f"import os; hasattr(os, {call[3:].split('(')[0]!r})"):
        assert jail.error(f"import os; {call}").startswith(REFUSED)


def test_privileges_are_none_and_stay_none(jail: Sandbox) -> None:
    assert jail.value("import os; os.getuid(), os.getgid()") == "(65534, 65534)"
    for call in ("os.setuid(0)", "os.setgid(0)", "os.setgroups([0])", "os.chroot('/tmp')", "os.nice(-5)"):
        assert "Error" in jail.error(f"import os; {call}")
    jail.value(SYSCALL)
    no_new_privileges, bounding = "libc.prctl(39, 0, 0, 0, 0)", "[libc.prctl(23, n, 0, 0, 0) for n in range(38)]"
    assert jail.value(f"{no_new_privileges}, {bounding}") == repr((1, [0] * 38))


def test_signals_reach_nobody_else(jail: Sandbox) -> None:
    assert jail.value("import os; os.getpid(), os.getppid()") == "(1, 0)"
    assert jail.error("import os; os.kill(-1, 9)").startswith("ProcessLookupError")
    for number in (2, 3, 100, 4_000):
        assert jail.error(f"import os; os.kill({number}, 9)").startswith("ProcessLookupError")


def test_nothing_of_the_environment_is_inside(fresh: Callable[..., Sandbox], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    sandbox = fresh()
    assert sandbox.value("import os; sorted(set(os.environ) & {'OPENAI_API_KEY', 'PYTHONPATH', 'VIRTUAL_ENV'})") == "[]"
    assert SECRET not in sandbox.value("import os, sys; dict(os.environ), sys.argv, sys.path, sys.orig_argv")
    found = (
        "import gc\nparts = ['sk-this-must-never', '-be-inside']\n"
        "values = [v for o in gc.get_objects() if type(o) is dict for v in o.values() if type(v) is str]\n"
        "[v for v in values if v == ''.join(parts)]"
    )
    assert sandbox.value(found) == "[]"
    in_c = "import ctypes\nc = ctypes.CDLL(None).getenv\nc.restype = ctypes.c_char_p\nc(b'OPENAI_API_KEY') is None"
    assert sandbox.value(in_c) == "True"


def test_what_a_pickle_or_an_import_hook_runs_is_shut_in_too(jail: Sandbox) -> None:
    pickled = (
        "import pickle, os\nclass E:\n    def __reduce__(self): return os.fork, ()\npickle.loads(pickle.dumps(E()))"
    )
    assert jail.error(pickled).startswith(REFUSED)
    hook = (
        "import sys, os\nclass Hook:\n    def find_spec(self, *a): os.fork()\n"
        "sys.meta_path.insert(0, Hook())\ntry: import colorsys\nfinally: sys.meta_path.pop(0)"
    )
    assert jail.error(hook).startswith(REFUSED)
