"""Memory quantities, in the forms that the schemas admit: 8Gi, 512Mi, 1.5Gi or plain bytes."""

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
    """Return bytes.

    Raises:
        ValueError: when it is not such a quantity.
    """
    match = _FORM.fullmatch(text)
    if match is None or len(match[1]) > _MOST_DIGITS:
        raise ValueError(f"not a memory quantity: {text[:40]!r} (write 8Gi, 512Mi or bytes)")
    return int(Fraction(match[1]) * _UNITS[match[2] or ""])


def of_api(text: str) -> int:
    """Return what a quantity of the Kubernetes API is, in whatever form, rounded up.

    Raises:
        ValueError: it is none, or below zero.
    """
    match = _API_FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text[:40]!r}")
    number, exponent, suffix = match[1], int(match[2] or 0), match[3] or ""
    if abs(exponent) > _MOST_DIGITS or len(number) > _MOST_DIGITS:
        raise ValueError(f"not a quantity of memory: {text[:40]!r}")
    factor = _API_UNITS[suffix] * Fraction(10) ** exponent
    return math.ceil(Fraction(number) * factor)


def of_bytes(count: int) -> str:
    """Return the same number in the largest unit that it is a multiple of."""
    fitting = [unit for unit, size in _UNITS.items() if count >= size and count % size == 0]
    unit = fitting[-1] if fitting else ""
    return f"{count // _UNITS[unit]}{unit}"
