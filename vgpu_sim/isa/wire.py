"""Bounds-checked reading of bytes from a hostile file."""

import struct

from vgpu_sim.isa.errors import ContainerError


class Reader:
    """Reads records in order from one section; ``what`` names it in errors."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._position = 0

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._position

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read one record of integers."""
        return layout.unpack(self.take(layout.size))

    def take(self, size: int) -> bytes:
        """Read ``size`` bytes.

        Raises:
            ContainerError: when fewer remain.
        """
        if size > self.remaining:
            raise ContainerError(f"{self._what}: {size} bytes where {self.remaining} remain")
        self._position += size
        return self._data[self._position - size : self._position]

    def rest(self, layout: struct.Struct) -> list[tuple[int, ...]]:
        """Read records up to the end.

        Raises:
            ContainerError: when the end is inside of one.
        """
        if self.remaining % layout.size:
            raise ContainerError(f"{self._what}: not a whole number of {layout.size}-byte records")
        return list(layout.iter_unpack(self.take(self.remaining)))

    def finish(self) -> None:
        """Require that all was read."""
        if self.remaining:
            raise ContainerError(f"{self._what}: {self.remaining} bytes too many")


class Strings:
    """The string section: UTF-8 without separators, named by (offset, size)."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data)
        self._known: dict[str, tuple[int, int]] = {}
        self._read: dict[tuple[int, int], str] = {}
        self._unread_bytes = len(data)

    def add(self, text: str) -> tuple[int, int]:
        """Return where the text stands, adding it if need be.

        Raises:
            ContainerError: when it has no UTF-8 form.
        """
        if text not in self._known:
            encoded = encode_text(text)
            self._known[text] = len(self._data), len(encoded)
            self._data += encoded
        return self._known[text]

    def get(self, offset: int, size: int) -> str:
        """Return the text there.

        Raises:
            ContainerError: for a place outside of the section, bytes that are not UTF-8, or texts
                that overlap: a small file could make huge names of those.
        """
        place = offset, size
        if place not in self._read:
            if offset + size > len(self._data):
                raise ContainerError(f"string at {offset} of {size} bytes is out of its section")
            if size > self._unread_bytes:
                raise ContainerError(f"string at {offset} of {size} bytes overlaps others")
            self._unread_bytes -= size
            self._read[place] = decode_text(bytes(self._data[offset : offset + size]))
        return self._read[place]

    def to_bytes(self) -> bytes:
        """Return the section."""
        return bytes(self._data)


def encode_text(text: str) -> bytes:
    """Return UTF-8, or raise ContainerError for text (lone surrogates) that has none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ContainerError(f"text has no UTF-8 form: {error}") from error


def decode_text(data: bytes) -> str:
    """Return the text, or raise ContainerError for bytes that are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ContainerError(f"text is not UTF-8: {error}") from error
