"""Tables as an object holds them: as they are where they are small, deflated where they are not.

etcd takes 1.5 MiB a request; tables of 10,000 pods are some 5 MB, nearly all of it repeats itself.
Small ones stay legible, for whoever looks with kubectl.
"""

import base64
import binascii
import zlib
from enum import StrEnum
from typing import Final

from rdma.codec import MAX_BYTES
from rdma.errors import TablesError

PLAIN_BYTES: Final = 128 << 10
MAX_PACKED_BYTES: Final = 1_400_000
_LEVEL: Final = 6


class Encoding(StrEnum):
    """How a text is held."""

    PLAIN = "Plain"
    DEFLATE = "Deflate"  # zlib (RFC 1950), in base64


def pack(text: str) -> tuple[Encoding, str]:
    """Return a text as an object holds it. Raises TablesError where no object can."""
    if len(text) <= PLAIN_BYTES:
        return Encoding.PLAIN, text
    packed = base64.b64encode(zlib.compress(text.encode(), _LEVEL)).decode()
    if len(packed) > MAX_PACKED_BYTES:
        raise TablesError(
            f"tables of {len(text)} bytes, {len(packed)} deflated; {MAX_PACKED_BYTES} at most:"
            " fewer pods with HCAs, or fewer labels in selectors"
        )
    return Encoding.DEFLATE, packed


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
