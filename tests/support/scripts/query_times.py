"""Queries a slice's socket repeatedly, and prints gpud's own share of the time: ``FOLDER COUNT``.

A program, so that it also runs where only the product is installed. It prints a JSON list of
[wall, own, cpu] in ms, one for each query. Of the wall time, ``own`` excludes the time in which
gpud or this program was runnable without a CPU (run delay in /proc/PID/task/TID/schedstat),
which other processes cause on a busy machine. Of gpud's other threads the one with the longest
run delay counts, since it may have held the interpreter lock. ``cpu`` is the CPU time of gpud's
loop meanwhile, for all clients.
"""

import json
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

from vgpu_sim.cli.clients import slices

PAUSE_S = 0.005


def gpud_of(folder: Path) -> int:
    """Return the pid of the process that listens at a slice's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(str(folder / slices.SOCKET_NAME))
        pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def clocks(pid: int) -> dict[int, tuple[int, int]]:
    """Return (ns on a CPU, ns runnable without one) of each thread of a process."""
    found = {}
    for entry in os.listdir(f"/proc/{pid}/task"):
        with suppress(OSError):
            on_cpu, ready, _ = Path(f"/proc/{pid}/task/{entry}/schedstat").read_text().split()
            found[int(entry)] = (int(on_cpu), int(ready))
    return found


def query(folder: Path, gpud: int) -> tuple[float, float, float]:
    """Send one query; return (wall, own, cpu) in ms."""
    gpud_before, own_before = clocks(gpud), clocks(os.getpid())[os.getpid()]
    begin = time.monotonic_ns()
    slices.query(folder)
    wall = time.monotonic_ns() - begin
    own_after, gpud_after = clocks(os.getpid())[os.getpid()], clocks(gpud)
    waited = {
        thread: ready - gpud_before.get(thread, (0, 0))[1]
        for thread, (_, ready) in gpud_after.items()
    }
    asleep = max(0, wall - (own_after[1] - own_before[1]))
    gpuds_turn = waited.pop(gpud) + max(waited.values(), default=0)
    cpu = min(asleep, gpud_after[gpud][0] - gpud_before[gpud][0])
    return wall / 1e6, max(0, asleep - gpuds_turn) / 1e6, cpu / 1e6


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    gpud = gpud_of(folder)
    rows = []
    for _ in range(count):
        rows.append(query(folder, gpud))
        time.sleep(PAUSE_S)
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
