"""Sizes of memory as Kubernetes writes them: 4Gi, 512Mi, 4G or plain bytes."""

import re

import click

_BYTES = {
    "": 1,
    **{f"{unit}i": 1 << 10 * power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: int(10 ** (3 * power)) for power, unit in enumerate("kMGTPE", 1)},
}
_FORM = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?([A-Za-z]*)")


def parse(text: str) -> int:
    """Parse a size (a Kubernetes resource quantity) into bytes, rounded up.

    Raises:
        ValueError: the text is not a size, or the size is 0.
    """
    match = _FORM.fullmatch(text)
    if match is None or match[3] not in _BYTES:
        raise ValueError(f"{text!r} is not a size such as 4Gi, 4G, 512Mi or a number of bytes")
    fraction = match[2] or ""
    size = -(-int(match[1] + fraction) * _BYTES[match[3]] // int("1" + "0" * len(fraction)))
    if size < 1:
        raise ValueError("the size must be at least one byte")
    return size


def convert(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Parse the value of a size option into bytes; this is a click callback.

    Raises:
        click.BadParameter: the value is not a size.
    """
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
