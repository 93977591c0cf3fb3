"""A program that enters a worker's sandbox and prints the remaining permissions, as JSON.

``python sandbox_probe.py CONFIG OUTSIDE_FILE``; the level and a name → outcome table go to
standard output, where an outcome is "ok" or an errno's name.
"""

import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.worker import sandbox
from vgpu_sim.worker.memory import create_populated

_libc = ctypes.CDLL(None, use_errno=True)

# Numbers of fcntl(2), ioctl(2) and prctl(2) on x86-64.
F_SETOWN, F_SETSIG, F_SETOWN_EX, F_OFD_SETLK = 8, 10, 15, 37
F_SETLEASE, F_NOTIFY = 1024, 1026
FIOSETOWN, SIOCSPGRP = 0x8901, 0x8902
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_PTRACER = 1, 4, 15, 0x59616D61

_SOCKETS = socket.socketpair()
_NAME = ctypes.create_string_buffer(b"probe")


def _raw(number: int, *arguments: int) -> Callable[[], None]:
    def call() -> None:
        result = _libc.syscall(number, *map(ctypes.c_long, arguments))
        if result < 0:
            raise OSError(ctypes.get_errno(), "")

    return call


def _fcntl(command: int, argument: int) -> Callable[[], None]:
    def call() -> None:
        _raw(72, _SOCKETS[0].fileno(), command, argument)()

    return call


def _fcntl_owner_ex(pid: int) -> Callable[[], None]:
    owner = (ctypes.c_int * 2)(1, pid)  # F_OWNER_PID
    return lambda: _fcntl(F_SETOWN_EX, ctypes.addressof(owner))()


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _thread() -> None:
    thread = threading.Thread(target=lambda: None)
    try:
        thread.start()
    except RuntimeError as err:  # Python's exception for all of its errors
        raise PermissionError(errno.EPERM, str(err)) from err
    thread.join()


def _memory() -> None:
    descriptor = create_populated("x", 1 << 21)
    mapped = mmap.mmap(descriptor, 1 << 21)
    mapped.madvise(mmap.MADV_REMOVE)
    os.close(descriptor)


def _executable_memory() -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)


def main() -> None:
    config = WorkerConfig.from_json(json.loads(sys.argv[1]))
    outside, parent = sys.argv[2], os.getppid()
    socket_fd = _SOCKETS[0].fileno()
    inside = Path(config.cache_dir or "/nonexistent") / "entry"
    attempts: dict[str, Callable[[], Any]] = {
        "open": lambda: open(outside).close(),
        "list": lambda: os.listdir(str(Path(outside).parent)),
        "write": lambda: Path(outside).write_text("x"),
        "stat": lambda: os.stat(outside),
        "unix_socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "tcp_socket": lambda: socket.socket(socket.AF_INET).close(),
        "fork": _fork,
        "execute": lambda: os.execv("/nonexistent", ["nonexistent"]),
        "kill_parent": lambda: os.kill(parent, 0),
        "kill_thread": _raw(234, parent, parent, 0),
        "pin_parent": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
        "become_root": lambda: os.setresuid(0, 0, 0),
        "kill_by_owner": _fcntl(F_SETOWN, parent),
        "kill_by_owner_group": _fcntl(F_SETOWN, -os.getpgid(parent)),
        "kill_by_owner_ex": _fcntl_owner_ex(parent),
        "kill_by_signal": _fcntl(F_SETSIG, signal.SIGKILL),
        "notify": _fcntl(F_NOTIFY, 1),
        "lease": _fcntl(F_SETLEASE, 1),
        "lock": _fcntl(F_OFD_SETLK, 0),
        "kill_by_ioctl": _raw(16, socket_fd, FIOSETOWN, 0),
        "kill_by_socket_ioctl": _raw(16, socket_fd, SIOCSPGRP, 0),
        "kill_by_pidfd": _raw(424, 0, 0, 0, 0),
        "kill_by_sigqueue": _raw(129, parent, 0, 0),
        "kill_by_thread_sigqueue": _raw(297, parent, parent, 0, 0),
        "kill_by_timer": _raw(222, 0, 0, 0),
        "open_pidfd": _raw(434, parent, 0),
        "take_a_descriptor": _raw(438, 0, 0, 0),
        "become_dumpable": _raw(157, PR_SET_DUMPABLE, 1, 0, 0, 0),
        "let_others_trace": _raw(157, PR_SET_PTRACER, -1, 0, 0, 0),
        "die_with_parent": _raw(157, PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
        "change_limits": _raw(302, 0, 7, 0, 0),
        # to the value that it has: a test without the sandbox must not slow its own process down
        "change_priority": _raw(141, 0, parent, os.getpriority(os.PRIO_PROCESS, parent)),
        "move_memory": _raw(279, parent, 0, 0, 0, 0, 0),
        "socket_option": _raw(54, socket_fd, 1, 83, 0, 0),
        "name_itself": _raw(157, PR_SET_NAME, ctypes.addressof(_NAME), 0, 0, 0),
        "ptrace": _raw(101, 16, 1 << 23),  # of user nobody: harmless if the kernel permits it
        "unshare": _raw(272, 0x1000_0000),
        "shared_memory": _raw(29, 0x7E55E7A, 4096, 0o600),
        "bpf": _raw(321, 0),
        "io_uring": _raw(425, 1, 0),
        "process_vm_readv": _raw(310, parent, 0, 0, 0, 0, 0),
        "thread": _thread,
        "memory": _memory,
        "executable_memory": _executable_memory,
        "eventfd": lambda: os.close(os.eventfd(0)),
        "signal_handler": lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL),
        "cache_write": lambda: inside.write_bytes(b"entry"),
        "cache_read": inside.read_bytes,
        "cache_replace": lambda: inside.replace(inside.with_suffix(".new")),
        "cache_list": lambda: os.listdir(inside.parent),
    }
    saved = os.dup(1)  # the sandbox detaches standard error, but not this descriptor
    level = sandbox.enter(config)
    outcomes = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError as err:
            outcomes[name] = errno.errorcode.get(err.errno or 0, "?")
        else:
            outcomes[name] = "ok"
    os.write(saved, json.dumps({"level": level.to_json(), "outcomes": outcomes}).encode())


if __name__ == "__main__":
    main()
