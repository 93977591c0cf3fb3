"""PTX that selects the rows of a tensor: those of a box, four rows, or the pixels of columns.

The row is at %g, and it is at %to in shared memory; %h is %high, or 0 if the row is outside of a
dimension other than the first one.
"""

from vgpu_sim.compiler.lower.copies.tensor_map import LOWER, UPPER, Mode

_GATHERED = 4


def coordinates_of(rank: int, mode: Mode) -> int:
    """Return the number of coordinates of an instruction."""
    return 1 + _GATHERED if mode is Mode.ROWS else rank


def offsets_of(rank: int, mode: Mode) -> tuple[str, ...]:
    """Return the parameters of a load that follow its coordinates."""
    if mode is Mode.IM2COL:
        return tuple(f"%o{n}" for n in range(1, rank - 1))
    return ("%halo", "%shift_w") if mode in (Mode.WIDE, Mode.WIDE_128) else ()


def no_offsets(rank: int, mode: Mode) -> str:
    """Return PTX that declares what ``offsets_of`` names, as zeros."""
    names = offsets_of(rank, mode)
    return "".join(f".reg .b32 {name}; mov.b32 {name}, 0;" for name in names)


def registers(rank: int, mode: Mode) -> str:
    """Return the declarations of the registers that ``for_each_row`` uses."""
    dimensions = range(rank)
    wide = [f"%{name}{n}" for name in ("index", "place", "far") for n in dimensions]
    text = f".reg .b64 {', '.join(wide)}; .reg .b32 {', '.join(f'%left{n}' for n in dimensions)};"
    text += f".reg .pred {', '.join(f'%in{n}' for n in dimensions)};"
    if mode.has_columns:
        corners = [f"%{name}{n}" for name in ("lower", "upper", "off") for n in dimensions]
        text += f".reg .b64 {', '.join(corners)}; .reg .b32 %pixel, %origin, %plane, %rows;"
    return text


def for_each_row(rank: int, mode: Mode, row: str) -> str:
    """Return PTX that performs ``row`` for each row that a copy selects."""
    if mode is Mode.TILE:
        return _box(rank, row)
    if mode is Mode.ROWS:
        return _four(row)
    if mode is Mode.WIDE_128:
        return _columns_and_halo(rank, row)
    return _columns(rank, mode, row)


def _box(rank: int, row: str) -> str:
    lines = []
    outer = rank - 1
    for n in range(outer, 0, -1):
        around = f"%place{n + 1}" if n < outer else "%place0"
        lines += [
            f"cvt.s64.s32 %index{n}, %c{n}; mul.lo.s64 %place{n}, %index{n}, %stride{n};",
            f"add.u64 %place{n}, %place{n}, {around}; mul.lo.s64 %far{n}, %step{n}, %stride{n};",
            f"mov.b32 %left{n}, %count{n};",
            f"BOX{n}: setp.lt.u64 %in{n}, %index{n}, %size{n};",
            f"and.pred %in{n}, %in{n}, %in{n + 1};" if n < outer else "",
        ]
    inside = "selp.b32 %h, %high, 0, %in1;" if rank > 1 else "mov.b32 %h, %high;"
    place = "%place1" if rank > 1 else "%place0"
    lines += [f"{inside} mov.b64 %g, {place};", row, "add.u32 %to, %to, %pitch;"]
    for n in range(1, rank):
        lines += [
            f"add.s64 %index{n}, %index{n}, %step{n}; add.u64 %place{n}, %place{n}, %far{n};",
            f"sub.u32 %left{n}, %left{n}, 1; setp.ne.u32 %p, %left{n}, 0; @%p bra BOX{n};",
        ]
    return "\n".join(lines)


def _four(row: str) -> str:
    """Return PTX for four rows of a matrix, whose numbers are four coordinates."""
    return f"""
      mov.b32 %left1, 0;
    BOX:
      setp.eq.u32 %p, %left1, 1; selp.b32 %x, %c2, %c1, %p;
      setp.eq.u32 %p, %left1, 2; selp.b32 %x, %c3, %x, %p;
      setp.eq.u32 %p, %left1, 3; selp.b32 %x, %c4, %x, %p;
      cvt.s64.s32 %index1, %x; setp.lt.u64 %in1, %index1, %size1; selp.b32 %h, %high, 0, %in1;
      mul.lo.s64 %g, %index1, %stride1; add.u64 %g, %g, %place0;
      {row}
      add.u32 %to, %to, %pitch;
      add.u32 %left1, %left1, 1; setp.lt.u32 %p, %left1, {_GATHERED}; @%p bra BOX;
    """


def _walked(rank: int, mode: Mode) -> range:
    """Return the dimensions of an image along which a copy continues."""
    return range(1, rank - 1) if mode is Mode.IM2COL else range(1, 2)


def _begin(rank: int, mode: Mode) -> str:
    """Return PTX that sets the position of the first pixel, the offsets, and the last place in the
    bounding box of each dimension, %upper.
    """
    lines = [f"cvt.s64.s32 %index{n}, %c{n}; mov.b64 %off{n}, 0;" for n in range(1, rank)]
    for n in _walked(rank, mode):
        lines += [
            f"ld.s16 %k, [%map+{LOWER + 2 * (n - 1)}]; cvt.s64.s32 %lower{n}, %k;",
            f"ld.s16 %k, [%map+{UPPER + 2 * (n - 1)}]; cvt.s64.s32 %upper{n}, %k;",
            f"add.s64 %upper{n}, %upper{n}, %size{n}; sub.s64 %upper{n}, %upper{n}, 1;",
            f"cvt.u64.u32 %off{n}, {'%o' + str(n) if mode is Mode.IM2COL else '%shift_w'};",
        ]
    return "\n".join(lines)


def _locate(rank: int) -> str:
    """Return PTX that sets %g and %h for the pixel at the current position."""
    lines = ["mov.b64 %g, %place0; mov.b32 %h, %high;"]
    for n in range(1, rank):
        lines += [
            f"add.s64 %wide, %index{n}, %off{n}; setp.lt.u64 %p, %wide, %size{n};",
            f"selp.b32 %h, %h, 0, %p; mul.lo.s64 %wide, %wide, %stride{n};",
            "add.u64 %g, %g, %wide;",
        ]
    return "\n".join(lines)


def _advance(rank: int, mode: Mode) -> str:
    """Return PTX that continues with the next pixel of the bounding box, or of the next image."""
    lines = []
    for n in _walked(rank, mode):
        lines += [
            f"add.s64 %index{n}, %index{n}, %step{n};",
            f"setp.le.s64 %p, %index{n}, %upper{n}; @%p bra NEXT_PIXEL;",
            f"mov.b64 %index{n}, %lower{n};",
        ]
    return "\n".join([*lines, f"add.s64 %index{rank - 1}, %index{rank - 1}, 1;", "NEXT_PIXEL:"])


def _columns(rank: int, mode: Mode, row: str) -> str:
    return f"""
      {_begin(rank, mode)} cvt.u32.u64 %rows, %boxes; mov.b32 %pixel, 0;
    PIXEL:
      {_locate(rank)}
      {row}
      add.u32 %to, %to, %pitch;
      {_advance(rank, mode)}
      add.u32 %pixel, %pixel, 1; setp.lt.u32 %p, %pixel, %rows; @%p bra PIXEL;
    """


def _columns_and_halo(rank: int, row: str) -> str:
    """Return PTX for 128 pixels, then for each pixel of the halo one row of each 32 pixels: the
    pixel that follows them at this distance.

    Pixel %pixel of the walk is row %pixel, if %plane is 0, and else the row of the halo of the
    group of 32 pixels with the number %plane - 1.
    """
    mode = Mode.WIDE_128
    return f"""
      {_begin(rank, mode)} mov.b32 %origin, %to; mov.b32 %pixel, 0;
    PIXEL:
      mov.b32 %plane, 0;
      setp.lt.u32 %p, %pixel, %pixels; mov.b32 %x, %pixel; @%p bra COPY;
    PLANE:
      add.u32 %plane, %plane, 1; shl.b32 %k, %plane, 5; sub.u32 %k, %pixel, %k;
      setp.ge.u32 %p, %k, %halo; @%p bra COPIED;
      shl.b32 %x, %k, 2; add.u32 %x, %x, %plane; add.u32 %x, %x, 127;
    COPY:
      mul.lo.u32 %x, %x, %pitch; add.u32 %to, %origin, %x;
      {_locate(rank)}
      {row}
    COPIED:
      setp.lt.u32 %p, %plane, 4; @%p bra PLANE;
      {_advance(rank, mode)}
      add.u32 %pixel, %pixel, 1; add.u32 %k, %pixels, %halo;
      setp.lt.u32 %p, %pixel, %k; @%p bra PIXEL;
    """
