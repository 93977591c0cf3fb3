"""Reads a verb's input file. The size is limited, and an unreadable file gives a one-line error."""

import click

from vgpu_sim.cli.errors import InvalidInput
from vgpu_sim.hal.messages import MAX_IMAGE_BYTES

# click would report an unreadable file as wrong usage, with the exit status of wrong usage.
FILE = click.Path(readable=False)


class UnreadableFile(InvalidInput):
    """A file cannot be read; the message names it and the reason."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")


def read(file: str) -> bytes:
    """Return the bytes of ``file``; - is standard input.

    Raises:
        UnreadableFile: the file cannot be read, or is larger than any image that a device loads.
    """
    try:
        with click.open_file(file, "rb") as stream:
            content: bytes = stream.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise UnreadableFile(file, error.strerror or str(error)) from error
    if len(content) > MAX_IMAGE_BYTES:
        limit = f"a device loads {MAX_IMAGE_BYTES >> 20} MiB at most"
        raise UnreadableFile(file, f"File too large ({limit})")
    return content


def read_text(file: str) -> str:
    """Return the text of ``file``, which is UTF-8; - is standard input.

    Raises:
        UnreadableFile: as ``read``, and if the bytes are not UTF-8.
    """
    content = read(file)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        reason = f"not text: line {line} has the byte {content[error.start]:#04x}"
        raise UnreadableFile(file, f"{reason}, which is not UTF-8") from error
