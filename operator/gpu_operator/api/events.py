"""How the events that we write are called."""

import hashlib
from typing import Final

_LONGEST: Final = 180  # of an object's name: with a digest it is a name yet (253)


def name(about: str, text: str) -> str:
    """Return the name of an event on the object ``about``; ``text`` tells it from its others.

    A name that is cut may end with a dot or a hyphen, after which no dot may come (RFC 1123).
    """
    digest = hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
    return f"{about[:_LONGEST].rstrip('.-')}.{digest}"
