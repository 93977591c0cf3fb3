"""The table of cases in ZLUDA's ``mod.rs``: macros with arrays of Rust literals, parsed as text."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

COMMIT = "8a7931be87d758835776f54ea2e33d30621c74ce"
INSTALL = (
    "git clone https://github.com/vosen/ZLUDA && git -C ZLUDA checkout "
    f"{COMMIT} && export TESSERA_ZLUDA=$PWD/ZLUDA"
)
FOLDER = Path("ptx", "src", "test", "spirv_run")
WARP_THREADS = 64  # in a `test_ptx_warp!`

_MACRO = re.compile(r"\btest_ptx(_warp|_with_32)?!\s*\(([^;]*)\);", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*")
_DTYPES = {
    **{f"{kind[0]}{8 * size}": f"<{kind[0]}{size}" for kind in "ui" for size in (1, 2, 4, 8)},
    "f32": "<f4",
    "f64": "<f8",
    "f16": "<f2",
}
_NAMED = {
    "f32::NAN": (math.nan, "f32"),
    "f32::INFINITY": (math.inf, "f32"),
    "f32::NEG_INFINITY": (-math.inf, "f32"),
    "half::f16::NAN": (math.nan, "f16"),
    "half::f16::NEG_INFINITY": (-math.inf, "f16"),
    "half::f16::NAN.to_bits()": (0x7E00, "u16"),
}
_LIMIT = re.compile(r"([iu])(\d+)::(MAX|MIN|max_value\(\))")
_BITS = re.compile(r"(?:half::)?(f\d+)::from_bits\((0x[0-9A-Fa-f]+)\)")
_HALF = re.compile(r"half::f16::from_f(?:32|64)\((-?[0-9.]+)\)")
_PI = re.compile(r"std::f32::consts::PI(?: / ([0-9.]+)f32)?")
_INTEGER = re.compile(r"(-?)(0x[0-9A-Fa-f_]+?|0b[01_]+?|[0-9][0-9_]*?)_*([iu](?:8|16|32|64))?")
_FLOAT = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)(f32|f64)?")

Values = NDArray[np.generic]


@dataclass(frozen=True)
class Case:
    """One case: its input, its expected output (None: it must only load), and its number of
    threads.
    """

    name: str
    path: Path
    threads: int
    given: Values | None
    expected: Values | None


def cases(checkout: Path) -> Iterator[Case]:
    """Yield the cases of a checkout.

    Raises:
        ValueError: a literal has a type that this module does not know.
    """
    folder = checkout / FOLDER
    text = _COMMENT.sub("", (folder / "mod.rs").read_text())
    for found in _MACRO.finditer(text[text.index("test_ptx!(") :]):
        name, *arrays = _arguments(found[2])
        values = [_values(array) for array in arrays]
        path = folder / f"{name}.ptx"
        if not values:
            yield Case(name, path, 1, None, None)
        elif found[1] == "_warp":
            yield Case(name, path, WARP_THREADS, None, values[0])
        else:
            yield Case(name, path, 1, values[0], values[1])


def _arguments(text: str) -> list[str]:
    name, _, rest = text.partition(",")
    return [name.strip(), *re.findall(r"\[(.*?)\]", rest, re.DOTALL)]


def _values(text: str) -> Values:
    """Return an array of Rust literals; all have the type that one of them states."""
    found = [_literal(item) for part in text.split(",") if (item := " ".join(part.split()))]
    types = {type_ for _, type_ in found if type_}
    default = "f64" if any(isinstance(value, float) for value, _ in found) else "i32"
    (type_,) = types or {default}
    return np.array([value for value, _ in found]).astype(_DTYPES[type_])


def _literal(item: str) -> tuple[float | int, str]:
    if item in _NAMED:
        return _NAMED[item]
    if found := _LIMIT.fullmatch(item):
        bits, signed = int(found[2]), found[1] == "i"
        top = (1 << (bits - signed)) - 1
        return (-top - 1 if found[3] == "MIN" else top), f"{found[1]}{bits}"
    if found := _BITS.fullmatch(item):
        type_ = np.dtype(_DTYPES[found[1]])
        return float(np.array(int(found[2], 16), f"<u{type_.itemsize}").view(type_)), found[1]
    if found := _HALF.fullmatch(item):
        return float(found[1]), "f16"
    if found := _PI.fullmatch(item):
        return math.pi / float(found[1] or 1), "f32"
    if (found := _FLOAT.fullmatch(item)) and ("." in item or found[2]):
        return float(found[1]), found[2] or ""
    if found := _INTEGER.fullmatch(item):
        return int(found[1] + found[2].replace("_", ""), 0), found[3] or ""
    raise ValueError(f"no literal: {item!r}")
