"""The first message: anything but a valid HELLO is refused, and nothing crashes."""

import random

import pytest

from vgpu_sim.cli.clients.slices import hello_message
from vgpu_sim.gpud.errors import HelloRefused
from vgpu_sim.gpud.slices import hello
from vgpu_sim.gpud.slices.hello import HELLO_BYTES, MalformedHello
from vgpu_sim.hal.compute.address_map import APERTURE_BASES
from vgpu_sim.hal.messages import (
    PROTOCOL_VERSION,
    WHOLE_THREAD_SHARE,
    Header,
    Hello,
    MessageType,
)

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
    ("data", "reason"),
    [
        (b"x", f"the message has 1 bytes instead of {HELLO_BYTES}"),
        (message()[:-1], f"the message has {HELLO_BYTES - 1} bytes instead of {HELLO_BYTES}"),
        (message() + b"\0", f"the message has {HELLO_BYTES + 1} bytes instead of {HELLO_BYTES}"),
        (message(magic=1), "wrong magic 0x00000001"),
        (message(type=MessageType.MODULE_LOAD), f"unexpected type {MessageType.MODULE_LOAD:d}"),
        (message(type=MessageType.CONTEXT_READY), f"unexpected type {MessageType.CONTEXT_READY:d}"),
        (message(payload_bytes=63), "unexpected payload of 63 bytes"),
        (message(reserved=1), "reserved fields are not zero"),
        (bytes(HELLO_BYTES), "wrong magic 0x00000000"),
    ],
)
def test_a_malformed_one_is_not(data, reason):
    with pytest.raises(MalformedHello) as caught:
        hello.parse(data)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"version_min": PROTOCOL_VERSION + 1, "version_max": 9}, 803),
        ({"version_min": 0, "version_max": 0}, 803),
        ({"context_index": 64}, 1),
        ({"aperture_base": 0}, 1),
        ({"aperture_base": BASE + 4096}, 1),
        ({"flags": 1}, 1),
        ({"thread_share": WHOLE_THREAD_SHARE + 1}, 1),
    ],
)
def test_a_wrong_value_is_reported_with_the_reason(changes, status):
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
