"""A point: one kernel with one shape and its arguments. It is timed on a GPU, and predicted."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

# An argument: ("buffer", name of contents, bytes), or ("u32" | "s32" | "u64" | "f32", value).
Argument = tuple[Any, ...]
Shape = tuple[int, int, int]
_REGISTERS: Final = """\
  .reg .pred %p<32>;
  .reg .b16 %h<64>;
  .reg .b32 %r<256>;
  .reg .f32 %f<256>;
  .reg .b64 %l<128>;
  .reg .f64 %d<64>;
"""


@dataclass(frozen=True, slots=True)
class Point:
    """One kernel, its shape and its arguments.

    ``kind`` is the class by which results are grouped. ``shared`` is dynamic shared memory.
    ``cycles`` is the number of instructions between two readings of the clock, whose difference the
    kernel stores in the first 8 bytes of its first buffer; 0: it does not.
    """

    name: str
    kind: str
    ptx: str
    entry: str
    grid: Shape
    block: Shape
    arguments: tuple[Argument, ...]
    shared: int = 0
    cycles: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the point as JSON holds it."""
        return asdict(self)


def entry(
    name: str, parameters: Sequence[str], body: str, *, head: str = "", limits: str = ""
) -> str:
    """Return a PTX module with one kernel. Parameters are types; their names are p0, p1 ...

    ``head`` declares variables of the module, and ``limits`` are directives of the kernel.
    """
    listed = ", ".join(f".param .{kind} p{i}" for i, kind in enumerate(parameters))
    return (
        f".version 8.0\n.target sm_90a\n.address_size 64\n{head}"
        f".visible .entry {name}({listed}) {limits}\n{{\n{_REGISTERS}{body}\n  ret;\n}}\n"
    )


def pointers(*places: int) -> str:
    """Return code that loads the parameters at ``places`` as global addresses into %l0, %l1 ..."""
    return "".join(
        f"  ld.param.u64 %l{i}, [p{place}]; cvta.to.global.u64 %l{i}, %l{i};\n"
        for i, place in enumerate(places)
    )


INDEX: Final = """\
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %nctaid.x;
  mad.lo.u32 %r4, %r1, %r2, %r0; mul.lo.u32 %r5, %r2, %r3;
"""  # %r4: index of the thread in the grid; %r5: threads of the grid
