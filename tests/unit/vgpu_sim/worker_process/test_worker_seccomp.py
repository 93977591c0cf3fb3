"""The filters of system calls, call by call: each program is run on every call number.

test_worker_sandbox.py tests them in the kernel; these tests cover every number and every
argument, by the names that Python's own modules and the kernel's headers give them.
"""

import errno
import fcntl
import signal
from collections.abc import Callable

import pytest

from support.oracles import bpf
from vgpu_sim.system import filters
from vgpu_sim.worker.sandbox import seccomp

Decide = Callable[..., int]
EPERM, ENOSYS = bpf.ERRNO | errno.EPERM, bpf.ERRNO | errno.ENOSYS
CLONE, CLONE3, FCNTL, PRCTL, SETITIMER, WAIT4 = 56, 435, 72, 157, 38, 61
GETPPID, SCHED_SETATTR = 110, 314
NUMBERS = range(1024)  # the table ends below 512

# linux/sched.h
CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_PTRACE = 0x100, 0x200, 0x400, 0x800, 0x2000
CLONE_VFORK, CLONE_PARENT, CLONE_THREAD, CLONE_NEWNS = 0x4000, 0x8000, 0x10000, 0x20000
CLONE_SYSVSEM, CLONE_SETTLS, CLONE_PARENT_SETTID = 0x40000, 0x80000, 0x100000
CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_IO = 0x200000, 0x1000000, 0x80000000
CLONE_NEWTIME, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x80, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
NAMESPACES = (
    *(CLONE_NEWTIME, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC),
    *(CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET),
)
A_THREAD = (  # pthread_create of glibc
    *(CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND, CLONE_THREAD),
    *(CLONE_SYSVSEM, CLONE_SETTLS, CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID),
)
A_FORK = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | signal.SIGCHLD  # of glibc

# linux/prctl.h
PR_SET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME, PR_SET_SECCOMP, PR_SET_VMA = 1, 15, 16, 22, 0x53564D41
COMMANDS = {
    *(fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL),
    *(fcntl.F_DUPFD_CLOEXEC, fcntl.F_ADD_SEALS, fcntl.F_GET_SEALS),
}
OPTIONS = {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA}


@pytest.fixture
def decisions_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], Decide]:
    """Install a filter in Python, not in the kernel; return its decisions."""

    def of(install: Callable[[], None]) -> Decide:
        installed: list[bytes] = []
        with monkeypatch.context() as patch:
            patch.setattr(filters, "apply", installed.append)
            install()
        (code,) = installed
        return lambda *call, **where: bpf.decide(code, *call, **where)

    return of


INSTALLED: dict[str, Callable[[], None]] = {
    "worker": lambda: seccomp.install(files=False),
    "worker with its cache": lambda: seccomp.install(files=True),
    "compile helper": seccomp.install_for_helper,
}
ALLOWED = {
    "worker": set(seccomp._ALLOWED.values()),
    "worker with its cache": {
        *seccomp._ALLOWED.values(),
        *seccomp._ALLOWED_FOR_CACHE.values(),
    },
    "compile helper": {*seccomp._ALLOWED.values(), WAIT4, GETPPID, SCHED_SETATTR},
}


@pytest.mark.parametrize("who", INSTALLED)
def test_a_call_is_allowed_if_its_number_is_listed(decisions_of, who: str) -> None:
    decide = decisions_of(INSTALLED[who])
    allowed = {number for number in NUMBERS if decide(number) == bpf.ALLOW}
    assert allowed == ALLOWED[who], "clone, fcntl and prctl without arguments are not"
    others = {decide(number) for number in NUMBERS if number not in {*allowed, CLONE3}}
    assert others == {EPERM}
    assert decide(CLONE3) == ENOSYS, "so that libc falls back to clone"


@pytest.mark.parametrize("who", INSTALLED)
def test_calls_of_another_architecture_end_the_process(decisions_of, who: str) -> None:
    """Their numbers have other meanings: i386 has fork where x86-64 has open."""
    decide = decisions_of(INSTALLED[who])
    for architecture in (0x4000_0003, 0xC000_00B7, 0):  # i386, AArch64, none
        assert decide(0, architecture=architecture) == bpf.KILL_PROCESS
    for x32 in (0x4000_0000, 0x4000_0001, 0x4000_0200, -1):
        assert decide(x32) == bpf.KILL_PROCESS
    assert decide(0x3FFF_FFFF) == EPERM


@pytest.mark.parametrize("who", INSTALLED)
def test_fcntl_and_prctl_are_filtered_by_their_argument(decisions_of, who: str) -> None:
    decide = decisions_of(INSTALLED[who])
    helper = {PR_SET_PDEATHSIG, PR_SET_SECCOMP} if who == "compile helper" else set()
    requested = (*range(4096), *range(PR_SET_VMA - 8, PR_SET_VMA + 8), 0x59616D61, 0xFFFF_FFFF)
    commands = {c for c in requested if decide(FCNTL, (0, c, 0)) == bpf.ALLOW}
    options = {o for o in requested if decide(PRCTL, (o, 0, 0)) == bpf.ALLOW}
    assert commands == COMMANDS
    assert options == OPTIONS | helper
    assert decide(FCNTL, (fcntl.F_GETFD, fcntl.F_SETOWN, fcntl.F_GETFD)) == EPERM
    assert decide(FCNTL, (0, fcntl.F_SETOWN)) == EPERM
    assert decide(PRCTL, (0, PR_SET_NAME)) == EPERM


@pytest.mark.parametrize("who", ["worker", "worker with its cache"])
def test_a_worker_starts_threads_and_nothing_else_by_clone(decisions_of, who: str) -> None:
    decide = decisions_of(INSTALLED[who])
    thread = sum(A_THREAD)
    assert decide(CLONE, (thread,)) == bpf.ALLOW
    assert decide(CLONE, (thread & ~CLONE_THREAD,)) == EPERM
    for namespace in NAMESPACES:
        assert decide(CLONE, (thread | namespace,)) == EPERM
    for fork in (signal.SIGCHLD, A_FORK, CLONE_VM | CLONE_VFORK | signal.SIGCHLD, 0):
        assert decide(CLONE, (fork,)) == EPERM
    assert decide(CLONE, (0, thread)) == EPERM


def test_a_compile_helper_forks_as_libc_does_and_starts_no_thread(decisions_of) -> None:
    decide = decisions_of(INSTALLED["compile helper"])
    assert decide(CLONE, (A_FORK,)) == bpf.ALLOW
    for bit in range(32):
        assert decide(CLONE, (A_FORK ^ 1 << bit,)) == EPERM
    for other in (sum(A_THREAD), signal.SIGCHLD, signal.SIGKILL, 0):
        assert decide(CLONE, (other,)) == EPERM


@pytest.mark.parametrize("who", INSTALLED)
def test_a_process_limits_only_its_own_time(decisions_of, who: str) -> None:
    decide = decisions_of(INSTALLED[who])
    timers = {which for which in range(16) if decide(SETITIMER, (which,)) == bpf.ALLOW}
    assert timers == {signal.ITIMER_PROF}


def test_a_compile_helper_changes_its_own_weight_and_no_other_process_s(decisions_of) -> None:
    decide = decisions_of(INSTALLED["compile helper"])
    whose = {
        pid for pid in (*range(500), 0xFFFF_FFFF) if decide(SCHED_SETATTR, (pid,)) == bpf.ALLOW
    }
    assert whose == {0}
    for who in ("worker", "worker with its cache"):
        assert decisions_of(INSTALLED[who])(SCHED_SETATTR, (0,)) == EPERM
