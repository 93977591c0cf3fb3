"""Queries of a device's tables: each entry, both ends, and indices beyond the ends."""

import errno

from hca.contract.hca import HCA_GIDS, HCA_PKEYS
from support.programs.verbs_tools import run_verbs_program

ENTRIES = 8


def test_tables_are_read_up_to_their_ends(tmp_path):
    done = run_verbs_program(tmp_path, "hca_queries")
    assert done.returncode == 0, done.stderr
    wrong, none = errno.EINVAL, errno.ENODATA
    expected = [f"gid -1: {-wrong} type {-wrong} 0"]
    for index in range(ENTRIES):
        used = int(index < HCA_GIDS)
        expected.append(f"gid {index}: 0 empty {1 - used} type 0 {used}")
    expected.append(f"gid {ENTRIES}: {-wrong} type {-wrong} 0")
    expected += [f"port {port}: {-wrong} {-wrong} -1" for port in (0, 2)]
    for index in (-1, 0, HCA_PKEYS - 1, HCA_PKEYS):
        expected.append(f"pkey {index}: {0 if 0 <= index < HCA_PKEYS else -wrong}")
    expected.append("pkey 0xffff at 0, none at -1")
    full = "same 1 index {} port 1 type 2 device 0 behind 1"
    for index in range(ENTRIES + 1):
        result = f"0 {full.format(index)}" if index < HCA_GIDS else none
        expected.append(f"entry 1 {index} 0 +0: {result if index < ENTRIES else wrong}")
    expected.append(f"entry 1 0 0 +8: 0 {full.format(0)}")
    for port, flags, size in ((1, 0, -1), (1, 1, 0), (1, 1, -1), (0, 0, 0), (2, 0, 0)):
        expected.append(f"entry {port} 0 {flags} {size:+}: {wrong}")
    indices = " ".join(map(str, range(HCA_GIDS)))
    expected += [
        f"table {HCA_GIDS} 0 +0: {HCA_GIDS} {indices} rest 1",
        f"table {HCA_GIDS + 1} 0 +8: {HCA_GIDS} {indices} rest 1",
        f"table {HCA_GIDS - 1} 0 +0: {-wrong} rest 1",
        f"table {HCA_GIDS} 1 +0: {-wrong} rest 1",
        f"table {HCA_GIDS} 0 -1: {-wrong} rest 1",
    ]
    assert done.stdout.splitlines() == expected
