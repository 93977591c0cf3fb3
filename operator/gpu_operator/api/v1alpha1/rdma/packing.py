"""Tables as an object holds them: as they are where they are small, deflated where they are not.

etcd takes 1.5 MiB a request; tables of 10,000 pods are some 5 MB, nearly all of it repeats itself.
Small ones stay legible, for whoever looks with kubectl.
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
    """How a text is held."""

    PLAIN = "Plain"
    DEFLATE = "Deflate"  # zlib (RFC 1950), in base64


class Packed(NamedTuple):
    """A text as an object holds it, and what tells it from every other one."""

    encoding: Encoding
    text: str
    digest: str


class Packer:
    """Packs tables of many nodes: what they share is written, deflated and digested once."""

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._shared = ""
        self._deflating = zlib.compressobj(_LEVEL)
        self._rest = b""
        self._held = ""
        self._digesting = hashlib.sha256()

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
            text = self._shared + own
            return Packed(Encoding.PLAIN, text, digest(Encoding.PLAIN, text))
        deflating = self._deflating.copy()
        rest = _base64(self._rest + deflating.compress(own.encode()) + deflating.flush())
        held = len(self._held) + len(rest)
        if held > MAX_PACKED_BYTES:
            raise TablesError(
                f"tables of {size} bytes, {held} deflated; {MAX_PACKED_BYTES} at most:"
                " fewer pods with HCAs, or fewer labels in selectors"
            )
        digesting = self._digesting.copy()
        digesting.update(rest.encode())
        return Packed(Encoding.DEFLATE, self._held + rest, digesting.hexdigest())

    def _share(self, tables: NodeTables) -> None:
        self._of = ()
        self._shared = codec.shared_text(tables)
        self._deflating = zlib.compressobj(_LEVEL)
        if len(self._shared) > MAX_BYTES:
            return  # nobody has it
        deflated = self._deflating.compress(self._shared.encode())
        # Nothing of it is left in there to be deflated for each node.
        deflated += self._deflating.flush(zlib.Z_SYNC_FLUSH)
        whole = len(deflated) // 3 * 3  # of which base64 goes on
        self._held, self._rest = _base64(deflated[:whole]), deflated[whole:]
        self._digesting = hashlib.sha256(f"{Encoding.DEFLATE}:{self._held}".encode())


def digest(encoding: str, text: str) -> str:
    """Return what tells a text, as an object holds it, from every other one."""
    return hashlib.sha256(f"{encoding}:{text}".encode()).hexdigest()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


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
