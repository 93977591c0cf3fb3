"""Storage of policy tables in an object: plain text if small, compressed if large.

etcd accepts 1.5 MiB per request. Tables for 10,000 pods have about 5 MB and are highly
repetitive. Small tables are stored as plain text, which users can read with kubectl.
"""

import base64
import binascii
import hashlib
import zlib
from enum import StrEnum
from typing import Final, NamedTuple

from rdma import codec
from rdma.codec import MAX_BYTES
from rdma.errors import TablesError
from rdma.tables import NodeTables

PLAIN_BYTES: Final = 128 << 10
MAX_PACKED_BYTES: Final = 1_400_000
_LEVEL: Final = 6


class Encoding(StrEnum):
    """Encoding of the stored text."""

    PLAIN = "Plain"
    DEFLATE = "Deflate"  # zlib (RFC 1950), in base64


class Packed(NamedTuple):
    """An encoded text, and a digest that identifies it."""

    encoding: Encoding
    text: str
    digest: str


class Packer:
    """Packs the tables of many nodes; writes, compresses and hashes their common part only once."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._shared = ""
        self._deflating = zlib.compressobj(_LEVEL)
        self._rest = b""
        self._held = ""
        self._digesting = hashlib.sha256()

    def pack(self, tables: NodeTables) -> Packed:
        """Encode a node's tables for storage in an object.

        Raises:
            TablesError: the tables are too large.
        """
        of = (tables.rules, tables.identities, tables.endpoints, tables.qos_classes)
        if len(of) != len(self._of) or any(a is not b for a, b in zip(of, self._of, strict=True)):
            self._share(tables)
            self._of = of
        own = codec.own_text(tables)
        size = len(self._shared) + len(own)
        if size > MAX_BYTES:
            raise TablesError(f"the tables have {size} bytes; the limit is {MAX_BYTES}")
        if size <= PLAIN_BYTES:
            text = self._shared + own
            return Packed(Encoding.PLAIN, text, digest(Encoding.PLAIN, text))
        deflating = self._deflating.copy()
        packed_tail = _base64(self._rest + deflating.compress(own.encode()) + deflating.flush())
        packed_bytes = len(self._held) + len(packed_tail)
        if packed_bytes > MAX_PACKED_BYTES:
            raise TablesError(
                f"the tables have {size} bytes, and {packed_bytes} after compression;"
                f" for compressed tables the limit is {MAX_PACKED_BYTES}:"
                " use fewer pods with HCAs, or fewer labels in selectors"
            )
        digesting = self._digesting.copy()
        digesting.update(packed_tail.encode())
        return Packed(Encoding.DEFLATE, self._held + packed_tail, digesting.hexdigest())

    def _share(self, tables: NodeTables) -> None:
        self._of = ()
        self._shared = codec.shared_text(tables)
        self._deflating = zlib.compressobj(_LEVEL)
        if len(self._shared) > MAX_BYTES:
            return  # ``pack`` refuses the tables of every node
        deflated = self._deflating.compress(self._shared.encode())
        # Flush, so that the compression for each node does not repeat the common part.
        deflated += self._deflating.flush(zlib.Z_SYNC_FLUSH)
        whole = len(deflated) // 3 * 3  # base64 encodes groups of three bytes
        self._held, self._rest = _base64(deflated[:whole]), deflated[whole:]
        self._digesting = hashlib.sha256(f"{Encoding.DEFLATE}:{self._held}".encode())


def digest(encoding: str, text: str) -> str:
    """Return a digest that identifies an encoded text."""
    return hashlib.sha256(f"{encoding}:{text}".encode()).hexdigest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def unpack(encoding: str, stored_text: str) -> str:
    """Decode a stored text of at most MAX_BYTES.

    Raises:
        TablesError: the encoding is unknown, or the text is invalid or too long.
    """
    if encoding == Encoding.PLAIN:
        return stored_text
    if encoding != Encoding.DEFLATE:
        raise TablesError(f"tables: encoding {encoding[:40]!r} is unknown")
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(base64.b64decode(stored_text, validate=True), MAX_BYTES)
        if not inflater.eof:
            raise TablesError(f"tables: truncated, or more than {MAX_BYTES} bytes")
        return text.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as err:
        raise TablesError(f"tables: not valid {encoding} data: {err}") from err
