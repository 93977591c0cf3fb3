"""PTX that converts coordinates to indices and weights (CUDA C++ Programming Guide, "Texture
Fetching").

A coordinate x in texels addresses the texel floor(x). A linear filter uses the texel floor(x - 0.5)
and the next one, with the fraction of x - 0.5 rounded to a multiple of 1/256.
"""

from typing import Final

from vgpu_sim.compiler.lower.textures.layout import Mode

REGISTERS: Final = """
  .reg .pred %normal, %linear, %special<3>, %mirror<3>, %edge<3>, %out<6>, %z;
  .reg .b32 %x<3>, %float<3>, %low<3>, %high<3>, %part<3>, %f, %g, %n;
"""
"""Declarations: of dimension n, %x<n> is the coordinate, %low<n> and %high<n> are the indices that
a filter uses, %part<n> is the weight of the higher one, and %out<n> and %out<n + 3> are true for
indices at which the border colour is read.
"""

_LOWEST, _HIGHEST = "0fCE800000", "0f4E800000"  # -2**30 and 2**30
_LEAST, _GREATEST = "0fC0000000", "0f4E000000"  # -2 and 2**29, beyond both ends of a texture


def read_modes(dimensions: int) -> str:
    """Return PTX that reads the filter and the address modes of ``dimensions``. Coordinates wrap
    and are mirrored only if they are normalized, and only floats are filtered.
    """
    lines = [
        "and.b32 %k, %h1, 0xfefcfcfc; and.b32 %v, %h2, 0xfefefefe; or.b32 %k, %k, %v;",
        "setp.ne.u32 %p, %k, 0; @%p trap;",
        "and.b32 %k, %h2, 0x100; setp.ne.u32 %normal, %k, 0;",
        "shr.u32 %k, %h1, 24; setp.ne.u32 %linear, %k, 0; and.pred %linear, %linear, %floats;",
    ]
    for n in range(dimensions):
        lines += [
            f"bfe.u32 %k, %h1, {8 * n}, 8; setp.eq.u32 %edge{n}, %k, {int(Mode.BORDER)};",
            f"setp.eq.u32.and %mirror{n}, %k, {int(Mode.MIRROR)}, %normal;",
            f"setp.eq.u32.and %special{n}, %k, {int(Mode.WRAP)}, %normal;",
            f"or.pred %special{n}, %special{n}, %mirror{n};",
            f"or.pred %border, %border, %edge{n};" if n else "mov.pred %border, %edge0;",
        ]
    return "\n".join(lines)


CUBE_MODES: Final = """
  and.b32 %k, %h1, 0xfe000000; and.b32 %v, %h2, 0xfefefefe; or.b32 %k, %k, %v;
  setp.ne.u32 %p, %k, 0; @%p trap;
  shr.u32 %k, %h1, 24; setp.ne.u32 %linear, %k, 0; and.pred %linear, %linear, %floats;
  setp.ne.u32 %border, 0, 0;
"""
"""PTX that reads the filter of a cube map, whose coordinates are clamped to a face."""

FACE: Final = """
  abs.f32 %f, %x0; abs.f32 %g, %x1; abs.f32 %n, %x2;
  setp.ge.f32 %p, %f, %g; setp.ge.f32.and %p, %f, %n, %p; setp.ge.f32 %q, %g, %n;
  @%p bra FACEX; @%q bra FACEY;
  setp.lt.f32 %p, %x2, 0f00000000; selp.b32 %face, 5, 4, %p;
  neg.f32 %f, %x0; selp.b32 %x0, %f, %x0, %p; neg.f32 %x1, %x1; mov.b32 %major, %n; bra FACED;
FACEX:
  setp.lt.f32 %p, %x0, 0f00000000; selp.b32 %face, 1, 0, %p; mov.b32 %major, %f;
  neg.f32 %f, %x2; selp.b32 %x0, %x2, %f, %p; neg.f32 %x1, %x1; bra FACED;
FACEY:
  setp.lt.f32 %p, %x1, 0f00000000; selp.b32 %face, 3, 2, %p; mov.b32 %major, %g;
  neg.f32 %f, %x2; selp.b32 %x1, %f, %x2, %p;
FACED:
  div.rn.f32 %x0, %x0, %major; add.f32 %x0, %x0, 0f3F800000; mul.f32 %x0, %x0, 0f3F000000;
  div.rn.f32 %x1, %x1, %major; add.f32 %x1, %x1, 0f3F800000; mul.f32 %x1, %x1, 0f3F000000;
"""
"""PTX that replaces the direction %x0, %x1, %x2 by coordinates on the %face of a cube map."""


def scale(n: int, *, cube: bool) -> str:
    """Return PTX that sets %low<n> to the coordinate %x<n> in texels, as a float in a range whose
    numbers can be converted to integers.
    """
    wrapped = f"""
  @!%normal bra TEXELS{n};
  @!%special{n} bra ONCE{n};
  selp.b32 %f, 0f3F000000, 0f3F800000, %mirror{n}; selp.b32 %g, 0f40000000, 0f3F800000, %mirror{n};
  mul.f32 %f, %low{n}, %f; cvt.rmi.f32.f32 %f, %f; mul.f32 %f, %f, %g;
  sub.f32 %low{n}, %low{n}, %f;
ONCE{n}:
  mul.f32 %low{n}, %low{n}, %float{n};
TEXELS{n}:
"""
    return f"""
  max.f32 %low{n}, %x{n}, {_LOWEST}; min.f32 %low{n}, %low{n}, {_HIGHEST};
  cvt.rn.f32.u32 %float{n}, %size{n};
  {f"mul.f32 %low{n}, %low{n}, %float{n};" if cube else wrapped}
  max.f32 %low{n}, %low{n}, {_LEAST}; min.f32 %low{n}, %low{n}, {_GREATEST};
"""


def index(n: int, *, cube: bool) -> str:
    """Return PTX that sets %low<n> to the index of the texel at the coordinate %low<n>."""
    addressed = _address(n, f"%low{n}", f"%out{n}", "POINT", cube=cube)
    return f"cvt.rmi.s32.f32 %low{n}, %low{n};\n{addressed}"


def indices(n: int, *, cube: bool) -> str:
    """Return PTX that sets the two indices and the weight of a linear filter."""
    return f"""
  sub.f32 %f, %low{n}, 0f3F000000; cvt.rmi.f32.f32 %g, %f; sub.f32 %f, %f, %g;
  mul.f32 %f, %f, 0f43800000; cvt.rni.f32.f32 %f, %f; mul.f32 %part{n}, %f, 0f3B800000;
  cvt.rzi.s32.f32 %low{n}, %g; add.s32 %high{n}, %low{n}, 1;
  {_address(n, f"%low{n}", f"%out{n}", "LOW", cube=cube)}
  {_address(n, f"%high{n}", f"%out{n + 3}", "HIGH", cube=cube)}
"""


def integer_index(n: int) -> str:
    """Return PTX that sets %low<n> to the integer coordinate %x<n>, clamped."""
    return f"""
  setp.ge.u32 %out{n}, %x{n}, %size{n}; and.pred %out{n}, %out{n}, %edge{n};
  sub.u32 %k, %size{n}, 1; max.s32 %low{n}, %x{n}, 0; min.s32 %low{n}, %low{n}, %k;
"""


def _address(n: int, at: str, out: str, label: str, *, cube: bool) -> str:
    """Return PTX that applies the address mode to the index ``at``; ``label`` begins its label."""
    clamp = f"sub.u32 %k, %size{n}, 1; max.s32 {at}, {at}, 0; min.s32 {at}, {at}, %k;"
    if cube:
        return clamp
    label = f"{label}{n}"
    return f"""
  setp.ge.u32 {out}, {at}, %size{n}; and.pred {out}, {out}, %edge{n};
  @!%special{n} bra {label};
  not.b32 %f, {at}; add.s32 %g, {at}, %size{n}; selp.b32 %f, %f, %g, %mirror{n};
  setp.lt.s32 %p, {at}, 0; selp.b32 {at}, %f, {at}, %p;
  sub.s32 %g, {at}, %size{n}; not.b32 %f, %g; add.s32 %f, %f, %size{n};
  selp.b32 %f, %f, %g, %mirror{n};
  setp.ge.s32 %p, {at}, %size{n}; selp.b32 {at}, %f, {at}, %p;
{label}:
  {clamp}
"""
