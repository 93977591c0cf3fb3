"""Reads the file that a verb is given: bounded, whatever it is."""

import errno
import os

import click

from vgpu_sim.hal.messages import MAX_IMAGE_BYTES


def read(file: str) -> bytes:
    """Return the bytes of ``file``; - is standard input.

    Raises:
        OSError: it cannot be read, or is larger than any image that a device loads (EFBIG).
    """
    with click.open_file(file, "rb") as stream:
        content: bytes = stream.read(MAX_IMAGE_BYTES + 1)
    if len(content) > MAX_IMAGE_BYTES:
        reason = f"{os.strerror(errno.EFBIG)} (a device loads {MAX_IMAGE_BYTES >> 20} MiB at most)"
        raise OSError(errno.EFBIG, reason)
    return content
