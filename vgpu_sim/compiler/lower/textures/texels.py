"""PTX that loads texels, converts them to what a program reads, and combines them.

A texel has one, two or four channels. Those that it does not have are read as 0, as measured on an
H100.
The text of a path has labels that begin with the path's name; it ends at the label FETCHED.
"""

from typing import Final

from vgpu_sim.compiler.lower.textures.layout import BORDER, FORMATS

CHANNELS: Final = 4
TAPS: Final = 4
"""The texels of a linear filter in a plane: those at (i, j), (i+1, j), (i, j+1), (i+1, j+1)."""

_GATHER_ORDER: Final = (2, 3, 1, 0)
"""The texels of ``tld4`` in the order of its result."""
_SIGNED: Final = sum(1 << n for n, name in enumerate(FORMATS) if name[0] == "s")
_WORDS: Final = sum(1 << n for n, name in enumerate(FORMATS) if name in ("u32", "s32"))
_HALF: Final = FORMATS.index("f16")
_BYTE: Final = FORMATS.index("u8")

REGISTERS: Final = f"""
  .reg .b32 {", ".join(f"%t{tap}{c}" for tap in range(TAPS) for c in range(CHANNELS))};
  .reg .b64 {", ".join(f"%a{tap}" for tap in range(TAPS))};
  .reg .b32 {", ".join(f"%w{tap}" for tap in range(TAPS))}, %e<4>;
  .reg .pred {", ".join(f"%o{tap}" for tap in range(TAPS))};
  .reg .pred %raw, %is16, %is32, %half, %srgb, %two, %border, %signed;
  .reg .b32 %top, %sign, %scale, %v, %u; .reg .b16 %narrow;
"""
"""Declarations; %a0 and so on are the addresses of texels, %o0 and so on whether they are outside,
and %w0 and so on their weights. The result is in %s0 to %s3.
"""

READ_CONVERSION: Final = f"""
  setp.eq.u32 %is16, %shift, 1; setp.eq.u32 %is32, %shift, 2; setp.eq.u32 %half, %format, {_HALF};
  mov.b32 %k, {_WORDS}; shr.u32 %k, %k, %format; shr.u32 %v, %h2, 16;
  setp.lt.u32 %p, %format, {_HALF}; selp.b32 %v, %v, 0, %p;
  or.b32 %k, %k, %v; and.b32 %k, %k, 1; setp.ne.u32 %raw, %k, 0;
  setp.eq.u32 %two, %channels, 2;
"""
"""PTX that prepares conversions: %raw if texels are not converted."""

_READ_INTEGERS: Final = f"""
  mov.b32 %k, {_SIGNED}; shr.u32 %k, %k, %format; and.b32 %k, %k, 1; setp.ne.u32 %signed, %k, 0;
  mov.b32 %v, 8; shl.b32 %v, %v, %shift; sub.u32 %v, %v, %k;
  mov.b32 %u, 1; shl.b32 %u, %u, %v; sub.u32 %top, %u, 1; selp.b32 %sign, %u, 0, %signed;
  cvt.rn.f32.u32 %scale, %top;
  shr.u32 %k, %h2, 24; setp.ne.u32 %srgb, %k, 0; setp.eq.u32.and %srgb, %format, {_BYTE}, %srgb;
"""
"""PTX that sets what integers of 8 and 16 bits are converted by, and whether colours are sRGB."""


def fetch(path: str, taps: int, gathered: int | None = None) -> str:
    """Return PTX that loads ``taps`` texels and sets the result: the only texel, their weighted
    sum, or with ``gathered`` that channel of each.
    """
    return f"""
  setp.eq.u32 %p, %channels, 1; @!%p bra {path}SEVERAL;
  {_load_one(path, taps)}
  {_border(f"{path}ONE", taps, 1)}
  {_combine(taps, 1, gathered)}
  bra FETCHED;
{path}SEVERAL:
  {_load_several(path, taps)}
  {_border(f"{path}MANY", taps, CHANNELS)}
  {_combine(taps, CHANNELS, gathered)}
  bra FETCHED;
"""


def _load_one(path: str, taps: int) -> str:
    def load(type_: str) -> str:
        return " ".join(f"ld.global.{type_} %t{tap}0, [%a{tap}];" for tap in range(taps))

    values = [f"%t{tap}0" for tap in range(taps)]
    return f"""
  @%is32 bra {path}WORD; @%is16 bra {path}SHORT;
  {load("u8")} bra {path}INTEGER;
{path}SHORT:
  {load("u16")} @!%half bra {path}INTEGER;
  {_halves(values)} bra {path}LOADED;
{path}INTEGER:
  {_integers(path, values, values)} bra {path}LOADED;
{path}WORD:
  {load("b32")}
{path}LOADED:
"""


def _load_several(path: str, taps: int) -> str:
    path = f"{path}MANY"

    def load(name: str, type_: str) -> str:
        four, two = [], []
        for tap in range(taps):
            t = [f"%t{tap}{c}" for c in range(CHANNELS)]
            four.append(f"ld.global.v4.{type_} {{{', '.join(t)}}}, [%a{tap}];")
            two.append(
                f"ld.global.v2.{type_} {{{t[0]}, {t[1]}}}, [%a{tap}];"
                f" mov.b32 {t[2]}, 0; mov.b32 {t[3]}, 0;"
            )
        return (
            f"@%two bra {path}{name}TWO; {' '.join(four)} bra {path}{name}END;"
            f" {path}{name}TWO: {' '.join(two)} {path}{name}END:"
        )

    values = [f"%t{tap}{c}" for tap in range(taps) for c in range(CHANNELS)]
    colours = [f"%t{tap}{c}" for tap in range(taps) for c in range(CHANNELS - 1)]
    return f"""
  @%is32 bra {path}WORD; @%is16 bra {path}SHORT;
  {load("B", "u8")} bra {path}INTEGER;
{path}SHORT:
  {load("S", "u16")} @!%half bra {path}INTEGER;
  {_halves(values)} bra {path}LOADED;
{path}INTEGER:
  {_integers(path, values, colours)} bra {path}LOADED;
{path}WORD:
  {load("W", "b32")}
{path}LOADED:
"""


def _halves(values: list[str]) -> str:
    return " ".join(f"cvt.u16.u32 %narrow, {v}; cvt.f32.f16 {v}, %narrow;" for v in values)


def _integers(path: str, values: list[str], colours: list[str]) -> str:
    """Return PTX that extends the signs of integers of 8 or 16 bits, and converts them to floats
    unless they are read as integers.
    """
    signs = " ".join(f"xor.b32 {v}, {v}, %sign; sub.u32 {v}, {v}, %sign;" for v in values)
    floats = " ".join(
        f"cvt.rn.f32.s32 {v}, {v}; div.rn.f32 {v}, {v}, %scale; max.f32 {v}, {v}, 0fBF800000;"
        for v in values
    )
    linear = " ".join(_LINEAR_COLOUR.format(v=v) for v in colours)
    keep, stay = f"@%raw bra {path}LOADED;", f"@!%srgb bra {path}LOADED;"
    return f"{_READ_INTEGERS} {signs} {keep} {floats} {stay} {linear}"


# IEC 61966-2-1: c / 12.92 up to 0.04045, and ((c + 0.055) / 1.055) ** 2.4 above.
_LINEAR_COLOUR: Final = """
  setp.le.f32 %p, {v}, 0f3D25AEE6; mul.f32 %u, {v}, 0f3D9E8391;
  add.f32 %v, {v}, 0f3D6147AE; mul.f32 %v, %v, 0f3F72A76F;
  lg2.approx.f32 %v, %v; mul.f32 %v, %v, 0f4019999A; ex2.approx.f32 %v, %v;
  selp.b32 {v}, %u, %v, %p;"""


def _border(path: str, taps: int, channels: int) -> str:
    """Return PTX that replaces texels that are outside by the border colour, whose bits are those
    of integers if the texture is read as integers.
    """
    colours = range(channels)
    fewer = ""
    if channels > 1:
        fewer = "selp.b32 %e2, 0, %e2, %two; selp.b32 %e3, 0, %e3, %two;"
    chosen = " ".join(
        f"selp.b32 %t{tap}{c}, %e{c}, %t{tap}{c}, %o{tap};" for tap in range(taps) for c in colours
    )
    return f"""
  @!%border bra {path}INSIDE;
  ld.global.v4.b32 {{%e0, %e1, %e2, %e3}}, [%handle+{BORDER}];
  {fewer} {chosen}
{path}INSIDE:
"""


def _combine(taps: int, channels: int, gathered: int | None) -> str:
    if gathered is not None:
        if gathered >= channels:
            return " ".join(f"mov.b32 %s{c}, 0;" for c in range(CHANNELS))
        return " ".join(f"mov.b32 %s{n}, %t{t}{gathered};" for n, t in enumerate(_GATHER_ORDER))
    lines = []
    for c in range(channels):
        if taps == 1:
            lines.append(f"mov.b32 %s{c}, %t0{c};")
            continue
        lines.append(f"mul.rn.f32 %s{c}, %t0{c}, %w0;")
        lines += [
            f"mul.rn.f32 %v, %t{tap}{c}, %w{tap}; add.rn.f32 %s{c}, %s{c}, %v;"
            for tap in range(1, taps)
        ]
    if channels == 1:
        lines.append("mov.b32 %s1, 0; mov.b32 %s2, 0; mov.b32 %s3, 0;")
    return " ".join(lines)
