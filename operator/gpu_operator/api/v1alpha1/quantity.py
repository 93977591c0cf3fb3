"""Memory quantities, in the forms that the schemas admit: 8Gi, 512Mi, 1.5Gi or plain bytes."""

import re

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti)?")


def to_bytes(text: str) -> int:
    """Return bytes.

    Raises:
        ValueError: when it is not such a quantity.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"not a memory quantity: {text!r} (write 8Gi, 512Mi or bytes)")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def of_bytes(count: int) -> str:
    """Return the same number in the largest unit that it is a multiple of."""
    fitting = [unit for unit, size in _UNITS.items() if count >= size and count % size == 0]
    unit = fitting[-1] if fitting else ""
    return f"{count // _UNITS[unit]}{unit}"
