"""Memory quantities in the forms that the schemas accept: 8Gi, 512Mi, 1.5Gi or plain bytes."""

import math
import re
from fractions import Fraction

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_API_UNITS = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000) ** (n + 1) for n, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(1024) ** (n + 1) for n, unit in enumerate("KMGTPE")},
}
_API_FORM = re.compile(
    r"\+?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([-+]?[0-9]{1,3})|([KMGTPE]i|[mkMGTPE]))?", re.ASCII
)
_MOST_DIGITS = 40
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti)?", re.ASCII)


def to_bytes(text: str) -> int:
    """Parse a memory quantity; return bytes.

    Raises:
        ValueError: the text is not a memory quantity.
    """
    match = _FORM.fullmatch(text)
    if match is None or len(match[1]) > _MOST_DIGITS:
        raise ValueError(f"not a memory quantity: {text[:40]!r} (write 8Gi, 512Mi or bytes)")
    return int(Fraction(match[1]) * _UNITS[match[2] or ""])


def parse_api_quantity(text: str) -> int:
    """Parse a quantity in any form of the Kubernetes API; return it rounded up to an integer.

    Raises:
        ValueError: the text is not a quantity, or it is negative.
    """
    match = _API_FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text[:40]!r}")
    number, exponent, suffix = match[1], int(match[2] or 0), match[3] or ""
    if abs(exponent) > _MOST_DIGITS or len(number) > _MOST_DIGITS:
        raise ValueError(f"not a quantity (it has too many digits): {text[:40]!r}")
    factor = _API_UNITS[suffix] * Fraction(10) ** exponent
    return math.ceil(Fraction(number) * factor)


def format_bytes(count: int) -> str:
    """Format a number of bytes in the largest unit that divides it."""
    fitting = [unit for unit, size in _UNITS.items() if count >= size and count % size == 0]
    unit = fitting[-1] if fitting else ""
    return f"{count // _UNITS[unit]}{unit}"
