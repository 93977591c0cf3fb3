"""Run as a program: enters a worker's sandbox and reports what can still be done, as JSON.

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

from vgpu_sim.hal.spawn import WorkerConfig
from vgpu_sim.hw import sandbox
from vgpu_sim.hw.memory import create_populated

_libc = ctypes.CDLL(None, use_errno=True)


def _raw(number: int, *arguments: int) -> Callable[[], None]:
    def call() -> None:
        result = _libc.syscall(number, *map(ctypes.c_long, arguments))
        if result < 0:
            raise OSError(ctypes.get_errno(), "")

    return call


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _thread() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
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
        "ptrace": _raw(101, 16, 1 << 23),  # of nobody: where it is allowed it must do no harm
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
    saved = os.dup(1)  # the sandbox takes standard error away, not this
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
