"""Tables as an object holds them: as they are where they are small, deflated where they are not.

etcd takes 1.5 MiB a request; tables of 10,000 pods are some 5 MB, nearly all of it repeats itself.
Small ones stay legible, for whoever looks with kubectl.
"""

import base64
import binascii
import zlib
from enum import StrEnum
from typing import Final

from rdma import codec
from rdma.codec import MAX_BYTES
from rdma.errors import TablesError
from rdma.tables import NodeTables

PLAIN_BYTES: Final = 128 << 10
MAX_PACKED_BYTES: Final = 1_400_000
_LEVEL: Final = 6


class Encoding(StrEnum):
    """How a text is held."""

    PLAIN = "Plain"
    DEFLATE = "Deflate"  # zlib (RFC 1950), in base64


Packed = tuple[Encoding, str]


class Packer:
    """Packs tables of many nodes: what they share is written and deflated once."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._shared = ""
        self._deflating = zlib.compressobj(_LEVEL)
        self._deflated = b""

    def pack(self, tables: NodeTables) -> Packed:
        """Return a node's tables as an object holds them. Raises TablesError where none can."""
        of = (tables.rules, tables.identities, tables.endpoints, tables.qos_classes)
        if len(of) != len(self._of) or any(a is not b for a, b in zip(of, self._of, strict=True)):
            self._share(tables)
            self._of = of
        own = codec.own_text(tables)
        size = len(self._shared) + len(own)
        if size > MAX_BYTES:
            raise TablesError(f"tables of {size} bytes; {MAX_BYTES} at most")
        if size <= PLAIN_BYTES:
            return Encoding.PLAIN, self._shared + own
        rest = self._deflating.copy()
        deflated = self._deflated + rest.compress(own.encode()) + rest.flush()
        return Encoding.DEFLATE, _held(size, deflated)

    def _share(self, tables: NodeTables) -> None:
        self._of = ()
        self._shared = codec.shared_text(tables)
        self._deflating = zlib.compressobj(_LEVEL)
        self._deflated = b""
        if len(self._shared) <= MAX_BYTES:
            self._deflated = self._deflating.compress(self._shared.encode())


def _held(size: int, deflated: bytes) -> str:
    packed = base64.b64encode(deflated).decode()
    if len(packed) > MAX_PACKED_BYTES:
        raise TablesError(
            f"tables of {size} bytes, {len(packed)} deflated; {MAX_PACKED_BYTES} at most:"
            " fewer pods with HCAs, or fewer labels in selectors"
        )
    return packed


def unpack(encoding: str, held: str) -> str:
    """Return the text that an object holds. Raises TablesError; never makes more than MAX_BYTES."""
    if encoding == Encoding.PLAIN:
        return held
    if encoding != Encoding.DEFLATE:
        raise TablesError(f"tables: encoding {encoding[:40]!r} is unknown")
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(base64.b64decode(held, validate=True), MAX_BYTES)
        if not inflater.eof:
            raise TablesError(f"tables: cut off, or more than {MAX_BYTES} bytes")
        return text.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as err:
        raise TablesError(f"tables: not {encoding}: {err}") from err
