"""Parse quantities in Kubernetes' notation: 5Gi, 200k, 1.5G, 1e3, or a plain number."""

import re
from typing import Final

_UNITS: Final = {
    "": 1,
    **{f"{unit}i": 1 << 10 * power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: int(10 ** (3 * power)) for power, unit in enumerate("kMGTPE", 1)},
}
_FORM: Final = re.compile(
    r"([0-9]{1,19})(?:\.([0-9]{1,9}))?(?:[eE]([0-9]{1,2})|([A-Za-z]{0,2}))", re.ASCII
)
MAX: Final = (1 << 63) - 1


def parse(value: object) -> int:
    """Return the number that a Kubernetes quantity (resource.Quantity) stands for, rounded up.

    Raises:
        ValueError: the value is not a quantity, is less than one, or needs more than 63 bits.
    """
    text = str(value)[:40] if isinstance(value, (int, str)) else type(value).__name__
    match = _FORM.fullmatch(text) if type(value) is int or isinstance(value, str) else None
    if match is None or (match[4] or "") not in _UNITS:
        raise ValueError(f"{text!r} is not a quantity")
    fraction = match[2] or ""
    factor = int(10 ** int(match[3])) if match[3] else _UNITS[match[4] or ""]
    number = -(-int(match[1] + fraction) * factor // int("1" + "0" * len(fraction)))
    if not 1 <= number <= MAX:
        raise ValueError(f"{text!r} is not between 1 and 2^63 - 1")
    return number
