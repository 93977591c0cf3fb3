"""Cases of video instructions: all types, saturations and third operands, several in a kernel."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.silicon.values import lanes
from benchmarks.silicon.values.bundle import Store

_TYPES = ("u32", "s32")
_EDGES = (0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x0000FF80, 0x12348765, 0xFFFE0021)
_SELECTORS = (("", ""), (".h1", ".b2"), (".b3", ".h0"))


def _rows() -> list[Any]:
    special = list(itertools.product(_EDGES, repeat=3))
    whole = np.array(special, np.uint32)
    dice = np.random.default_rng(9).integers(0, 1 << 32, (256, 3), np.uint32)
    return [np.ascontiguousarray(column) for column in np.concatenate([whole, dice]).T]


def cases(store: Store) -> Iterator[dict[str, Any]]:
    """Return each combination once."""
    rows = _rows()
    several = [f"{sat}{ending}" for sat in ("", ".sat") for ending in ("", ".add", ".min", ".max")]
    for opcode in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr"):
        for d, a, b in itertools.product(_TYPES, repeat=3):
            if opcode in ("vshl", "vshr") and b == "s32":
                continue
            for left, right in _SELECTORS[: 1 if opcode in ("vabsdiff", "vmin", "vmax") else 3]:
                lines = []
                for n, ending in enumerate(several):
                    mode = ".clamp" if opcode in ("vshl", "vshr") else ""
                    third = ", %c" if ending[-4:] in (".add", ".min", ".max") else ""
                    sat = ".sat" if ending.startswith(".sat") else ""
                    last = ending.removeprefix(".sat")
                    lines.append(
                        f"{opcode}.{d}.{a}.{b}{sat}{mode}{last} %d{n}, %a{left}, %b{right}{third};"
                    )
                name = f"video/{opcode}.{d}.{a}.{b}{left}{right}"
                body = "\n".join(lines)
                yield lanes.case(name, "video", body, [32] * len(several), rows, store)
        if opcode in ("vadd", "vshl", "vshr"):
            mode = ".wrap" if opcode[1] == "s" else ""
            for place, (d, a) in enumerate(itertools.product(_TYPES, repeat=2)):
                lines = [f"mov.b32 %d{n}, %c;" for n in range(4)]
                for n, part in enumerate((".b1", ".h1")):
                    lines.append(f"{opcode}.{d}.{a}.u32{mode} %d{n}{part}, %a, %b, %c;")
                    lines.append(f"{opcode}.{d}.{a}.u32.sat{mode} %d{n + 2}{part}, %a, %b, %c;")
                name = f"video/{opcode}.merge{place}"
                yield lanes.case(name, "video", "\n".join(lines), [32] * 4, rows, store)
    yield from _comparisons(rows, store)
    yield from _products(rows, store)


def _comparisons(rows: list[Any], store: Store) -> Iterator[dict[str, Any]]:
    for a, b in itertools.product(_TYPES, repeat=2):
        for compare in ("eq", "lt", "ge"):
            lines = [
                f"vset.{a}.{b}.{compare}{last} %d{n}, %a, %b{', %c' if last else ''};"
                for n, last in enumerate(("", ".add", ".min", ".max"))
            ]
            name = f"video/vset.{a}.{b}.{compare}"
            yield lanes.case(name, "video", "\n".join(lines), [32] * 4, rows, store)


def _products(rows: list[Any], store: Store) -> Iterator[dict[str, Any]]:
    signs = (("", "", ""), ("-", "", ""), ("", "", "-"))
    for d, a, b in itertools.product(_TYPES, repeat=3):
        for left, right in _SELECTORS:
            for x, _, z in signs:
                for plus in ("", ".po"):
                    if plus and (x or z):
                        continue
                    lines = [
                        f"vmad.{d}.{a}.{b}{plus}{sat}{shift} %d{n}, {x}%a{left}, %b{right}, {z}%c;"
                        for n, (sat, shift) in enumerate(
                            itertools.product(("", ".sat"), ("", ".shr7", ".shr15"))
                        )
                    ]
                    name = f"video/vmad.{d}.{a}.{b}{plus}{x}{left}{right}{z or '+'}"
                    yield lanes.case(name, "video", "\n".join(lines), [32] * 6, rows, store)
