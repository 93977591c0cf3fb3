"""The first message: whatever is not exactly a HELLO is refused, and nothing crashes."""

import random

import pytest

from vgpu_sim.driver import hello
from vgpu_sim.driver.errors import HelloRefused
from vgpu_sim.driver.hello import HELLO_BYTES, MalformedHello
from vgpu_sim.driver.slice_client import hello_message
from vgpu_sim.hal.address_map import APERTURE_BASES
from vgpu_sim.hal.messages import Header, Hello, MessageType

BASE = APERTURE_BASES[1]


def message(kind=MessageType.HELLO_CONTEXT, **changes) -> bytes:
    data = bytearray(hello_message(kind, 9, bytes(range(32)), 5, BASE))
    header = Header.from_buffer(data)
    body = Hello.from_buffer(data, len(bytes(header)))
    for name, value in changes.items():
        setattr(header if hasattr(header, name) else body, name, value)
    return bytes(data)


def test_a_good_one_is_read():
    read = hello.parse(message())
    read.check()
    assert read.request == 9
    assert read.wants_context
    assert (read.context_index, read.aperture_base) == (5, BASE)
    assert read.token == bytes(range(32))
    assert read.reply_type is MessageType.CONTEXT_READY
    assert hello.parse(message(MessageType.HELLO_QUERY)).reply_type is MessageType.DEVICE_INFO


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        message()[:-1],
        message() + b"\0",
        message(magic=1),
        message(type=MessageType.MODULE_LOAD),
        message(type=MessageType.CONTEXT_READY),
        message(payload_bytes=63),
        bytes(HELLO_BYTES),
    ],
)
def test_a_malformed_one_is_not(data):
    with pytest.raises(MalformedHello):
        hello.parse(data)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"version_min": 2, "version_max": 9}, 803),
        ({"version_min": 0, "version_max": 0}, 803),
        ({"context_index": 64}, 1),
        ({"aperture_base": 0}, 1),
        ({"aperture_base": BASE + 4096}, 1),
        ({"flags": 1}, 1),
    ],
)
def test_a_wrong_one_is_told_why(changes, status):
    with pytest.raises(HelloRefused) as refused:
        hello.parse(message(**changes)).check()
    assert refused.value.status == status


def test_random_bytes_never_crash_it():
    generator = random.Random(1)
    good = message()
    for _ in range(5000):
        data = bytearray(good)
        for _ in range(generator.randrange(1, 8)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            hello.parse(bytes(data)).check()
        except (MalformedHello, HelloRefused):
            continue
