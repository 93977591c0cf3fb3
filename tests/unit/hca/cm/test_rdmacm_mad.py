"""The connection manager's MADs: encoding, decoding, hostile bytes, and tshark's dissection."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from hca.daemon.cm import private_data
from hca.daemon.cm.mad_codec import MAD_BYTES, MalformedMad, decode, encode
from hca.daemon.cm.messages import (
    MOST_DATA,
    Drep,
    Dreq,
    Mra,
    Path as Way,
    Rej,
    Rep,
    Req,
    Rtu,
    SidrRep,
    SidrReq,
)

INSTALL = "apt-get install tshark"
HERE, THERE = (bytes(10) + b"\xff\xff" + bytes((198, 18, 0, n)) for n in (1, 2))


def u(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


def data_of(kind: type) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=MOST_DATA[kind]).map(lambda d: d.ljust(MOST_DATA[kind], b"\0"))


gid = st.binary(min_size=16, max_size=16)
way = st.builds(Way, gid, gid, u(8), u(8), u(20), u(4), u(5))
numbers = (u(32), u(32))
MESSAGES = st.one_of(
    st.builds(
        *(Req, u(32), u(64), way, u(24), u(24), st.binary(min_size=8, max_size=8), u(8), u(8)),
        *(u(3), u(3), u(1), u(1), u(2), u(4), u(16), u(5), u(4), data_of(Req)),
    ),
    st.builds(
        *(Rep, *numbers, u(24), u(24), st.binary(min_size=8, max_size=8)),
        *(u(8), u(8), u(3), u(1), u(1), data_of(Rep)),
    ),
    st.builds(Mra, *numbers, u(2), u(5)),
    st.builds(Rej, *numbers, u(2), u(16), data_of(Rej)),
    st.builds(Rtu, *numbers, data_of(Rtu)),
    st.builds(Dreq, *numbers, u(24), data_of(Dreq)),
    st.builds(Drep, *numbers, data_of(Drep)),
    st.builds(SidrReq, u(32), u(64), u(16), data_of(SidrReq)),
    st.builds(SidrRep, u(32), u(8), u(24), u(64), u(32), data_of(SidrRep)),
)


@settings(max_examples=400, deadline=None)
@given(message=MESSAGES, transaction=u(64))
def test_every_message_comes_back_as_it_was(message, transaction):
    mad = encode(message, transaction)
    assert len(mad) == MAD_BYTES
    assert decode(mad) == (message, transaction)


@settings(max_examples=400, deadline=None)
@given(
    raw=st.binary(max_size=300)
    | st.builds(
        lambda attribute, rest: bytes((1, 7, 2, 3, *bytes(12), 0, attribute)) + rest,
        st.integers(0, 32),
        st.binary(min_size=238, max_size=238),
    )
)
def test_hostile_bytes_are_refused_or_decode_to_an_encodable_message(raw):
    try:
        message, transaction = decode(raw)
    except MalformedMad:
        return
    assert decode(encode(message, transaction))[0] == message


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_mad_of_another_class_or_version_is_ignored(at):
    mad = bytearray(encode(Rtu(1, 2), 3))
    mad[at] += 1
    with pytest.raises(MalformedMad, match="class"):
        decode(bytes(mad))


@pytest.mark.parametrize("kind", [Rtu, Drep])
def test_too_much_private_data_does_not_fit(kind):
    with pytest.raises(ValueError, match="225 bytes"):
        encode(kind(1, 2, bytes(225)), 0)


def test_addresses_before_private_data():
    """The header in a real client's request has the form of the specification's annex A11."""
    packed = private_data.pack(private_data.Endpoints(HERE, 40000, THERE))
    assert packed.hex() == "0040" + "9c40" + "00" * 12 + "c6120001" + "00" * 12 + "c6120002"
    assert private_data.unpack(packed + b"rest") == private_data.Endpoints(HERE, 40000, THERE)
    with pytest.raises(ValueError, match="one address is IPv4 and the other IPv6"):
        private_data.pack(private_data.Endpoints(HERE, 1, bytes(16)))
    for bad in (packed[:-1], b"\x10" + packed[1:], b"\0\x50" + packed[2:]):
        with pytest.raises(private_data.MalformedHeader):
            private_data.unpack(bad)


def packet(mad: bytes) -> bytes:
    """Return a RoCEv2 packet to queue pair 1, with a wrong ICRC, which tshark does not check."""
    bth = struct.pack(">BBHII", 0x64, 0x40, 0xFFFF, 1, 0x80000000)
    deth = struct.pack(">II", 0x80010000, 1)
    body = bth + deth + mad + bytes(4)
    udp = struct.pack(">HHHH", 0xC000, 4791, 8 + len(body), 0) + body
    ip = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, HERE[12:], THERE[12:]
    )
    return bytes(12) + b"\x08\x00" + ip + udp


def read_fields(tmp_path: Path, mad: bytes, fields: list[str]) -> list[str]:
    """Return fields of a MAD's packet as tshark dissects them."""
    capture = tmp_path / "cm.pcap"
    one = packet(mad)
    capture.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        + struct.pack("<IIII", 0, 0, len(one), len(one))
        + one
    )
    wanted = [part for field in fields for part in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-r", str(capture), "-T", "fields", "-E", "separator=|", *wanted],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/sbin"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n").split("|")


ADDRESSES = private_data.pack(private_data.Endpoints(HERE, 40000, THERE))
SHOWN = [
    (
        Req(
            *(7, 0x0106_1BD7, Way(HERE, THERE, 9, 63, 5, 3, 18), 0xABCDE, 0x123456, bytes(8)),
            *(3, 4, 6, 5, 1, 1, 0, 4, 0x8001, 20, 15, ADDRESSES + b"hello"),
        ),
        {
            "req.serviceid.dport": 0x1BD7,
            "req.localqpn": 0xABCDE,
            "req.responderres": 3,
            "req.initdepth": 4,
            "req.startpsn": 0x123456,
            "req.retrcount": 6,
            "req.pkey": 0x8001,
            "req.pppmtu": 4,
            "req.rnrretrcount": 5,
            "req.maxcmretr": 15,
            "req.localresptout": 20,
            "req.remoteresptout": 20,
            "req.e2eflowctrl": 1,
            "req.srq": 1,
            "req.transpsvctype": 0,
            "req.prim_localgid_ipv4": "198.18.0.1",
            "req.prim_remotegid_ipv4": "198.18.0.2",
            "req.prim_tfcclass": 9,
            "req.prim_hoplim": 63,
            "req.prim_sl": 3,
            "req.prim_localacktout": 18,
            "req.ip_cm.sport": 40000,
            "req.ip_cm.ipv": 4,  # it dissects 12 bits of flow labels
            "req.ip_cm.sip4": "198.18.0.1",
            "req.ip_cm.dip4": "198.18.0.2",
        },
    ),
    (
        Rep(7, 9, 0x23456, 0x654321, bytes(8), 2, 1, 6, 1, 1),
        {
            "rep.remotecommid": 9,
            "rep.localqpn": 0x23456,
            "rep.startpsn": 0x654321,
            "rep.respres": 2,
            "rep.initdepth": 1,
            "rep.rnrretrcount": 6,
            "rep.srq": 1,
            "rep.e2eflowctrl": 1,
        },
    ),
    (Rtu(7, 9), {"rtu.localcommid": 7, "rtu.remotecommid": 9}),
    (
        Rej(7, 9, 1, 28),
        {"rej.localcommid": 7, "rej.remotecommid": 9, "rej.msgrej": 1, "rej.reason": 28},
    ),
    (
        Dreq(7, 9, 0x3456),
        {"dreq.localcommid": 7, "dreq.remotecommid": 9, "req.remoteqpneecn": 0x3456},
    ),
    (Drep(7, 9), {"drsp.localcommid": 7, "drsp.remotecommid": 9}),
]


@pytest.mark.skipif(shutil.which("tshark") is None, reason=f"NOT RUN: no tshark: {INSTALL}")
@pytest.mark.parametrize(("message", "wanted"), SHOWN, ids=lambda one: type(one).__name__)
def test_tshark_reads_the_encoded_fields(tmp_path, message, wanted):
    names = [f"infiniband.cm.{name}" for name in wanted]
    found = read_fields(tmp_path, encode(message, 0x99), ["infiniband.mad.transactionid", *names])
    read = [int(text, 0) if text.count(".") == 0 else text for text in found]
    assert read == [0x99, *wanted.values()]
