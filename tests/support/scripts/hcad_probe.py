"""A program that enters hcad's sandbox and prints the remaining permissions, as JSON.

``python hcad_probe.py FOLDER OUTSIDE_FILE [node]``: a name → outcome table, "ok" or an errno's name.
"""

import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from hca.daemon.serving import sandbox

_libc = ctypes.CDLL(None, use_errno=True)
_PTRACE_ATTACH, _PIDFD_OPEN, _PROCESS_VM_READV, _PTRACE = 16, 434, 310, 101


def _raw(number: int, *arguments: int) -> Callable[[], None]:
    def call() -> None:
        if _libc.syscall(number, *map(ctypes.c_long, arguments)) < 0:
            raise OSError(ctypes.get_errno(), "")

    return call


def _thread() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


def _write(path: Path) -> Callable[[], None]:
    return lambda: path.write_text("x")  # type: ignore[return-value]


def main() -> None:
    folder, outside = Path(sys.argv[1]), Path(sys.argv[2])
    parent = os.getppid()
    sandbox.set_resource_limits()
    (sandbox.enter_on_node if sys.argv[3:] == ["node"] else sandbox.enter)(folder)
    attempts: dict[str, Callable[[], object]] = {
        "file in its folder": _write(folder / "mine"),
        "folder in its folder": (folder / "deep").mkdir,
        "remove in its folder": (folder / "mine").unlink,
        "thread": _thread,
        "pipe": os.pipe,
        "memory file": lambda: os.memfd_create("x"),
        "memory": lambda: mmap.mmap(-1, 4096),
        "signal a thread of its own": lambda: signal.pthread_kill(
            threading.get_ident(), signal.SIGCHLD
        ),
        "read outside": outside.read_bytes,
        "write outside": _write(outside),
        "list outside": lambda: os.listdir(outside.parent),
        "/proc of itself": Path("/proc/self/maps").read_bytes,
        "/proc of another": Path(f"/proc/{parent}/maps").read_bytes,
        "fork": os.fork,
        "exec": lambda: os.execv("/bin/true", ["true"]),
        "kill": lambda: os.kill(parent, 0),
        "pidfd": _raw(_PIDFD_OPEN, parent, 0),
        "ptrace": _raw(_PTRACE, _PTRACE_ATTACH, parent, 0, 0),
        "read another's memory": _raw(_PROCESS_VM_READV, parent, 0, 0, 0, 0, 0),
        "unix socket": lambda: socket.socket(socket.AF_UNIX),
        "tcp socket": socket.socket,
        "udp socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "bound unix socket": lambda: socket.socket(socket.AF_UNIX).bind(str(folder / "bound")),
        "unix socket outside": lambda: socket.socket(socket.AF_UNIX).bind(f"{outside}.sock"),
        "addresses of another": Path(f"/proc/{parent}/net/fib_trie").read_bytes,
        "control groups of another": Path(f"/proc/{parent}/cgroup").read_bytes,
        "list of classes": lambda: os.listdir("/sys/class"),
        "read a class": lambda: Path("/sys/class/net/lo/mtu").read_bytes(),
        "socket pair": socket.socketpair,
        "executable memory": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC),
        "rename": lambda: os.rename(folder / "deep", folder / "deeper"),
        "link out": lambda: os.symlink(outside, folder / "link"),
        "mode": lambda: os.chmod(folder, 0o777),
        "namespace": _raw(272, 0x10000000),
        "mount": _raw(165, 0, 0, 0, 0, 0),
        "dumpable again": _raw(157, 4, 1),
        "core files": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)),
    }
    outcomes = {}
    for name, attempt in attempts.items():
        try:
            attempt()
            outcomes[name] = "ok"
        except ValueError:  # Python's exception for EPERM of setrlimit(2)
            outcomes[name] = "EPERM"
        except OSError as err:
            outcomes[name] = errno.errorcode.get(err.errno or 0, str(err))
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
