"""Capture packets of every opcode and check them: tshark dissects them, scapy checks the ICRC."""

import ipaddress
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.oracles import roce
from support.programs.wire_nodes import needs_namespaces
from support.wire import wire_capture

pytestmark = needs_namespaces

CNP = 0x81
CONNECTED = range(12)
OPCODES = {
    *(*range(21), roce.SEND_LAST_INV, roce.SEND_ONLY_INV, CNP),
    *(roce.UC | opcode for opcode in CONNECTED),
    *(roce.UD | opcode for opcode in (roce.SEND_ONLY, roce.SEND_ONLY_IMM)),
}
SYSTEM_PYTHON = "/usr/bin/python3"
CHECK = """
import sys
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.utils import rdpcap
right = wrong = 0
for packet in rdpcap(sys.argv[1]):
    if packet.type != 0x0800:
        continue
    data = bytes(packet[UDP].payload)
    if packet[BTH].compute_icrc(data[:-4]) == data[-4:]:
        right += 1
    else:
        wrong += 1
print(right, wrong)
"""
HAS_SCAPY = (
    subprocess.run(
        [SYSTEM_PYTHON, "-c", "import scapy.contrib.roce"], capture_output=True, check=False
    ).returncode
    == 0
    if shutil.which(SYSTEM_PYTHON)
    else False
)


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """Return a capture of a namespace's loopback interface."""
    path = tmp_path_factory.mktemp("capture") / "wire.pcap"
    support = Path(wire_capture.__file__)
    subprocess.run(
        ["unshare", "-Urn", sys.executable, str(support), str(path)],
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    return path


def frames(path):
    """Return a capture's packets: source, source port, destination and UDP payload."""
    data = path.read_bytes()
    at = 24
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        frame = data[at + 16 + 14 : at + 16 + size]
        at += 16 + size
        if frame[0] >> 4 == 4:
            source, target, udp = frame[12:16], frame[16:20], frame[20:]
            assert frame[4:8] == b"\0\0\x40\0", "identification 0, and never in fragments"
        else:
            source, target, udp = frame[8:24], frame[24:40], frame[40:]
        assert int.from_bytes(udp[2:4]) == roce.PORT
        yield (source, int.from_bytes(udp[:2]), target, udp[8:])


def test_every_opcode_is_there_and_every_checksum_is_right(capture):
    """Checked by this project's second implementation, over IPv4 and IPv6."""
    seen = {4: set(), 16: set()}
    for source, port, target, data in frames(capture):
        first, second = (str(ipaddress.ip_address(packed)) for packed in (source, target))
        assert data[-4:] == roce.icrc(first, port, second, data[:-4])
        seen[len(source)].add(data[0])
    assert seen == {4: OPCODES, 16: OPCODES}


@pytest.mark.skipif(not HAS_SCAPY, reason="NOT RUN: no scapy: apt-get install python3-scapy")
def test_scapy_computes_the_same_checksums(capture):
    """Over IPv4 only: scapy cannot compute the ICRC over IPv6."""
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", CHECK, str(capture)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    right, wrong = map(int, done.stdout.split())
    assert wrong == 0
    assert right >= len(OPCODES)


@pytest.mark.skipif(
    shutil.which("tshark") is None, reason="NOT RUN: no tshark: apt-get install tshark"
)
def test_tshark_dissects_every_packet(capture):
    fields = (
        *("ip.version", "infiniband.bth.opcode", "infiniband.reth.dmalen", "_ws.malformed"),
        *("infiniband.vendor", "ip.dsfield.dscp", "ipv6.tclass.dscp"),
    )
    wanted = [part for name in fields for part in ("-e", name)]
    done = subprocess.run(
        ["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=;", *wanted],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(";") for line in done.stdout.splitlines()]
    assert len(rows) == len(list(frames(capture)))
    assert not [row for row in rows if row[3]], "none is malformed"
    for version in ("4", "6"):
        assert {int(row[1]) for row in rows if row[0] == version} == OPCODES
    notifications = [row for row in rows if int(row[1]) == CNP]
    # tshark 4.0 has no name for opcode 0x81; after the BTH it shows 16 zeros and the ICRC.
    assert all(re.fullmatch("0{32}[0-9a-f]{8}", row[4].rpartition(",")[2]) for row in notifications)
    assert {row[5] or row[6] for row in notifications} == {"48"}
    lengths = {int(row[2]) for row in rows if row[2]}
    assert lengths == set(wire_capture.SIZES)
