"""Names of the Kubernetes events that Tessera writes."""

import hashlib
from typing import Final

_LONGEST: Final = 180  # of an object's name; with the digest it stays within the limit of 253


def event_name(about: str, text: str) -> str:
    """Return the name of an event about the object ``about``.

    ``text`` distinguishes the events about one object. A long object name is cut. Dots and hyphens
    at the cut are removed, because neither may precede the next dot (RFC 1123).
    """
    digest = hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
    return f"{about[:_LONGEST].rstrip('.-')}.{digest}"
