"""tcgen05.commit, wait and fence: an operation is complete when its instruction has executed."""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.copies.bulk import MULTICAST, MULTICAST_REGISTERS, for_each_block
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.tensor.addresses import begin
from vgpu_sim.isa import DataType, Literal, Op, Operand, Space

_ALL_LANES: Final = Literal(0xFFFF_FFFF)


def _nothing(context: Context, form: Form, match: Match) -> None:
    """Emit nothing."""


def _wait(context: Context, form: Form, match: Match) -> None:
    """Lower wait: a barrier of the warp, since its threads access the same words."""
    context.builder.emit(Op.BAR_WARP, srcs=(_ALL_LANES,))


def commit(context: Context, form: Form, match: Match) -> None:
    """Lower commit: an arrival at an mbarrier, or at those of several blocks."""
    begin(context, match)
    where, *mask = context.operands
    shared = "shared::cluster" in match
    space, bits = (Space.SHARED, 32) if shared else (Space.GENERIC, 64)
    actuals: list[Operand] = [whole_address(context, where, space)]
    parameters, name = f"b{bits} %given", "tessera.tensor.commit"
    start = "mov.b32 %bar, %given;" if shared else "cvt.u32.u64 %bar, %given;"
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%bar];"
    registers = ".reg .b32 %bar;"
    if mask:
        actuals.append(values.source(context, mask[0], DataType.U16))
        parameters += ", b16 %mask"
        registers += MULTICAST_REGISTERS
        arrive = for_each_block(arrive, ("%bar",))
    name += f".{bits}{'.multicast' * bool(mask)}"
    code = library.function(name, parameters, registers, f"{start} {arrive}")
    library.emit(context, code, actuals)


_ARRIVES: Final = "RED of the mbarrier's count"
_DONE: Final = "nothing: operations are complete already"
_COMMIT: Final = "tcgen05.commit.group.mbarrier::arrive::one{.shared::cluster}"
FORMS: Final = (
    Form(f"{_COMMIT}.b64", "[b]", Op.RED, commit, isa=_ARRIVES),
    Form(f"{_COMMIT}.{MULTICAST}.b64", "[b], m", Op.RED, commit, isa=f"{_ARRIVES}, for each block"),
    Form("tcgen05.wait::ld.sync.aligned", "", Op.BAR_WARP, _wait),
    Form("tcgen05.wait::st.sync.aligned", "", Op.BAR_WARP, _wait),
    Form("tcgen05.fence::before_thread_sync", "", Op.NOP, _nothing, isa=_DONE),
    Form("tcgen05.fence::after_thread_sync", "", Op.NOP, _nothing, isa=_DONE),
)
