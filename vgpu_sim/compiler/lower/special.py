"""Special registers (PTX ISA, "Special Registers"): those of the ISA, and those computed from them.

No shared memory is reserved for the system, and events are not counted, so the registers for these
are zero.
"""

from collections.abc import Callable, Mapping

from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.ptx import grammar, tree
from vgpu_sim.isa import (
    Compare,
    DataType,
    Literal,
    MulMode,
    Op,
    Operand,
    Register,
    SpecialRegister,
    Symbol,
)
from vgpu_sim.records import dataclass

MAX_WARPS_PER_MULTIPROCESSOR = 64
SHARED_UNIT_BYTES = 128  # PTX ISA, "%total_smem_size": of sm_80 and later

GRID_WORKSPACE = "_tessera_grid_workspace"
GRID_WORKSPACE_BYTES = 8
GRID_WORKSPACE_READERS = frozenset({"%envreg1", "%envreg2"})
"""The special registers through which compilers locate the memory of the grid's barrier.

That memory is a variable with a word for its size, and a word that counts arrivals. Each module
with such kernels has one, as the last of its variables: the driver runs cooperative launches of
a context in sequence.
"""

Read = Callable[[Context], Operand]


@dataclass(frozen=True, slots=True)
class Special:
    """A special register of PTX: its width in bits (1 for a predicate), and how it is read.

    ``register`` is the equivalent register of the ISA, if there is one.
    """

    bits: int
    read: Read
    note: str
    register: SpecialRegister | None = None


def _isa(register: SpecialRegister) -> Special:
    return Special(register.bits, lambda context: s2r(context, register), register.name, register)


def _constant(value: int, bits: int = 32) -> Special:
    return Special(bits, lambda context: Literal(value), str(value))


def s2r(context: Context, register: SpecialRegister, to: Register | None = None) -> Register:
    """Read a special register of the ISA into ``to``, or into a scratch register of the
    statement.
    """
    result = to or context.builder.scratch_register(register.bits)
    type_ = DataType.B64 if register.bits == 64 else DataType.B32
    context.builder.emit(
        Op.S2R, type=type_, dsts=(result,), sreg=register, volatile=register.is_clock
    )
    return result


def _emit(context: Context, op: Op, *srcs: Operand, type_: DataType = DataType.U32) -> Register:
    result = context.builder.scratch_register(type_.bits)
    mode = {"mode": MulMode.LO} if op is Op.MAD else {}
    context.builder.emit(op, type=type_, dsts=(result,), srcs=srcs, **mode)
    return result


def _low(context: Context, whole: Operand, shift: int) -> Operand:
    """Return 32 of the bits of a 64-bit value, from bit ``shift`` on."""
    if shift:
        whole = _emit(context, Op.SHR, whole, Literal(shift), type_=DataType.U64)
    low = context.builder.scratch_register(32)
    context.builder.emit(
        Op.CVT, type=DataType.U32, source_type=DataType.U64, dsts=(low,), srcs=(whole,)
    )
    return low


def _half(register: SpecialRegister, shift: int) -> Special:
    return Special(
        32,
        lambda context: _low(context, s2r(context, register), shift),
        f"bits {shift} to {shift + 31} of {register.name}",
    )


def _workspace(shift: int) -> Special:
    def read(context: Context) -> Operand:
        address = context.builder.scratch_register(64)
        symbol = Symbol(GRID_WORKSPACE)
        context.builder.emit(Op.MOV, type=DataType.B64, dsts=(address,), srcs=(symbol,))
        return _low(context, address, shift)

    return Special(32, read, f"bits {shift} to {shift + 31} of the address of a grid's workspace")


def _linear(context: Context, index: str, size: str) -> Register:
    """Return ``index.x + size.x * (index.y + size.y * index.z)``."""
    axes = [
        (s2r(context, SpecialRegister[f"{index}_{axis}"]), SpecialRegister[f"{size}_{axis}"])
        for axis in "XY"
    ]
    total = s2r(context, SpecialRegister[f"{index}_Z"])
    for own, extent in reversed(axes):
        total = _emit(context, Op.MAD, total, s2r(context, extent), own)
    return total


def warp_id(context: Context) -> Operand:
    """Return a register with the index of the warp in its block."""
    return _emit(context, Op.SHR, _linear(context, "TID", "NTID"), Literal(5))


def _multiprocessor_id(context: Context) -> Operand:
    """Distribute blocks over multiprocessors in turn; the order in which they execute is not
    visible.
    """
    block = _linear(context, "CTAID", "NCTAID")
    return _emit(context, Op.REM, block, s2r(context, SpecialRegister.NSMID))


def _by_cluster(op: Op, register: str) -> dict[str, Special]:
    """Return the specials for each axis: ``register`` divided by the cluster's size, or (REM) the
    remainder.
    """

    def special(axis: str) -> Special:
        whole, size = (SpecialRegister[f"{n}_{axis}"] for n in (register, "CLUSTER_NCTAID"))
        note = f"{whole.name} {'/' if op is Op.DIV else '%'} {size.name}"
        return Special(
            32, lambda context: _emit(context, op, s2r(context, whole), s2r(context, size)), note
        )

    return {axis.lower(): special(axis) for axis in "XYZ"}


def cluster_rank(context: Context) -> Register:
    """Return a register with the index of the block in its cluster."""
    x, y, z = (
        _emit(
            context,
            Op.REM,
            s2r(context, SpecialRegister[f"CTAID_{axis}"]),
            s2r(context, SpecialRegister[f"CLUSTER_NCTAID_{axis}"]),
        )
        for axis in "XYZ"
    )
    rank = _emit(context, Op.MAD, z, s2r(context, SpecialRegister.CLUSTER_NCTAID_Y), y)
    return _emit(context, Op.MAD, rank, s2r(context, SpecialRegister.CLUSTER_NCTAID_X), x)


def _cluster_size(context: Context) -> Operand:
    x, y, z = (s2r(context, SpecialRegister[f"CLUSTER_NCTAID_{axis}"]) for axis in "XYZ")
    mode = {"mode": MulMode.LO}
    for size in (y, z):
        context.builder.emit(Op.MUL, type=DataType.U32, dsts=(x,), srcs=(x, size), **mode)
    return x


def _is_explicit(context: Context) -> Operand:
    to = context.builder.new_predicate()
    states = s2r(context, SpecialRegister.CLUSTER_EXPLICIT)
    context.builder.emit(
        Op.SETP,
        type=DataType.U32,
        dsts=(to, None),
        srcs=(states, Literal(0)),
        compare=Compare.NE,
    )
    return to


def _lane_mask(pattern: int, add: int = 0) -> Special:
    def read(context: Context) -> Operand:
        lane = s2r(context, SpecialRegister.LANEID)
        shifted = _emit(context, Op.SHL, Literal(pattern), lane, type_=DataType.B32)
        return _emit(context, Op.ADD, shifted, Literal(add)) if add else shifted

    return Special(32, read, "SHL of LANEID" + (", ADD" if add else ""))


def _shared_size(context: Context) -> Operand:
    """Round the kernel's and the launch's shared memory up to the unit of allocation."""
    dynamic = s2r(context, SpecialRegister.DYNAMIC_SHARED)
    rounded = context.shared_bytes + SHARED_UNIT_BYTES - 1
    total = _emit(context, Op.ADD, dynamic, Literal(rounded))
    return _emit(context, Op.AND, total, Literal(-SHARED_UNIT_BYTES & 0xFFFF_FFFF))


_ALL = 0xFFFF_FFFF
_SHARED_SIZE = Special(32, _shared_size, f"DYNAMIC_SHARED, rounded up to {SHARED_UNIT_BYTES}")


def _vector(name: str, register: str) -> dict[str, Special]:
    axes = {
        f"%{name}.{axis}": _isa(SpecialRegister[f"{register}_{axis.upper()}"]) for axis in "xyz"
    }
    return axes | {f"%{name}.w": _constant(0)}


def _in_cluster(name: str, op: Op, register: str) -> dict[str, Special]:
    axes = {f"%{name}.{axis}": special for axis, special in _by_cluster(op, register).items()}
    return axes | {f"%{name}.w": _constant(0)}


SPECIAL_REGISTERS: Mapping[str, Special] = {
    **_vector("tid", "TID"),
    **_vector("ntid", "NTID"),
    **_vector("ctaid", "CTAID"),
    **_vector("nctaid", "NCTAID"),
    **_in_cluster("clusterid", Op.DIV, "CTAID"),
    **_in_cluster("nclusterid", Op.DIV, "NCTAID"),
    **_in_cluster("cluster_ctaid", Op.REM, "CTAID"),
    **_vector("cluster_nctaid", "CLUSTER_NCTAID"),
    "%cluster_ctarank": Special(32, cluster_rank, "index of the block in its cluster"),
    "%cluster_nctarank": Special(32, _cluster_size, "product of CLUSTER_NCTAID"),
    "%is_explicit_cluster": Special(1, _is_explicit, "CLUSTER_EXPLICIT != 0"),
    "%laneid": _isa(SpecialRegister.LANEID),
    "%warpid": Special(32, warp_id, "index of the warp in its block"),
    "%nwarpid": _constant(MAX_WARPS_PER_MULTIPROCESSOR),
    "%smid": Special(32, _multiprocessor_id, "index of the block, modulo NSMID"),
    "%nsmid": _isa(SpecialRegister.NSMID),
    "%gridid": _isa(SpecialRegister.GRIDID),
    "%lanemask_eq": _lane_mask(1),
    "%lanemask_lt": _lane_mask(1, add=_ALL),
    "%lanemask_le": _lane_mask(2, add=_ALL),
    "%lanemask_ge": _lane_mask(_ALL),
    "%lanemask_gt": _lane_mask(_ALL - 1),
    "%clock": _half(SpecialRegister.CLOCK64, 0),
    "%clock_hi": _half(SpecialRegister.CLOCK64, 32),
    "%clock64": _isa(SpecialRegister.CLOCK64),
    "%globaltimer": _isa(SpecialRegister.GLOBALTIMER),
    "%globaltimer_lo": _half(SpecialRegister.GLOBALTIMER, 0),
    "%globaltimer_hi": _half(SpecialRegister.GLOBALTIMER, 32),
    **{f"%pm{index}": _constant(0) for index in range(8)},
    **{f"%pm{index}_64": _constant(0, 64) for index in range(8)},
    **{f"%envreg{index}": _constant(0) for index in range(32)},
    "%envreg1": _workspace(32),
    "%envreg2": _workspace(0),
    "%dynamic_smem_size": _isa(SpecialRegister.DYNAMIC_SHARED),
    "%total_smem_size": _SHARED_SIZE,
    "%aggr_smem_size": _SHARED_SIZE,
    **{
        f"%reserved_smem_offset_{which}": _constant(0)
        for which in ("begin", "end", "cap", "0", "1", "2")
    },
}
"""The special registers that can be read, by their names in PTX."""

CURRENT_GRAPH = "%current_graph_exec"
"""A special register that only the device runtime can read: it replaces reads by ``mov``."""

_OF_COLOURS = dict(zip("rgba", "xyzw", strict=True))  # PTX ISA, "Vectors as Operands"


def find(name: tree.Name) -> Special:
    """Return the special register that ``name`` denotes.

    Raises:
        Invalid: the register has no such component, or the name lacks a required component.
        Unsupported: the register cannot be read yet.
    """
    components = grammar.SPECIAL_REGISTERS[name.text]
    component = _OF_COLOURS.get(name.component, name.component)
    if component and component not in components:
        raise Invalid(f"{name.text!r} has no component {name.component!r}", name)
    if components and not name.component:
        raise Invalid(f"{name.text!r} is a vector: read its components, or all with mov.v4", name)
    spelling = f"{name.text}.{component}" if component else name.text
    register = SPECIAL_REGISTERS.get(spelling)
    if spelling == CURRENT_GRAPH:
        raise Unsupported(f"a read of {spelling!r} other than by mov.u64 to a register", name)
    if register is None:
        raise Unsupported(f"special register {spelling!r}", name)
    return register


def read(context: Context, name: tree.Name, type_: DataType) -> Operand:
    """Return the value that an instruction of ``type_`` reads from a special register.

    If the type has fewer bits than the register, these are the register's low bits. Older
    programs read registers in this way: in PTX 1.x, special registers had 16 bits, and %gridid
    had 32.

    Raises:
        Invalid: the register cannot be read as this type, or ``find`` refuses the name.
        Unsupported: see ``find``.
    """
    special = find(name)
    if type_.bits > special.bits or type_.is_float:
        reason = "is a predicate" if special.bits == 1 else f"has {special.bits} bits"
        raise Invalid(f"{name.text!r} {reason} and cannot be read as .{type_.name.lower()}", name)
    return special.read(context)
