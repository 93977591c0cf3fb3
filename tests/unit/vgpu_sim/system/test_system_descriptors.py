"""Every process can close its descriptors, whichever system calls the kernel permits."""

import os
import re
import resource
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NoReturn

import pytest

from vgpu_sim.system import descriptors

ROOT = Path(__file__).parents[4]
CONFINED = """
import os, resource, sys
from pathlib import Path
from hca.daemon.serving import sandbox
from vgpu_sim.system import descriptors
limit, folder = int(sys.argv[1]), Path(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
sandbox.set_resource_limits()
highest, kept, (reader, writer) = os.dup2(2, limit - 1), os.dup(2), os.pipe()
sandbox.enter_on_node(folder)
descriptors.close_all(first=3, kept_descriptors=[kept], limit=sandbox.MAX_DESCRIPTORS)
os.write(kept, b"kept ")
for one in (reader, writer, highest):
    try:
        os.fstat(one)
        os.write(2, b"%d is open " % one)
    except OSError:
        pass
os._exit(7)
"""


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The ranges to be closed; none is actually closed."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "closerange", lambda *bounds: found.append(bounds))
    return found


@pytest.mark.parametrize("limit", [0, 8, 9, 12])
@pytest.mark.parametrize("kept", [(), (2,), (3,), (5, 4), (5, 5), (8,), (9, 11), (1 << 40,), (-1,)])
def test_all_are_closed_but_those_that_are_kept(ranges, kept, limit, monkeypatch):
    single: list[int] = []
    monkeypatch.setattr(os, "sysconf", {"SC_OPEN_MAX": 9}.__getitem__)
    monkeypatch.setattr(descriptors, "_close", single.append)
    descriptors.close_all(first=3, kept_descriptors=kept, limit=limit)
    closed = [one for first, last in ranges for one in range(first, last)]
    assert closed + single == [one for one in range(3, max(9, limit)) if one not in kept]


@pytest.mark.parametrize("limit", [64, 1024, 65535, 65536, 65537])
def test_no_range_reaches_the_limit(ranges, monkeypatch, limit):
    """CPython closes descriptors from first to last - 1, by closefrom if last - 1 is not below the
    limit.
    """
    monkeypatch.setattr(os, "sysconf", {"SC_OPEN_MAX": limit}.__getitem__)
    descriptors.close_all(first=3, kept_descriptors=[17])
    assert max(last - 1 for _, last in ranges) == limit - 1


@pytest.mark.parametrize("limit", [64, 256, 257, 1000])
def test_a_process_behind_hcads_filter_closes_its_descriptors(tmp_path, limit):
    """Neither close_range nor the list of descriptors is available; the limit is below hcad's
    own.
    """
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < limit:
        pytest.skip(f"NOT RUN: fewer than {limit} descriptors")
    done = subprocess.run(
        [sys.executable, "-c", CONFINED, str(limit), tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr.split("\n")[-1].strip()) == (7, "kept"), (
        done.stderr,
        sysconfig.get_config_var("HAVE_CLOSEFROM"),
    )


def test_there_is_one_place_that_closes_ranges():
    """A range that ends above the limit is not safe, and only one module handles that."""
    users = {
        str(path.relative_to(ROOT))
        for folder in ("boards", "vgpu_sim", "hca", "device_plugin", "operator", "rdma", "mig")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\b(closerange|closefrom)\(", path.read_text())
    }
    assert users == {"vgpu_sim/system/descriptors.py"}


@pytest.mark.parametrize("ours", [(), (0, 1)])
def test_a_receiver_that_does_not_read_is_not_waited_for(ours: tuple[int, ...]) -> None:
    """Not even on a blocking socket."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with sender, receiver:
        assert descriptors.send(sender, [b"a", b"bc"], ours, socket.MSG_DONTWAIT) == 3
        data, fds, _, _ = socket.recv_fds(receiver, 9, 9)
        assert (data, len(fds)) == (b"abc", len(ours))
        for one in fds:
            os.close(one)
        with pytest.raises(BlockingIOError):
            _fill(sender, ours)


def _fill(sender: socket.socket, ours: tuple[int, ...]) -> NoReturn:
    while True:
        descriptors.send(sender, [b"x" * 4096], ours, socket.MSG_DONTWAIT)
