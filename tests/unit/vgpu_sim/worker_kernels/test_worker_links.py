"""Inputs of a link have the same size limit as images."""

import os
from collections.abc import Iterator

import pytest

from support.processes.worker_client import Client, running_client, running_zygote
from vgpu_sim.hal import messages
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.messages import LinkFlag, MessageType


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
