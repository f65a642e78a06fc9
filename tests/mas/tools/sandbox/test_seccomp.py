"""The filter's numbers are the kernel's, and its instructions are what the kernel accepts."""

import re
import struct
from pathlib import Path

import pytest

from mas.tools.sandbox import seccomp

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# What no code may ever do, by number also where the machine's headers do not know it yet.
DANGEROUS = (
    *("fork", "vfork", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "execveat"),
    *(
        "unshare",
        "setns",
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "open_tree",
        "move_mount",
        "fsopen",
        "mount_setattr",
    ),
    *("statmount", "listmount", "name_to_handle_at", "open_by_handle_at", "socket", "connect", "bind", "sendmsg"),
    *("io_uring_setup", "memfd_create", "shmget", "shmat", "msgget", "semget", "mq_open", "keyctl", "add_key", "bpf"),
    *(
        "userfaultfd",
        "perf_event_open",
        "fanotify_init",
        "inotify_init1",
        "init_module",
        "kexec_load",
        "reboot",
        "syslog",
    ),
    *("setxattr", "mknodat", "personality", "seccomp", "io_setup", "timer_create", "setuid", "capset", "mlockall"),
)
NEWER = {"cachestat": 451, "statmount": 457, "listmount": 458, "lsm_get_self_attr": 459, "file_getattr": 468}
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026


def verdict(machine: str, number: int, first_argument: int = 0, arch: int | None = None) -> int:
    """What the program returns for a system call: an interpreter of the five instructions it is made of."""
    program = seccomp.build_program(machine)
    assert program is not None
    code = list(struct.iter_unpack("=HBBI", program))
    data = {0: number, 4: seccomp.AUDIT_ARCHS[machine] if arch is None else arch, 16: first_argument & 0xFFFFFFFF}
    at = value = 0
    while True:
        operation, if_true, if_false, operand = code[at]
        at += 1
        if operation == RETURN:
            return int(operand)
        if operation == LOAD:
            value = data[operand]
            continue
        tests = {EQUAL: value == operand, AT_LEAST: value >= operand, ANY_BIT: bool(value & operand)}
        at += if_true if tests[operation] else if_false


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.is_file():
        pytest.skip(f"no {header}: the kernel's headers (linux-libc-dev) are not installed")
    numbers = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    ours = {name: both[list(seccomp.AUDIT_ARCHS).index(machine)] for name, both in seccomp.ALLOWED.items()}
    wrong = {name: number for name, number in ours.items() if numbers.get(name, str(number)) != str(number)}
    absent = {name for name, number in ours.items() if number is None and name in numbers}
    assert not wrong
    assert not absent
    assert len([name for name in ours if name in numbers]) > 120
    assert numbers["clone"] == str(seccomp.CLONE[machine])
    assert numbers["clone3"] == str(seccomp.CLONE3)
    assert numbers["prctl"] == str(seccomp.PRCTL[machine])


@pytest.mark.parametrize("machine", seccomp.AUDIT_ARCHS)
def test_threads_are_allowed_and_processes_are_not(machine: str) -> None:
    clone, pthread = seccomp.CLONE[machine], 0x003D0F00
    assert verdict(machine, clone, pthread) == ALLOW
    assert verdict(machine, clone, 17) == EPERM
    assert verdict(machine, clone, 0x4111) == EPERM
    assert verdict(machine, clone, pthread | 0x10000000) == EPERM
    assert verdict(machine, seccomp.CLONE3) == ENOSYS


@pytest.mark.parametrize("machine", seccomp.AUDIT_ARCHS)
def test_listed_calls_are_allowed_and_all_others_are_not(machine: str) -> None:
    column = list(seccomp.AUDIT_ARCHS).index(machine)
    allowed = {both[column] for both in seccomp.ALLOWED.values()} - {None}
    for number in set(range(600)) - {seccomp.CLONE[machine], seccomp.CLONE3}:
        refused = EPERM if number <= seccomp.NEWEST_KNOWN else ENOSYS
        assert verdict(machine, number) == (ALLOW if number in allowed else refused), number
    assert max(allowed) <= seccomp.NEWEST_KNOWN, "or it would be refused as a call of a newer kernel"


def test_nothing_dangerous_is_on_the_list() -> None:
    assert set(DANGEROUS).isdisjoint(seccomp.ALLOWED)
    for machine in seccomp.AUDIT_ARCHS:
        assert {verdict(machine, number) for number in NEWER.values()} == {ENOSYS}


@pytest.mark.parametrize("machine", seccomp.AUDIT_ARCHS)
def test_a_process_names_its_threads_and_does_not_choose_to_outlive_its_parent(machine: str) -> None:
    allowed = {option for option in range(80) if verdict(machine, seccomp.PRCTL[machine], option) == ALLOW}
    assert allowed == set(seccomp.PRCTL_ALLOWED)
    assert verdict(machine, seccomp.PRCTL[machine], 1) == EPERM  # PR_SET_PDEATHSIG


@pytest.mark.parametrize("machine", seccomp.AUDIT_ARCHS)
def test_another_architectures_calls_kill(machine: str) -> None:
    assert verdict(machine, 1, arch=0x40000003) == KILL
    if machine == "x86_64":
        assert verdict(machine, 0x40000000 | 1) == EPERM


def test_an_unknown_processor_has_no_filter() -> None:
    assert seccomp.build_program("riscv64") is None


FIRST_CALLS = {
    "x86_64": "read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask "
    "rt_sigreturn ioctl pread64 pwrite64 readv writev",  # 0 to 20
    "aarch64": "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr",  # 8 to 13
}


def test_the_first_calls_are_numbered_as_the_kernel_has_always_done() -> None:
    names = FIRST_CALLS["x86_64"].split()
    assert [seccomp.ALLOWED[name][0] for name in names] == list(range(21))
    assert {name for name, both in seccomp.ALLOWED.items() if both[0] is not None and both[0] <= 20} == set(names)
    small = {both[1]: name for name, both in seccomp.ALLOWED.items() if both[1] is not None and both[1] <= 20}
    attributes = dict(enumerate(FIRST_CALLS["aarch64"].split(), start=8))
    assert small == {**attributes, 17: "getcwd", 19: "eventfd2", 20: "epoll_create1"}
    assert seccomp.PRCTL_ALLOWED == (15, 16, 23, 39)  # PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS


@pytest.mark.parametrize("machine", seccomp.AUDIT_ARCHS)
def test_a_thread_may_have_every_flag_of_clone_but_a_new_namespace(machine: str) -> None:
    new = {0x00020000, *(1 << bit for bit in range(25, 31))}  # NEWNS; NEWCGROUP, -UTS, -IPC, -USER, -PID, -NET
    for bit in (1 << number for number in range(32)):
        expected = EPERM if bit in new else ALLOW
        assert verdict(machine, seccomp.CLONE[machine], 0x00010000 | bit) == expected, hex(bit)
        assert verdict(machine, seccomp.CLONE[machine], bit) == (ALLOW if bit == 0x00010000 else EPERM), hex(bit)


def test_where_the_numbers_of_known_calls_end_and_those_of_another_numbering_begin() -> None:
    assert {machine: [verdict(machine, number) for number in (448, 449, 450, 0x3FFFFFFF)] for machine in HEADERS} == {
        machine: [EPERM, ALLOW, ENOSYS, ENOSYS] for machine in ("x86_64", "aarch64")
    }
    assert [verdict("x86_64", number) for number in (0x40000000, 0x40000001, 0xFFFFFFFF)] == [EPERM] * 3
    assert seccomp.ALLOWED["newfstatat"] == (262, 79), "aarch64's headers name it otherwise"


def test_the_processors_are_those_of_the_kernels_audit() -> None:
    # linux/audit.h: the ELF machine (EM_X86_64 62, EM_AARCH64 183), 64 bits, little-endian
    assert seccomp.AUDIT_ARCHS == {"x86_64": 62 | 0xC0000000, "aarch64": 183 | 0xC0000000}
    for machine, arch in seccomp.AUDIT_ARCHS.items():
        read = seccomp.ALLOWED["read"][list(seccomp.AUDIT_ARCHS).index(machine)]
        assert read is not None
        assert verdict(machine, read, arch=arch) == ALLOW
        assert {verdict(machine, read, arch=other) for other in (arch - 1, arch + 1, 0)} == {KILL}
