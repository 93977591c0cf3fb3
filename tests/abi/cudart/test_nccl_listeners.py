"""No port of an NCCL id stays open when no further rank comes. The ranks here have no GPUs."""

import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import pytest

from support.oracles.nccl_peer import Invitation, count_listeners, join_as_last, receive
from support.processes.tessera_run import LIBCUDA

NCCL = LIBCUDA.parent / "math" / "libnccl.so.2"
pytestmark = [
    pytest.mark.skipif(not NCCL.exists(), reason="NOT RUN: python -m vgpu_sim.native.build"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="NOT RUN: no C compiler"),
]
# Three GPUs, of which the last has no primary context.
DRIVER = """
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { return *count = 3, 0; }
int cuCtxGetCurrent(void **context) { return *context = &cuInit, 0; }
int cuCtxGetDevice(int *device) { return *device = 0; }
int cuDeviceGetUuid_v2(char *uuid, int device) { return memset(uuid, device, 16), 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = &cuInit;
  return device == 2 ? 2 : 0;
}
"""
# A process with the ids of three roots; it prints their number and the first one, runs its last
# argument, and stays until its input ends.
PROGRAM = """
import ctypes as c, sys
driver, nccl = c.CDLL(sys.argv[1], mode=c.RTLD_GLOBAL), c.CDLL(sys.argv[2])
class Id(c.Structure):
    _fields_ = [("internal", c.c_char * 128)]
ids, comm, part = (Id * 3)(), c.c_void_p(), c.c_void_p()
def begin(count):
    for number in range(count):
        assert nccl.ncclGetUniqueId(c.byref(ids[number])) == 0
    print(bytes(ids[0]).hex(), flush=True)
exec(sys.argv[3])
print("done", flush=True)
sys.stdin.read()
"""
SCALABLE = """
begin(3)
assert nccl.ncclCommInitRankScalable(c.byref(comm), 2, 0, 3, ids, None) == 0
"""
ALL = """
begin(0)
assert nccl.ncclCommInitAll((c.c_void_p * 3)(), 3, None) == 1  # ncclUnhandledCudaError
"""
SPLIT = """
begin(1)
assert nccl.ncclCommInitRank(c.byref(comm), 2, ids[0], 0) == 0
assert nccl.ncclCommSplit(comm, 0, 0, c.byref(part), None) == 6  # ncclRemoteError
"""
SHARE_BYTES, TAG_BYTES = 136, 16


class Process:
    """A process that runs a program with the driver of a folder, until the end of a block."""

    def __init__(self, driver: Path, program: str) -> None:
        self._words = [sys.executable, "-c", PROGRAM, str(driver), str(NCCL), program]

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._words, stdin=pipe, stdout=pipe, text=True)
        # A program that waits for ever ends as one that fails.
        self._limit = threading.Timer(60, self._process.kill)
        self._limit.start()
        self.identity = bytes.fromhex(self._line())
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def count_at_end(self) -> int:
        """Return how many sockets listen when the program is done."""
        assert self._line() == "done"
        return count_listeners(self._process.pid)


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """Return a library with functions of the driver that need no GPU."""
    library = tmp_path / "driver.so"
    command = ["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=DRIVER, text=True, check=True)
    return library


def test_the_roots_of_further_ids_end(driver: Path) -> None:
    with (
        Process(driver, SCALABLE) as process,
        join_as_last(Invitation.from_id(process.identity)).connection,
    ):
        assert process.count_at_end() == 0


def test_ranks_of_one_process_do_not_wait_for_one_that_cannot_come(driver: Path) -> None:
    with Process(driver, ALL) as process:
        assert process.count_at_end() == 0


def test_the_root_of_a_split_that_fails_ends(driver: Path) -> None:
    """The other rank sends its share, and ends before it has the id of the new root."""
    with Process(driver, SPLIT) as process:
        channel = join_as_last(Invitation.from_id(process.identity))
        with channel.connection:
            receive(channel.connection, SHARE_BYTES + TAG_BYTES)
            channel.send(struct.pack("=ii128x", 0, 0))
        assert process.count_at_end() == 0
