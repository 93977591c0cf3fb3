"""Inputs of a link have the same size limit as images."""

import os
import random
import struct
from collections.abc import Iterator

import pytest

from support.kernels.fat_binaries import make_entry, make_fat_binary, ptx_of
from support.processes.worker_client import Client, running_client, running_zygote
from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import LinkFlag, MessageType
from vgpu_sim.worker.modules import links
from vgpu_sim.worker.modules.images import ImageError
from vgpu_sim.worker.modules.link_inputs import Reader


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running_zygote() as zygote, running_client(zygote) as running:
        yield running


def link(client: Client, announced: int, descriptor: int, flags: int = 0) -> tuple[int, str]:
    """Return the status of a link, and its table's text."""
    payload = bytes(messages.ModuleLoad(image_bytes=announced, flags=flags))
    reply = client.request(MessageType.MODULE_LINK, payload, (descriptor,))
    table = b""
    for one in reply.descriptors:
        table += os.pread(one, 1 << 20, 0)
        os.close(one)
    return reply.status, table.decode(errors="replace")


@pytest.mark.parametrize("flags", [0, int(LinkFlag.CHECK)])
@pytest.mark.parametrize(
    ("announced", "why"),
    [
        (0, "size is out of range"),
        (1, ""),
        (5, "cannot be read"),  # one byte more than there is
        (messages.MAX_IMAGE_BYTES, "cannot be read"),
        (messages.MAX_IMAGE_BYTES + 1, "size is out of range"),
        ((1 << 64) - 1, "size is out of range"),
    ],
)
def test_a_size_is_checked_before_it_is_read(
    client: Client, announced: int, why: str, flags: int
) -> None:
    descriptor = os.memfd_create("inputs")
    os.write(descriptor, b"1234")
    status, said = link(client, announced, descriptor, flags)
    os.close(descriptor)
    assert status == CudaError.INVALID_IMAGE
    assert why in said
    assert ("out of range" in said) == ("out of range" in why)


def test_inputs_that_are_no_file_are_refused_and_the_next_link_works(client: Client) -> None:
    reader, writer = os.pipe()
    status, said = link(client, 16, reader)
    os.close(reader)
    os.close(writer)
    assert (status, "cannot be read" in said) == (CudaError.INVALID_IMAGE, True)


def test_random_damage_to_an_archive_raises_only_an_image_error() -> None:
    fat = make_fat_binary(make_entry(80, ptx_of("80"), compression="lz4"))
    names = b"\0.nv_fatbin\0\0\0\0\0"
    sections = [(0, 0, 0), (1, 64 + len(names), len(fat)), (0, 64, len(names))]
    headers = b"".join(
        struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 1, 0)
        for name, at, size in sections
    )
    start = 64 + len(names) + len(fat)
    head = struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, start, 0, 64, 0, 0, 64, 3, 2)
    whole = b"\x7fELF\2\1\1".ljust(16, b"\0") + head + names + fat + headers
    member = b"one.o/".ljust(48) + str(len(whole)).encode().ljust(10) + b"`\n"
    archive = b"!<arch>\n" + member + whole
    assert list(Reader((9, 0)).read("a", archive)) == [("a(one.o)", ptx_of("80"))]
    draw = random.Random(26)
    for _ in range(3000):
        data = bytearray(archive)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data) - 8)
            struct.pack_into("<Q", data, at, draw.choice([0, draw.getrandbits(64), 1 << 63, 99]))
        try:
            list(Reader((9, 0)).read("a", bytes(data)))
        except ImageError:
            continue


def test_decompressed_texts_of_a_link_are_limited_together() -> None:
    """A small archive could otherwise expand to any size in the slice's memory."""
    text = ptx_of("80", "// " + " " * (24 << 20) + "\n")
    inputs = b""
    for number in range(3):
        name = b"%d" % number
        image = make_fat_binary(make_entry(80, text, compression="zstd"))
        inputs += struct.pack("<IIQ", len(name), messages.LinkInput.BINARY, len(image))
        inputs += name + image
    assert len(inputs) < 64 << 10
    with pytest.raises(ImageError, match="2: the texts of a link are larger than 64 MiB"):
        links.link(inputs, (9, 0), check_only=True)
