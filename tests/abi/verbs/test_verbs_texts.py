"""Texts and rates of libibverbs, compared with rdma-core's verbs.h and InfiniBand's numbers."""

import ctypes
import os
from pathlib import Path

import pytest

from support.kept import native_parts
from vgpu_sim.native import build, catalogue

_STATUS = (
    *("success", "local length error", "local QP operation error"),
    *("local EE context operation error", "local protection error", "Work Request Flushed Error"),
    *("memory management operation error", "bad response error", "local access error"),
    *("remote invalid request error", "remote access error", "remote operation error"),
    *("transport retry counter exceeded", "RNR retry counter exceeded"),
    *("local RDD violation error", "remote invalid RD request", "aborted error"),
    *("invalid EE context number", "invalid EE context state", "fatal error"),
    *("response timeout error", "general error", "TM error", "TM software rendezvous"),
)
_NODES = ("unknown", *("InfiniBand " + n for n in ("channel adapter", "switch", "router")))
_PORTS = ("no state change (NOP)", "down", "init", "armed", "active", "active defer")
_EVENTS = (
    *("CQ error", "local work queue catastrophic error", "invalid request local work queue error"),
    *("local access violation work queue error", "communication established"),
    *("send queue drained", "path migrated", "path migration request error"),
    *("local catastrophic error", "port active", "port error", "LID change", "P_Key change"),
    *("SM change", "SRQ catastrophic error", "SRQ limit reached", "last WQE reached"),
    *("client reregistration", "GID table change", "WQ fatal"),
)
_OPCODES = (
    *("rdma-write", "rdma-write-with-imm", "send", "send-with-imm", "rdma-read"),
    *("atomic-cmp-and-swp", "atomic-fetch-and-add", "local-inv", "bind-mw", "send-with-inv"),
    *("unknown",) * 5,
    "atomic-write",
)
# ibv_rate: lanes times the Gbit/s of a lane (SDR 2.5, DDR 5, QDR 10, FDR 14, EDR 25, HDR 50, NDR
# 100), and the corresponding multiple of 2.5 Gbit/s.
_RATES = {
    2: (2_500, 1),
    3: (10_000, 4),
    4: (30_000, 12),
    5: (5_000, 2),
    6: (20_000, 8),
    7: (40_000, 16),
    8: (60_000, 24),
    9: (80_000, 32),
    10: (120_000, 48),
    11: (14_062, 6),
    12: (56_250, 22),
    13: (112_500, 45),
    14: (168_750, 67),
    15: (25_781, 10),
    16: (103_125, 41),
    17: (206_250, 82),
    18: (309_375, 124),
    19: (28_125, 11),
    20: (50_000, 20),
    21: (400_000, 160),
    22: (600_000, 240),
    23: (800_000, 320),
    24: (1_200_000, 480),
}


@pytest.fixture(scope="module")
def verbs() -> ctypes.CDLL:
    native_parts.build_once("libibverbs.so.1")
    return ctypes.CDLL(str(build.LIBRARIES / catalogue.RDMA / "libibverbs.so.1"))


@pytest.mark.parametrize(
    ("function", "texts", "otherwise"),
    [
        ("ibv_wc_status_str", _STATUS, "unknown"),
        ("ibv_node_type_str", (*_NODES, "iWARP NIC"), "unknown"),
        ("ibv_port_state_str", _PORTS, "invalid state"),
        ("ibv_event_type_str", _EVENTS, "unknown"),
        ("ibv_wr_opcode_str", _OPCODES, "unknown"),
    ],
)
def test_every_number_has_its_text_and_no_other_has_one(verbs, function, texts, otherwise):
    call = getattr(verbs, function)
    call.restype = ctypes.c_char_p
    found = [call(number).decode() for number in range(-1, len(texts) + 1)]
    assert found == [otherwise, *texts, otherwise]


def test_rates_are_what_their_lanes_carry(verbs):
    for rate in range(-1, 27):
        mbps, multiple = _RATES.get(rate, (-1, -1))
        assert (verbs.ibv_rate_to_mbps(rate), verbs.ibv_rate_to_mult(rate)) == (mbps, multiple)
    by_mbps = {mbps: rate for rate, (mbps, _) in _RATES.items()}
    by_multiple = {multiple: rate for rate, (_, multiple) in _RATES.items()}
    for number in (0, 1, 3, *by_mbps, *by_multiple, 481):
        assert verbs.mbps_to_ibv_rate(number) == by_mbps.get(number, 0)
        assert verbs.mult_to_ibv_rate(number) == by_multiple.get(number, 0)


@pytest.mark.parametrize(
    ("content", "room", "expected", "returned"),
    [
        ("abc\n", 8, b"abc\0....", 3),
        ("abc", 4, b"abc\0", 3),
        ("abcd", 4, b"abc\0", 4),
        ("abc\n", 4, b"abc\0", 3),
        ("abcdef", 4, b"abc\0", 4),
        ("a\n\n", 8, b"a\n\0.....", 2),
        ("", 4, b"\0...", 0),
        ("abc", 0, b"", 0),
    ],
)
def test_a_file_of_sysfs_is_cut_to_the_room(verbs, tmp_path, content, room, expected, returned):
    (tmp_path / "file").write_text(content)
    buffer = (ctypes.c_char * 16)(*b"................")
    result = verbs.ibv_read_sysfs_file(bytes(tmp_path), b"file", buffer, ctypes.c_size_t(room))
    assert (bytes(buffer)[:room], result) == (expected, returned)
    assert bytes(buffer)[room:] == b"." * (16 - room)


def test_a_file_that_is_not_there_has_no_length(verbs, tmp_path):
    buffer = ctypes.create_string_buffer(16)
    for folder, name in ((tmp_path, b"none"), (tmp_path, b"x" * 512), (tmp_path.parent, b"")):
        assert verbs.ibv_read_sysfs_file(bytes(folder), name, buffer, 16) == -1
    longest = 512 - 2 - len(bytes(tmp_path))
    name = b"./" * (longest // 2) + b"x" * (longest % 2)
    name = name[: longest - 4] + b"file" if longest % 2 == 0 else name[: longest - 5] + b"/file"
    (tmp_path / "file").write_text("abc")
    assert len(bytes(tmp_path) + b"/" + name) == 511
    assert verbs.ibv_read_sysfs_file(bytes(tmp_path), name, buffer, 16) == 3
    assert verbs.ibv_read_sysfs_file(bytes(tmp_path), b"/" + name, buffer, 16) == -1


def test_there_are_no_descriptors_left_of_that(verbs, tmp_path):
    (tmp_path / "file").write_text("abc")
    buffer = ctypes.create_string_buffer(16)
    for _ in range(3):
        verbs.ibv_read_sysfs_file(bytes(tmp_path), b"file", buffer, 16)
    (tmp_path / "file").unlink()
    links = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert not [
        one
        for one in links
        if one.is_symlink() and "deleted" in os.readlink(one) and str(tmp_path) in os.readlink(one)
    ]
