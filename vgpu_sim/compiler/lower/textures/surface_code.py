"""Functions in PTX that access a surface, one for each form of ``suld``, ``sust`` and ``sured``.

Coordinates outside of the surface end the kernel (trap), are clamped, or make a load return zeros
and a store or reduction do nothing (zero).
"""

import functools
from typing import Final

from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.textures import layout
from vgpu_sim.compiler.lower.textures.layout import FORMATS, Shape
from vgpu_sim.compiler.ptx import tree

GEOMETRIES: Final = {
    "1d": ((Shape.LINE, Shape.PLANE), 1),
    "2d": ((Shape.PLANE,), 2),
    "3d": ((Shape.SPACE,), 3),
    "a1d": ((Shape.LAYERED_LINE,), 1),
    "a2d": ((Shape.LAYERED_PLANE, Shape.CUBE, Shape.LAYERED_CUBE), 2),
}
"""For each geometry, the shapes that it accesses, and the dimensions without the layer."""

LAYERED: Final = frozenset({"a1d", "a2d"})
_VOLUME: Final = 3
_REGISTERS: Final = f"""
  {layout.REGISTERS} .reg .pred %out, %signed; .reg .b64 %at, %limit, %b<3>;
  .reg .b32 %x<3>, %n, %low, %high, %v; .reg .b16 %narrow;
"""


def _begin(geometry: str, outside: str, size: str) -> str:
    """Return PTX that sets %at to the address of what is accessed. The coordinate x is in units of
    which ``size`` is the number that are accessed at once.

    %out is true if a coordinate is outside.
    """
    shapes, dimensions = GEOMETRIES[geometry]
    layered = geometry in LAYERED
    lines = [
        layout.read_kind(layout.SURFACE, shapes),
        f"add.u64 %level, %handle, {layout.LEVEL};",
        layout.read_level(dimensions, layered=layered),
        "mul.wide.u32 %limit, %size0, %bytes; cvt.s64.s32 %at, %c0;",
    ]
    if size == "element":
        lines.append(
            "cvt.s64.s32 %b0, %bytes; mul.lo.s64 %at, %at, %b0; sub.u64 %limit, %limit, %b0;"
        )
    else:
        lines.append(f"setp.lt.u64 %p, %limit, {size}; @%p trap; sub.u64 %limit, %limit, {size};")
    lines.append("setp.gt.u64 %out, %at, %limit;")
    if outside == "clamp":
        lines.append("max.s64 %at, %at, 0; min.s64 %at, %at, %limit;")
    rows = []
    for n in range(1, dimensions):
        rows.append((f"%c{n}", f"%size{n}", "%slice" if n > 1 else "%pitch"))
    if layered:
        rows.append(("%layer", "%layers", "%slice"))
    for coordinate, size_, stride in rows:
        lines.append(f"setp.ge.u32.or %out, {coordinate}, {size_}, %out; mov.b32 %k, {coordinate};")
        if outside == "clamp":
            lines.append(f"sub.u32 %n, {size_}, 1; max.s32 %k, %k, 0; min.s32 %k, %k, %n;")
        if stride == "%pitch":
            lines.append("mul.wide.u32 %wide, %k, %pitch; add.u64 %at, %at, %wide;")
        else:
            lines.append(f"cvt.u64.u32 %wide, %k; mad.lo.u64 %at, %wide, {stride}, %at;")
    lines.append("add.u64 %at, %at, %base;")
    if outside == "trap":
        lines.append("@%out trap;")
    return "\n".join(lines)


def _parameters(geometry: str) -> str:
    _, dimensions = GEOMETRIES[geometry]
    return (
        "b64 %handle"
        + ", b32 %layer" * (geometry in LAYERED)
        + "".join(f", b32 %c{n}" for n in range(dimensions))
    )


def _data(bits: int, count: int) -> tuple[str, str]:
    """Return the declarations of ``count`` registers for data, and the vector of them."""
    names = [f"%d{n}" for n in range(count)]
    declarations = ", ".join(f"b{max(bits, 16)} {name}" for name in names)
    return declarations, names[0] if count == 1 else f"{{{', '.join(names)}}}"


def _vector(count: int) -> str:
    return "" if count == 1 else f".v{count}"


@functools.lru_cache(maxsize=128)
def load(geometry: str, outside: str, bits: int, count: int) -> tree.Function:
    """Return the code that loads ``count`` words of ``bits`` bits."""
    results, data = _data(bits, count)
    body = _begin(geometry, outside, str(bits // 8 * count))
    if outside == "zero":
        moved = f"b{max(bits, 16)}"
        body += "".join(f"\nmov.{moved} %d{n}, 0;" for n in range(count)) + "\n@%out bra DONE;"
    body += f"\nld.global{_vector(count)}.b{bits} {data}, [%at];\nDONE:"
    name = f"tessera.surface.load.{geometry}.{outside}.{bits}.{count}"
    return library.function(name, _parameters(geometry), _REGISTERS, body, results)


@functools.lru_cache(maxsize=128)
def store(geometry: str, outside: str, bits: int, count: int) -> tree.Function:
    """Return the code that stores ``count`` words of ``bits`` bits."""
    data_parameters, data = _data(bits, count)
    body = _begin(geometry, outside, str(bits // 8 * count))
    if outside == "zero":
        body += "\n@%out bra DONE;"
    body += f"\nst.global{_vector(count)}.b{bits} [%at], {data};\nDONE:"
    name = f"tessera.surface.store.{geometry}.{outside}.{bits}.{count}"
    return library.function(name, f"{_parameters(geometry)}, {data_parameters}", _REGISTERS, body)


@functools.lru_cache(maxsize=64)
def update(geometry: str, outside: str, operation: str, type_: str) -> tree.Function:
    """Return the code that reduces one word of ``type_``, at a coordinate x in bytes."""
    bits = int(type_[1:])
    body = _begin(geometry, outside, str(bits // 8))
    if outside == "zero":
        body += "\n@%out bra DONE;"
    body += (
        f"\nred.relaxed.gpu.global.{operation}.{_update_type(operation, type_)} [%at], %d0;\nDONE:"
    )
    name = f"tessera.surface.update.{geometry}.{outside}.{operation}.{type_}"
    return library.function(name, f"{_parameters(geometry)}, b{bits} %d0", _REGISTERS, body)


def _update_type(operation: str, type_: str) -> str:
    """Return the type of the update: sums of signed numbers of 64 bits are those of unsigned."""
    if operation in ("and", "or"):
        return f"b{type_[1:]}"
    return "u64" if (operation, type_) == ("add", "s64") else type_


@functools.lru_cache(maxsize=64)
def update_element(geometry: str, outside: str, operation: str) -> tree.Function:
    """Return the code that reduces one element of 32 bits, at a coordinate x in elements."""
    signed = FORMATS.index("s32")
    body = f"""{_begin(geometry, outside, "element")}
  setp.ne.u32 %p, %bytes, 4; setp.ne.u32.or %p, %channels, 1, %p; @%p trap;
  setp.eq.u32 %signed, %format, {signed};
  setp.ne.u32 %p, %format, {FORMATS.index("u32")}; not.pred %q, %signed; and.pred %p, %p, %q;
  @%p trap;
  {"@%out bra DONE;" if outside == "zero" else ""}
"""
    red = f"red.relaxed.gpu.global.{operation}"
    if operation in ("and", "or"):
        body += f"{red}.b32 [%at], %d0;\nDONE:"
    else:
        body += f"@%signed bra SIGNED; {red}.u32 [%at], %d0; bra DONE;\n"
        body += f"SIGNED: {red}.s32 [%at], %d0;\nDONE:"
    name = f"tessera.surface.element.{geometry}.{outside}.{operation}"
    return library.function(name, f"{_parameters(geometry)}, b32 %d0", _REGISTERS, body)


@functools.lru_cache(maxsize=64)
def store_element(geometry: str, outside: str, count: int) -> tree.Function:
    """Return the code that stores an element with its channels converted from 32 bits each.

    Integers are clamped to the format's range. Channels for which there are no data are 0.
    """
    data_parameters, _ = _data(32, count)
    missing = "".join(f" mov.b32 %d{n}, 0;" for n in range(count, 4))
    body = f"""{_begin(geometry, outside, "element")}
  {"@%out bra DONE;" if outside == "zero" else ""}
  {missing}
  setp.eq.u32 %p, %format, {FORMATS.index("f16")}; @%p bra HALF;
  setp.eq.u32 %p, %shift, 2; @%p bra STORE;
  mov.b32 %n, 8; shl.b32 %n, %n, %shift;
  setp.ge.u32 %signed, %format, {FORMATS.index("s8")}; @%signed bra SIGNED;
  mov.b32 %high, 1; shl.b32 %high, %high, %n; sub.u32 %high, %high, 1;
  {" ".join(f"min.u32 %d{n}, %d{n}, %high;" for n in range(4))}
  bra STORE;
SIGNED:
  sub.u32 %n, %n, 1; mov.b32 %high, 1; shl.b32 %high, %high, %n;
  neg.s32 %low, %high; sub.u32 %high, %high, 1;
  {" ".join(f"max.s32 %d{n}, %d{n}, %low; min.s32 %d{n}, %d{n}, %high;" for n in range(4))}
  bra STORE;
HALF:
  {" ".join(f"cvt.rn.f16.f32 %narrow, %d{n}; cvt.u32.u16 %d{n}, %narrow;" for n in range(4))}
STORE:
  {_store_channels()}
DONE:
"""
    declared = _REGISTERS + "".join(f".reg .b32 %d{n};" for n in range(count, 4))
    name = f"tessera.surface.store_element.{geometry}.{outside}.{count}"
    return library.function(name, f"{_parameters(geometry)}, {data_parameters}", declared, body)


def _store_channels() -> str:
    lines = []
    for shift, type_ in enumerate(("b8", "b16", "b32")):
        lines.append(f"setp.ne.u32 %p, %shift, {shift}; @%p bra NOT{shift};")
        lines += [
            f"setp.lt.u32 %p, %channels, 2; @%p bra ONE{shift};",
            f"setp.lt.u32 %p, %channels, 4; @%p bra TWO{shift};",
            _store_some(type_, 4) + " bra DONE;",
            f"TWO{shift}: {_store_some(type_, 2)} bra DONE;",
            f"ONE{shift}: {_store_some(type_, 1)} bra DONE;",
            f"NOT{shift}:",
        ]
    return "\n".join(lines)


def _store_some(type_: str, count: int) -> str:
    names = [f"%d{n}" for n in range(count)]
    if count == 1:
        return f"st.global.{type_} [%at], %d0;"
    return f"st.global.v{count}.{type_} [%at], {{{', '.join(names)}}};"
