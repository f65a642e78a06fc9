"""Filter of system calls, which the kernel runs: those that Python needs are allowed, all others refused.

Namespaces limit what the code can see; the filter prevents processes (RLIMIT_NPROC has no effect when the harness runs
as root), sockets, further namespaces, a look at mounts, and memory that RLIMIT_AS does not count. Threads stay
possible: `clone` is allowed with CLONE_THREAD, and `clone3`, whose flags a filter cannot see, "does not exist", on
which the C library falls back to `clone`. Classic BPF by hand (seccomp(2), linux/filter.h): libseccomp is not on every
machine.

    bwrap --seccomp FD …          # FD reads build_program(platform.machine())
"""

import errno
import struct
from collections.abc import Iterable

CLONE_THREAD = 0x00010000
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… flag of clone(2)
X32 = 0x40000000  # the second numbering of system calls on x86_64

_NR, _ARCH, _FIRST = 0, 4, 16  # offsets in struct seccomp_data; _FIRST: the low half of the first argument
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
_ABSENT = 0x00050000 | errno.ENOSYS

AUDIT_ARCHS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435  # on both
PRCTL = {"x86_64": 157, "aarch64": 167}
PRCTL_ALLOWED = (15, 16, 23, 39)  # names of threads, and to read privileges; not to outlive the parent (1)
NEWEST_KNOWN = 449  # later calls are reported as absent, so that the C library uses older ones

# name: (x86_64, aarch64), as in the kernel's headers; None: does not exist
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # reading and writing
    **{"read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67)},
    **{"pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70), "preadv2": (327, 286)},
    **{"pwritev2": (328, 287), "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436), "dup": (32, 23)},
    **{"dup2": (33, None), "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59), "fcntl": (72, 25)},
    **{"ioctl": (16, 29), "flock": (73, 32), "sendfile": (40, 71), "copy_file_range": (326, 285)},
    **{"fadvise64": (221, 223)},
    # files and folders
    **{"open": (2, None), "openat": (257, 56), "openat2": (437, 437), "creat": (85, None), "access": (21, None)},
    **{"faccessat": (269, 48), "faccessat2": (439, 439), "stat": (4, None), "lstat": (6, None), "fstat": (5, 80)},
    **{"newfstatat": (262, 79), "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44)},
    **{"readlink": (89, None), "readlinkat": (267, 78), "getdents": (78, None), "getdents64": (217, 61)},
    **{"getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50), "mkdir": (83, None), "mkdirat": (258, 34)},
    **{"rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38)},
    **{"renameat2": (316, 276), "link": (86, None), "linkat": (265, 37), "symlink": (88, None)},
    **{"symlinkat": (266, 36), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47)},
    **{"fsync": (74, 82), "fdatasync": (75, 83), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53)},
    **{"utime": (132, None), "utimes": (235, None), "utimensat": (280, 88), "futimesat": (261, None)},
    **{"umask": (95, 166), "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10)},
    **{"listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13)},
    # memory
    **{"mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226), "madvise": (28, 233)},
    **{"brk": (12, 214), "msync": (26, 227), "membarrier": (324, 283)},
    # threads; `clone`, `clone3` and `prctl` have rules of their own
    **{"set_robust_list": (273, 99), "get_robust_list": (274, 100), "set_tid_address": (218, 96), "futex": (202, 98)},
    **{"futex_waitv": (449, 449), "rseq": (334, 293), "gettid": (186, 178), "sched_yield": (24, 124)},
    **{"sched_getaffinity": (204, 123), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120)},
    **{"sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126), "getcpu": (309, 168)},
    **{"tgkill": (234, 131), "tkill": (200, 130), "arch_prctl": (158, None)},
    # the process itself; bwrap starts Python by `execve` under this filter
    **{"execve": (59, 221), "exit": (60, 93), "exit_group": (231, 94), "getpid": (39, 172), "getppid": (110, 173)},
    **{"getpgid": (121, 155), "getpgrp": (111, None), "getsid": (124, 156), "getuid": (102, 174)},
    **{"geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148)},
    **{"getresgid": (120, 150), "getgroups": (115, 158), "uname": (63, 160), "sysinfo": (99, 179)},
    **{"getrusage": (98, 165), "getrlimit": (97, 163), "setrlimit": (160, 164), "prlimit64": (302, 261)},
    **{"getpriority": (140, 141), "times": (100, 153), "wait4": (61, 260), "waitid": (247, 95), "capget": (125, 90)},
    **{"getrandom": (318, 278)},
    # signals: there is no other process to receive them
    **{"kill": (62, 129), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139)},
    **{"rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "rt_sigpending": (127, 136)},
    **{"sigaltstack": (131, 132), "pause": (34, None), "alarm": (37, None), "getitimer": (36, 102)},
    **{"setitimer": (38, 103), "restart_syscall": (219, 128)},
    # time and waiting
    **{"clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115)},
    **{"nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None), "poll": (7, None), "ppoll": (271, 73)},
    **{"select": (23, None), "pselect6": (270, 72), "epoll_create": (213, None), "epoll_create1": (291, 20)},
    **{"epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441)},
    **{"eventfd": (284, None), "eventfd2": (290, 19)},
    # a pair of connected sockets, for asyncio; there is no `socket`, `connect` or `sendmsg`
    **{"socketpair": (53, 199), "sendto": (44, 206), "recvfrom": (45, 207), "shutdown": (48, 210)},
    **{"getsockopt": (55, 209), "setsockopt": (54, 208), "getsockname": (51, 204), "getpeername": (52, 205)},
}


def build_program(machine: str) -> bytes:
    """Return the filter for `platform.machine()`, which is in AUDIT_ARCHS."""
    allowed = [numbers[list(AUDIT_ARCHS).index(machine)] for numbers in ALLOWED.values()]
    return b"".join(_build_instructions(machine, sorted(number for number in allowed if number is not None)))


def _build_instructions(machine: str, allowed: list[int]) -> list[bytes]:
    return [
        _encode(_LOAD, _ARCH),
        _encode(_EQUAL, AUDIT_ARCHS[machine], 1, 0),
        _encode(_RETURN, _KILL),  # 32-bit calls have other numbers
        _encode(_LOAD, _NR),
        *([_encode(_AT_LEAST, X32, 0, 1), _encode(_RETURN, _DENY)] if machine == "x86_64" else []),
        *_allow(allowed),
        _encode(_EQUAL, CLONE3, 0, 1),
        _encode(_RETURN, _ABSENT),
        _encode(_AT_LEAST, NEWEST_KNOWN + 1, 0, 1),
        _encode(_RETURN, _ABSENT),
        _encode(_EQUAL, PRCTL[machine], 0, 2 * len(PRCTL_ALLOWED) + 2),
        _encode(_LOAD, _FIRST),
        *_allow(PRCTL_ALLOWED),
        _encode(_RETURN, _DENY),
        _encode(_EQUAL, CLONE[machine], 1, 0),
        _encode(_RETURN, _DENY),
        _encode(_LOAD, _FIRST),
        _encode(_ANY_BIT, NEW_NAMESPACES, 1, 0),
        _encode(_ANY_BIT, CLONE_THREAD, 1, 0),
        _encode(_RETURN, _DENY),
        _encode(_RETURN, _ALLOW),
    ]


def _allow(numbers: Iterable[int]) -> list[bytes]:
    return [each for number in numbers for each in (_encode(_EQUAL, number, 0, 1), _encode(_RETURN, _ALLOW))]


def _encode(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return a struct sock_filter; the jumps skip that many instructions."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)
