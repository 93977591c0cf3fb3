"""Element types and devices, under torch's names."""

import ml_dtypes
import numpy as np


class dtype:  # noqa: N801  (torch's name)
    """An element type: torch's name and numpy's type."""

    def __init__(self, name, numpy):
        self.name, self.numpy = name, np.dtype(numpy)
        self.itemsize = self.numpy.itemsize

    def __repr__(self):
        return f"torch.{self.name}"

    @property
    def is_floating_point(self):
        """Whether its values are floating-point numbers."""
        return "float" in self.name

    @property
    def is_signed(self):
        """Whether it has negative values."""
        return self.name not in ("bool", "uint8", "uint16", "uint32", "uint64")


dtype.__module__ = "torch"
_NUMPY = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES = {name: dtype(name, name) for name in (*_NUMPY, "float16", "float32", "float64")}
TYPES |= {
    name: dtype(name, getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
}
ALIASES = {
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
}
_BY_NUMPY = {kind.numpy: kind for kind in TYPES.values()}


def from_numpy_type(kind):
    """Return torch's type of a numpy type."""
    return _BY_NUMPY[np.dtype(kind)]


class device:  # noqa: N801  (torch's name)
    """A device: ``cuda`` with an index, or ``cpu``."""

    def __init__(self, name="cuda", index=None):
        text, _, number = str(name).partition(":")
        self.type = text
        self.index = index if index is not None else (int(number) if number else 0)

    def __eq__(self, other):
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Keep the only device current."""

    def __str__(self):
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"

    def __repr__(self):
        return f"device({self})"
