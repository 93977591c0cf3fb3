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
    """Return the bytes of a size (Kubernetes' resource quantities), rounded up to a whole one.

    Raises:
        ValueError: it is no such size, or nothing at all.
    """
    found = _FORM.fullmatch(text)
    if found is None or found[3] not in _BYTES:
        raise ValueError(f"{text!r} is not a size such as 4Gi, 4G, 512Mi or bytes")
    fraction = found[2] or ""
    size = -(-int(found[1] + fraction) * _BYTES[found[3]] // int("1" + "0" * len(fraction)))
    if size < 1:
        raise ValueError("at least one byte is needed")
    return size


def convert(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Return an option's bytes, as a click callback.

    Raises:
        click.BadParameter: it is no size.
    """
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
