"""Filter of the system calls that code in the jail must not make, which the kernel runs.

Namespaces limit what the code can see; the filter prevents processes (RLIMIT_NPROC has no effect when the harness runs
as root), sockets, further namespaces, and memory that RLIMIT_AS does not count. Threads stay possible:
`clone` is allowed with CLONE_THREAD, and `clone3`, whose flags a filter cannot see, "does not exist", on which the C
library falls back to `clone`. Classic BPF by hand (seccomp(2), linux/filter.h): libseccomp is not on every machine.

    bwrap --seccomp FD …          # FD reads build_program(platform.machine())
"""

import errno
import struct

CLONE_THREAD = 0x00010000
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW… flag of clone(2)
X32 = 0x40000000  # the second numbering of system calls on x86_64

_NR, _ARCH, _FLAGS = 0, 4, 16  # offsets in struct seccomp_data; _FLAGS: the low half of the first argument
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_DENY = 0x00050000 | errno.EPERM
_ABSENT = 0x00050000 | errno.ENOSYS

AUDIT_ARCHS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435  # on both

# name: (x86_64, aarch64); None: does not exist. test_seccomp.py compares them with the kernel's headers.
DENIED: dict[str, tuple[int | None, int | None]] = {
    **{"fork": (57, None), "vfork": (58, None), "ptrace": (101, 117), "kcmp": (312, 272)},
    **{"process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_open": (434, 434)},
    **{"pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424)},
    **{"unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41)},
    **{"chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430)},
    **{"fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442)},
    **{"name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265)},
    **{"socket": (41, 198), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426)},
    **{"io_uring_register": (427, 427)},
    **{"memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196)},
    **{"msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180)},
    **{"keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280)},
    **{"userfaultfd": (323, 282), "perf_event_open": (298, 241), "fanotify_init": (300, 262)},
    **{"init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "syslog": (103, 116)},
    **{"swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89)},
    **{"quotactl": (179, 60), "quotactl_fd": (443, 443)},
    **{"settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266)},
    **{"sethostname": (170, 161), "setdomainname": (171, 162), "personality": (135, 92), "vhangup": (153, 58)},
    **{"iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None)},
    **{"migrate_pages": (256, 238), "move_pages": (279, 239)},
}


def build_program(machine: str) -> bytes | None:
    """Return the filter for `platform.machine()`; None if the numbers of its system calls are not known here."""
    if machine not in AUDIT_ARCHS:
        return None
    denied = [numbers[list(AUDIT_ARCHS).index(machine)] for numbers in DENIED.values()]
    return b"".join(_build_instructions(machine, sorted(number for number in denied if number is not None)))


def _build_instructions(machine: str, denied: list[int]) -> list[bytes]:
    return [
        _encode(_LOAD, _ARCH),
        _encode(_EQUAL, AUDIT_ARCHS[machine], 1, 0),
        _encode(_RETURN, _KILL),  # 32-bit calls have other numbers
        _encode(_LOAD, _NR),
        *([_encode(_AT_LEAST, X32, 0, 1), _encode(_RETURN, _DENY)] if machine == "x86_64" else []),
        _encode(_EQUAL, CLONE3, 0, 1),
        _encode(_RETURN, _ABSENT),
        *(instruction for number in denied for instruction in (_encode(_EQUAL, number, 0, 1), _encode(_RETURN, _DENY))),
        _encode(_EQUAL, CLONE[machine], 1, 0),
        _encode(_RETURN, _ALLOW),
        _encode(_LOAD, _FLAGS),
        _encode(_ANY_BIT, NEW_NAMESPACES, 1, 0),
        _encode(_ANY_BIT, CLONE_THREAD, 1, 0),
        _encode(_RETURN, _DENY),
        _encode(_RETURN, _ALLOW),
    ]


def _encode(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return a struct sock_filter; the jumps skip that many instructions."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)
