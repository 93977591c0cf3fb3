"""Each field of each request, as both posting interfaces write it into a queue pair's ring."""

import errno
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hca.contract.hca import HCA_MAX_INLINE_BYTES, HCA_MAX_SGE, HcaRecvSlot, HcaSendSlot
from hca.contract.verbs import VerbsOpcode as Op, VerbsSend
from vgpu_sim.native import build, catalogue

PROGRAM = Path(__file__).parents[3] / "support/native/verbs_parts/slots.c"
AT, VALUE, WINDOW = 0x1010101010, 0x3030303030, {"remote_key": 0xC1, "immediate": 0x5050}
LIST = ((0x1111222233334444, 0x55, 0x66), (0x7777, 0x88, 0x7777 + 0x88 + 1))
"""Two elements; the second has the key of an implicit region, which its part's key replaces."""

REMOTE = {"remote_address": AT, "remote_key": 0x2020}
SENDS: dict[str, tuple[Op, dict[str, int], Any]] = {
    "send": (Op.SEND, {"immediate": 0}, LIST),
    "send with immediate": (Op.SEND_WITH_IMM, {"immediate": 0x91}, LIST),
    "send with invalidate": (Op.SEND_WITH_INV, {"immediate": 0x91}, LIST),
    "invalidate": (Op.LOCAL_INV, {"immediate": 0x91}, ()),
    "datagram": (
        Op.SEND_WITH_IMM,
        {"immediate": 0x91, "address_handle": 0xA1, "remote_qpn": 0xF1, "remote_key": 0xF2},
        LIST,
    ),
    "write with immediate": (Op.RDMA_WRITE_WITH_IMM, {**REMOTE, "immediate": 0x91}, LIST),
    "write": (Op.RDMA_WRITE, {**REMOTE, "immediate": 0}, LIST),
    "read": (Op.RDMA_READ, REMOTE, LIST),
    "swap": (Op.ATOMIC_CMP_AND_SWP, {**REMOTE, "compare_add": VALUE, "swap": 0x4040404040}, LIST),
    "add": (Op.ATOMIC_FETCH_AND_ADD, {**REMOTE, "compare_add": VALUE, "swap": 0}, LIST),
    "atomic write": (Op.ATOMIC_WRITE, {**REMOTE, "compare_add": VALUE}, ()),
    "bind": (
        Op.BIND_MW,
        {**WINDOW, "remote_address": 0xD1D1D1D1D1, "compare_add": 0xE1E1E1E1E1, "swap": 0x13},
        (),
    ),
    "bind nothing": (Op.BIND_MW, WINDOW, ()),
    "inline": (Op.SEND, {}, b"12345678abc"),
    "all that goes inline": (Op.SEND, {}, b"z" * HCA_MAX_INLINE_BYTES),
    "one": (Op.SEND, {}, LIST[1:]),
    "one inline": (Op.SEND, {}, b"abcde"),
}
ERRORS = {
    ("posted", "datagram without address"): errno.EINVAL,
    ("posted", "a region that has gone"): errno.EFAULT,
    ("built", "a region that has gone"): errno.EFAULT,
    ("posted", "a byte more inline"): errno.ENOMEM,
    ("built", "a byte more inline"): errno.ENOMEM,
    ("posted", "an element too many"): errno.EINVAL,
    ("posted", "less than none"): errno.EINVAL,
    ("built", "an element too many"): errno.EINVAL,
    ("built", "nothing"): 0,
    ("built", "a list of nothing"): 0,
    ("built", "frames in parts"): errno.EOPNOTSUPP,
    ("built", "another's queue"): errno.EOPNOTSUPP,
    ("built", "what comes after a mistake"): errno.EOPNOTSUPP,
    ("built", "bind the other kind"): errno.EINVAL,
    ("received", "an element too many"): errno.EINVAL,
    ("received", "less than none"): errno.EINVAL,
    ("received", "no place"): errno.ENOMEM,
    ("received", "a reset queue pair"): errno.EINVAL,
    ("received", "a shared queue"): errno.EINVAL,
    ("received", "a region that has gone"): errno.EFAULT,
}
BOTH = [name for name in SENDS if name not in ("atomic write", "one", "one inline")]


@pytest.fixture(scope="module")
def slots(tmp_path_factory) -> dict[tuple[str, str], tuple[int, int, int, bytes]]:
    """Return, by interface and request: errno, number in the ring, number of rings, slot."""
    verbs, output = (
        catalogue.RDMA_CLIENTS / "libibverbs",
        tmp_path_factory.mktemp("slots") / "slots",
    )
    command = [build.compiler(), "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [f"-I{verbs}", f"-I{catalogue.COMMON}", f"-I{catalogue.INCLUDE}", str(PROGRAM)]
    command += [
        *(str(verbs / "posting" / name) for name in ("post.c", "builder.c")),
        "-o",
        str(output),
    ]
    subprocess.run(command, check=True)
    done = subprocess.run([output], check=True, capture_output=True, text=True)
    found = {}
    for line in done.stdout.splitlines():
        way, name, error, count, rings, slot = line.split("|")
        found[way, name] = (int(error), int(count), int(rings), bytes.fromhex(slot))
    return found


@pytest.mark.parametrize(
    ("way", "name"),
    [("posted", name) for name in BOTH] + [("built", name) for name in SENDS],
)
def test_a_request_has_each_of_its_fields(slots, way, name):
    opcode, fields, content = SENDS[name]
    error, count, rings, raw = slots[way, name]
    assert (error, count, rings) == (0, 1, 1)
    slot = HcaSendSlot.from_buffer_copy(raw)
    assert (slot.id, slot.opcode) == (0x123456789AB, opcode)
    assert {name: getattr(slot, name) for name in fields} == fields
    if isinstance(content, bytes):
        assert slot.flags == 6 | VerbsSend.INLINE
        assert bytes(slot.payload.data[: slot.inline_bytes]) == content
        return
    assert (slot.flags, slot.inline_bytes, slot.sge_count) == (6, 0, len(content))
    elements = [(one.address, one.bytes, one.lkey) for one in slot.payload.sges[: len(content)]]
    assert elements == list(content)
    if opcode == Op.BIND_MW:
        assert slot.payload.sges[0].lkey == (0xB1 if name == "bind" else 0)


@pytest.mark.parametrize(("way", "name"), ERRORS)
def test_of_a_mistake_nothing_is_published(slots, way, name):
    assert slots[way, name][:3] == (ERRORS[way, name], 0, 0)


@pytest.mark.parametrize("way", ["posted", "built", "received"])
def test_a_list_may_have_so_many_elements(slots, way):
    error, count, rings, raw = slots[way, "the longest list"]
    assert (error, count, rings) == (0, 1, 1)
    kind = HcaRecvSlot if way == "received" else HcaSendSlot
    assert kind.from_buffer_copy(raw).sge_count == HCA_MAX_SGE


@pytest.mark.parametrize("name", ["a list", "the last place"])
def test_a_receive_has_its_list(slots, name):
    error, count, rings, raw = slots["received", name]
    assert (error, count, rings) == (0, 1, 1)
    slot = HcaRecvSlot.from_buffer_copy(raw)
    assert (slot.id, slot.sge_count) == (0x123456789AB, 2)
    assert [(one.address, one.bytes, one.lkey) for one in slot.sges[:2]] == list(LIST)
