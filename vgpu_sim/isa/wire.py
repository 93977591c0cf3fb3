"""Bounds-checked reading of bytes from a hostile file."""

import struct

from vgpu_sim.isa.errors import ContainerError


class Reader:
    """Reads records in order from one section; ``section_name`` is the section's name in errors."""

    def __init__(self, data: bytes, section_name: str) -> None:
        self._data = data
        self._what = section_name
        self._position = 0

    @property
    def remaining(self) -> int:
        """The number of bytes of the section that were not read yet."""
        return len(self._data) - self._position

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read the integers of one record."""
        return layout.unpack(self.take(layout.size))

    def take(self, size: int) -> bytes:
        """Read the next ``size`` bytes.

        Raises:
            ContainerError: fewer bytes remain.
        """
        if size > self.remaining:
            raise ContainerError(
                f"{self._what}: expected {size} more bytes, but only {self.remaining} remain"
            )
        self._position += size
        return self._data[self._position - size : self._position]

    def rest(self, layout: struct.Struct) -> list[tuple[int, ...]]:
        """Read records up to the end of the section.

        Raises:
            ContainerError: the last record is incomplete.
        """
        if self.remaining % layout.size:
            raise ContainerError(f"{self._what}: not a whole number of {layout.size}-byte records")
        return list(layout.iter_unpack(self.take(self.remaining)))

    def finish(self) -> None:
        """Check that all bytes of the section were read."""
        if self.remaining:
            raise ContainerError(f"{self._what}: {self.remaining} unexpected bytes at the end")


class Strings:
    """The string section: UTF-8 texts without separators, located by (offset, size)."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data)
        self._known: dict[str, tuple[int, int]] = {}
        self._read: dict[tuple[int, int], str] = {}
        self._unread_bytes = len(data)

    def add(self, text: str) -> tuple[int, int]:
        """Return the position of a text in the section. A text that is not in the section yet is
        added.

        Raises:
            ContainerError: the text has no UTF-8 form.
        """
        if text not in self._known:
            encoded = encode_text(text)
            self._known[text] = len(self._data), len(encoded)
            self._data += encoded
        return self._known[text]

    def get(self, offset: int, size: int) -> str:
        """Return the text at a position of the string section.

        Raises:
            ContainerError: the position is outside the section, the bytes are not UTF-8, or the
                text overlaps others: overlaps would let a small file contain huge names.
        """
        place = offset, size
        if place not in self._read:
            if offset + size > len(self._data):
                raise ContainerError(
                    f"string of {size} bytes at offset {offset} is outside its section"
                )
            if size > self._unread_bytes:
                raise ContainerError(f"string of {size} bytes at offset {offset} overlaps others")
            self._unread_bytes -= size
            self._read[place] = decode_text(bytes(self._data[offset : offset + size]))
        return self._read[place]

    def to_bytes(self) -> bytes:
        """Return the bytes of the string section."""
        return bytes(self._data)


def encode_text(text: str) -> bytes:
    """Return the text in UTF-8. Raises ContainerError if it has no UTF-8 form (lone surrogates)."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ContainerError(f"text has no UTF-8 form: {error}") from error


def decode_text(data: bytes) -> str:
    """Return the text of UTF-8 bytes. Raises ContainerError if the bytes are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ContainerError(f"text is not UTF-8: {error}") from error
