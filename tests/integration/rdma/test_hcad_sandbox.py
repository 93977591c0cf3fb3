"""An hcad that serves can access its folder, and nothing else outside of its process."""

import ctypes
import errno
import json
import mmap
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hca.contract.verbs import VerbsState, VerbsStatus as Status
from hca.daemon.serving import filter as calls_filter
from support.oracles import bpf
from support.processes import hcad_process
from support.rigs.hca_rig import Pair, write

ROOT = Path(__file__).parents[3]
PROBE = ROOT / "tests/support/scripts/hcad_probe.py"
NEEDED = {
    *("file in its folder", "folder in its folder", "remove in its folder", "thread", "pipe"),
    *("memory file", "memory", "signal a thread of its own"),
}
# A node's hcad adds and removes functions, and looks up clients in /proc. There it can also read
# its own memory map, which is of no use to an attacker.
NEEDED_ON_A_NODE = NEEDED | {
    *("unix socket", "bound unix socket", "link out", "mode", "/proc of itself"),
    *("addresses of another", "control groups of another", "list of classes"),
}
FALLOC_PUNCH = 1 | 2  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


@pytest.mark.parametrize(
    ("where", "needed"), [((), NEEDED), (("node",), NEEDED_ON_A_NODE)], ids=["fabric", "node"]
)
def test_what_is_denied_is_denied_and_what_is_needed_works(tmp_path, where, needed):
    folder = tmp_path / "fabric"
    folder.mkdir()
    outside = tmp_path / "outside"
    outside.write_text("secret")
    done = subprocess.run(
        [sys.executable, PROBE, folder, outside, *where],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    if "no Landlock" in done.stderr:
        pytest.skip("NOT RUN: this kernel has no Landlock")
    outcomes = json.loads(done.stdout)
    assert {name for name, outcome in outcomes.items() if outcome == "ok"} == needed
    denied = {outcome for name, outcome in outcomes.items() if name not in needed}
    assert denied <= {"EPERM", "EACCES"}, outcomes


def test_the_process_that_serves_stands_behind_them(tmp_path):
    with hcad_process.running(tmp_path) as process:
        status = Path(f"/proc/{process.pid}/status").read_text()
        for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"):
            assert re.search(f"^{line}$", status, re.MULTILINE), line
        threads = list(Path(f"/proc/{process.pid}/task").iterdir())
        assert len(threads) >= 2, "the engine's, too"
        for thread in threads:
            assert "Seccomp:\t2\n" in (thread / "status").read_text()
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)
        assert re.search(r"^Max data size +1073741824 +1073741824 ", limits, re.MULTILINE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_call_is_allowed_if_its_number_is_listed():
    code = calls_filter.program()
    special = {"ioctl": 16, "fcntl": 72, "prctl": 157, "tgkill": 234, "userfaultfd": 323}
    allowed = set(calls_filter._ALLOWED.values())
    for number in range(512):
        if number in (*special.values(), 9, 10, 56, 435):
            continue
        expected = bpf.ALLOW if number in allowed else bpf.ERRNO | errno.EPERM
        assert bpf.decide(code, number, (0,) * 6) == expected, number
    assert bpf.decide(code, 0, architecture=0x40000003) == bpf.KILL_PROCESS


@pytest.mark.parametrize(
    ("number", "arguments", "allowed"),
    [
        (9, (0, 4096, mmap.PROT_READ | mmap.PROT_WRITE), True),
        (9, (0, 4096, mmap.PROT_READ | mmap.PROT_EXEC), False),
        (10, (0, 4096, mmap.PROT_EXEC), False),
        (56, (0x3D0F00,), True),  # pthread_create of glibc
        (56, (signal.SIGCHLD,), False),
        (16, (3, 0x5421), True),  # FIONBIO
        (16, (3, 0x5412), False),  # TIOCSTI
        (72, (3, 1033), True),  # F_ADD_SEALS
        (72, (3, 8), False),  # F_SETOWN
        (157, (15,), True),  # PR_SET_NAME
        (157, (4, 1), False),  # PR_SET_DUMPABLE
        (234, (os.getpid(),), True),
        (234, (1,), False),
        (323, (os.O_CLOEXEC | 1,), True),
        (323, (0,), False),  # would handle faults of the kernel, too
    ],
)
def test_calls_that_do_many_things_are_allowed_by_what_they_do(number, arguments, allowed):
    expected = bpf.ALLOW if allowed else bpf.ERRNO | errno.EPERM
    assert bpf.decide(calls_filter.program(), number, arguments) == expected


@pytest.mark.parametrize(
    ("number", "arguments", "allowed"),
    [
        (41, (1, 5), True),  # socket of AF_UNIX
        (41, (2, 2), False),  # AF_INET
        (41, (16, 3), False),  # AF_NETLINK
        *((number, (), True) for number in (42, 49, 54, 88, 90, 95)),
        *((number, (), False) for number in (57, 59, 62, 82, 86, 92, 101, 165, 272, 308, 310)),
        (9, (0, 4096, mmap.PROT_EXEC), False),
    ],
)
def test_on_a_node_it_may_have_local_sockets_and_no_others(number, arguments, allowed):
    expected = bpf.ALLOW if allowed else bpf.ERRNO | errno.EPERM
    assert bpf.decide(calls_filter.program(node=True), number, arguments) == expected


@pytest.mark.parametrize(
    ("number", "arguments", "allowed"),
    [
        (41, (2, 2 | os.O_CLOEXEC), True),  # a datagram socket of AF_INET
        (41, (10, 2 | os.O_CLOEXEC), True),
        *((41, (domain, 2 | os.O_CLOEXEC), False) for domain in (1, 16, 17, 40)),
        *((41, (2, kind | os.O_CLOEXEC), False) for kind in (1, 3, 5)),
        (49, (), True),
        (54, (3, 0, 35), True),  # IP_ADD_MEMBERSHIP
        (54, (3, 1, 25), False),  # SO_BINDTODEVICE
        (54, (3, 1, 26), False),  # SO_ATTACH_FILTER
        (54, (3, 1, 50), False),  # SO_ATTACH_BPF
        (42, (), False),
    ],
)
def test_with_a_wire_it_may_have_sockets_in_groups_and_no_others(number, arguments, allowed):
    expected = bpf.ALLOW if allowed else bpf.ERRNO | errno.EPERM
    assert bpf.decide(calls_filter.program(wired=True), number, arguments) == expected
    if number in (41, 49, 54):
        refused = bpf.decide(calls_filter.program(), number, arguments)
        assert refused == bpf.ERRNO | errno.EPERM


@pytest.mark.parametrize("whose", ["here", "there"])
def test_a_page_that_its_owner_gave_up_is_not_made_again_by_hcad(engine, whose):
    if not engine.watches_memory():
        pytest.skip("NOT RUN: this kernel has no userfaultfd")
    pair = Pair(engine)
    client, region = (pair.a, pair.here) if whose == "here" else (pair.b, pair.there)
    fd = client.objects._segments[region.segment].descriptor  # of the same file as the owner's
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.fallocate64(fd, FALLOC_PUNCH, ctypes.c_long(0), ctypes.c_long(8192)) == 0
    assert os.fstat(fd).st_blocks == 0
    write(pair)
    here = whose == "here"
    assert pair.a_send.poll().status == (Status.LOC_PROT_ERR if here else Status.REM_ACCESS_ERR)
    assert os.fstat(fd).st_blocks == 0, "no process was charged for a page"
    assert pair.qb.state == (VerbsState.RTS if here else VerbsState.ERR)
    pair.close()
